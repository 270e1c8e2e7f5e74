//! The member: a textbook machine, a failure detector and an authority that decides who leads, as one state machine.
//!
//! Each part owns its state; this file and those below `member/` pass the output of each part to the other parts.

mod elections;
mod heartbeats;
mod leadership;
mod maintenance;
mod timers;

use algorithms::drive::Effects;
use algorithms::{Election, Input, NodeId, Outbox, Protocol, Span, Uid, View};

use crate::authority::{Authority, AuthorityCommand, AuthorityEvent};
use crate::candidacy::{Candidacy, Rest};
use crate::children::Children;
use crate::failure_detector::FailureDetector;
use crate::maintenance::{Maintenance, Mode};
use crate::messages::{Command, Context, Envelope, Event, Record, Round, Timer};
use crate::positions::{FullPos, NodeSet};
use crate::priorities::{self, Priorities};
use crate::reign::Holder;
use crate::rounds::RoundState;
use crate::setbacks::Setbacks;
use crate::settings::{Settings, Stand};
use timers::ArmedTimers;
use types::{Cause, Incarnation, Role, Standing};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Member<E: Election, A: Authority> {
    at: FullPos,
    detector: FailureDetector,
    round: RoundState<E>,
    authority: A,
    /// Effects of the authority that are not carried out yet; empty between two steps.
    decrees: Effects<A>,
    candidacy: Candidacy,
    priorities: Priorities,
    setbacks: Setbacks,
    maintenance: Maintenance,
    children: Children,
    armed: ArmedTimers,
    announced: Standing,
}

impl<E: Election, A: Authority> Protocol for Member<E, A> {
    type Link = NodeId;
    type Message = Envelope<E::Link, E::Message, A::Message>;
    type Timer = Timer<E::Timer, A::Timer>;
    type Command = Command;
    type Event = Event;
    type Durable = Record<A::Durable, E::Durable>;
    type Settings = Settings;

    /// The first effect is the record of this incarnation: no message is sent before it is on the disk.
    fn start(ctx: &Context<'_>, stored: Option<Self::Durable>, out: &mut impl Outbox<Self>) -> Self {
        let at = FullPos::of(ctx.view, ctx.me.id).expect("a member is in its own list");
        let (of_authority, of_algorithm, mode) =
            stored.map_or((None, None, None), |r| (Some(r.authority), r.algorithm, r.mode));
        let mut decrees = Effects::default();
        let authority = A::start(ctx, of_authority, &mut decrees);
        let announced = Standing { role: Role::Candidate, leader: None, epoch: authority.epoch() };
        let mut member = Member {
            at,
            detector: FailureDetector::start(at, ctx.view, A::LINKS_ALL),
            round: RoundState::start(ctx, of_algorithm),
            authority,
            decrees,
            candidacy: Candidacy::default(),
            priorities: Priorities::default(),
            setbacks: Setbacks::start(ctx.view),
            maintenance: Maintenance::start(mode),
            children: Children::default(),
            armed: ArmedTimers::default(),
            announced,
        };
        member.carry_out_authority(ctx, out);
        member.consult(ctx, AuthorityCommand::Election(member.round.features()), out);
        member.announced.epoch = member.authority.epoch();
        member.announced.role = member.role(ctx);
        out.announce(Event::Became { now: member.announced, cause: Cause::Started });
        if let Some(mode) = mode {
            out.announce(Event::Mode(mode));
        }
        out.set_timer(Timer::Grace, Span::exactly(ctx.settings.timing.start_grace));
        member.carry_out_algorithm(ctx, out);
        member.start_when_complete(ctx, out);
        member.sync_timers(ctx, out);
        member
    }

