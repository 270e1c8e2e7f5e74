//! Bully, as published: Garcia-Molina 1982, "Elections in a distributed computing system".
//!
//! Model: a full mesh that knows all ids; a call is answered within T or the callee is down; crashed nodes recover.
//!
//! Each node keeps a state vector S(i): the status s, the coordinator c, the task definition d, and h, the node that
//! halted it. A node that runs an election first asks all better nodes whether they are up (if one is, it waits T' for
//! that node to lead), else it halts all worse nodes, makes itself their coordinator, distributes the new task and is
//! Normal. The coordinator checks from time to time that all nodes are Normal; the other nodes notice a silent
//! coordinator.
//!
//! Assertion 1, at every instant: two nodes in Reorganization or Normal have the same c; two in Normal the same d.
//! Assertion 2: without failures for long enough, one node is Normal with c = itself and all others follow it.
//!
//! Messages when the best node N is dead and N-1 runs it: one unanswered AreYouUp, then three calls and three replies for
//! each of the N-2 others: 6N - 11. All nodes of a new cluster at once: each asks its betters, and the best makes three
//! calls to all others: (n-1)(n+6). With T more than twice the longest delay the assertions hold, recoveries included;
//! with T = 1.2 times that delay assertion 1 breaks in a third of the sampled runs.
//!
//! Chosen where the paper leaves room: calls are sent all at once, not one by one; a peer whose connection is known to
//! be down counts as one that did not answer, so no node waits T for the dead; every call and reply carries the
//! caller's attempt number, and EnterElection ends the callee's own attempt; a node does not obey the EnterElection of
//! a worse node (which synchrony forbids) but starts its own election. A node that could not be reached while its
//! coordinator reorganised all others is Normal with the task of an earlier election: it answers AreYouNormal with no, so
//! the coordinator runs another election. (In the paper a node that misses an election has crashed.) Nothing is stored:
//! recovery overwrites s, c, d and h before it reads any of them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::protocol::{Campaign, Ctx, Election, Features, Input, Outbox, Outcome, Protocol, Span, StateVector, Status};
use crate::settings::Settings;
use types::NodeId;

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Bully1982 {
    s: Status,
    c: Option<NodeId>,
    d: u64,
    h: Option<NodeId>,
    up: BTreeSet<NodeId>,
    /// Numbers this node's elections; replies to an older one are void.
    attempt: u64,
    stage: Stage,
    /// The nodes whose reply the current stage waits for.
    waiting: BTreeSet<NodeId>,
    /// Peers whose connection is known to be down: a call to them is not waited for.
    unreachable: BTreeSet<NodeId>,
}

/// The stage of this node's own election; the letters are the steps of the published procedure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum Stage {
    #[default]
    None,
    /// A: is any better node up?
    AskBetter,
    /// B: halt all worse nodes.
    Halt,
    /// C
    SetCoordinator,
    /// D
    NewState,
    /// TIMEOUT: is the coordinator still up?
    AskCoordinator,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    AreYouUp(u64),
    AreYouNormal(u64),
    EnterElection(u64),
    SetCoordinator(u64),
    NewState(u64, u64),
    /// Answers AreYouUp, EnterElection, SetCoordinator and NewState of that attempt.
    Yes(Call, u64),
    /// Answers AreYouNormal.
    Normal(bool, u64),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Call {
    AreYouUp,
    EnterElection,
    SetCoordinator,
    NewState,
}

kinds!(Msg {
    AreYouUp: election("are-you-up"),
    AreYouNormal: election("are-you-normal"),
    EnterElection: election("enter-election"),
    SetCoordinator: election("set-coordinator"),
    NewState: election("new-state"),
    Yes | Normal: election("reply"),
});

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// T: a node that has not replied is down.
    Reply,
    /// T': a better node should have reorganised this one by now.
    Reorganised,
    /// The coordinator checks whether all nodes are Normal.
    Check,
    /// T_c: the coordinator has not been heard.
    CoordinatorSilent,
}

