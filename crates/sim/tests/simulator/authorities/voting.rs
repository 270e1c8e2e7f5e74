//! An election that keeps a record: one vote per term, on the disk before it is given, and a majority wins the term. Of
//! an `ORACLE` only the connected members count: it proposes where a quorum decides, and learners take no part in it.

use std::cell::Cell;
use std::collections::BTreeSet;

use algorithms::{
    Campaign, Ctx, Election, Epoch, Features, Input, Kind, Message, NodeId, Outbox, Outcome, Protocol, Settings, Span,
};
use serde::{Deserialize, Serialize};

thread_local! {
    /// Does every member that this thread runs begin without its record? A value and not a type: the engine is compiled once for
    /// both.
    pub(crate) static FORGETFUL: Cell<bool> = const { Cell::new(false) };
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Voting<const ORACLE: bool> {
    ballot: Ballot,
    votes: BTreeSet<NodeId>,
    up: BTreeSet<NodeId>,
    leader: Option<NodeId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ballot {
    term: u64,
    voted: Option<NodeId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub(crate) enum Msg {
    Ask(u64),
    Vote(u64),
    Lead(u64),
    /// The receiver's term is over.
    Later(u64),
}

impl Message for Msg {
    const KINDS: &'static [Kind] =
        &[Kind::election("ask"), Kind::election("vote"), Kind::announcement("lead"), Kind::election("later")];
    fn kind(&self) -> usize {
        match self {
            Msg::Ask(_) => 0,
            Msg::Vote(_) => 1,
            Msg::Lead(_) => 2,
            Msg::Later(_) => 3,
        }
    }
}

impl<const ORACLE: bool> Election for Voting<ORACLE> {
    const FEATURES: Features = Features { continuous: true, has_terms: true, ..Features::PLAIN };

    fn term(&self) -> Option<Epoch> {
        Some(Epoch(self.ballot.term))
    }
}

impl<const ORACLE: bool> Protocol for Voting<ORACLE> {
    type Link = NodeId;
    type Message = Msg;
    type Timer = ();
    type Command = Campaign;
    type Event = Outcome;
    type Durable = Ballot;
    type Settings = Settings;

    fn start(ctx: &Ctx<'_>, stored: Option<Ballot>, out: &mut impl Outbox<Self>) -> Self {
        out.set_timer((), Span::jittered(4 * ctx.settings.answer_timeout));
        let ballot = stored.filter(|_| !FORGETFUL.get()).unwrap_or_default();
        Voting { ballot, votes: BTreeSet::new(), up: BTreeSet::from([ctx.me.id]), leader: None }
    }

    fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::PeerUp(peer) => self.up.insert(peer),
            Input::PeerDown(peer) => self.up.remove(&peer),
            _ => false,
        };
        match input {
            Input::Command(Campaign) => self.campaign(ctx, out),
            Input::Timer(()) => {
                out.set_timer((), Span::jittered(4 * ctx.settings.answer_timeout));
                if self.leader == Some(ctx.me.id) {
                    Self::tell_all(ctx, Msg::Lead(self.ballot.term), out);
                } else if self.leader.is_none() {
                    self.campaign(ctx, out);
                }
            }
            Input::Message { from, message } => self.message(ctx, from, message, out),
            Input::PeerDown(peer) if self.leader == Some(peer) => self.leader = None,
            Input::PeerUp(peer) if self.leader == Some(ctx.me.id) => out.send(peer, Msg::Lead(self.ballot.term)),
            Input::PeerUp(_) | Input::PeerDown(_) | Input::Stored(_) => {}
        }
    }
}

impl<const ORACLE: bool> Voting<ORACLE> {
    fn campaign(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        self.enter(ctx, self.ballot.term + 1, Some(ctx.me.id), out);
        self.votes.insert(ctx.me.id);
        Self::tell_all(ctx, Msg::Ask(self.ballot.term), out);
        self.count(ctx, out);
    }

    fn enter(&mut self, ctx: &Ctx<'_>, term: u64, voted: Option<NodeId>, out: &mut impl Outbox<Self>) {
        let led = self.leader == Some(ctx.me.id);
        self.ballot = Ballot { term, voted };
        self.votes.clear();
        self.leader = None;
        out.persist(self.ballot);
        if led {
            out.announce(Outcome::Halted);
        }
    }

    fn message(&mut self, ctx: &Ctx<'_>, from: NodeId, message: Msg, out: &mut impl Outbox<Self>) {
        let (Msg::Ask(term) | Msg::Vote(term) | Msg::Lead(term) | Msg::Later(term)) = message;
        if term < self.ballot.term {
            return out.send(from, Msg::Later(self.ballot.term));
        }
        if term > self.ballot.term {
            self.enter(ctx, term, None, out);
        }
        match message {
            Msg::Ask(_) if self.ballot.voted.is_none_or(|voted| voted == from) => {
                self.ballot.voted = Some(from);
                out.persist(self.ballot);
                out.send(from, Msg::Vote(term));
            }
            Msg::Vote(_) if self.ballot.voted == Some(ctx.me.id) => {
                self.votes.insert(from);
                self.count(ctx, out);
            }
            Msg::Lead(_) => {
                self.leader = Some(from);
                out.announce(Outcome::Follow(ctx.view.uid(from)));
            }
            _ => {}
        }
    }

    fn count(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.leader.is_none() && 2 * self.votes.len() > if ORACLE { self.up.len() } else { ctx.view.len() } {
            self.leader = Some(ctx.me.id);
            out.announce(Outcome::Won);
            Self::tell_all(ctx, Msg::Lead(self.ballot.term), out);
        }
    }

    fn tell_all(ctx: &Ctx<'_>, message: Msg, out: &mut impl Outbox<Self>) {
        for peer in ctx.view.others(ctx.me.id) {
            out.send(peer.id, message);
        }
    }
}