    fn step(&mut self, ctx: &Context<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        let changed = self.learn_priority(ctx, &input);
        let view = self.priorities.view();
        let ctx = &priorities::ranked(ctx, view.as_deref());
        if changed {
            self.round.rank(ctx.view);
        }
        match input {
            Input::Message { from, message } => self.message(ctx, from, message, out),
            Input::Timer(timer) => self.timer(ctx, timer, out),
            Input::PeerUp(peer) => self.peer_up(ctx, peer, out),
            Input::PeerDown(peer) => {
                let known = FullPos::of(ctx.view, peer);
                if let Some(at) = known.filter(|&at| !self.candidacy.in_grace() || self.detector.is_up(at)) {
                    self.step_authority(ctx, Input::PeerDown(peer), out);
                    self.detector.down(at);
                    self.lost(ctx, at, out);
                } else if known.is_none() {
                    self.step_authority(ctx, Input::PeerDown(peer), out);
                }
            }
            Input::Command(command) => self.command(ctx, command, out),
            Input::Stored(Record { authority, algorithm, .. }) => {
                self.step_authority(ctx, Input::Stored(authority), out);
                if let Some(record) = algorithm {
                    self.drive(ctx, Input::Stored(record), 0, out);
                }
            }
        }
        self.give_way_if_idle(ctx, out);
        self.keep_leader(ctx, out);
        self.sync_timers(ctx, out);
    }

    fn lasts_until(event: &Event) -> Option<Self::Timer> {
        let &Event::Lease { until, no_child } = event else { return None };
        A::lasts_until(&AuthorityEvent::Lease { until, no_child }).map(Timer::Authority)
    }
}

impl<E: Election, A: Authority> Member<E, A> {
    pub fn incarnation(&self) -> Incarnation {
        self.authority.incarnation()
    }

    /// What this member last announced.
    pub fn standing(&self) -> Standing {
        self.announced
    }

    pub fn authority(&self) -> &A {
        &self.authority
    }

    /// The newest order of a pause, or of its end.
    pub fn mode(&self) -> Option<Mode> {
        self.maintenance.mode()
    }

    /// Does this member lead, held by an order?
    pub fn is_held(&self, ctx: &Context<'_>) -> bool {
        self.leads(ctx) && self.maintenance.hold() == Some(ctx.me.id)
    }

    /// The present round; `None` before the first, and for an algorithm that numbers its own attempts.
    pub fn round(&self) -> Option<Round> {
        self.round.round()
    }

    /// The members that take part in the present round.
    pub fn round_participants(&self) -> NodeSet {
        self.round.participants()
    }

    pub fn machine(&self) -> &E {
        self.round.machine()
    }

    /// The members to keep a connection to; changes as members die and return.
    pub fn links(&self, view: &View) -> NodeSet {
        let mut links = self.detector.links(view);
        // A round may need a member that there is no other reason to dial.
        if let Some(at) = self.round.stuck() {
            links.insert(at);
        }
        links
    }

    /// The best of the other members that stand: the successor if this member steps down.
    pub fn best_successor(&self, ctx: &Context<'_>) -> Option<Uid> {
        let view = self.priorities.view();
        self.best_standing(&priorities::ranked(ctx, view.as_deref()))
    }

    fn best_standing(&self, ctx: &Context<'_>) -> Option<Uid> {
        let standing = self.detector.connected().filter(|&at| self.detector.stands(at));
        let uids = standing.map(|at| at.uid(ctx.view));
        ctx.wins().best(uids.filter(|uid| ctx.settings.may_lead(uid.id)))
    }

    /// The driver replaces the view `old` by `new`, before the next step: every position moves, and members that are gone
    /// are dropped. This member must be in both. Members that are new in the view count as not connected: the driver then
    /// reports those that are connected ([`Input::PeerUp`]).
    pub fn reseat(&mut self, old: &View, new: &View) {
        let me = self.at.id(old);
        self.at = FullPos::of(new, me).expect("a member is in its own view");
        self.detector.reseat(old, new);
        self.round.reseat(old, new);
        self.candidacy.reseat(old, new);
        self.setbacks.reseat(old, new);
        self.priorities.reseat(new);
        if let Some(view) = self.priorities.view() {
            self.round.rank(&view);
        }
        self.authority.reseat(old, new);
    }

    fn leads(&self, ctx: &Context<'_>) -> bool {
        self.authority.leader().is_some_and(|claim| claim.is_by(ctx.me))
    }

    /// May this member be elected? Where the election decides, other members treat a leader that does not stand as one
    /// that leads no more. So a leader that is to step down stands while it leads and its children still run.
    fn stands(&self, ctx: &Context<'_>) -> bool {
        let rests = self.rests(ctx) || self.is_idle(ctx) || self.maintenance.excludes(ctx.me.id);
        let abstains = rests && (A::ELECTION_PROPOSES || !self.leads(ctx));
        self.authority.electable(ctx) && !abstains && ctx.settings.may_lead(ctx.me.id)
    }

