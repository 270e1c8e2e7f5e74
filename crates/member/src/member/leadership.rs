//! Consulting the authority, carrying out its events, and giving leadership away.

use std::time::Duration;

use algorithms::drive::Effect;
use algorithms::{Election, Input, NodeId, Outbox, Span};

use super::Member;
use crate::authority::{Authority, AuthorityCommand, AuthorityEvent};
use crate::candidacy::{ABSTAIN, Rest};
use crate::messages::{Claim, Context, Envelope, Event, Timer};
use crate::positions::FullPos;
use crate::setbacks::MEMORY;
use types::{Cause, Role, Standing};

impl<E: Election, A: Authority> Member<E, A> {
    pub(super) fn consult(&mut self, ctx: &Context<'_>, command: AuthorityCommand, out: &mut impl Outbox<Self>) {
        self.step_authority(ctx, Input::Command(command), out);
    }

    pub(super) fn step_authority(&mut self, ctx: &Context<'_>, input: Input<A>, out: &mut impl Outbox<Self>) {
        let led = self.leads(ctx);
        self.authority.step(ctx, input, &mut self.decrees);
        self.carry_out_authority(ctx, out);
        if led && !self.leads(ctx) {
            out.cancel_timer(Timer::Handover);
        }
    }

    /// Announcements of the authority are made in the order of its effects. Its requests to the election and to
    /// heartbeats are carried out after them.
    pub(super) fn carry_out_authority(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let mut wishes = Vec::new();
        while let Some(effect) = self.decrees.pop() {
            match effect {
                Effect::Send { to, message, .. } => out.send(to, Envelope::Authority(message)),
                Effect::SetTimer(timer, after) => out.set_timer(Timer::Authority(timer), after),
                Effect::CancelTimer(timer) => out.cancel_timer(Timer::Authority(timer)),
                Effect::Persist(authority) => out.persist(self.record_of(authority)),
                Effect::Store(authority) => out.store(self.record_of(authority)),
                Effect::Announce(event) => {
                    wishes.extend(self.announce(ctx, event, out));
                }
            }
        }
        for wish in wishes {
            self.grant_wish(ctx, &wish, out);
        }
    }

    /// Returns the event if it is a request.
    fn announce(
        &mut self,
        ctx: &Context<'_>,
        event: AuthorityEvent,
        out: &mut impl Outbox<Self>,
    ) -> Option<AuthorityEvent> {
        match event {
            AuthorityEvent::Follows { leader, cause } => self.follows(ctx, leader, cause, out),
            AuthorityEvent::Lease { until, no_child } => out.announce(Event::Lease { until, no_child }),
            AuthorityEvent::Reigns { epoch, locks } => {
                let (first, longest_ttl) = (locks.only_holder, locks.longest_ttl);
                if !ctx.settings.timing.lock_ttl_max.is_zero() {
                    out.announce(Event::Reigns { epoch, first, longest_ttl });
                }
            }
            AuthorityEvent::Granted { epoch, holder, list } => out.announce(Event::Granted { epoch, holder, list }),
            AuthorityEvent::List(event) => out.announce(Event::List(event)),
            AuthorityEvent::Named(id) => out.announce(Event::Named(id)),
            AuthorityEvent::PromiseEnded { epoch, holder } => out.announce(Event::PromiseEnded { epoch, holder }),
            AuthorityEvent::StopChildren => {
                if self.children.stop() {
                    out.announce(Event::StopChildren);
                    out.set_timer(Timer::ChildrenStop, Span::exactly(ctx.settings.children_patience()));
                }
            }
            AuthorityEvent::SuccessionFailed if self.preempts(ctx) => self.setbacks.fail(self.at),
            AuthorityEvent::SuccessionFailed => {}
            AuthorityEvent::Decided(attempt) => {
                if self.round.round().is_none_or(|round| round.attempt <= attempt) {
                    self.round.decide();
                }
            }
            AuthorityEvent::Forget(peer) => {
                if let Some(at) = FullPos::of(ctx.view, peer) {
                    self.detector.forget(at);
                }
            }
            wish => return Some(wish),
        }
        None
    }

    fn grant_wish(&mut self, ctx: &Context<'_>, wish: &AuthorityEvent, out: &mut impl Outbox<Self>) {
        match *wish {
            AuthorityEvent::OpenElection => self.open(ctx, out),
            AuthorityEvent::HandOver(to) => {
                self.round.hand_over(ctx, to);
                self.carry_out_algorithm(ctx, out);
            }
            AuthorityEvent::ResetElection => {
                self.cancel_algorithm_timers(out);
                self.round.restart(ctx);
                self.carry_out_algorithm(ctx, out);
            }
            AuthorityEvent::Outdated(attempt) => {
                let below = self.round.round().is_some_and(|round| round.attempt < attempt);
                if self.candidacy.has_started() && !self.round.is_decided() && below {
                    self.open(ctx, out);
                }
            }
            AuthorityEvent::TellAll => self.tell_all(ctx, out),
            AuthorityEvent::Tell(peer) => self.tell(ctx, peer, out),
            AuthorityEvent::PassOn { except } => self.pass_on(ctx, except, out),
            _ => {}
        }
    }

