//! Chang and Roberts 1979: an improved algorithm for decentralised extrema finding.
//!
//! Model: asynchronous unidirectional ring, unique ids, n unknown, no failure inside an election.
//!
//! Every candidate sends its id clockwise. A node passes on ids that beat its own and drops the rest, so only the best
//! id survives a whole lap; its owner recognises it and sends SELECTED around.
//!
//! Messages: without the announcement the sum over all nodes of the distance to the next better id (n for the best):
//! 2n-1 .. n(n+1)/2, n·H_n on average; SELECTED adds n.
//!
//! The sources differ in the reaction of a node that another node's PROBE wakes. Here it sends its own id before it
//! handles the received one (*own probe first*), so the count does not depend on the initiators; the paper's start-up
//! rule is the row `chang-roberts-substitute`. Both latch on `decided`, not on `participant`: the winner clears the flag
//! before the SELECTED lap is over, and a late start there must not elect it twice.

use serde::{Deserialize, Serialize};

use crate::protocol::{Ctx, Election, MessageDriven, Outbox, Outcome};
use crate::view::Side;
use types::Uid;

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ChangRoberts<const SUBSTITUTE: bool> {
    participant: bool,
    decided: bool,
}

pub type OwnProbeFirst = ChangRoberts<false>;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    Probe(Uid),
    Selected(Uid),
}

kinds!(Msg { Probe: election("probe"), Selected: announcement("selected") });

impl<const SUBSTITUTE: bool> MessageDriven for ChangRoberts<SUBSTITUTE> {
    type Link = Side;
    type Message = Msg;

    fn begin(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.asleep() {
            self.participant = true;
            out.send(Side::Right, Msg::Probe(ctx.me));
        }
    }

    #[inline]
    fn message(&mut self, ctx: &Ctx<'_>, _: Side, message: Msg, out: &mut impl Outbox<Self>) {
        match message {
            Msg::Probe(k) => self.probe(ctx, k, out),
            Msg::Selected(x) => self.selected(ctx, x, out),
        }
    }
}

impl<const SUBSTITUTE: bool> Election for ChangRoberts<SUBSTITUTE> {}

impl<const SUBSTITUTE: bool> ChangRoberts<SUBSTITUTE> {
    fn asleep(&self) -> bool {
        !self.participant && !self.decided
    }

    fn probe(&mut self, ctx: &Ctx<'_>, k: Uid, out: &mut impl Outbox<Self>) {
        if k == ctx.me {
            if !self.decided {
                self.decided = true;
                self.participant = false;
                out.announce(Outcome::Won);
                out.send(Side::Right, Msg::Selected(ctx.me));
            }
            return;
        }
        let better = ctx.beats(k, ctx.me);
        if !SUBSTITUTE || !better {
            self.begin(ctx, out);
        }
        if better {
            if !self.decided {
                self.participant = true;
            }
            out.forward(Side::Right, Msg::Probe(k));
        }
    }

    fn selected(&mut self, ctx: &Ctx<'_>, x: Uid, out: &mut impl Outbox<Self>) {
        if x == ctx.me || self.decided {
            return;
        }
        self.decided = true;
        self.participant = false;
        out.announce(Outcome::Follow(Some(x)));
        out.forward(Side::Right, Msg::Selected(x));
    }
}
