//! The "modified ring": the ring algorithm of the textbooks with the best id so far in place of the list.
//!
//! Model: asynchronous unidirectional ring, unique ids, n unknown, no failure inside an election.
//!
//! An initiator sends ELECT with its id as origin and as the best so far; every node replaces a worse id by its own.
//! Back at the origin the best of all is known, and COORDINATOR takes it around.
//!
//! Messages: one initiator 2n; m initiators 2nm in the *plain* row. With *suppression* an initiator drops the ELECT of
//! a worse origin, because its own lap is on the way: if all m start at once only the best origin's lap completes, and
//! the mean over all rings is n·H_m + n.
//!
//! The source is contradictory: the id that returns to the initiator is to equal the initiator's, which it does only
//! if the initiator is the best. Read here as: the message knows its origin. Laps that complete in parallel (late
//! starts, or no suppression) have all seen every node and agree; the first one to arrive is announced.

use serde::{Deserialize, Serialize};

use crate::protocol::{Ctx, Election, MessageDriven, Outbox, Outcome};
use crate::view::Side;
use types::Uid;

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ModifiedRing<const SUPPRESS: bool> {
    began: bool,
    decided: bool,
}

pub type Suppressing = ModifiedRing<true>;
pub type Plain = ModifiedRing<false>;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    Elect { origin: Uid, best: Uid },
    Coordinator { origin: Uid, leader: Uid },
}

kinds!(Msg { Elect: election("elect"), Coordinator: announcement("coordinator") });

impl<const SUPPRESS: bool> MessageDriven for ModifiedRing<SUPPRESS> {
    type Link = Side;
    type Message = Msg;

    fn begin(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if !self.began && !self.decided {
            self.began = true;
            out.send(Side::Right, Msg::Elect { origin: ctx.me, best: ctx.me });
        }
    }

    #[inline]
    fn message(&mut self, ctx: &Ctx<'_>, _: Side, message: Msg, out: &mut impl Outbox<Self>) {
        match message {
            Msg::Elect { origin, best } => self.elect(ctx, origin, best, out),
            Msg::Coordinator { origin, leader } => {
                self.decide(ctx, leader, out);
                if origin != ctx.me {
                    out.forward(Side::Right, Msg::Coordinator { origin, leader });
                }
            }
        }
    }
}

impl<const SUPPRESS: bool> Election for ModifiedRing<SUPPRESS> {}

impl<const SUPPRESS: bool> ModifiedRing<SUPPRESS> {
    fn elect(&mut self, ctx: &Ctx<'_>, origin: Uid, best: Uid, out: &mut impl Outbox<Self>) {
        if origin == ctx.me {
            self.decide(ctx, best, out);
            out.send(Side::Right, Msg::Coordinator { origin, leader: best });
        } else if !(SUPPRESS && self.began && ctx.beats(ctx.me, origin)) {
            out.forward(Side::Right, Msg::Elect { origin, best: ctx.wins().better(best, ctx.me) });
        }
    }

    fn decide(&mut self, ctx: &Ctx<'_>, leader: Uid, out: &mut impl Outbox<Self>) {
        if !self.decided {
            self.decided = true;
            out.announce(if leader == ctx.me { Outcome::Won } else { Outcome::Follow(Some(leader)) });
        }
    }
}