impl Protocol for Bully1982 {
    type Link = NodeId;
    type Message = Msg;
    type Timer = Timer;
    type Command = Campaign;
    type Event = Outcome;
    type Durable = ();
    type Settings = Settings;

    fn start(_: &Ctx<'_>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        Bully1982::default()
    }

    fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Campaign) => self.election(ctx, out),
            Input::Message { from, message } => self.message(ctx, from, message, out),
            Input::Timer(timer) => self.timer(ctx, timer, out),
            Input::PeerUp(peer) => self.found(ctx, peer, out),
            Input::PeerDown(peer) => self.lost(ctx, peer, out),
            Input::Stored(()) => {}
        }
    }
}

impl Election for Bully1982 {
    const FEATURES: Features = Features { continuous: true, ..Features::PLAIN };

    fn state_vector(&self) -> Option<StateVector> {
        Some(StateVector { s: self.s, c: self.c, d: self.d, g: None })
    }
}

impl Bully1982 {
    fn message(&mut self, ctx: &Ctx<'_>, from: NodeId, message: Msg, out: &mut impl Outbox<Self>) {
        if self.s == Status::Down {
            // A call arrived before recovery was requested: recover now, then answer.
            self.election(ctx, out);
        }
        match message {
            Msg::AreYouUp(attempt) => out.send(from, Msg::Yes(Call::AreYouUp, attempt)),
            Msg::AreYouNormal(attempt) => {
                let normal = self.s == Status::Normal && self.c == Some(from) && self.d == task(from, attempt);
                if normal {
                    out.set_timer(Timer::CoordinatorSilent, coordinator_silent(ctx));
                }
                out.send(from, Msg::Normal(normal, attempt));
            }
            Msg::EnterElection(attempt) => self.enter_election(ctx, from, attempt, out),
            Msg::SetCoordinator(attempt) => {
                if self.h == Some(from) && self.s == Status::Election {
                    self.c = Some(from);
                    self.s = Status::Reorganization;
                    out.set_timer(Timer::Reorganised, reorganised(ctx));
                    out.send(from, Msg::Yes(Call::SetCoordinator, attempt));
                }
            }
            Msg::NewState(attempt, d) => {
                if self.c == Some(from) && self.s == Status::Reorganization {
                    self.d = d;
                    self.s = Status::Normal;
                    out.cancel_timer(Timer::Reorganised);
                    out.set_timer(Timer::CoordinatorSilent, coordinator_silent(ctx));
                    out.send(from, Msg::Yes(Call::NewState, attempt));
                    out.announce(Outcome::Follow(ctx.view.uid(from)));
                }
            }
            Msg::Yes(call, attempt) => self.yes(ctx, from, call, attempt, out),
            Msg::Normal(normal, attempt) => {
                let mine = self.s == Status::Normal && self.c == Some(ctx.me.id) && attempt == self.attempt;
                if mine && !normal {
                    self.election(ctx, out);
                }
            }
        }
    }

    fn timer(&mut self, ctx: &Ctx<'_>, timer: Timer, out: &mut impl Outbox<Self>) {
        match timer {
            Timer::Reply => self.stage_over(ctx, out),
            Timer::Reorganised => match self.s {
                Status::Reorganization => self.ask_coordinator(ctx, out),
                _ => self.election(ctx, out),
            },
            Timer::Check => {
                if self.s == Status::Normal && self.c == Some(ctx.me.id) {
                    for peer in ctx.view.others(ctx.me.id).filter(|p| !self.unreachable.contains(&p.id)) {
                        out.send(peer.id, Msg::AreYouNormal(self.attempt));
                    }
                    out.set_timer(Timer::Check, Span::exactly(check_every(ctx)));
                }
            }
            Timer::CoordinatorSilent => self.ask_coordinator(ctx, out),
        }
    }

