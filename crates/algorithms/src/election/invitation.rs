//! Invitation: Garcia-Molina 1982, "Elections in a distributed computing system", the second environment.
//!
//! Model: a full mesh that knows all ids; crashed nodes recover; no bound on delays and no certain failure detection.
//! There may be several coordinators at a time, one per group; groups merge when their coordinators can talk.
//!
//! A node that starts or recovers is a group of its own, without a message. A coordinator asks all other nodes whether
//! they are coordinators (AreYouCoordinator). If some are, the best of all merges the groups at once, a worse one only if
//! the better ones have not done so within a time that grows with its rank. To merge, a coordinator founds a new group,
//! sends its INVITATION to the other coordinators and to its own members; an invited coordinator passes it on to its
//! members. A node that accepts belongs to the new group; READY tells it the task, and it is Normal. A member asks
//! its coordinator from time to time whether it is still in the group (AreYouThere), and becomes a group of its own if the
//! answer is no, or none.
//!
//! Assertion 3, at every instant and whatever the delays: two nodes of the same group in Reorganization or Normal have
//! the same coordinator, and two in Normal the same task. Assertion 4: without failures in a component for long enough,
//! one group holds all its nodes. So under a cut network every side has a leader, and after it one of them leads all.
//!
//! Messages of a fault-free election of n nodes, whatever the initiators: n - 1 each of INVITATION, ACCEPT, READY and its
//! acknowledgement; every node asks all others once and the winner once more: n² - 1 questions and as many answers. With
//! k of the n nodes alive: (k+1)(n-1) questions, (k+1)(k-1) answers, k - 1 of each other kind.
//!
//! Chosen where the paper leaves room: a group is named by its coordinator, the number of that process's start (the one
//! record on the disk, written once per start) and a counter; all calls are sent at once and a closed connection is a
//! negative answer; an ACCEPT that comes late gets READY at once; a member that does not acknowledge READY is dropped and
//! finds out by AreYouThere; only the answer to AreYouThere, and no other message of the coordinator, tells a member that
//! it is still in the group, since the coordinator may have founded a later group while the member could not be reached; a
//! node declines the invitation of a worse one and asks it instead; a question of a worse coordinator makes a better one
//! look for groups at once; a coordinator looks for other groups before it announces that it leads, so that a start of all
//! nodes has one winner.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::protocol::{
    Campaign, Ctx, Election, Features, Group, Input, Outbox, Outcome, Protocol, Span, StateVector, Status,
};
use crate::settings::Settings;
use types::NodeId;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Invitation {
    /// How often this node has started.
    start: u64,
    s: Status,
    g: Group,
    d: u64,
    /// The members of the group; kept by its coordinator.
    up: BTreeSet<NodeId>,
    job: Job,
    /// Numbers this node's jobs and groups: an answer to an older job is void.
    number: u64,
    /// The nodes whose answer the job waits for.
    waiting: BTreeSet<NodeId>,
    /// The coordinators that the last look found.
    found: BTreeSet<NodeId>,
    /// Peers whose connection is known to be down: they are not waited for.
    unreachable: BTreeSet<NodeId>,
    /// The last result was announced and not withdrawn.
    announced: bool,
    /// A worse coordinator asked during the job.
    asked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Job {
    None,
    /// The coordinator looks for other coordinators.
    Look,
    /// It found a better one, and waits to be invited.
    Wait,
    Invite,
    Ready,
    /// A member asks whether it is still one.
    AskCoordinator,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    AreYouCoordinator(u64),
    AreYouThere(Group, u64),
    Answer(bool, u64),
    Invitation(Group),
    Accept(Group),
    Ready(Group, u64),
    Acknowledge(Group),
}

kinds!(Msg {
    AreYouCoordinator: election("are-you-coordinator"),
    AreYouThere: election("are-you-there"),
    Answer: election("answer"),
    Invitation: election("invitation"),
    Accept: election("accept"),
    Ready: election("ready"),
    Acknowledge: election("acknowledge"),
});

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// T: the nodes that have not answered the job in hand will not.
    Answers,
    /// A better coordinator should have invited this one by now.
    Invited,
    /// READY should have come by now.
    Ready,
    /// The coordinator looks for other groups from time to time.
    Look,
    /// A member asks its coordinator from time to time whether it is still in the group.
    AskCoordinator,
}

impl Protocol for Invitation {
    type Link = NodeId;
    type Message = Msg;
    type Timer = Timer;
    type Command = Campaign;
    type Event = Outcome;
    /// How often this node has started.
    type Durable = u64;
    type Settings = Settings;

