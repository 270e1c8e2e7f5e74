//! The end of every step: timers are set and cancelled to match the state.

use std::time::Duration;

use algorithms::{Election, Outbox, Span};

use super::Member;
use crate::authority::Authority;
use crate::candidacy::Rest;
use crate::messages::{Claim, Context, Timer};
use crate::positions::FullPos;
use crate::setbacks;

/// Doublings of the watchdog's patience.
const BACKOFF_MAX: u32 = 4;

/// Which of the lasting timers are set.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one for each timer, independent of each other")]
pub(super) struct ArmedTimers {
    beat: bool,
    watchdog: bool,
    /// With how many setbacks this member waits to take over, and behind how many better members.
    preempt: Option<(u8, u32)>,
    pardon: bool,
    leap: bool,
    resume: bool,
    /// Rounds in a row that the watchdog ended.
    backoff: u32,
}

impl ArmedTimers {
    pub(super) fn beat_fired(&mut self) {
        self.beat = false;
    }

    pub(super) fn watchdog_fired(&mut self) {
        self.watchdog = false;
        self.backoff = (self.backoff + 1).min(BACKOFF_MAX);
    }

    pub(super) fn preempt_fired(&mut self) {
        self.preempt = None;
    }

    pub(super) fn pardon_fired(&mut self) {
        self.pardon = false;
    }

    pub(super) fn leap_fired(&mut self) {
        self.leap = false;
    }

    pub(super) fn resume_set(&mut self, set: bool) {
        self.resume = set;
    }

    pub(super) fn forget_backoff(&mut self) {
        self.backoff = 0;
    }
}

impl<E: Election, A: Authority> Member<E, A> {
    pub(super) fn sync_timers(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        self.tell_whether_it_stands(ctx, out);
        self.watch(ctx, out);
        if !self.round.is_continuous() && self.round.is_decided() && self.authority.leader().is_some() {
            // The result may have come by a heartbeat: the machine must stop waiting and asking for it.
            self.cancel_algorithm_timers(out);
        }
        let beats = self.authority.sends_heartbeats(ctx);
        if std::mem::replace(&mut self.armed.beat, beats) != beats {
            let heartbeat = Span::exactly(ctx.settings.timing.heartbeat);
            arm(Timer::Beat, beats.then_some(heartbeat), out);
        }
        let undecided = self.authority.leader().is_none() || !self.round.is_decided();
        let watchdog = self.candidacy.has_started() && self.candidacy.told_stands() && undecided;
        if std::mem::replace(&mut self.armed.watchdog, watchdog) != watchdog {
            if !watchdog {
                self.armed.backoff = 0;
            }
            let patience = Span::jittered(Self::watchdog_base(ctx) * (1 << self.armed.backoff));
            arm(Timer::Watchdog, watchdog.then_some(patience), out);
        }
        if self.authority.belief().has_leapt() && !std::mem::replace(&mut self.armed.leap, true) {
            out.set_timer(Timer::Leap, Span::exactly(ctx.settings.timing.lease));
        }
        self.sync_preemption(ctx, out);
    }

    fn sync_preemption(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let preempt = self.wants_to_preempt(ctx).then(|| (self.setbacks.of(self.at), self.better_standing(ctx)));
        if std::mem::replace(&mut self.armed.preempt, preempt) != preempt {
            // The best member comes first: two changes of leader, one after the other, would be one too many.
            let patience = |(setbacks, better)| setbacks::patience(setbacks, ctx.settings).saturating_mul(1 + better);
            let after = preempt.map(|wait| Span::jittered(patience(wait)));
            arm(Timer::Preempt, after, out);
        }
        let pardon = self.setbacks.any();
        if std::mem::replace(&mut self.armed.pardon, pardon) != pardon {
            arm(Timer::Pardon, pardon.then_some(Span::exactly(setbacks::MEMORY)), out);
        }
    }

    /// Tells the other members when this member begins or ceases to stand.
    fn tell_whether_it_stands(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let last_resort = self.candidacy.rest() == Some(Rest::Ordered) && !self.rests(ctx);
        self.candidacy.set_last_resort(last_resort);
        let stands = self.stands(ctx);
        if !self.candidacy.tell_stands(stands) {
            return;
        }
        if self.round.features().votes {
            self.tell_algorithm(ctx, self.at, stands, out);
        }
        self.tell_all(ctx, out);
        self.start_when_complete(ctx, out);
        let leaderless = self.authority.leader().is_none();
        if stands && self.candidacy.has_started() && leaderless && A::ELECTION_PROPOSES && !self.armed.resume {
            self.open(ctx, out);
        }
    }

    pub(super) fn wants_to_preempt(&self, ctx: &Context<'_>) -> bool {
        // The leader's priority may have risen since it was elected: it would be elected again.
        let best = |claim: Claim| ctx.wins().best(self.priorities.said(claim.uid.id).into_iter().chain([claim.uid]));
        let better = self.authority.leader().and_then(best).is_some_and(|leader| ctx.beats(ctx.me, leader));
        let keeps = self.authority.leader().is_some_and(|leader| self.maintenance.keeps(leader.uid.id));
        self.preempts(ctx) && !keeps && self.candidacy.told_stands() && better && self.round.is_decided()
    }

    /// The connected members that stand and are better than this member.
    fn better_standing(&self, ctx: &Context<'_>) -> u32 {
        let stands = |&at: &FullPos| self.detector.stands(at) && ctx.settings.may_lead(at.id(ctx.view));
        let better = |at: &FullPos| ctx.beats(at.uid(ctx.view), ctx.me);
        self.detector.connected().filter(stands).filter(better).count() as u32
    }

    /// Does a better member take over from a healthy leader?
    pub(super) fn preempts(&self, ctx: &Context<'_>) -> bool {
        ctx.settings.preempt && !self.round.features().chance_decides
    }

    fn watch(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let source = self.authority.source().and_then(|id| FullPos::of(ctx.view, id));
        let wanted = self.detector.to_watch(ctx, source, self.candidacy.in_grace(), self.round.stuck());
        let watched = self.detector.watched();
        if wanted == watched {
            return;
        }
        for at in FullPos::all(ctx.view) {
            let silence = Timer::Silence(at.id(ctx.view));
            match (watched.contains(at), wanted.contains(at)) {
                (false, true) => {
                    out.set_timer(silence, self.detector.patience(at, ctx.settings.timing.suspect_after));
                }
                (true, false) => out.cancel_timer(silence),
                _ => {}
            }
        }
        self.detector.watch(wanted);
    }

    /// Longer than any election takes without failures.
    fn watchdog_base(ctx: &Context<'_>) -> Duration {
        let (timing, election) = (&ctx.settings.timing, &ctx.settings.election);
        // A search of a graph may go over one link after the other.
        let hops = Duration::from_millis(5) * ctx.view.len().max(ctx.view.links()) as u32;
        let election = election.answer_timeout + election.coordinator_timeout;
        election + timing.suspect_after + hops + A::patience(ctx.settings)
    }
}

/// Sets the timer, or cancels it.
fn arm<E: Election, A: Authority>(
    timer: Timer<E::Timer, A::Timer>,
    after: Option<Span>,
    out: &mut impl Outbox<Member<E, A>>,
) {
    match after {
        Some(after) => out.set_timer(timer, after),
        None => out.cancel_timer(timer),
    }
}
