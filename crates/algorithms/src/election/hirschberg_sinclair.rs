//! Hirschberg and Sinclair 1980: decentralized extrema-finding in circular configurations of processors. Phases and hops.
//!
//! Model: asynchronous bidirectional ring, unique ids, n unknown, no failure inside an election.
//!
//! In phase k a candidate sends its id 2^k hops both ways; nodes that beat it drop it, the last node in range sends it
//! back. When it is back from both sides, the candidate enters the next phase; the remaining candidates are then at
//! least 2^k apart. The best id returns to its owner once 2^k reaches n.
//!
//! Messages: independent of the schedule and of the initiators. 5n - 8 + 4·2^ceil(log2 n) on monotone rings is the
//! least for n >= 2, 8n(1 + ceil(log2 n)) a loose upper bound; the announcement adds n.
//!
//! Chosen where the sources differ: a node woken by a message sends its own id first; the id that returns on both sides
//! wins once; replies are counted per side, because both links of a ring of two lead to one peer. The paper has no
//! announcement: one lap clockwise. The version with explicit refusals is `hirschberg_sinclair_reply`.

use serde::{Deserialize, Serialize};

use crate::protocol::{Ctx, Election, MessageDriven, Outbox, Outcome};
use crate::view::Side;
use types::Uid;

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct HirschbergSinclair {
    awake: bool,
    decided: bool,
    phase: u8,
    /// The side of this phase's first IN.
    got: Option<Side>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    /// `hops`: how many nodes it still has to visit.
    Out {
        id: Uid,
        phase: u8,
        hops: u32,
    },
    In {
        id: Uid,
        phase: u8,
    },
    Announce(Uid),
}

kinds!(Msg { Out: election("out"), In: election("in"), Announce: announcement("announce") });

impl MessageDriven for HirschbergSinclair {
    type Link = Side;
    type Message = Msg;

    fn begin(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if !self.awake {
            self.awake = true;
            self.probe(ctx, out);
        }
    }

    #[inline]
    fn message(&mut self, ctx: &Ctx<'_>, from: Side, message: Msg, out: &mut impl Outbox<Self>) {
        match message {
            Msg::Out { id, phase, hops } => self.outward(ctx, from, id, phase, hops, out),
            Msg::In { id, phase } => self.inward(ctx, from, id, phase, out),
            Msg::Announce(x) => self.announced(x, out),
        }
    }
}

impl Election for HirschbergSinclair {}

impl HirschbergSinclair {
    fn probe(&self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let message =
            Msg::Out { id: ctx.me, phase: self.phase, hops: 1_u32.checked_shl(self.phase.into()).unwrap_or(u32::MAX) };
        out.send(Side::Left, message);
        out.send(Side::Right, message);
    }

    fn outward(&mut self, ctx: &Ctx<'_>, from: Side, id: Uid, phase: u8, hops: u32, out: &mut impl Outbox<Self>) {
        self.begin(ctx, out);
        if id == ctx.me {
            if !self.decided {
                self.decided = true;
                out.announce(Outcome::Won);
                out.send(Side::Right, Msg::Announce(ctx.me));
            }
        } else if ctx.beats(id, ctx.me) {
            if hops > 1 {
                out.forward(from.opposite(), Msg::Out { id, phase, hops: hops - 1 });
            } else {
                out.send(from, Msg::In { id, phase });
            }
        }
    }

    fn inward(&mut self, ctx: &Ctx<'_>, from: Side, id: Uid, phase: u8, out: &mut impl Outbox<Self>) {
        if id != ctx.me {
            return out.forward(from.opposite(), Msg::In { id, phase });
        }
        if self.decided || phase != self.phase {
            return;
        }
        match self.got {
            None => self.got = Some(from),
            Some(first) if first == from => {}
            Some(_) => {
                self.got = None;
                self.phase = self.phase.saturating_add(1);
                self.probe(ctx, out);
            }
        }
    }

    fn announced(&mut self, x: Uid, out: &mut impl Outbox<Self>) {
        if !self.decided {
            self.decided = true;
            out.announce(Outcome::Follow(Some(x)));
            out.forward(Side::Right, Msg::Announce(x));
        }
    }
}
