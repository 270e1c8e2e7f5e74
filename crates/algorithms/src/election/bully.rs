//! Bully, as the textbooks teach it: Election, Answer, Coordinator (after Garcia-Molina 1982).
//!
//! Model: a full mesh that knows all ids, crashes detected by timeouts: an answer takes at most T.
//!
//! A node that misses the leader asks all better nodes. If no node answers within T it has won and tells all worse
//! nodes; if a node answers, that node takes over and must have a coordinator announced within T', else the election
//! begins again.
//!
//! Messages, whichever nodes are dead (but still asked): every living node at least as good as the worst initiator takes
//! part once. ELECTION is the sum of their betters, ANSWER the sum of their living betters, COORDINATOR the number of
//! nodes worse than the winner. So with the best node N dead and initiator i, m = N-i: m² + N - 2, worst N² - N - 1;
//! with no node dead m(m+1) + N - 1. Only if the best of all is itself an initiator it is less: it wins at once, and
//! nodes that its COORDINATOR reaches first ask no other node.
//!
//! Time: ELECTION, ANSWER, ELECTION of the second best, T for the dead best, COORDINATOR: the "5 message transmission
//! times" of the sources, one of them being T. One transmission if the best node starts.
//!
//! Detection and recovery: this machine is told to begin (the failure detector or an operator does that); a node that
//! recovers begins too, and the best one then takes over at once with N - 1 COORDINATOR, a healthy leader or not, unless
//! it is told to wait. With T at least twice the longest delay an election has one winner; with less it may have two for
//! a while, and the latch leaves no wrong one at the end.
//!
//! Ambiguous in the sources: COORDINATOR is sent to the worse ids only (not to all), and T' is three times T (reusing
//! T, as one source does, costs 2.4 times the messages). Not in the sources: at most one own election at a time, and a
//! *latch* on the better id: a late COORDINATOR of a worse winner never overwrites a better one, which without it
//! leaves a wrong leader for ever when messages overtake each other on different links.

use serde::{Deserialize, Serialize};

use crate::protocol::{Campaign, Ctx, Election, Input, Outbox, Outcome, Protocol, Span};
use crate::settings::Settings;
use types::{NodeId, Uid};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Bully {
    phase: Phase,
    leader: Option<Uid>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    Idle,
    WaitAnswer,
    WaitCoordinator,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    Election,
    Answer,
    Coordinator,
}

kinds!(Msg { Election: election("election"), Answer: election("answer"), Coordinator: announcement("coordinator") });

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// T
    Answer,
    /// T'
    Coordinator,
}

impl Protocol for Bully {
    type Link = NodeId;
    type Message = Msg;
    type Timer = Timer;
    type Command = Campaign;
    type Event = Outcome;
    type Durable = ();
    type Settings = Settings;

    fn start(_: &Ctx<'_>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        Bully { phase: Phase::Idle, leader: None }
    }

    fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Campaign) => self.campaign(ctx, out),
            Input::Message { from, message } => {
                let Some(from) = ctx.view.uid(from) else { return };
                match message {
                    Msg::Election => self.election(ctx, from, out),
                    Msg::Answer => self.answer(ctx, out),
                    Msg::Coordinator => self.coordinator(ctx, from, out),
                }
            }
            Input::Timer(Timer::Answer) => {
                if self.phase == Phase::WaitAnswer {
                    self.win(ctx, out);
                }
            }
            Input::Timer(Timer::Coordinator) => {
                if self.phase == Phase::WaitCoordinator {
                    self.phase = Phase::Idle;
                    self.campaign(ctx, out);
                }
            }
            Input::PeerUp(_) | Input::PeerDown(_) | Input::Stored(()) => {}
        }
    }
}

impl Election for Bully {}

impl Bully {
    /// At most one own election at a time, and none once this election has a leader.
    fn campaign(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.phase != Phase::Idle || self.leader.is_some() {
            return;
        }
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
        match self.phase {
            Phase::Idle => {}
            Phase::WaitAnswer => out.cancel_timer(Timer::Answer),
            Phase::WaitCoordinator => out.cancel_timer(Timer::Coordinator),
        }
        self.phase = Phase::Idle;
        self.leader = Some(leader);
    }
}
