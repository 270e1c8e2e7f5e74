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

use crate::protocol::{Campaign, Ctx, Election, Input, Kind, Message, Outbox, Outcome, Protocol};
use crate::settings::Settings;
use crate::view::Side;
use types::Uid;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Peterson {
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

impl Message for Msg {
    const KINDS: &'static [Kind] = &[Kind::election("tid"), Kind::announcement("elected")];

    #[inline]
    fn kind(&self) -> usize {
        match self {
            Msg::Tid(_) => 0,
            Msg::Elected(_) => 1,
        }
    }
}

impl Protocol for Peterson {
    type Link = Side;
    type Message = Msg;
    type Timer = ();
    type Command = Campaign;
    type Event = Outcome;
    type Durable = ();
    type Settings = Settings;

    fn start(_: &Ctx<'_>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        Peterson::Idle
    }

    #[inline]
    fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Campaign) => self.join(ctx, out),
            Input::Message { message: Msg::Tid(v), .. } => self.tid(ctx, v, out),
            Input::Message { message: Msg::Elected(v), .. } => self.elected(v, out),
            Input::Timer(()) | Input::PeerUp(_) | Input::PeerDown(_) | Input::Stored(()) => {}
        }
    }
}

impl Election for Peterson {}

impl Peterson {
    fn join(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if *self == Peterson::Idle {
            *self = Peterson::First { tid: ctx.me };
            out.send(Side::Right, Msg::Tid(ctx.me));
        }
    }

    fn tid(&mut self, ctx: &Ctx<'_>, v: Uid, out: &mut impl Outbox<Self>) {
        self.join(ctx, out);
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
