//! Improved Bully (Arghavani, Ahmadi and Haghighat 2011): the coordinator names its successors in advance.
//!
//! Model: a full mesh that knows all ids, crashes detected by timeouts: an answer takes at most T.
//!
//! COORDINATOR carries the list of the nodes that follow the new coordinator, best first: its successors, in the order
//! in which they take over. Every node keeps the list for the next election. A node that misses the leader then asks no
//! node whether it lives, but compares its id with those of the list: if it is the first that is not suspected it leads at
//! once. Any other node expects COORDINATOR from the first one, which misses the leader too. If that does not arrive within
//! T the first one has not noticed the crash: it gets CRASHED, and leads at once. If no COORDINATOR arrives within T' either
//! it is suspected too, and the next of the list gets CRASHED with the suspicions so far. Without a list, when the list is
//! used up, and when there is a node that is better than the first of the list but not on it (it came later), the election
//! is the one of the row `bully`.
//!
//! Messages with the coordinator N known to be dead: N - 2 if the first successor itself missed it, whichever other nodes
//! did; else one CRASHED more, N - 1, and k of them if k nodes missed the leader and reported it at the same moment. One
//! CRASHED and T' more for each successor that is dead and not known to be. Time: one transmission if the first successor
//! missed the leader, else T and two, where Bully needs four and T. Without a list the messages are those of Bully.
//!
//! Chosen where the source is silent (it says that a node that notices the failure compares its id with the one it was told,
//! and not how a successor that noticed nothing learns of it): T before CRASHED, because the end of a process is seen by all
//! nodes at once, and half of T at random on top, so that several nodes do not report it together; the list is sent with
//! COORDINATOR and not repeated while a coordinator leads; a node that is no member of the election (its connection is down)
//! counts as suspected; CRASHED names the suspects, so that a successor does not wait for them again; a node that gets
//! CRASHED and is not the first of its own list passes it on at once; the coordinator of the list is asked first, and at
//! once, while it is a member of the election, so an election that an operator wants does not depose a healthy leader. The
//! list is written to the disk in the background. A list that is out of date costs messages and no safety.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::protocol::{Campaign, Ctx, Election, Input, Outbox, Outcome, Protocol, Span};
use crate::settings::Settings;
use types::{NodeId, Uid};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ImprovedBully {
    phase: Phase,
    leader: Option<Uid>,
    /// The last coordinator and its successors, best first; empty if no coordinator has named any.
    named: Vec<NodeId>,
    suspects: BTreeSet<NodeId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    Idle,
    /// The first successor should announce itself: it misses the leader too.
    ExpectSuccessor,
    /// This node has sent CRASHED there.
    WaitSuccessor(NodeId),
    WaitAnswer,
    WaitCoordinator,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    Election,
    Answer,
    /// The coordinator crashed, and so did all of these: take over.
    Crashed(BTreeSet<NodeId>),
    /// The sender leads; the nodes that follow it, best first.
    Coordinator(Vec<NodeId>),
}

kinds!(Msg {
    Election: election("election"),
    Answer: election("answer"),
    Crashed: election("crashed"),
    Coordinator: announcement("coordinator"),
});

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// T: no better node has answered, or the first successor has not noticed the crash.
    Answer,
    /// T': the successor or the node that answered should have announced a coordinator.
    Coordinator,
}

impl Protocol for ImprovedBully {
    type Link = NodeId;
    type Message = Msg;
    type Timer = Timer;
    type Command = Campaign;
    type Event = Outcome;
    /// The last coordinator and its successors.
    type Durable = Vec<NodeId>;
    type Settings = Settings;

    fn start(_: &Ctx<'_>, named: Option<Vec<NodeId>>, _: &mut impl Outbox<Self>) -> Self {
        ImprovedBully { phase: Phase::Idle, leader: None, named: named.unwrap_or_default(), suspects: BTreeSet::new() }
    }

    fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Campaign) => self.campaign(ctx, out),
            Input::Message { from, message } => {
                let Some(from) = ctx.view.uid(from) else { return };
                match message {
                    Msg::Election => self.election(ctx, from, out),
                    Msg::Answer => self.answer(ctx, out),
                    Msg::Crashed(suspects) => self.crashed(ctx, &suspects, out),
                    Msg::Coordinator(successors) => self.coordinator(ctx, from, successors, out),
                }
            }
            Input::Timer(Timer::Answer) => match self.phase {
                Phase::WaitAnswer => self.win(ctx, out),
                Phase::ExpectSuccessor => self.succeed(ctx, out),
                Phase::Idle | Phase::WaitSuccessor(_) | Phase::WaitCoordinator => {}
            },
            Input::Timer(Timer::Coordinator) => self.no_coordinator(ctx, out),
            Input::PeerUp(_) | Input::PeerDown(_) | Input::Stored(_) => {}
        }
    }
}

impl Election for ImprovedBully {}

impl ImprovedBully {
    /// At most one own election at a time, and none once this election has a leader.
    fn campaign(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.phase != Phase::Idle || self.leader.is_some() {
            return;
        }
        // A coordinator that is asked again does not miss itself.
        let expected = |first: Uid| first != ctx.me && self.named.first() != Some(&first.id);
        if self.successor(ctx).is_some_and(expected) {
            self.phase = Phase::ExpectSuccessor;
            return out.set_timer(Timer::Answer, Span::jittered(ctx.settings.answer_timeout));
        }
        self.succeed(ctx, out);
    }

