//! What every step ends with: the standing timers are brought in line with the state.

use std::time::Duration;

use algorithms::{Ctx, Election, Life, Outbox, Span, Topology};

use crate::member::Member;
use crate::types::Timer;

impl<E: Election> Member<E> {
    pub(crate) fn settle(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        self.stand(ctx, out);
        self.watch(ctx, out);
        if E::LIFE == Life::PerRound && self.settled && self.leader.is_some() {
            // The result may have come by a heartbeat: the machine must not go on waiting, and asking, for it.
            self.cancel_inner_timers(out);
        }
        let beats = self.beats(ctx);
        if beats != self.beating {
            self.beating = beats;
            if beats {
                out.set_timer(Timer::Beat, Span::exactly(ctx.settings.timing.heartbeat));
            } else {
                out.cancel_timer(Timer::Beat);
            }
        }
        let watchdog = self.started && self.stood && (self.leader.is_none() || !self.settled);
        if watchdog != self.watchdog {
            self.watchdog = watchdog;
            if watchdog {
                out.set_timer(Timer::Watchdog, Span::jittered(self.watchdog_base(ctx) * (1 << self.backoff)));
            } else {
                self.backoff = 0;
                out.cancel_timer(Timer::Watchdog);
            }
        }
        let preempt = self.wants_to_preempt(ctx);
        if preempt != self.preempting {
            self.preempting = preempt;
            if preempt {
                out.set_timer(Timer::Preempt, Span::jittered(ctx.settings.preempt_after));
            } else {
                out.cancel_timer(Timer::Preempt);
            }
        }
    }

    /// Tells the others when this member begins or ceases to stand.
    fn stand(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let stands = self.stands(ctx);
        if stands == self.stood {
            return;
        }
        self.stood = stands;
        self.tell_all(ctx, out);
        self.start_when_complete(ctx, out);
        if stands && self.started && self.leader.is_none() && self.reign.is_some() {
            self.open(ctx, out);
        }
    }

    /// The leader beats, so does who depends on a go-between, and neighbours do while they must watch each other.
    fn beats(&self, ctx: &Ctx<'_>) -> bool {
        let mesh = ctx.view.topology() == Topology::Mesh;
        let apart = self.source.is_some_and(|at| self.leader.is_none_or(|claim| claim.uid != ctx.view.members()[at]));
        match self.reign {
            None => !mesh || self.leads(ctx),
            Some(_) => self.leads(ctx) || apart || (!mesh && self.leader.is_none()),
        }
    }

    pub(crate) fn wants_to_preempt(&self, ctx: &Ctx<'_>) -> bool {
        let better = self.leader.is_some_and(|claim| ctx.beats(ctx.me, claim.uid));
        ctx.settings.preempt && !E::ANONYMOUS && self.stood && better && self.settled
    }

    fn watch(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let leader = self.leader.and_then(|claim| ctx.view.position(claim.uid.id));
        let wanted = self.contacts.to_watch(ctx, self.source.or(leader), self.grace, self.stuck);
        if wanted == self.contacts.watched {
            return;
        }
        for at in 0..ctx.view.len() {
            let peer = ctx.view.members()[at].id;
            match (self.contacts.watched.contains(at), wanted.contains(at)) {
                (false, true) => {
                    let patience = self.contacts.patience(at, ctx.settings.timing.suspect_after);
                    out.set_timer(Timer::Silence(peer), patience);
                }
                (true, false) => out.cancel_timer(Timer::Silence(peer)),
                _ => {}
            }
        }
        self.contacts.watched = wanted;
    }

    /// Longer than any election takes without failures; a winner may have to wait for the last lease to end.
    fn watchdog_base(&self, ctx: &Ctx<'_>) -> Duration {
        let timing = &ctx.settings.timing;
        let hops = Duration::from_millis(5) * ctx.view.len() as u32;
        let lease = if self.reign.is_some() { 2 * timing.lease } else { Duration::ZERO };
        timing.answer_timeout + timing.coordinator_timeout + timing.suspect_after + hops + lease
    }
}
