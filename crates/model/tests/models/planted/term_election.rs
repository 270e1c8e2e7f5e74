//! A small election with a durable record, for the checker alone: one vote per term, and a majority wins the term.

use std::collections::BTreeSet;

use algorithms::{
    Campaign, Ctx, Election, Epoch, Features, Input, Kind, Message, NodeId, Outbox, Outcome, Protocol, Settings,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct TermElection {
    ballot: Ballot,
    /// The voters of its own candidacy in this term, while it has one.
    votes: Option<BTreeSet<NodeId>>,
    /// The term of the decision announced last.
    decided: Option<Epoch>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ballot {
    term: u64,
    voted_for: Option<NodeId>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub(crate) enum Call {
    Ask(u64),
    Vote(u64),
    Leader(u64),
}

impl Message for Call {
    const KINDS: &'static [Kind] = &[Kind::election("ask"), Kind::election("vote"), Kind::announcement("leader")];

    fn kind(&self) -> usize {
        match self {
            Call::Ask(_) => 0,
            Call::Vote(_) => 1,
            Call::Leader(_) => 2,
        }
    }
}

impl Protocol for TermElection {
    type Link = NodeId;
    type Message = Call;
    type Timer = ();
    type Command = Campaign;
    type Event = Outcome;
    type Durable = Ballot;
    type Settings = Settings;

    fn start(_: &Ctx<'_>, stored: Option<Ballot>, _: &mut impl Outbox<Self>) -> Self {
        TermElection { ballot: stored.unwrap_or_default(), votes: None, decided: None }
    }

    fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Campaign) => {
                self.ballot = Ballot { term: self.ballot.term + 1, voted_for: Some(ctx.me.id) };
                out.persist(self.ballot);
                self.votes = Some(BTreeSet::from([ctx.me.id]));
                for peer in ctx.view.others(ctx.me.id) {
                    out.send(peer.id, Call::Ask(self.ballot.term));
                }
                self.count(ctx, out);
            }
            Input::Message { from, message: Call::Ask(term) } => self.asked(from, term, out),
            Input::Message { from, message: Call::Vote(term) } if term == self.ballot.term => {
                if let Some(votes) = &mut self.votes {
                    votes.insert(from);
                }
                self.count(ctx, out);
            }
            Input::Message { from, message: Call::Leader(term) } if term >= self.ballot.term => {
                if term > self.ballot.term {
                    self.ballot = Ballot { term, voted_for: None };
                    out.persist(self.ballot);
                }
                self.votes = None;
                self.decided = Some(Epoch(term));
                out.announce(Outcome::Follow(ctx.view.uid(from)));
            }
            _ => {}
        }
    }
}

impl Election for TermElection {
    const FEATURES: Features = Features { continuous: true, has_terms: true, ..Features::PLAIN };

    fn term(&self) -> Option<Epoch> {
        self.decided
    }
}

impl TermElection {
    fn asked(&mut self, from: NodeId, term: u64, out: &mut impl Outbox<Self>) {
        if term > self.ballot.term {
            self.ballot = Ballot { term, voted_for: None };
            self.votes = None;
        }
        let free = self.ballot.voted_for.is_none_or(|voted_for| voted_for == from);
        if term == self.ballot.term && free {
            self.ballot.voted_for = Some(from);
            out.persist(self.ballot);
            out.send(from, Call::Vote(term));
        }
    }

    fn count(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.votes.as_ref().is_some_and(|votes| 2 * votes.len() > ctx.view.len()) {
            self.votes = None;
            self.decided = Some(Epoch(self.ballot.term));
            out.announce(Outcome::Won);
            for peer in ctx.view.others(ctx.me.id) {
                out.send(peer.id, Call::Leader(self.ballot.term));
            }
        }
    }
}