    fn start(ctx: &Ctx<'_>, starts: Option<u64>, out: &mut impl Outbox<Self>) -> Self {
        let start = starts.unwrap_or(0).saturating_add(1);
        out.persist(start);
        Invitation {
            start,
            s: Status::Down,
            g: Group { coordinator: ctx.me.id, start, number: 0 },
            d: 0,
            up: BTreeSet::new(),
            job: Job::None,
            number: 0,
            waiting: BTreeSet::new(),
            found: BTreeSet::new(),
            unreachable: BTreeSet::new(),
            announced: false,
            asked: false,
        }
    }

    fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Campaign) => self.campaign(ctx, out),
            Input::Message { from, message } => self.message(ctx, from, message, out),
            Input::Timer(timer) => self.timer(ctx, timer, out),
            Input::PeerUp(peer) => self.found_again(ctx, peer, out),
            Input::PeerDown(peer) => self.lost(ctx, peer, out),
            Input::Stored(_) => {}
        }
    }
}

impl Election for Invitation {
    const FEATURES: Features = Features { continuous: true, groups: true, ..Features::PLAIN };

    fn state_vector(&self) -> Option<StateVector> {
        let c = (self.s != Status::Down).then_some(self.g.coordinator);
        Some(StateVector { s: self.s, c, d: self.d, g: Some(self.g) })
    }
}

impl Invitation {
    fn leads(&self, ctx: &Ctx<'_>) -> bool {
        self.s == Status::Normal && self.g.coordinator == ctx.me.id
    }

    fn campaign(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.s == Status::Down {
            self.recover(ctx, out);
        } else if self.leads(ctx) && self.job == Job::None {
            self.announced = false;
            self.look(ctx, out);
        } else if self.s == Status::Normal && ctx.view.uid(self.g.coordinator).is_some_and(|c| ctx.beats(ctx.me, c)) {
            // No worse node's invitation is ever accepted: this node has become better since.
            self.recover(ctx, out);
        } else {
            self.ask_coordinator(ctx, out);
        }
    }

    fn message(&mut self, ctx: &Ctx<'_>, from: NodeId, message: Msg, out: &mut impl Outbox<Self>) {
        if self.s == Status::Down {
            // A message arrived before the start was requested: start now.
            self.recover(ctx, out);
        }
        match message {
            Msg::AreYouCoordinator(number) => self.are_you_coordinator(ctx, from, number, out),
            Msg::AreYouThere(group, number) => {
                let mine = group == self.g && group.coordinator == ctx.me.id && self.up.contains(&from);
                out.send(from, Msg::Answer(mine, number));
            }
            Msg::Answer(yes, number) => self.answer(ctx, from, yes, number, out),
            Msg::Invitation(group) => self.invited(ctx, group, out),
            Msg::Accept(group) => self.accepted(ctx, from, group, out),
            Msg::Ready(group, d) => {
                if self.s == Status::Reorganization && group == self.g && group.coordinator == from {
                    self.d = d;
                    self.s = Status::Normal;
                    out.cancel_timer(Timer::Ready);
                    out.set_timer(Timer::AskCoordinator, until_next_question(ctx));
                    out.send(from, Msg::Acknowledge(group));
                    self.announced = true;
                    out.announce(Outcome::Follow(ctx.view.uid(from)));
                }
            }
            Msg::Acknowledge(group) => {
                if self.job == Job::Ready && group == self.g && self.waiting.remove(&from) && self.waiting.is_empty() {
                    self.job_over(ctx, out);
                }
            }
        }
    }

    fn timer(&mut self, ctx: &Ctx<'_>, timer: Timer, out: &mut impl Outbox<Self>) {
        match timer {
            Timer::Answers => self.job_over(ctx, out),
            Timer::Invited if self.job == Job::Wait => self.merge(ctx, out),
            Timer::Ready if self.s == Status::Reorganization => self.recover(ctx, out),
            Timer::Look if self.leads(ctx) && self.job == Job::None => self.look(ctx, out),
            Timer::AskCoordinator => self.ask_coordinator(ctx, out),
            Timer::Invited | Timer::Ready | Timer::Look => {}
        }
    }

    /// A group of its own, without a message; then a look for others.
    fn recover(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        self.leave(out);
        self.found_group(ctx);
        self.s = Status::Normal;
        self.look(ctx, out);
    }

