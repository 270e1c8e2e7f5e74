//! Le Lann 1977: distributed systems, towards a formal approach. The first election on a ring.
//!
//! Model: asynchronous unidirectional ring, FIFO links (essential), unique ids, n unknown, no failure inside an
//! election.
//!
//! Every node sends its id once around and collects the ids that pass. When its own id is back the list is complete:
//! links are FIFO and every node sends its own id before it passes on another one. All lists are equal, so every node
//! decides alone and nothing has to be announced. A node keeps its list of active nodes to the end of the election.
//!
//! Messages: n² always, n ids times n hops, whatever the initiators and the order.
//!
//! Ambiguous in the sources: in one reading a node woken by an ELECT passes that on *before* its own id; the lists are
//! then incomplete. Own id first. And a node continues to forward after it has decided: other nodes are not done yet.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::protocol::{Ctx, Election, Kind, Message, MessageDriven, Outbox, Outcome};
use crate::view::Side;
use types::Uid;

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum LeLann {
    #[default]
    Asleep,
    /// The ids seen so far, the own one included.
    Collecting(BTreeSet<Uid>),
    /// The active list: all nodes of this election.
    Done(BTreeSet<Uid>),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Elect(pub Uid);

impl Message for Elect {
    const KINDS: &'static [Kind] = &[Kind::election("elect")];

    fn kind(&self) -> usize {
        0
    }
}

impl MessageDriven for LeLann {
    type Link = Side;
    type Message = Elect;

    fn begin(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if *self == LeLann::Asleep {
            *self = LeLann::Collecting(BTreeSet::from([ctx.me]));
            out.send(Side::Right, Elect(ctx.me));
        }
    }

    fn message(&mut self, ctx: &Ctx<'_>, _: Side, Elect(j): Elect, out: &mut impl Outbox<Self>) {
        self.begin(ctx, out);
        if j != ctx.me {
            if let LeLann::Collecting(list) = self {
                list.insert(j);
            }
            return out.forward(Side::Right, Elect(j));
        }
        if let LeLann::Collecting(list) = self {
            let list = std::mem::take(list);
            let leader = ctx.wins().best(list.iter().copied());
            *self = LeLann::Done(list);
            out.announce(if leader == Some(ctx.me) { Outcome::Won } else { Outcome::Follow(leader) });
        }
    }
}

impl Election for LeLann {
    fn active_list(&self) -> Option<&BTreeSet<Uid>> {
        if let LeLann::Done(list) = self { Some(list) } else { None }
    }
}