    /// The procedure Election(i), from the top.
    fn election(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        self.attempt += 1;
        out.cancel_timer(Timer::Check);
        out.cancel_timer(Timer::CoordinatorSilent);
        out.cancel_timer(Timer::Reorganised);
        if self.s == Status::Down {
            self.s = Status::Election;
        }
        let better: Vec<NodeId> = ctx.view.better(ctx.me, ctx.wins()).map(|p| p.id).collect();
        self.call(ctx, Stage::AskBetter, better, Msg::AreYouUp, out);
    }

    /// Calls every node in `whom` that has not lost its connection, and continues at once if there is no node to wait
    /// for.
    fn call(
        &mut self,
        ctx: &Ctx<'_>,
        stage: Stage,
        whom: Vec<NodeId>,
        message: impl Fn(u64) -> Msg,
        out: &mut impl Outbox<Self>,
    ) {
        self.stage = stage;
        self.waiting = whom.into_iter().filter(|peer| !self.unreachable.contains(peer)).collect();
        for &peer in &self.waiting {
            out.send(peer, message(self.attempt));
        }
        if self.waiting.is_empty() {
            self.stage_over(ctx, out);
        } else {
            out.set_timer(Timer::Reply, Span::exactly(ctx.settings.answer_timeout));
        }
    }

    fn yes(&mut self, ctx: &Ctx<'_>, from: NodeId, call: Call, attempt: u64, out: &mut impl Outbox<Self>) {
        let expected = match self.stage {
            Stage::None => return,
            Stage::AskBetter | Stage::AskCoordinator => Call::AreYouUp,
            Stage::Halt => Call::EnterElection,
            Stage::SetCoordinator => Call::SetCoordinator,
            Stage::NewState => Call::NewState,
        };
        if attempt != self.attempt || call != expected || !self.waiting.remove(&from) {
            return;
        }
        match self.stage {
            Stage::AskBetter => {
                // A better node is up and will reorganise this one, or T' ends.
                self.rest(out);
                out.set_timer(Timer::Reorganised, reorganised(ctx));
            }
            Stage::AskCoordinator => {
                self.rest(out);
                let (timer, after) = match self.s {
                    Status::Normal => (Timer::CoordinatorSilent, coordinator_silent(ctx)),
                    _ => (Timer::Reorganised, reorganised(ctx)),
                };
                out.set_timer(timer, after);
            }
            Stage::Halt => {
                self.up.insert(from);
            }
            _ => {}
        }
        if self.stage != Stage::None && self.waiting.is_empty() {
            self.stage_over(ctx, out);
        }
    }

    fn rest(&mut self, out: &mut impl Outbox<Self>) {
        self.stage = Stage::None;
        self.waiting.clear();
        out.cancel_timer(Timer::Reply);
    }

    /// All nodes have replied, or T is over: those still in `waiting` are down.
    fn stage_over(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let stage = self.stage;
        let missing = !self.waiting.is_empty();
        self.rest(out);
        match stage {
            Stage::None => {}
            Stage::AskBetter => {
                let settled = matches!(self.s, Status::Normal | Status::Reorganization);
                self.s = Status::Election;
                self.h = Some(ctx.me.id);
                self.up.clear();
                if settled {
                    out.announce(Outcome::Halted);
                }
                let worse: Vec<NodeId> = ctx.view.worse(ctx.me, ctx.wins()).map(|p| p.id).collect();
                self.call(ctx, Stage::Halt, worse, Msg::EnterElection, out);
            }
            Stage::Halt => {
                self.c = Some(ctx.me.id);
                self.s = Status::Reorganization;
                let up = self.up.iter().copied().collect();
                self.call(ctx, Stage::SetCoordinator, up, Msg::SetCoordinator, out);
            }
            Stage::SetCoordinator | Stage::NewState if missing => self.election(ctx, out),
            Stage::SetCoordinator => {
                self.d = task(ctx.me.id, self.attempt);
                let (up, d) = (self.up.iter().copied().collect(), self.d);
                self.call(ctx, Stage::NewState, up, |attempt| Msg::NewState(attempt, d), out);
            }
            Stage::NewState => {
                self.s = Status::Normal;
                out.set_timer(Timer::Check, Span::exactly(check_every(ctx)));
                out.announce(Outcome::Won);
            }
            Stage::AskCoordinator => self.election(ctx, out),
        }
    }