    /// Announces the standing if it changed.
    fn follows(&mut self, ctx: &Context<'_>, leader: Option<Claim>, cause: Cause, out: &mut impl Outbox<Self>) {
        if leader.is_some() {
            self.round.set_winner(None);
            self.candidacy.take_passed_over();
        }
        let leads = leader.is_some_and(|claim| claim.is_by(ctx.me));
        self.note_reign(ctx, leader, cause, out);
        self.note_hold(ctx, leader, out);
        if leads {
            self.round.decide();
        } else if self.candidacy.rest() == Some(Rest::Brief)
            && (leader.is_some() || self.announced.role == Role::Leader)
        {
            // Another member leads now, or this member has just stopped leading: the time in which it does not stand
            // begins.
            out.set_timer(Timer::Abstain, Span::exactly(ABSTAIN));
        }
        let epoch = leader.map_or_else(|| self.authority.epoch(), |claim| claim.epoch);
        let now = Standing { role: self.role(ctx), leader: leader.map(|claim| claim.uid.id), epoch };
        if now != self.announced {
            self.announced = now;
            out.announce(Event::Became { now, cause });
        }
    }

    /// A leader that is replaced by a better member, or gives its leadership away, has not failed.
    fn note_reign(&mut self, ctx: &Context<'_>, leader: Option<Claim>, cause: Cause, out: &mut impl Outbox<Self>) {
        let (led, leads) = (self.announced.role == Role::Leader, leader.is_some_and(|claim| claim.is_by(ctx.me)));
        if !led && leads && self.preempts(ctx) {
            self.setbacks.reign_begins();
            out.set_timer(Timer::Tenure, Span::exactly(MEMORY));
        }
        if led && !leads && self.setbacks.is_new_reign() {
            out.cancel_timer(Timer::Tenure);
            let given_away = matches!(cause, Cause::SteppedDown | Cause::HandedOver);
            if given_away || leader.is_some_and(|claim| ctx.beats(claim.uid, ctx.me)) {
                self.setbacks.forget_reign();
            } else {
                self.setbacks.reign_lost(self.at);
            }
        }
    }

    /// This member is better than the leader and has waited long enough. A member with slow writes would lead after its
    /// lease has ended: it only writes once more, to see whether its disk has recovered.
    pub(super) fn take_over(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        if A::ELECTION_PROPOSES && ctx.settings.is_slow(ctx.settings.from_driver.write_time) {
            self.setbacks.fail(self.at);
            out.store(self.record());
        } else {
            self.consult(ctx, AuthorityCommand::TakeOver, out);
        }
    }

    /// Stops standing for election. The best successor is made ready first; if that takes too long, leadership is given
    /// up without a successor.
    pub(super) fn step_down(&mut self, ctx: &Context<'_>, rest: Option<Duration>, out: &mut impl Outbox<Self>) {
        if self.leads(ctx) {
            self.candidacy.begin_rest(if rest.is_some() { Rest::Ordered } else { Rest::Brief });
            if let Some(rest) = rest {
                out.set_timer(Timer::Abstain, Span::exactly(rest));
                out.announce(Event::Rests(Some(rest)));
            }
            let successor = self.best_successor(ctx).map(|uid| uid.id);
            self.give_way(ctx, successor, out);
        }
    }

    /// A leader that may lead only for its children gives way when the last of them is gone, or if there was none when it
    /// came to lead.
    pub(super) fn give_way_if_idle(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let idle = self.leads(ctx) && self.is_idle(ctx);
        if self.candidacy.give_way(idle) {
            let successor = self.best_successor(ctx).map(|uid| uid.id);
            self.give_way(ctx, successor, out);
        }
    }

    fn give_way(&mut self, ctx: &Context<'_>, successor: Option<NodeId>, out: &mut impl Outbox<Self>) {
        self.consult(ctx, AuthorityCommand::StepDown { successor }, out);
        self.insist_later(ctx, out);
    }

    fn insist_later(&self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        if self.leads(ctx) {
            out.set_timer(Timer::Handover, Span::exactly(2 * ctx.settings.election.answer_timeout));
        }
    }

    /// This member still leads a while after it was told to step down. If its children are stopping, that is the
    /// reason.
    pub(super) fn insist(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        if self.children.are_stopping() {
            self.insist_later(ctx, out);
        } else {
            self.give_way(ctx, None, out);
        }
    }

    pub(super) fn attach(&mut self, ctx: &Context<'_>, attached: bool, out: &mut impl Outbox<Self>) {
        self.children.attach(attached);
        if !attached {
            out.cancel_timer(Timer::ChildrenStop);
        }
        self.consult(ctx, AuthorityCommand::Attached(attached), out);
    }

    /// The children did not stop in time. Their guards stop them when the lease ends.
    pub(super) fn give_children_up(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        if self.children.are_stopping() {
            out.announce(Event::ChildrenGivenUp);
            self.attach(ctx, false, out);
        }
    }
}