    /// Leads, or tells the first successor to lead.
    fn succeed(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        self.phase = Phase::Idle;
        let Some(first) = self.successor(ctx) else { return self.ask_better(ctx, out) };
        if first == ctx.me {
            return self.win(ctx, out);
        }
        self.phase = Phase::WaitSuccessor(first.id);
        out.send(first.id, Msg::Crashed(self.suspects.clone()));
        out.set_timer(Timer::Coordinator, Span::jittered(ctx.settings.coordinator_timeout));
    }

    /// The first of the list, unless a better node is not on it.
    fn successor(&self, ctx: &Ctx<'_>) -> Option<Uid> {
        let first = self.first(ctx)?;
        let unnamed = |peer: Uid| !self.named.contains(&peer.id) && !self.suspects.contains(&peer.id);
        let came_later = ctx.view.better(first, ctx.wins()).any(unnamed);
        (!came_later).then_some(first)
    }

    /// The best named member of this election that is not suspected.
    fn first(&self, ctx: &Ctx<'_>) -> Option<Uid> {
        let named = self.named.iter().filter(|id| !self.suspects.contains(id));
        ctx.wins().best(named.filter_map(|&id| ctx.view.uid(id)))
    }

    /// The election of plain Bully.
    fn ask_better(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if ctx.view.better(ctx.me, ctx.wins()).next().is_none() {
            return self.win(ctx, out);
        }
        self.phase = Phase::WaitAnswer;
        for peer in ctx.view.better(ctx.me, ctx.wins()) {
            out.send(peer.id, Msg::Election);
        }
        out.set_timer(Timer::Answer, Span::exactly(ctx.settings.answer_timeout));
    }

    fn election(&mut self, ctx: &Ctx<'_>, from: Uid, out: &mut impl Outbox<Self>) {
        // A better node never asks a worse one.
        if ctx.beats(ctx.me, from) {
            out.send(from.id, Msg::Answer);
            self.campaign(ctx, out);
        }
    }

    fn answer(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.phase == Phase::WaitAnswer {
            self.phase = Phase::WaitCoordinator;
            out.cancel_timer(Timer::Answer);
            out.set_timer(Timer::Coordinator, Span::jittered(ctx.settings.coordinator_timeout));
        }
    }

    fn crashed(&mut self, ctx: &Ctx<'_>, suspects: &BTreeSet<NodeId>, out: &mut impl Outbox<Self>) {
        if self.leader.is_some() {
            return;
        }
        self.suspects.extend(suspects.iter().filter(|&&id| id != ctx.me.id && ctx.view.contains(id)));
        match self.phase {
            Phase::Idle => {}
            // The sender has waited: this node waits no longer.
            Phase::ExpectSuccessor => out.cancel_timer(Timer::Answer),
            Phase::WaitSuccessor(id) if self.suspects.contains(&id) => out.cancel_timer(Timer::Coordinator),
            Phase::WaitSuccessor(_) | Phase::WaitAnswer | Phase::WaitCoordinator => return,
        }
        self.succeed(ctx, out);
    }

    fn no_coordinator(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        match self.phase {
            Phase::WaitSuccessor(id) => {
                self.suspects.insert(id);
            }
            Phase::WaitCoordinator => {}
            Phase::Idle | Phase::ExpectSuccessor | Phase::WaitAnswer => return,
        }
        self.succeed(ctx, out);
    }

    fn coordinator(&mut self, ctx: &Ctx<'_>, from: Uid, successors: Vec<NodeId>, out: &mut impl Outbox<Self>) {
        if ctx.beats(ctx.me, from) {
            return self.campaign(ctx, out);
        }
        if self.leader.is_some_and(|known| !ctx.beats(from, known)) {
            return;
        }
        self.decide(from, out);
        out.announce(Outcome::Follow(Some(from)));
        let members = successors.into_iter().filter(|&id| ctx.view.contains(id)).take(ctx.view.len());
        self.keep(std::iter::once(from.id).chain(members).collect(), out);
    }

    fn win(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        self.decide(ctx.me, out);
        out.announce(Outcome::Won);
        let wins = ctx.wins();
        let mut followers: Vec<Uid> = ctx.view.worse(ctx.me, wins).collect();
        followers.sort_by(|&a, &b| if wins.beats(a, b) { Ordering::Less } else { Ordering::Greater });
        let successors: Vec<NodeId> = followers.iter().map(|follower| follower.id).collect();
        for &id in &successors {
            out.send(id, Msg::Coordinator(successors.clone()));
        }
        self.keep(std::iter::once(ctx.me.id).chain(successors).collect(), out);
    }

    fn keep(&mut self, named: Vec<NodeId>, out: &mut impl Outbox<Self>) {
        if self.named != named {
            self.named.clone_from(&named);
            out.store(named);
        }
    }

    fn decide(&mut self, leader: Uid, out: &mut impl Outbox<Self>) {
        match self.phase {
            Phase::Idle => {}
            Phase::ExpectSuccessor | Phase::WaitAnswer => out.cancel_timer(Timer::Answer),
            Phase::WaitSuccessor(_) | Phase::WaitCoordinator => out.cancel_timer(Timer::Coordinator),
        }
        self.phase = Phase::Idle;
        self.leader = Some(leader);
    }
}