    fn found_group(&mut self, ctx: &Ctx<'_>) {
        self.number += 1;
        self.g = Group { coordinator: ctx.me.id, start: self.start, number: self.number };
        self.d = self.number;
        self.up.clear();
    }

    /// The group of this node ends for it.
    fn leave(&mut self, out: &mut impl Outbox<Self>) {
        self.rest(out);
        for timer in [Timer::Ready, Timer::Look, Timer::AskCoordinator] {
            out.cancel_timer(timer);
        }
        if std::mem::take(&mut self.announced) {
            out.announce(Outcome::Halted);
        }
    }

    fn rest(&mut self, out: &mut impl Outbox<Self>) {
        match self.job {
            Job::None => {}
            Job::Wait => out.cancel_timer(Timer::Invited),
            Job::Look | Job::Invite | Job::Ready | Job::AskCoordinator => out.cancel_timer(Timer::Answers),
        }
        self.job = Job::None;
        self.waiting.clear();
    }

    /// Sends to all of `whom` that can be reached, and continues at once if there is no node to wait for.
    fn call(
        &mut self,
        ctx: &Ctx<'_>,
        job: Job,
        whom: impl Iterator<Item = NodeId>,
        message: Msg,
        out: &mut impl Outbox<Self>,
    ) {
        self.rest(out);
        self.job = job;
        self.waiting = whom.filter(|id| !self.unreachable.contains(id)).collect();
        for &id in &self.waiting {
            out.send(id, message);
        }
        if self.waiting.is_empty() {
            return self.job_over(ctx, out);
        }
        // An invitation may be passed on before it is accepted.
        let hops = if job == Job::Invite { 2 } else { 1 };
        out.set_timer(Timer::Answers, Span::exactly(ctx.settings.answer_timeout * hops));
    }

    fn look(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        self.number += 1;
        self.found.clear();
        self.asked = false;
        out.cancel_timer(Timer::Look);
        let others: Vec<NodeId> = ctx.view.others(ctx.me.id).map(|peer| peer.id).collect();
        self.call(ctx, Job::Look, others.into_iter(), Msg::AreYouCoordinator(self.number), out);
    }

    /// All nodes have answered, or T is over.
    fn job_over(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let silent = std::mem::take(&mut self.waiting);
        let job = self.job;
        self.rest(out);
        match job {
            Job::None | Job::Wait => {}
            Job::Look if !self.found.is_empty() => self.merge_or_wait(ctx, out),
            Job::Look => {
                if !self.announced {
                    self.announced = true;
                    out.announce(Outcome::Won);
                }
                if self.asked {
                    return self.look(ctx, out);
                }
                out.set_timer(Timer::Look, Span::jittered(ctx.settings.coordinator_timeout));
            }
            Job::Invite => {
                self.s = Status::Reorganization;
                let (up, ready) = (self.up.clone(), Msg::Ready(self.g, self.d));
                self.call(ctx, Job::Ready, up.into_iter(), ready, out);
            }
            Job::Ready => {
                self.up.retain(|id| !silent.contains(id));
                self.s = Status::Normal;
                // A node that is left alone looks first.
                if !self.up.is_empty() {
                    self.announced = true;
                    out.announce(Outcome::Won);
                }
                self.look(ctx, out);
            }
            Job::AskCoordinator => self.recover(ctx, out),
        }
    }

    /// The best of the coordinators merges at once, the others only if it does not.
    fn merge_or_wait(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let better = self.found.iter().filter_map(|&id| ctx.view.uid(id)).filter(|&uid| ctx.beats(uid, ctx.me));
        let rank = u32::try_from(better.count()).unwrap_or(u32::MAX);
        if rank == 0 {
            return self.merge(ctx, out);
        }
        self.job = Job::Wait;
        out.set_timer(Timer::Invited, Span::jittered(ctx.settings.coordinator_timeout.saturating_mul(rank)));
    }

    fn merge(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let whom: BTreeSet<NodeId> = self.found.union(&self.up).copied().collect();
        self.leave(out);
        self.found_group(ctx);
        self.s = Status::Election;
        self.call(ctx, Job::Invite, whom.into_iter(), Msg::Invitation(self.g), out);
    }