    /// Does this member not stand because it stepped down? By an operator's order it rests only while another member leads or
    /// can lead.
    fn rests(&self, ctx: &Context<'_>) -> bool {
        match self.candidacy.rest() {
            None => false,
            Some(Rest::Brief) => true,
            Some(Rest::Ordered) => {
                let other_can_lead = !self.candidacy.is_last_resort() && self.best_standing(ctx).is_some();
                self.authority.leader().is_some() || other_can_lead
            }
        }
    }

    /// May this member lead only for its children, and has it none?
    fn is_idle(&self, ctx: &Context<'_>) -> bool {
        ctx.settings.stand == Stand::Attached && !self.children.are_attached()
    }

    fn role(&self, ctx: &Context<'_>) -> Role {
        match self.authority.leader() {
            Some(claim) if claim.is_by(ctx.me) => Role::Leader,
            _ if !ctx.settings.votes(ctx.me.id) => Role::Learner,
            _ if !ctx.settings.may_lead(ctx.me.id) => Role::Witness,
            Some(_) => Role::Follower,
            None => Role::Candidate,
        }
    }

    fn message(
        &mut self,
        ctx: &Context<'_>,
        from: NodeId,
        message: Envelope<E::Link, E::Message, A::Message>,
        out: &mut impl Outbox<Self>,
    ) {
        let Some(at) = FullPos::of(ctx.view, from) else {
            if let Envelope::Authority(message) = message {
                self.step_authority(ctx, Input::Message { from, message }, out);
            }
            return;
        };
        if self.detector.watches(at) {
            out.set_timer(Timer::Silence(from), self.detector.patience(at, ctx.settings.timing.suspect_after));
        }
        match message {
            Envelope::Beat(beat) => self.beat(ctx, at, beat, out),
            // Participants are positions in a list that this member does not have, or has no more.
            Envelope::Round { list, .. } | Envelope::Join { list, .. } if list != ctx.settings.list.stamp => {}
            Envelope::Round { round, participants, link, hops, message, .. } => {
                if self.admit(ctx, at, round, participants, out) {
                    self.deliver(ctx, at, (link, hops, message), out);
                }
            }
            Envelope::Join { round, participants, .. } => self.join(ctx, at, round, participants, out),
            Envelope::Authority(message) => self.step_authority(ctx, Input::Message { from, message }, out),
            Envelope::Plain { link, hops, message } => {
                let both_stand = self.round.features().votes || (self.stands(ctx) && self.detector.stands(at));
                if both_stand && !self.candidacy.passes_over(at) {
                    self.deliver(ctx, at, (link, hops, message), out);
                }
            }
        }
    }

    /// A heartbeat tells its sender's priority, and the driver tells this member's own. Returns whether one changed.
    fn learn_priority(&mut self, ctx: &Context<'_>, input: &Input<Self>) -> bool {
        match *input {
            _ if self.round.features().plain_ids => false,
            Input::Message { from, message: Envelope::Beat(beat) } if from != ctx.me.id => {
                self.priorities.tell(ctx.view, from, beat.priority)
            }
            Input::Command(Command::Priority(Some(priority))) => self.priorities.tell(ctx.view, ctx.me.id, priority),
            Input::Command(Command::Priority(None)) => self.priorities.forget(ctx.view, ctx.me.id),
            _ => false,
        }
    }

    fn command(&mut self, ctx: &Context<'_>, command: Command, out: &mut impl Outbox<Self>) {
        match command {
            Command::Elect if self.authority.leader().is_some() => {
                self.maintenance.set_hold(None);
                let better = self.best_successor(ctx).filter(|&uid| ctx.beats(uid, ctx.me)).map(|uid| uid.id);
                self.consult(ctx, AuthorityCommand::Reelect { better }, out);
            }
            Command::Elect => self.open(ctx, out),
            Command::StepDown(rest) => self.step_down(ctx, rest, out),
            Command::Transfer { to, hold } => self.transfer(ctx, to, hold, out),
            Command::Pause(paused) => self.order_pause(ctx, paused, out),
            Command::Closed(id, incarnation) => {
                self.consult(ctx, AuthorityCommand::Closed(Holder { id, incarnation }), out);
            }
            Command::Attached(attached) => self.attach(ctx, attached, out),
            Command::Change(change) => self.consult(ctx, AuthorityCommand::Change(change), out),
            Command::Bootstrap => self.consult(ctx, AuthorityCommand::Bootstrap, out),
            Command::Priority(_) => self.tell_all(ctx, out),
        }
    }

