//! An election for tests: each member that campaigns wins at once, in the term after the last it knows.

use algorithms::{
    Campaign, Ctx, Election, Epoch, Features, Input, Kind, Message, NodeId, Outbox, Outcome, Protocol, Settings,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Terms {
    pub(crate) term: u64,
}

/// "I have won this term."
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub(crate) struct Won(pub(crate) u64);

impl Message for Won {
    const KINDS: &'static [Kind] = &[Kind::announcement("won")];

    fn kind(&self) -> usize {
        0
    }
}

impl Protocol for Terms {
    type Link = NodeId;
    type Message = Won;
    type Timer = ();
    type Command = Campaign;
    type Event = Outcome;
    type Durable = u64;
    type Settings = Settings;

    fn start(_: &Ctx<'_>, stored: Option<u64>, _: &mut impl Outbox<Self>) -> Self {
        Terms { term: stored.unwrap_or(0) }
    }

    fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Campaign) => {
                self.term += 1;
                out.persist(self.term);
                out.announce(Outcome::Won);
                for peer in ctx.view.others(ctx.me.id) {
                    out.send(peer.id, Won(self.term));
                }
            }
            Input::Message { from, message: Won(term) } if term > self.term => {
                self.term = term;
                out.persist(term);
                out.announce(Outcome::Follow(ctx.view.uid(from)));
            }
            _ => {}
        }
    }
}

impl Election for Terms {
    const FEATURES: Features = Features { has_terms: true, ..Features::PLAIN };

    fn term(&self) -> Option<Epoch> {
        Some(Epoch(self.term))
    }
}
