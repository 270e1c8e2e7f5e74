//! The member: a textbook machine, a failure detector and the record of who leads, as one state machine.

use std::collections::BTreeSet;
use std::time::Duration;

use algorithms::{
    Ctx, Election, Epoch, Incarnation, Input, Life, NodeId, Outbox, Outcome, Protocol, Safety, Span, Topology, View,
};

use crate::contacts::Contacts;
use crate::epochs::{attempt_after, attempt_from, attempt_of, reserve};
use crate::inner::Inner;
use crate::reign::{Holder, Order, Reign};
use crate::types::{Beat, Cause, Claim, Command, Envelope, Event, NodeSet, Record, Role, Round, Standing, Timer};

/// How long a member that stepped down leaves the field to others.
pub const ABSTAIN: Duration = Duration::from_secs(10);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent facts, each with its own timer or rule
pub struct Member<E: Election> {
    pub(crate) at: usize,
    pub(crate) incarnation: Incarnation,
    pub(crate) contacts: Contacts,
    /// Follows no claim below this attempt; also what is reported while nobody leads.
    pub(crate) floor: Epoch,
    /// The largest number seen; the next round goes above it.
    pub(crate) highest: Epoch,
    /// Everything below is reserved on disk.
    pub(crate) ceiling: Epoch,
    pub(crate) storing: bool,
    pub(crate) leader: Option<Claim>,
    pub(crate) announced: Standing,
    /// The first election waits for all members until this is set.
    pub(crate) started: bool,
    /// Others may still be starting: a refused dial is not a death yet.
    pub(crate) grace: bool,
    /// Somebody follows a leader that this member cannot follow yet.
    pub(crate) others_follow: bool,
    /// Stepped down and leaves the field to others for a while.
    pub(crate) abstains: bool,
    /// What the others were last told of whether this member stands.
    pub(crate) stood: bool,
    /// Who may claim, under `safety = "quorum"`.
    pub(crate) reign: Option<Reign>,
    /// Under quorum: who told of the leader; it itself, unless there is no connection to it.
    pub(crate) source: Option<usize>,
    /// Under quorum: the largest epoch followed.
    pub(crate) followed: Epoch,
    /// The round's winner, until it reigns.
    pub(crate) winner: Option<usize>,
    /// Winners that never came to reign: left out for a while.
    pub(crate) passed_over: NodeSet,
    /// The round in hand and its participants; a continuous machine has none.
    pub(crate) round: Option<Round>,
    pub(crate) set: NodeSet,
    pub(crate) view: View,
    pub(crate) machine: E,
    inner_timers: BTreeSet<E::Timer>,
    /// Has the round in hand a result, or was it given up?
    pub(crate) settled: bool,
    /// The participant this round cannot get past, because there is no connection to it.
    pub(crate) stuck: Option<usize>,
    pub(crate) watchdog: bool,
    pub(crate) backoff: u32,
    pub(crate) preempting: bool,
    pub(crate) beating: bool,
    algorithm_messages: u64,
}

impl<E: Election> Protocol for Member<E> {
    type Link = NodeId;
    type Message = Envelope<E::Link, E::Message>;
    type Timer = Timer<E::Timer>;
    type Command = Command;
    type Event = Event;
    type Durable = Record;

    fn start(ctx: &Ctx<'_>, stored: Option<Record>, out: &mut impl Outbox<Self>) -> Self {
        let at = ctx.view.position(ctx.me.id).expect("a member is in its own list");
        let stored = stored.unwrap_or_default();
        let quorum = ctx.settings.safety == Safety::Quorum;
        let set: NodeSet = (0..ctx.view.len()).collect();
        let first = attempt_from(stored.ceiling, ctx.view);
        let standing = Standing { role: Role::Candidate, leader: None, epoch: first };
        let mut member = Member {
            at,
            incarnation: Incarnation { counter: stored.incarnation.counter + 1, nonce: ctx.dice },
            contacts: Contacts::new(at, ctx.view.len(), quorum || ctx.view.topology() == Topology::Mesh),
            floor: first,
            highest: first,
            ceiling: Epoch(first.0 + reserve(ctx)),
            storing: false,
            leader: None,
            announced: standing,
            started: false,
            grace: true,
            others_follow: false,
            abstains: false,
            stood: true,
            reign: None,
            source: None,
            followed: stored.followed.max(stored.vote.map_or(Epoch(0), |vote| vote.epoch)),
            winner: None,
            passed_over: NodeSet::default(),
            round: None,
            set,
            view: ctx.view.clone(),
            machine: E::start(ctx, None, &mut Silent),
            inner_timers: BTreeSet::new(),
            settled: true,
            stuck: None,
            watchdog: false,
            backoff: 0,
            preempting: false,
            beating: false,
            algorithm_messages: 0,
        };
        if quorum {
            member.found_reign(ctx, &stored, out);
        } else {
            out.persist(member.record());
        }
        member.announced.epoch = member.epoch_without_leader();
        member.announced.role = member.role(ctx);
        out.announce(Event::Became { now: member.announced, cause: Cause::Started });
        out.set_timer(Timer::Grace, Span::exactly(ctx.settings.timing.start_grace));
        member.start_when_complete(ctx, out);
        member.settle(ctx, out);
        member
    }

    fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Message { from, message } => self.message(ctx, from, message, out),
            Input::Timer(timer) => self.timer(ctx, timer, out),
            Input::PeerUp(peer) => self.peer_up(ctx, peer, out),
            Input::PeerDown(peer) => {
                let known = ctx.view.position(peer);
                if let Some(at) = known.filter(|&at| !self.grace || self.contacts.is_up(at)) {
                    self.govern(ctx, Input::PeerDown(peer), out);
                    self.contacts.down(at);
                    self.lost(ctx, at, out);
                }
            }
            Input::Command(Command::Elect) if self.reign.is_some() && self.leader.is_some() => self.reelect(ctx, out),
            Input::Command(Command::Elect) => self.open(ctx, out),
            Input::Command(Command::StepDown) if self.reign.is_some() => self.abdicate(ctx, out),
            Input::Command(Command::StepDown) => self.step_down(ctx, out),
            Input::Command(Command::Transfer(to)) => self.order(ctx, Order::Transfer(to), out),
            Input::Command(Command::Closed(id, life)) => self.order(ctx, Order::Closed(Holder { id, life }), out),
            Input::Command(Command::Attached(attached)) => self.order(ctx, Order::Attached(attached), out),
            Input::Stored(record) => {
                self.ceiling = self.ceiling.max(record.ceiling);
                self.storing = false;
            }
        }
        self.settle(ctx, out);
    }
}

impl<E: Election> Member<E> {
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// What this member last announced.
    pub fn standing(&self) -> Standing {
        self.announced
    }

    /// Who may claim, under quorum safety.
    pub fn reign(&self) -> Option<&Reign> {
        self.reign.as_ref()
    }

    pub fn machine(&self) -> &E {
        &self.machine
    }

    /// Whom to keep a connection to; changes as members die and return.
    pub fn links(&self, view: &View) -> NodeSet {
        let mut links = self.contacts.links(view);
        // A round may lead past them, to somebody this member has no reason to dial otherwise.
        if let Some(at) = self.stuck {
            links.insert(at);
        }
        links
    }

    /// Algorithm messages sent so far; heartbeats are not counted.
    pub fn algorithm_messages(&self) -> u64 {
        self.algorithm_messages
    }

    pub(crate) fn leads(&self, ctx: &Ctx<'_>) -> bool {
        self.leader.is_some_and(|claim| claim.uid == ctx.me)
    }

    pub(crate) fn record(&self) -> Record {
        let vote = self.reign.as_ref().and_then(|reign| reign.tenure().vote);
        Record { incarnation: self.incarnation, ceiling: self.ceiling, followed: self.followed, vote }
    }

    fn message(
        &mut self,
        ctx: &Ctx<'_>,
        from: NodeId,
        message: Envelope<E::Link, E::Message>,
        out: &mut impl Outbox<Self>,
    ) {
        let Some(at) = ctx.view.position(from) else { return };
        if self.contacts.watched.contains(at) {
            out.set_timer(Timer::Silence(from), self.contacts.patience(at, ctx.settings.timing.suspect_after));
        }
        match message {
            Envelope::Beat(beat) => self.beat(ctx, at, beat, out),
            Envelope::Round { round, view, link, hops, message } => {
                if self.admit(ctx, at, round, view, out) {
                    self.deliver(ctx, at, link, hops, message, out);
                }
            }
            Envelope::Join { round, view } => self.join(ctx, at, round, view, out),
            Envelope::Reign(message) => self.govern(ctx, Input::Message { from, message }, out),
            Envelope::Plain { link, hops, message } => {
                if self.stands(ctx) && self.contacts.get(at).stands && !self.passed_over.contains(at) {
                    self.deliver(ctx, at, link, hops, message, out);
                }
            }
        }
    }

