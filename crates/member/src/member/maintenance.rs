//! Orders of an operator that last for a while: pauses, held leaders, members that do not stand.

use std::time::Duration;

use algorithms::{Election, NodeId, Outbox, Span};

use super::Member;
use crate::authority::{Authority, AuthorityCommand};
use crate::candidacy::Rest;
use crate::maintenance::Mode;
use crate::messages::{Beat, Claim, Context, Event, Timer};
use crate::positions::FullPos;
use crate::settings::Settings;
use types::Role;

impl<E: Election, A: Authority> Member<E, A> {
    /// Hands over; whether the successor is held is told to all members before that.
    pub(super) fn transfer(&mut self, ctx: &Context<'_>, to: NodeId, hold: bool, out: &mut impl Outbox<Self>) {
        if !self.leads(ctx) {
            return;
        }
        let held = hold.then_some(to);
        if self.maintenance.hold() != held {
            self.maintenance.set_hold(held);
            self.tell_all(ctx, out);
        }
        if to == ctx.me.id {
            return;
        }
        if hold {
            out.set_timer(Timer::Hold, Span::exactly(Self::handover_patience(ctx)));
        }
        self.consult(ctx, AuthorityCommand::Transfer(to), out);
    }

    /// Longer than a leader waits for a successor and for its children.
    fn handover_patience(ctx: &Context<'_>) -> Duration {
        let Settings { timing, election, .. } = ctx.settings;
        4 * timing.lease + ctx.settings.children_patience() + 2 * election.answer_timeout
    }

    /// The chosen successor has not come to lead: it is not held if it comes to lead later.
    pub(super) fn forget_successor(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        if self.leads(ctx) && self.maintenance.hold().is_some_and(|held| held != ctx.me.id) {
            self.maintenance.set_hold(None);
            self.tell_all(ctx, out);
        }
    }

    /// Another leader, or none: a hold was for the last one. A successor that was to be held is. A member that comes to lead is
    /// the one that stands during a pause.
    pub(super) fn note_hold(&mut self, ctx: &Context<'_>, leader: Option<Claim>, out: &mut impl Outbox<Self>) {
        let (me, led) = (ctx.me.id, self.announced.role == Role::Leader);
        match leader {
            Some(claim) if claim.is_by(ctx.me) && !led => {
                self.maintenance.set_hold(self.maintenance.hold().filter(|&held| held == me));
                self.maintenance.end_rivalry();
                if self.candidacy.rest().is_some() {
                    out.cancel_timer(Timer::Abstain);
                    self.end_rest(out);
                }
            }
            Some(claim) if !claim.is_by(ctx.me) && self.announced.leader != Some(claim.uid.id) => {
                self.maintenance.set_hold(None);
            }
            None if led => self.maintenance.set_hold(None),
            _ => {}
        }
    }

    pub(super) fn end_rest(&mut self, out: &mut impl Outbox<Self>) {
        if self.candidacy.stand_again() == Some(Rest::Ordered) {
            out.announce(Event::Rests(None));
        }
    }

    /// A heartbeat tells the newest order of a pause, and a leader's tells whether it is held. That of the member that a pause
    /// keeps tells whether it leads.
    pub(super) fn hear_orders(&mut self, ctx: &Context<'_>, from: FullPos, beat: Beat, out: &mut impl Outbox<Self>) {
        if self.authority.leader().is_some_and(|claim| claim.uid.id == from.id(ctx.view)) {
            self.maintenance.set_hold(beat.hold);
        }
        if let Some(mode) = beat.mode.filter(|&mode| self.maintenance.hear(mode)) {
            self.new_mode(ctx, mode, out);
        }
        let kept = self.maintenance.mode().and_then(|mode| mode.keeps);
        if kept == Some(from.id(ctx.view)) && beat.news.leader.is_some_and(|claim| claim.is_by(ctx.me)) {
            self.maintenance.end_rivalry();
        }
    }

    pub(super) fn order_pause(&mut self, ctx: &Context<'_>, paused: bool, out: &mut impl Outbox<Self>) {
        let keeps = self.authority.leader().map(|claim| claim.uid.id);
        if let Some(mode) = self.maintenance.order(ctx.me.id, paused, keeps) {
            self.new_mode(ctx, mode, out);
        }
    }

    /// Every member passes a new order on once, so it reaches all that are connected, whatever the topology.
    fn new_mode(&mut self, ctx: &Context<'_>, mode: Mode, out: &mut impl Outbox<Self>) {
        out.store(self.record());
        out.announce(Event::Mode(mode));
        self.tell_all(ctx, out);
        self.armed.resume_set(!mode.paused);
        if mode.paused {
            out.cancel_timer(Timer::Resume);
        } else {
            // An election among those that have heard of the end of the pause would leave the others out.
            out.set_timer(Timer::Resume, Span::exactly(ctx.settings.election.answer_timeout));
        }
    }

    /// The other members have heard of the end of the pause too.
    pub(super) fn resumed(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        self.armed.resume_set(false);
        if self.candidacy.has_started() && self.authority.leader().is_none() {
            self.open(ctx, out);
        }
    }

    /// The end of a step: a leader of a paused cluster is the member that stands, and the authority knows whether a better
    /// member may take over.
    pub(super) fn keep_leader(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let (me, leads) = (ctx.me.id, self.leads(ctx));
        if leads && self.maintenance.lacks(me) {
            self.order_pause(ctx, true, out);
        }
        let keep = leads && self.maintenance.keeps(me);
        if self.maintenance.tell_keep(keep) {
            self.consult(ctx, AuthorityCommand::Keep(keep), out);
        }
    }
}
