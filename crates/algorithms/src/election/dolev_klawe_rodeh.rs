//! Dolev, Klawe and Rodeh 1982: an O(n log n) unidirectional distributed algorithm for extrema finding in a circle.
//!
//! Model: asynchronous unidirectional ring, FIFO links (essential), unique ids, n unknown, no failure inside an
//! election.
//!
//! Found independently of Peterson's algorithm and similar: an active node learns the ids held by the two active nodes
//! before it and stays active with its predecessor's if that is a local maximum. The second message is the
//! predecessor's id unchanged, and the last *active* node notices the end: the id it gets is the one it holds.
//!
//! Messages: exactly n(2(p-1) + 1) in p phases, whatever the schedule and the initiators; 3n at least (n >= 2),
//! 2n·floor(log2 n) + n at most, and that is attained. ELECTED adds n.
//!
//! Chosen where the sources are silent: the node that notices the end holds the best id but rarely owns it, so it sends
//! ELECTED around, and the owner learns there that it has won.

use super::peterson::Msg;
use crate::protocol::{Ctx, Election, MessageDriven, Outbox, Outcome};
use crate::view::Side;
use types::Uid;

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum DolevKlaweRodeh {
    #[default]
    Idle,
    /// Active, waiting for the first message of the phase.
    First {
        tid: Uid,
    },
    /// Active, waiting for the second.
    Second {
        tid: Uid,
        ntid: Uid,
    },
    Relay,
    Halt,
}

impl MessageDriven for DolevKlaweRodeh {
    type Link = Side;
    type Message = Msg;

    fn begin(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if *self == DolevKlaweRodeh::Idle {
            *self = DolevKlaweRodeh::First { tid: ctx.me };
            out.send(Side::Right, Msg::Tid(ctx.me));
        }
    }

    #[inline]
    fn message(&mut self, ctx: &Ctx<'_>, _: Side, message: Msg, out: &mut impl Outbox<Self>) {
        match message {
            Msg::Tid(v) => self.tid(ctx, v, out),
            Msg::Elected(v) => {
                // The node that noticed the end halted then: the lap ends there.
                if self.halt(ctx, v, out) {
                    out.forward(Side::Right, Msg::Elected(v));
                }
            }
        }
    }
}

impl Election for DolevKlaweRodeh {}

impl DolevKlaweRodeh {
    fn tid(&mut self, ctx: &Ctx<'_>, v: Uid, out: &mut impl Outbox<Self>) {
        self.begin(ctx, out);
        match *self {
            DolevKlaweRodeh::First { tid } if tid == v => {
                self.halt(ctx, v, out);
                out.send(Side::Right, Msg::Elected(v));
            }
            DolevKlaweRodeh::First { tid } => {
                *self = DolevKlaweRodeh::Second { tid, ntid: v };
                out.forward(Side::Right, Msg::Tid(v));
            }
            DolevKlaweRodeh::Second { tid, ntid } if ctx.beats(tid, ntid) || ctx.beats(v, ntid) => {
                *self = DolevKlaweRodeh::Relay;
            }
            DolevKlaweRodeh::Second { ntid, .. } => {
                *self = DolevKlaweRodeh::First { tid: ntid };
                out.send(Side::Right, Msg::Tid(ntid));
            }
            DolevKlaweRodeh::Relay => out.forward(Side::Right, Msg::Tid(v)),
            DolevKlaweRodeh::Idle | DolevKlaweRodeh::Halt => {}
        }
    }

    /// Takes the result, once; returns whether it was news.
    fn halt(&mut self, ctx: &Ctx<'_>, leader: Uid, out: &mut impl Outbox<Self>) -> bool {
        if *self == DolevKlaweRodeh::Halt {
            return false;
        }
        *self = DolevKlaweRodeh::Halt;
        out.announce(if leader == ctx.me { Outcome::Won } else { Outcome::Follow(Some(leader)) });
        true
    }
}