    fn enter_election(&mut self, ctx: &Ctx<'_>, from: NodeId, attempt: u64, out: &mut impl Outbox<Self>) {
        let Some(caller) = ctx.view.uid(from) else { return };
        if ctx.beats(ctx.me, caller) {
            return self.election(ctx, out);
        }
        let settled = matches!(self.s, Status::Normal | Status::Reorganization);
        self.attempt += 1;
        self.rest(out);
        self.s = Status::Election;
        self.h = Some(from);
        out.cancel_timer(Timer::Check);
        out.cancel_timer(Timer::CoordinatorSilent);
        out.set_timer(Timer::Reorganised, reorganised(ctx));
        if settled {
            out.announce(Outcome::Halted);
        }
        out.send(from, Msg::Yes(Call::EnterElection, attempt));
    }

    /// TIMEOUT: the coordinator was not heard; ask it before an election disturbs all nodes.
    fn ask_coordinator(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if let Some(c) = self.c.filter(|&c| c != ctx.me.id && self.stage == Stage::None) {
            self.call(ctx, Stage::AskCoordinator, vec![c], Msg::AreYouUp, out);
        }
    }

    /// A connection came up: this peer gets the call that all other nodes got before.
    fn found(&mut self, ctx: &Ctx<'_>, peer: NodeId, out: &mut impl Outbox<Self>) {
        self.unreachable.remove(&peer);
        let Some(uid) = ctx.view.uid(peer) else { return };
        let better = ctx.beats(uid, ctx.me);
        let call = match self.stage {
            Stage::AskBetter if better => Msg::AreYouUp(self.attempt),
            Stage::Halt if !better => Msg::EnterElection(self.attempt),
            _ if self.s == Status::Normal && self.c == Some(ctx.me.id) => {
                return out.send(peer, Msg::AreYouNormal(self.attempt));
            }
            _ => return,
        };
        self.waiting.insert(peer);
        out.send(peer, call);
    }

    /// A closed connection is a call that will never be answered.
    fn lost(&mut self, ctx: &Ctx<'_>, peer: NodeId, out: &mut impl Outbox<Self>) {
        self.unreachable.insert(peer);
        let waited = self.waiting.contains(&peer);
        if waited && matches!(self.stage, Stage::SetCoordinator | Stage::NewState) {
            return self.election(ctx, out);
        }
        if waited {
            self.waiting.remove(&peer);
            if self.waiting.is_empty() {
                self.stage_over(ctx, out);
            }
            return;
        }
        let follows = matches!(self.s, Status::Normal | Status::Reorganization) && self.c == Some(peer);
        let halted_by = self.s == Status::Election && self.h == Some(peer);
        if self.stage == Stage::None && (follows || halted_by) {
            self.election(ctx, out);
        }
    }
}

/// The task that this coordinator defines in this attempt: no other node can have defined it.
fn task(coordinator: NodeId, attempt: u64) -> u64 {
    attempt << 32 | u64::from(coordinator.0)
}

/// T' leaves the winner time for all its steps.
fn reorganised(ctx: &Ctx<'_>) -> Span {
    Span::jittered(ctx.settings.coordinator_timeout)
}

fn check_every(ctx: &Ctx<'_>) -> std::time::Duration {
    ctx.settings.coordinator_timeout
}

/// T_c > the check's period + T.
fn coordinator_silent(ctx: &Ctx<'_>) -> Span {
    Span::jittered(check_every(ctx) * 2 + ctx.settings.answer_timeout * 2)
}
