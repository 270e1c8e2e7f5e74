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

use crate::protocol::{Campaign, Ctx, Election, Input, Kind, Message, Outbox, Outcome, Protocol};
use crate::settings::Settings;
use crate::view::Side;
use types::Uid;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LeLann {
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

impl Protocol for LeLann {
    type Link = Side;
    type Message = Elect;
    type Timer = ();
    type Command = Campaign;
    type Event = Outcome;
    type Durable = ();
    type Settings = Settings;

    fn start(_: &Ctx<'_>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        LeLann::Asleep
    }

    fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Campaign) => self.join(ctx, out),
            Input::Message { message: Elect(j), .. } => self.elect(ctx, j, out),
            Input::Timer(()) | Input::PeerUp(_) | Input::PeerDown(_) | Input::Stored(()) => {}
        }
    }
}

impl Election for LeLann {
    fn active_list(&self) -> Option<&BTreeSet<Uid>> {
        if let LeLann::Done(list) = self { Some(list) } else { None }
    }
}

impl LeLann {
    fn join(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if *self == LeLann::Asleep {
            *self = LeLann::Collecting(BTreeSet::from([ctx.me]));
            out.send(Side::Right, Elect(ctx.me));
        }
    }

    fn elect(&mut self, ctx: &Ctx<'_>, j: Uid, out: &mut impl Outbox<Self>) {
        self.join(ctx, out);
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
