//! Dolev, Klawe and Rodeh 1982, Algorithm B: their basic algorithm with most of the second messages saved.
//!
//! Model: asynchronous unidirectional ring, FIFO links (essential), unique ids, n unknown, no failure inside an
//! election.
//!
//! Specification. In the basic algorithm an active node of each phase learns the ids held by the two active nodes before
//! it. Here a node asks for the second one only where the first leaves a doubt, and every node remembers `max`, the best
//! id it has to do with. An *active* node of phase p has sent M1(max, p, 2^p). It receives an M1: if that id is better it
//! takes it over and *waits*; if it is worse the node becomes *passive* and sends M2(max): "the id behind mine is worse
//! than mine". A *waiting* node that receives M2 (of the id it holds) is active in the next phase with that id; if it
//! receives another M1 first, the id it holds has met a better one: it becomes passive and treats the M1 so. A *passive*
//! node passes on M1; while the counter in it lasts and the id is at least as good as `max`, it keeps the id as `max` and
//! counts down, and the node at which the counter ends waits for the M2 in place of the next active node, which may be
//! far. A counter that has met a better `max` is zero from then on. M2 is passed on by passive nodes and dropped where
//! `max` is better: its id cannot win. A node that receives its own id has won.
//!
//! Messages: the paper proves 1.5 n·log2 n + O(n) for this algorithm. (The 1.356 n·log2 n of its last section is a
//! sketch of the same savings in Peterson's improved algorithm, not this one.) Measured: 2n at least (n >= 2, ids
//! decreasing along the sending direction), 3n - 2 with increasing ids, 1.5 n·log2 n + 1 on rings with the ids in
//! bit-reversed order, and on no ring of up to eight nodes nor on any sampled one more than 1.5 n·log2 n + n. The count
//! does not depend on the schedule nor on the initiators. ELECTED adds n.
//!
//! Chosen where the source is silent: a node woken by a message sends its own M1 first; the winner sends ELECTED around
//! and every node that knows the result drops what still arrives.

use serde::{Deserialize, Serialize};

use crate::protocol::{Ctx, Election, MessageDriven, Outbox, Outcome};
use crate::view::Side;
use types::Uid;

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum DolevKlaweRodehB {
    #[default]
    Idle,
    Active {
        max: Uid,
        phase: u8,
    },
    Waiting {
        max: Uid,
        phase: u8,
    },
    Passive {
        max: Uid,
    },
    Halt,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    M1 { id: Uid, phase: u8, counter: u32 },
    M2(Uid),
    Elected(Uid),
}

kinds!(Msg { M1: election("m1"), M2: election("m2"), Elected: announcement("elected") });

impl MessageDriven for DolevKlaweRodehB {
    type Link = Side;
    type Message = Msg;

    fn begin(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if *self == DolevKlaweRodehB::Idle {
            self.activate(ctx.me, 0, out);
        }
    }

    #[inline]
    fn message(&mut self, ctx: &Ctx<'_>, _: Side, message: Msg, out: &mut impl Outbox<Self>) {
        match message {
            Msg::M1 { id, phase, counter } => self.first(ctx, id, phase, counter, out),
            Msg::M2(id) => self.second(ctx, id, out),
            Msg::Elected(leader) => {
                if leader != ctx.me && *self != DolevKlaweRodehB::Halt {
                    *self = DolevKlaweRodehB::Halt;
                    out.announce(Outcome::Follow(Some(leader)));
                    out.forward(Side::Right, Msg::Elected(leader));
                }
            }
        }
    }
}

impl Election for DolevKlaweRodehB {}

impl DolevKlaweRodehB {
    fn activate(&mut self, max: Uid, phase: u8, out: &mut impl Outbox<Self>) {
        *self = DolevKlaweRodehB::Active { max, phase };
        let counter = 1_u32.checked_shl(phase.into()).unwrap_or(u32::MAX);
        out.send(Side::Right, Msg::M1 { id: max, phase, counter });
    }

    fn first(&mut self, ctx: &Ctx<'_>, id: Uid, phase: u8, counter: u32, out: &mut impl Outbox<Self>) {
        self.begin(ctx, out);
        if self.ends(ctx, id, out) {
            return;
        }
        match *self {
            DolevKlaweRodehB::Active { max, phase } if ctx.beats(id, max) => {
                *self = DolevKlaweRodehB::Waiting { max: id, phase };
            }
            DolevKlaweRodehB::Active { max, .. } => {
                *self = DolevKlaweRodehB::Passive { max };
                out.send(Side::Right, Msg::M2(max));
            }
            DolevKlaweRodehB::Waiting { max, .. } | DolevKlaweRodehB::Passive { max } => {
                let counter = if ctx.beats(max, id) { 0 } else { counter };
                *self = match counter {
                    0 => DolevKlaweRodehB::Passive { max },
                    1 => DolevKlaweRodehB::Waiting { max: id, phase },
                    _ => DolevKlaweRodehB::Passive { max: id },
                };
                out.forward(Side::Right, Msg::M1 { id, phase, counter: counter.saturating_sub(1) });
            }
            DolevKlaweRodehB::Idle | DolevKlaweRodehB::Halt => {}
        }
    }

    fn second(&mut self, ctx: &Ctx<'_>, id: Uid, out: &mut impl Outbox<Self>) {
        self.begin(ctx, out);
        if self.ends(ctx, id, out) {
            return;
        }
        match *self {
            DolevKlaweRodehB::Waiting { max, phase } if max == id => self.activate(id, phase.saturating_add(1), out),
            DolevKlaweRodehB::Passive { max } if !ctx.beats(max, id) => out.forward(Side::Right, Msg::M2(id)),
            _ => {}
        }
    }

    /// The election is over, or is over with this id: it is back at its owner.
    fn ends(&mut self, ctx: &Ctx<'_>, id: Uid, out: &mut impl Outbox<Self>) -> bool {
        if *self != DolevKlaweRodehB::Halt && id == ctx.me {
            *self = DolevKlaweRodehB::Halt;
            out.announce(Outcome::Won);
            out.send(Side::Right, Msg::Elected(ctx.me));
        }
        *self == DolevKlaweRodehB::Halt
    }
}