    fn timer(&mut self, ctx: &Context<'_>, timer: Timer<E::Timer, A::Timer>, out: &mut impl Outbox<Self>) {
        match timer {
            Timer::Authority(timer) => self.step_authority(ctx, Input::Timer(timer), out),
            Timer::Beat => {
                self.armed.beat_fired();
                self.beat_watched(ctx, out);
            }
            Timer::Silence(peer) => self.silence(ctx, peer, out),
            Timer::Watchdog => {
                self.armed.watchdog_fired();
                self.pass_over(ctx, out);
                self.round.give_up();
                if self.authority.leader().is_none() {
                    self.open(ctx, out);
                }
            }
            Timer::Grace => self.grace_over(ctx, out),
            Timer::Preempt => {
                self.armed.preempt_fired();
                if self.wants_to_preempt(ctx) {
                    self.take_over(ctx, out);
                }
            }
            Timer::Abstain => self.end_rest(out),
            Timer::Resume => self.resumed(ctx, out),
            Timer::Hold => self.forget_successor(ctx, out),
            Timer::Handover => self.insist(ctx, out),
            Timer::ChildrenStop => self.give_children_up(ctx, out),
            Timer::Forgive => self.forgive(ctx, out),
            Timer::Leap => {
                self.armed.leap_fired();
                self.consult(ctx, AuthorityCommand::MayLeap, out);
            }
            Timer::Tenure => self.setbacks.forget_reign(),
            Timer::Pardon => {
                self.armed.pardon_fired();
                self.setbacks.pardon();
            }
            Timer::Algorithm(timer) => {
                self.round.timer_gone(timer);
                self.drive(ctx, Input::Timer(timer), 0, out);
            }
        }
    }

    fn silence(&mut self, ctx: &Context<'_>, peer: NodeId, out: &mut impl Outbox<Self>) {
        let Some(at) = FullPos::of(ctx.view, peer).filter(|&at| self.detector.watches(at)) else { return };
        let was_up = self.detector.is_up(at);
        self.step_authority(ctx, Input::PeerDown(peer), out);
        self.detector.suspect(at);
        if was_up {
            out.announce(Event::Suspects(peer));
        }
        self.lost(ctx, at, out);
    }

    fn peer_up(&mut self, ctx: &Context<'_>, peer: NodeId, out: &mut impl Outbox<Self>) {
        let Some(at) = FullPos::of(ctx.view, peer) else {
            // A member outside the list: the authority tells it the list.
            return self.step_authority(ctx, Input::PeerUp(peer), out);
        };
        self.detector.up(at);
        self.armed.forget_backoff();
        self.send_beat(ctx, at, false, out);
        self.step_authority(ctx, Input::PeerUp(peer), out);
        self.tell_algorithm(ctx, at, true, out);
        if self.round.stuck() == Some(at) {
            self.open(ctx, out);
        }
    }

    /// A connection closed, a peer fell silent, or it could not be dialled.
    fn lost(&mut self, ctx: &Context<'_>, at: FullPos, out: &mut impl Outbox<Self>) {
        self.tell_algorithm(ctx, at, false, out);
        // A member that follows the leader by another member's report lost the leader's connection earlier: every
        // failed dial to the leader comes here again.
        let led = self.authority.source() == Some(at.id(ctx.view));
        if led {
            self.consult(ctx, AuthorityCommand::LeaderGone, out);
        }
        let needed = !self.round.is_decided() && self.round.includes(at);
        let reopens = !self.round.is_continuous() || (led && A::ELECTION_PROPOSES);
        if self.candidacy.has_started() && reopens && (led || needed || self.round.stuck() == Some(at)) {
            self.open(ctx, out);
        }
    }

    /// The record that must be on the disk.
    fn record(&self) -> Record<A::Durable, E::Durable> {
        self.record_of(self.authority.record())
    }

    fn record_of(&self, authority: A::Durable) -> Record<A::Durable, E::Durable> {
        Record { authority, algorithm: self.round.record(), mode: self.maintenance.mode() }
    }
}