    fn timer(&mut self, ctx: &Ctx<'_>, timer: Timer<E::Timer>, out: &mut impl Outbox<Self>) {
        match timer {
            Timer::Beat => {
                self.beating = false;
                self.beat_watched(ctx, out);
            }
            Timer::Silence(peer) => {
                let Some(at) = ctx.view.position(peer).filter(|&at| self.contacts.watched.contains(at)) else { return };
                let was_up = self.contacts.is_up(at);
                self.govern(ctx, Input::PeerDown(peer), out);
                self.contacts.suspect(at);
                if was_up {
                    out.announce(Event::Suspects(peer));
                }
                self.lost(ctx, at, out);
            }
            Timer::Watchdog => {
                self.watchdog = false;
                self.backoff = (self.backoff + 1).min(4);
                self.pass_over(ctx, out);
                self.settled = true;
                if self.leader.is_none() {
                    self.open(ctx, out);
                }
            }
            Timer::Grace => {
                self.grace = false;
                let unsettled = self.reign.is_some() && ctx.settings.may_lead(ctx.me.id) && !self.stands(ctx);
                if unsettled {
                    out.set_timer(Timer::Grace, Span::exactly(ctx.settings.timing.answer_timeout));
                } else if !self.started {
                    self.first_election(ctx, out);
                }
            }
            Timer::Preempt => {
                self.preempting = false;
                if self.wants_to_preempt(ctx) && self.reign.is_some() {
                    self.order(ctx, Order::Claim, out);
                } else if self.wants_to_preempt(ctx) {
                    self.open(ctx, out);
                }
            }
            Timer::Abstain => self.abstains = false,
            Timer::Handover => self.give_way(ctx, Order::StepDown, out),
            Timer::Forgive => self.forgive(ctx, out),
            Timer::Reign(clock) => self.govern(ctx, Input::Timer(clock), out),
            Timer::Inner(inner) => {
                self.inner_timers.remove(&inner);
                self.drive(ctx, Input::Timer(inner), 0, out);
            }
        }
    }

    fn peer_up(&mut self, ctx: &Ctx<'_>, peer: NodeId, out: &mut impl Outbox<Self>) {
        let Some(at) = ctx.view.position(peer) else { return };
        self.contacts.up(at);
        self.backoff = 0;
        self.send_beat(ctx, at, false, out);
        self.govern(ctx, Input::PeerUp(peer), out);
        if E::LIFE == Life::Continuous {
            self.drive(ctx, Input::PeerUp(peer), 0, out);
        }
        if self.stuck == Some(at) {
            self.open(ctx, out);
        }
    }

    /// A connection closed, a peer fell silent, or it could not be dialled.
    fn lost(&mut self, ctx: &Ctx<'_>, at: usize, out: &mut impl Outbox<Self>) {
        let peer = ctx.view.members()[at];
        if E::LIFE == Life::Continuous {
            self.drive(ctx, Input::PeerDown(peer.id), 0, out);
        }
        // Who hears of the leader through a go-between has long lost the leader itself: every failed dial says so again.
        let led = match self.source {
            Some(source) => source == at,
            None => self.leader.is_some_and(|claim| claim.uid == peer),
        };
        if led {
            self.drop_leader(ctx.view);
            self.publish(ctx, Cause::LeaderLost, out);
        }
        let needed = !self.settled && self.set.contains(at);
        let reopens = E::LIFE == Life::PerRound || (led && self.reign.is_some());
        if self.started && reopens && (led || needed || self.stuck == Some(at)) {
            self.open(ctx, out);
        }
    }

    /// The first election begins when everybody has been heard; a ring member hears only its neighbours. If somebody
    /// follows a leader, that leader will be heard of.
    pub(crate) fn start_when_complete(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.started || (self.others_follow && self.leader.is_none()) {
            return;
        }
        let n = ctx.view.len();
        let complete = match ctx.view.topology() {
            // Voters settle at their own pace: who begins before the best one stands would only have to hand over.
            _ if self.reign.is_some() => self.stands(ctx) && self.contacts.all_heard(0..n) && self.all_stand(ctx),
            _ if self.contacts.links_everybody() => self.contacts.all_heard(0..n),
            Topology::Mesh => false,
            Topology::Ring => self.contacts.all_heard([(self.at + 1) % n, (self.at + n - 1) % n].into_iter()),
            Topology::Graph => self.contacts.all_heard(ctx.view.neighbours(self.at).iter().map(|&at| at as usize)),
        };
        if complete {
            self.first_election(ctx, out);
        }
    }

    fn all_stand(&self, ctx: &Ctx<'_>) -> bool {
        let mut others = ctx.view.members().iter().enumerate().filter(|(at, _)| *at != self.at);
        others.all(|(at, uid)| self.contacts.get(at).stands || !ctx.settings.may_lead(uid.id))
    }

    fn first_election(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        self.started = true;
        if self.leader.is_none() {
            self.open(ctx, out);
        }
    }

    fn step_down(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if !self.leads(ctx) {
            return;
        }
        self.abstains = true;
        self.settled = true;
        self.drop_leader(ctx.view);
        self.restart_machine(ctx, out);
        self.publish(ctx, Cause::SteppedDown, out);
        out.set_timer(Timer::Abstain, Span::exactly(ABSTAIN));
    }

