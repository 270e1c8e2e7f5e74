//! Peterson 1982: an O(n log n) unidirectional algorithm for the circular extrema problem.
//!
//! Model: asynchronous unidirectional ring, FIFO links (essential: only their order distinguishes the first and the
//! second message of a phase), unique ids, n unknown, no failure inside an election.
//!
//! In each phase an active node learns the temporary ids of the two active nodes before it. It stays active, with its
//! predecessor's id, only if that id is a local maximum; so at most half of the active nodes do, and relays pass all
//! messages on. Values survive, not nodes: the winner is the node that gets its own *initial* id back, by then mostly a
//! relay.
//!
//! Messages: a deterministic data flow, so independent of the schedule and of the initiators. 3n - 1 at least (n >= 2),
//! 2n·floor(log2 n) + n at most; ELECTED adds n.
//!
//! Chosen where the sources are terse: the second message is the better of `tid` and `ntid`, without which the test on
//! the initial id is unsafe; that test is made in every state, relays included; the winner drops all later messages.

use serde::{Deserialize, Serialize};

use crate::protocol::{Ctx, Election, MessageDriven, Outbox, Outcome};
use crate::view::Side;
use types::Uid;

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Peterson {
    #[default]
    Idle,
    /// Active, waiting for the first message of the phase.
    First {
        tid: Uid,
    },
    /// Active, waiting for the second message. Of `tid` only its comparison with `ntid` still matters.
    Second {
        tid_beats_ntid: bool,
        ntid: Uid,
    },
    Relay,
    Halt,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    Tid(Uid),
    Elected(Uid),
}

kinds!(Msg { Tid: election("tid"), Elected: announcement("elected") });

impl MessageDriven for Peterson {
    type Link = Side;
    type Message = Msg;

    fn begin(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if *self == Peterson::Idle {
            *self = Peterson::First { tid: ctx.me };
            out.send(Side::Right, Msg::Tid(ctx.me));
        }
    }

    #[inline]
    fn message(&mut self, ctx: &Ctx<'_>, _: Side, message: Msg, out: &mut impl Outbox<Self>) {
        match message {
            Msg::Tid(v) => self.tid(ctx, v, out),
            Msg::Elected(v) => self.elected(v, out),
        }
    }
}

impl Election for Peterson {}

impl Peterson {
    fn tid(&mut self, ctx: &Ctx<'_>, v: Uid, out: &mut impl Outbox<Self>) {
        self.begin(ctx, out);
        if v == ctx.me && *self != Peterson::Halt {
            *self = Peterson::Halt;
            out.announce(Outcome::Won);
            return out.send(Side::Right, Msg::Elected(ctx.me));
        }
        match *self {
            Peterson::First { tid } => {
                *self = Peterson::Second { tid_beats_ntid: ctx.beats(tid, v), ntid: v };
                out.send(Side::Right, Msg::Tid(ctx.wins().better(tid, v)));
            }
            Peterson::Second { tid_beats_ntid, ntid } if tid_beats_ntid || ctx.beats(v, ntid) => {
                *self = Peterson::Relay;
            }
            Peterson::Second { ntid, .. } => {
                *self = Peterson::First { tid: ntid };
                out.send(Side::Right, Msg::Tid(ntid));
            }
            Peterson::Relay => out.forward(Side::Right, Msg::Tid(v)),
            Peterson::Idle | Peterson::Halt => {}
        }
    }

    fn elected(&mut self, v: Uid, out: &mut impl Outbox<Self>) {
        // The winner halted when it won: its own lap ends here.
        if *self != Peterson::Halt {
            *self = Peterson::Halt;
            out.announce(Outcome::Follow(Some(v)));
            out.forward(Side::Right, Msg::Elected(v));
        }
    }
}
