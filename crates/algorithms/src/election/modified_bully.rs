//! Modified Bully (Kordafshari, Gholipour, Jahanshahi and Haghighat 2005): one node collects the answers and chooses.
//!
//! Model: a full mesh that knows all ids, crashes detected by timeouts: an answer takes at most T.
//!
//! A node that misses the leader sends ELECTION to all better nodes. A better node answers OK and does *not* begin an
//! election of its own, which is what makes Bully quadratic. After T (or at once when all better nodes have answered)
//! the initiator sends GRANT to the best node that answered; without any answer it has won itself. A node that gets a
//! GRANT has won and tells all worse nodes.
//!
//! Messages of one initiator: ELECTION to each better node, OK from each better node that lives, one GRANT if there is
//! such a node, COORDINATOR to all nodes worse than the winner. With the best node N dead and initiator i < N-1 that is
//! 2(N-i) + N - 2: 3N - 4 for the worst initiator, against N² - N - 1 of Bully; the second best needs N - 1. All N-1
//! survivors at once: N(N-1)/2 ELECTION, (N-1)(N-2)/2 OK, at most N-2 GRANT, N-2 COORDINATOR. Time: three
//! transmissions and T, as Bully.
//!
//! Chosen where the source is silent: a granted node that does not announce itself within T' is struck off and the next
//! best that answered gets the GRANT, until none is left and the initiator begins again; a node that answered waits T'
//! for a coordinator and then begins an election itself, because the initiator may have died between OK and GRANT; a
//! node that already knows the leader of this election answers OK but ignores a GRANT; the latch on the better id is
//! the one of the row `bully`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::protocol::{Campaign, Ctx, Election, Input, Outbox, Outcome, Protocol, Span};
use crate::settings::Settings;
use types::{NodeId, Uid};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ModifiedBully {
    phase: Phase,
    leader: Option<Uid>,
    /// The better nodes that answered this node's election and were not granted in vain.
    oks: BTreeSet<NodeId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    Idle,
    /// This node's own election.
    Collect,
    /// This node has sent a GRANT there.
    Granted(NodeId),
    /// This node has answered another node's election.
    Answered,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    Election,
    Ok,
    Grant,
    Coordinator,
}

kinds!(Msg {
    Election: election("election"),
    Ok: election("ok"),
    Grant: election("grant"),
    Coordinator: announcement("coordinator"),
});

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// T: no further answer will arrive.
    Answers,
    /// T': a coordinator should have announced itself.
    Coordinator,
}

impl Protocol for ModifiedBully {
    type Link = NodeId;
    type Message = Msg;
    type Timer = Timer;
    type Command = Campaign;
    type Event = Outcome;
    type Durable = ();
    type Settings = Settings;

    fn start(_: &Ctx<'_>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        ModifiedBully { phase: Phase::Idle, leader: None, oks: BTreeSet::new() }
    }

    fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Campaign) => self.campaign(ctx, out),
            Input::Message { from, message } => {
                let Some(from) = ctx.view.uid(from) else { return };
                match message {
                    Msg::Election => self.election(ctx, from, out),
                    Msg::Ok => self.ok(ctx, from, out),
                    Msg::Grant => self.grant(ctx, out),
                    Msg::Coordinator => self.coordinator(ctx, from, out),
                }
            }
            Input::Timer(Timer::Answers) => {
                if self.phase == Phase::Collect {
                    self.choose(ctx, out);
                }
            }
            Input::Timer(Timer::Coordinator) => self.no_coordinator(ctx, out),
            Input::PeerUp(_) | Input::PeerDown(_) | Input::Stored(()) => {}
        }
    }
}

impl Election for ModifiedBully {}

impl ModifiedBully {
    /// At most one own election at a time, and none once this election has a leader. A node that has answered another
    /// node's election may still begin its own: it misses the leader too.
    fn campaign(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if matches!(self.phase, Phase::Collect | Phase::Granted(_)) || self.leader.is_some() {
            return;
        }
        self.rest(out);
        self.oks.clear();
        if ctx.view.better(ctx.me, ctx.wins()).next().is_none() {
            return self.win(ctx, out);
        }
        self.phase = Phase::Collect;
        for peer in ctx.view.better(ctx.me, ctx.wins()) {
            out.send(peer.id, Msg::Election);
        }
        out.set_timer(Timer::Answers, Span::exactly(ctx.settings.answer_timeout));
    }

    fn election(&mut self, ctx: &Ctx<'_>, from: Uid, out: &mut impl Outbox<Self>) {
        // A better node never asks a worse one.
        if !ctx.beats(ctx.me, from) {
            return;
        }
        out.send(from.id, Msg::Ok);
        if self.phase == Phase::Idle && self.leader.is_none() {
            self.phase = Phase::Answered;
            out.set_timer(Timer::Coordinator, Span::jittered(ctx.settings.coordinator_timeout));
        }
    }

    fn ok(&mut self, ctx: &Ctx<'_>, from: Uid, out: &mut impl Outbox<Self>) {
        if self.phase != Phase::Collect || !ctx.beats(from, ctx.me) {
            return;
        }
        self.oks.insert(from.id);
        if self.oks.len() == ctx.view.better(ctx.me, ctx.wins()).count() {
            self.choose(ctx, out);
        }
    }

    /// The answers are in: the best node that answered shall lead, or this one.
    fn choose(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let Some(best) = ctx.wins().best(self.oks.iter().filter_map(|&id| ctx.view.uid(id))) else {
            return self.win(ctx, out);
        };
        self.rest(out);
        self.phase = Phase::Granted(best.id);
        out.send(best.id, Msg::Grant);
        out.set_timer(Timer::Coordinator, Span::jittered(ctx.settings.coordinator_timeout));
    }

    fn no_coordinator(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        match self.phase {
            Phase::Granted(id) => {
                self.phase = Phase::Idle;
                self.oks.remove(&id);
                if self.oks.is_empty() { self.campaign(ctx, out) } else { self.choose(ctx, out) }
            }
            Phase::Answered => {
                self.phase = Phase::Idle;
                self.campaign(ctx, out);
            }
            Phase::Idle | Phase::Collect => {}
        }
    }

    fn grant(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.leader.is_none() {
            self.win(ctx, out);
        }
    }

    fn coordinator(&mut self, ctx: &Ctx<'_>, from: Uid, out: &mut impl Outbox<Self>) {
        if ctx.beats(ctx.me, from) {
            return self.campaign(ctx, out);
        }
        if self.leader.is_some_and(|known| !ctx.beats(from, known)) {
            return;
        }
        self.decide(from, out);
        out.announce(Outcome::Follow(Some(from)));
    }

    fn win(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        self.decide(ctx.me, out);
        out.announce(Outcome::Won);
        for peer in ctx.view.worse(ctx.me, ctx.wins()) {
            out.send(peer.id, Msg::Coordinator);
        }
    }

    fn decide(&mut self, leader: Uid, out: &mut impl Outbox<Self>) {
        self.rest(out);
        self.leader = Some(leader);
    }

    fn rest(&mut self, out: &mut impl Outbox<Self>) {
        match self.phase {
            Phase::Idle => {}
            Phase::Collect => out.cancel_timer(Timer::Answers),
            Phase::Granted(_) | Phase::Answered => out.cancel_timer(Timer::Coordinator),
        }
        self.phase = Phase::Idle;
    }
}