    /// Another leads now: the ten seconds of a member that stepped down begin.
    pub(crate) fn abstain_from_now(&self, out: &mut impl Outbox<Self>) {
        if self.abstains {
            out.set_timer(Timer::Abstain, Span::exactly(ABSTAIN));
        }
    }

    /// What was said of a lost leader is not believed again: somebody who has not noticed yet may still repeat it.
    pub(crate) fn drop_leader(&mut self, view: &View) {
        self.source = None;
        if let Some(claim) = self.leader.take().filter(|_| self.reign.is_none()) {
            self.floor = self.floor.max(attempt_after(claim.epoch, view));
        }
    }

    fn role(&self, ctx: &Ctx<'_>) -> Role {
        match self.leader {
            Some(claim) if claim.uid == ctx.me => Role::Leader,
            _ if !ctx.settings.votes(ctx.me.id) => Role::Learner,
            _ if !ctx.settings.may_lead(ctx.me.id) => Role::Witness,
            Some(_) => Role::Follower,
            None => Role::Candidate,
        }
    }

    fn epoch_without_leader(&self) -> Epoch {
        if self.reign.is_some() { self.followed } else { self.floor }
    }

    /// May this member be elected?
    pub(crate) fn stands(&self, ctx: &Ctx<'_>) -> bool {
        let electable = self.reign.as_ref().is_none_or(|reign| reign.electable(ctx));
        electable && !self.abstains && ctx.settings.may_lead(ctx.me.id)
    }

    /// Announces the standing if it changed.
    pub(crate) fn publish(&mut self, ctx: &Ctx<'_>, cause: Cause, out: &mut impl Outbox<Self>) {
        let epoch = self.leader.map_or_else(|| self.epoch_without_leader(), |claim| claim.epoch);
        let now = Standing { role: self.role(ctx), leader: self.leader.map(|claim| claim.uid.id), epoch };
        if now != self.announced {
            self.announced = now;
            out.announce(Event::Became { now, cause });
        }
    }

    /// Feeds the textbook machine and acts on what it announced.
    pub(crate) fn drive(&mut self, ctx: &Ctx<'_>, input: Input<E>, hops: u16, out: &mut impl Outbox<Self>) {
        let Some(at) = self.view.position(ctx.me.id) else { return };
        let mut inner = Inner {
            out: &mut *out,
            full: ctx.view,
            view: &self.view,
            at,
            round: self.round.map(|round| (round, self.set)),
            hops,
            contacts: &self.contacts,
            timers: &mut self.inner_timers,
            outcome: None,
            unreachable: None,
            sent: &mut self.algorithm_messages,
        };
        self.machine.step(&Ctx { view: &self.view, ..*ctx }, input, &mut inner);
        let (outcome, unreachable) = (inner.outcome, inner.unreachable);
        if let Some(outcome) = outcome {
            self.outcome(ctx, outcome, out);
        }
        // A mesh algorithm waits for answers anyway; on a ring nothing gets past a hole.
        if ctx.view.topology() != Topology::Mesh && !self.settled && unreachable.is_some() {
            self.stuck = unreachable;
        }
    }

    /// A fresh machine; the old one's timers go with it.
    pub(crate) fn restart_machine(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        self.cancel_inner_timers(out);
        self.machine = E::start(&Ctx { view: &self.view, ..*ctx }, None, &mut Silent);
    }

    pub(crate) fn cancel_inner_timers(&mut self, out: &mut impl Outbox<Self>) {
        for timer in std::mem::take(&mut self.inner_timers) {
            out.cancel_timer(Timer::Inner(timer));
        }
    }

    pub(crate) fn beat_now(&self, ctx: &Ctx<'_>, ask: bool) -> Beat {
        let floor = if self.reign.is_some() { attempt_of(self.highest, ctx.view) } else { self.floor };
        let source = self.source.map(|at| ctx.view.members()[at]);
        let firsthand = self.leader.is_some_and(|claim| source == Some(claim.uid));
        Beat { floor, leader: self.leader, firsthand, stands: self.stands(ctx), ask, life: self.incarnation.counter }
    }

    pub(crate) fn life(&self) -> u64 {
        self.incarnation.counter
    }
}

/// Machines have no effects at their start: there is nobody to tell yet.
struct Silent;

impl<E: Election> Outbox<E> for Silent {
    fn send(&mut self, _: E::Link, _: E::Message) {}
    fn forward(&mut self, _: E::Link, _: E::Message) {}
    fn set_timer(&mut self, _: E::Timer, _: Span) {}
    fn cancel_timer(&mut self, _: E::Timer) {}
    fn persist(&mut self, _: E::Durable) {}
    fn store(&mut self, _: E::Durable) {}
    fn announce(&mut self, _: Outcome) {}
}