    fn are_you_coordinator(&mut self, ctx: &Ctx<'_>, from: NodeId, number: u64, out: &mut impl Outbox<Self>) {
        out.send(from, Msg::Answer(self.leads(ctx), number));
        // Only coordinators ask.
        let worse = ctx.view.uid(from).is_some_and(|uid| ctx.beats(ctx.me, uid));
        if self.leads(ctx) && worse {
            self.up.remove(&from);
            match self.job {
                Job::None => self.look(ctx, out),
                _ => self.asked = true,
            }
        }
    }

    fn answer(&mut self, ctx: &Ctx<'_>, from: NodeId, yes: bool, number: u64, out: &mut impl Outbox<Self>) {
        let expected = matches!(self.job, Job::Look | Job::AskCoordinator) && number == self.number;
        if !expected || !self.waiting.remove(&from) {
            return;
        }
        if self.job == Job::AskCoordinator {
            self.rest(out);
            if yes {
                out.set_timer(Timer::AskCoordinator, until_next_question(ctx));
            } else {
                self.recover(ctx, out);
            }
            return;
        }
        if yes {
            self.found.insert(from);
        }
        if self.waiting.is_empty() {
            self.job_over(ctx, out);
        }
    }

    fn invited(&mut self, ctx: &Ctx<'_>, group: Group, out: &mut impl Outbox<Self>) {
        let Some(coordinator) = ctx.view.uid(group.coordinator) else { return };
        if self.s != Status::Normal || group == self.g {
            return;
        }
        if !ctx.beats(coordinator, ctx.me) {
            // This node would be the better coordinator.
            if self.leads(ctx) && self.job == Job::None {
                self.look(ctx, out);
            }
            return;
        }
        if self.leads(ctx) {
            for &member in &self.up {
                out.send(member, Msg::Invitation(group));
            }
        }
        self.leave(out);
        self.up.clear();
        self.g = group;
        self.s = Status::Reorganization;
        out.send(coordinator.id, Msg::Accept(group));
        out.set_timer(Timer::Ready, Span::jittered(ctx.settings.coordinator_timeout));
    }

    fn accepted(&mut self, ctx: &Ctx<'_>, from: NodeId, group: Group, out: &mut impl Outbox<Self>) {
        if group != self.g || group.coordinator != ctx.me.id || !ctx.view.contains(from) {
            return;
        }
        self.up.insert(from);
        if self.job == Job::Invite {
            if self.waiting.remove(&from) && self.waiting.is_empty() {
                self.job_over(ctx, out);
            }
        } else {
            out.send(from, Msg::Ready(self.g, self.d));
        }
    }

    /// A member asks before it leaves the group.
    fn ask_coordinator(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.s == Status::Normal && self.g.coordinator != ctx.me.id && self.job == Job::None {
            self.number += 1;
            let question = Msg::AreYouThere(self.g, self.number);
            self.call(ctx, Job::AskCoordinator, std::iter::once(self.g.coordinator), question, out);
        }
    }

    /// A connection came up: this peer gets what all others got before, and there may be another group behind it.
    fn found_again(&mut self, ctx: &Ctx<'_>, peer: NodeId, out: &mut impl Outbox<Self>) {
        self.unreachable.remove(&peer);
        if !ctx.view.contains(peer) {
            return;
        }
        let waited = self.waiting.contains(&peer);
        let message = match self.job {
            Job::Look => Msg::AreYouCoordinator(self.number),
            Job::Invite if waited => Msg::Invitation(self.g),
            Job::Ready if waited => Msg::Ready(self.g, self.d),
            Job::AskCoordinator if waited => Msg::AreYouThere(self.g, self.number),
            Job::None if self.leads(ctx) => return self.look(ctx, out),
            _ => return,
        };
        self.waiting.insert(peer);
        out.send(peer, message);
    }

    /// A closed connection is an answer that will never come.
    fn lost(&mut self, ctx: &Ctx<'_>, peer: NodeId, out: &mut impl Outbox<Self>) {
        self.unreachable.insert(peer);
        self.up.remove(&peer);
        self.found.remove(&peer);
        let settled = matches!(self.s, Status::Normal | Status::Reorganization);
        if settled && self.g.coordinator == peer {
            return self.recover(ctx, out);
        }
        if self.waiting.remove(&peer) && self.waiting.is_empty() {
            self.job_over(ctx, out);
        } else if self.job == Job::Wait {
            self.rest(out);
            self.look(ctx, out);
        }
    }
}

/// More than the time between two looks of the coordinator.
fn until_next_question(ctx: &Ctx<'_>) -> Span {
    Span::jittered(ctx.settings.coordinator_timeout * 2 + ctx.settings.answer_timeout * 2)
}
