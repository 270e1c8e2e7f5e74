//! Franklin 1982: on an improved algorithm for decentralized extrema finding in circular configurations of processors.
//!
//! Model: asynchronous bidirectional ring, FIFO links (essential: only their order tells the phases apart), unique ids,
//! n unknown, no failure inside an election.
//!
//! Specification. Every node is active at first. In each phase an active node sends its id both ways; relays pass
//! messages on in their direction, so it receives the ids of the next active node on either side. It stays active if its
//! own id beats both, else it becomes a relay. No two neighbours among the active nodes both stay, so at most half of
//! them do. A node that receives its own id is the only active one and has won; ELECTED makes a lap.
//!
//! A neighbour that has finished the phase may send its message of the next phase before the other side's message of
//! this phase is here: that message is kept. At most one is: for the phase after next the neighbour would need this
//! node's id of the next.
//!
//! Messages: every phase is one message on each link in each direction, so exactly 2n per phase, whatever the schedule
//! and the initiators; the last phase is the lap of the winner's own id. At least 4n (n >= 2), at most
//! 2n·floor(log2 n) + 2n; ELECTED adds n, which gives the published bound 2n·floor(log2 n) + 3n.
//!
//! Chosen where the source is silent: a node woken by a message sends its own id first; the own id arrives from both
//! sides and wins once.

use serde::{Deserialize, Serialize};

use crate::protocol::{Ctx, Election, MessageDriven, Outbox, Outcome};
use crate::view::Side;
use types::Uid;

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Franklin {
    #[default]
    Idle,
    /// Waiting for both messages of the phase.
    Active,
    /// One message of the phase is here, from this side.
    Half {
        side: Side,
        id: Uid,
        /// The next phase's message from the same side.
        ahead: Option<Uid>,
    },
    Relay,
    Halt,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    Id(Uid),
    Elected(Uid),
}

kinds!(Msg { Id: election("id"), Elected: announcement("elected") });

impl MessageDriven for Franklin {
    type Link = Side;
    type Message = Msg;

    fn begin(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if *self == Franklin::Idle {
            self.next_phase(ctx, out);
        }
    }

    #[inline]
    fn message(&mut self, ctx: &Ctx<'_>, from: Side, message: Msg, out: &mut impl Outbox<Self>) {
        match message {
            Msg::Id(id) => self.id(ctx, from, id, out),
            Msg::Elected(leader) => {
                if leader != ctx.me && *self != Franklin::Halt {
                    *self = Franklin::Halt;
                    out.announce(Outcome::Follow(Some(leader)));
                    out.forward(Side::Right, Msg::Elected(leader));
                }
            }
        }
    }
}

impl Election for Franklin {}

impl Franklin {
    fn next_phase(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        *self = Franklin::Active;
        out.send(Side::Left, Msg::Id(ctx.me));
        out.send(Side::Right, Msg::Id(ctx.me));
    }

    fn id(&mut self, ctx: &Ctx<'_>, from: Side, id: Uid, out: &mut impl Outbox<Self>) {
        self.begin(ctx, out);
        if id == ctx.me {
            if *self != Franklin::Halt {
                *self = Franklin::Halt;
                out.announce(Outcome::Won);
                out.send(Side::Right, Msg::Elected(ctx.me));
            }
            return;
        }
        match *self {
            // The winner's id is still on its way around in the other direction.
            Franklin::Relay | Franklin::Halt => out.forward(from.opposite(), Msg::Id(id)),
            Franklin::Active => *self = Franklin::Half { side: from, id, ahead: None },
            Franklin::Half { side, id: first, ahead: _ } if side == from => {
                *self = Franklin::Half { side, id: first, ahead: Some(id) };
            }
            Franklin::Half { side, id: first, ahead } => {
                if ctx.beats(ctx.me, first) && ctx.beats(ctx.me, id) {
                    self.next_phase(ctx, out);
                    if let Some(id) = ahead {
                        *self = Franklin::Half { side, id, ahead: None };
                    }
                } else {
                    *self = Franklin::Relay;
                    if let Some(id) = ahead {
                        out.send(side.opposite(), Msg::Id(id));
                    }
                }
            }
            Franklin::Idle => {}
        }
    }
}
