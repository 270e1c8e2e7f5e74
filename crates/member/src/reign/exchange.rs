//! Asking, bidding and winning; promises that end: what the voter and the candidate of one reign exchange, and what
//! reigns exchange.

use std::sync::Arc;

use algorithms::{Epoch, NodeId, Outbox, Span};
use types::MemberList;

use super::candidate::{Assent, Bid, Candidate};
use super::leader::Leader;
use super::{Holder, LockPast, LossCause, Msg, Reign, ReignEvent, ReignTimer, Released, is_majority, tell};
use crate::messages::{Context, LeaseTimer};
use crate::positions::FullPos;
use crate::settings::Bootstrap;

/// What a bid says besides its list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offered {
    pub(super) epoch: Epoch,
    pub(super) request: u64,
    pub(super) holder: Holder,
    pub(super) after: Option<Released>,
    pub(super) no_child: bool,
}

impl Reign {
    pub(super) fn ask(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        if self.leader.is_some() || !self.candidate.is_ready() || !self.electable(ctx) {
            return;
        }
        if self.voter.would_grant(self.me, None) {
            self.probe(ctx, None, out);
        } else {
            // This voter's own promise has to end first.
            Candidate::retry_later(ctx, out);
        }
    }

    pub(super) fn probe(&mut self, ctx: &Context<'_>, after: Option<Released>, out: &mut impl Outbox<Self>) {
        let list = Arc::clone(self.known_list());
        let request = self.candidate.probe(ctx, after, &list, out);
        if let Some(me) = FullPos::of(ctx.view, ctx.me.id) {
            self.probe_ok(ctx, me, request, out);
        }
    }

    /// Another member asks whether this voter would grant it an epoch.
    pub(super) fn probed(
        &mut self,
        ctx: &Context<'_>,
        from: FullPos,
        (request, holder, after): (u64, Holder, Option<Released>),
        list: &Arc<MemberList>,
        out: &mut impl Outbox<Self>,
    ) {
        let to = from.id(ctx.view);
        if !self.hear(ctx, list, out) {
            return;
        }
        if self.voter.accepts(list, to, ctx.me.id) && self.voter.would_grant(holder, after) {
            out.send(to, Msg::ProbeOk { request });
        } else if self.voter.refuses(list, to, ctx.me.id) {
            self.voter.refuse(from);
            self.deny(to, out);
        }
    }

    pub(super) fn deny(&self, to: NodeId, out: &mut impl Outbox<Self>) {
        out.send(to, Msg::ProbeDenied { epoch: self.voter.epoch(), list: Arc::clone(self.told_list()) });
    }

    /// Another member bids for an epoch, or for another lease.
    pub(super) fn bidden(
        &mut self,
        ctx: &Context<'_>,
        from: FullPos,
        bid: &Offered,
        list: &Arc<MemberList>,
        out: &mut impl Outbox<Self>,
    ) {
        let Offered { epoch, request, holder, after, no_child } = *bid;
        // No leader makes a list in a later epoch than its own.
        if list.stamp.epoch > epoch || !self.hear(ctx, list, out) {
            return;
        }
        if self.voter.accepts(list, holder.id, ctx.me.id) && self.voter.grants(epoch, holder, after) {
            let granted = self.grant(ctx, epoch, holder, list, out);
            self.voter.heard(request, no_child);
            let (incarnation, locks) = (holder.incarnation, self.voter.locks());
            out.send(holder.id, Msg::Ack { epoch, request, incarnation, locks });
            if let Some(granted) = granted {
                out.announce(granted);
            }
            if self.candidate.seen() > epoch {
                // This member follows no leader below the epoch that it has seen: the holder moves past it.
                let (epoch, list) = (self.candidate.seen(), Arc::clone(self.told_list()));
                out.send(holder.id, Msg::ProbeDenied { epoch, list });
            }
        } else if self.voter.refuses(list, holder.id, ctx.me.id) {
            self.voter.climb(ctx, epoch, out);
            self.voter.refuse(from);
            self.refuse(holder.id, request, out);
        }
    }

    pub(super) fn refuse(&self, to: NodeId, request: u64, out: &mut impl Outbox<Self>) {
        out.send(to, Msg::Refuse { epoch: self.voter.epoch(), request, list: Arc::clone(self.told_list()) });
    }

    pub(super) fn probe_ok(&mut self, ctx: &Context<'_>, from: FullPos, request: u64, out: &mut impl Outbox<Self>) {
        match self.candidate.probe_ok(ctx, from, request) {
            None => {}
            Some(Assent::Succeed(leader)) => {
                let write_time = ctx.settings.from_driver.write_time;
                out.send(leader.holder.id, Msg::Ready { epoch: leader.epoch, write_time });
            }
            Some(Assent::Bid) => {
                // This member may have promised itself to another holder since it asked.
                let free = self.leader.is_none() && self.candidate.bid().is_none();
                if free && self.voter.would_grant(self.me, None) {
                    self.open(ctx, self.next_epoch(ctx), None, out);
                }
            }
        }
    }

    /// Above every epoch that this member knows of, as far as one leap goes.
    pub(super) fn next_epoch(&self, ctx: &Context<'_>) -> Epoch {
        let known = self.voter.epoch().max(self.candidate.seen()).max(self.known_list().stamp.epoch);
        if known == Epoch(0) {
            ctx.settings.founding.first_epoch.max(Epoch(1))
        } else {
            known.next().min(self.voter.reach())
        }
    }

    /// Bids for a new epoch.
    pub(super) fn open(
        &mut self,
        ctx: &Context<'_>,
        epoch: Epoch,
        after: Option<Released>,
        out: &mut impl Outbox<Self>,
    ) {
        self.candidate.forget_probe();
        let list = self.list_to_bid_under();
        self.bid_for(ctx, epoch, after, &list, out);
        if let Some(granted) = self.grant(ctx, epoch, self.me, &list, out) {
            out.announce(granted);
        }
        self.candidate.hear_locks(self.voter.locks());
        self.candidate.send_bid(ctx, out);
        // Voters write before they answer, so a bid waits longer than a probe. Half of its lease must remain.
        let answer_timeout = ctx.settings.election.answer_timeout;
        out.set_timer(ReignTimer::Retry, Span::jittered(answer_timeout.max(ctx.settings.timing.lease / 3)));
        self.count(ctx, out);
    }

    /// Another request for an epoch that this member has on its disk already.
    pub(super) fn bid_anew(
        &mut self,
        ctx: &Context<'_>,
        epoch: Epoch,
        after: Option<Released>,
        out: &mut impl Outbox<Self>,
    ) {
        let list = self.list_to_bid_under();
        self.bid_for(ctx, epoch, after, &list, out);
        if let Some(granted) = self.grant(ctx, epoch, self.me, &list, out) {
            out.announce(granted);
        }
        self.candidate.hear_locks(self.voter.locks());
        self.candidate.send_bid(ctx, out);
        self.count(ctx, out);
    }

    /// A leader sends the list of its last bid again. A candidate stands under the newest list that it knows, and under the
    /// stamp that it found.
    fn list_to_bid_under(&self) -> Arc<MemberList> {
        Arc::clone(self.leader.as_ref().map_or(self.known_list(), |leader| &leader.proposal().sent))
    }

    /// The timer that the present lease does not use measures the lease applied for.
    fn bid_for(
        &mut self,
        ctx: &Context<'_>,
        epoch: Epoch,
        after: Option<Released>,
        list: &Arc<MemberList>,
        out: &mut impl Outbox<Self>,
    ) {
        let lease = self.leader.as_ref().map_or(LeaseTimer::A, |leader| leader.lease().other());
        self.candidate.bid_for(ctx, (epoch, after), list, (lease, !self.has_child), out);
        if let Some(leader) = &mut self.leader {
            leader.tells(!self.has_child);
        }
    }

    fn grant(
        &mut self,
        ctx: &Context<'_>,
        epoch: Epoch,
        holder: Holder,
        list: &Arc<MemberList>,
        out: &mut impl Outbox<Self>,
    ) -> Option<ReignEvent> {
        if holder != self.me {
            self.fail_bid(out);
            self.lose(LossCause::Superseded, out);
            self.candidate.give_way();
        }
        self.voter.grant(ctx, (epoch, holder), list, out)
    }

    /// The bid was not granted in time.
    pub(super) fn fail_bid(&mut self, out: &mut impl Outbox<Self>) {
        if self.leader.is_none() && self.candidate.succeeds() {
            out.announce(ReignEvent::SuccessionFailed);
        }
        if self.leader.is_none() && self.candidate.bid().is_some() {
            out.cancel_timer(ReignTimer::Renew);
        }
        self.candidate.forget_bid(out);
    }

    pub(super) fn ack(
        &mut self,
        ctx: &Context<'_>,
        from: FullPos,
        (epoch, request, locks): (Epoch, u64, LockPast),
        out: &mut impl Outbox<Self>,
    ) {
        if self.candidate.ack(ctx, from, epoch, request) {
            self.candidate.hear_locks(locks);
            self.count(ctx, out);
        } else if let Some(leader) = &mut self.leader
            && leader.ack(ctx, from, epoch, request)
            && self.candidate.bid().is_none()
        {
            let (list, supporters) = (Arc::clone(leader.lease_list()), *leader.supporters());
            self.put_in_force(ctx, &list, &supporters, out);
        }
    }

    /// Answers of voters of the bid's own list may put it in force. A lease needs a majority of the list in force: lists
    /// that are one voter apart always have a voter in common.
    fn count(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let Some(bid) = self.candidate.bid() else { return };
        let bid = bid.clone();
        self.put_in_force(ctx, &bid.list, &bid.acks, out);
        let force = self.leader.as_ref().map_or(&bid.list, |leader| &leader.proposal().force);
        if is_majority(ctx, force, &bid.acks) {
            self.accede(ctx, &bid, out);
        }
    }

    /// A majority has granted the bid. If that took long, the lease that it won is partly over: the next one is applied
    /// for at once.
    fn accede(&mut self, ctx: &Context<'_>, bid: &Bid, out: &mut impl Outbox<Self>) {
        let before = self.leader.take();
        if let Some(before) = &before {
            assert!(before.lease() != bid.lease, "E3: the lease in hand and the lease applied for have a timer each");
            out.cancel_timer(ReignTimer::Lease(before.lease()));
        }
        let led = before.is_some();
        let extended = before.as_ref().is_some_and(|before| before.epoch() == bid.epoch);
        self.leader = Some(Leader::new(bid, before.as_ref()));
        self.candidate.succeed();
        self.has_led = !ctx.settings.timing.lock_ttl_max.is_zero();
        let Bid { epoch, lease: until, no_child, late, locks, .. } = *bid;
        let supported =
            self.leader.as_ref().is_some_and(|leader| is_majority(ctx, &leader.proposal().force, &bid.acks));
        assert!(supported, "E5: a leader has the grants of a majority");
        out.announce(if extended {
            ReignEvent::Extended { until, no_child }
        } else {
            ReignEvent::Leading { epoch, until, no_child, locks }
        });
        out.cancel_timer(ReignTimer::Retry);
        if !led {
            self.in_force(ctx, out);
        }
        if !extended {
            self.stay_ahead(ctx, out);
        }
        if late {
            self.renew(ctx, out);
        }
    }

    pub(super) fn refused(
        &mut self,
        ctx: &Context<'_>,
        from: FullPos,
        (epoch, request): (Epoch, u64),
        list: &Arc<MemberList>,
        out: &mut impl Outbox<Self>,
    ) {
        if !self.hear(ctx, list, out) {
            return;
        }
        // A voter far ahead of this member is reached in leaps, one in the time of a lease.
        let far = !self.voter.is_near(epoch) && epoch < Epoch::MAX && !self.voter.has_leapt();
        let epoch = if far { Epoch(self.voter.reach().0 - 1) } else { epoch };
        self.saw(epoch);
        let near = self.voter.is_near(epoch);
        if let Some(leader) = self.leader.as_mut().filter(|leader| near && epoch >= leader.epoch()) {
            leader.outvote();
        }
        if self.candidate.refused(ctx, from, request) && self.leader.is_none() {
            self.abandon(ctx, out);
        }
    }

    /// A newer list was heard of: what was asked under an older one is void.
    pub(super) fn start_over(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        self.candidate.forget_probe();
        if self.candidate.bid().is_some() {
            self.abandon(ctx, out);
        } else {
            self.ask(ctx, out);
        }
    }

    /// Frees the voters that granted the bid, so that two candidates do not block each other for a lease. It asks again
    /// a little later, so that the two do not retry at the same moments.
    fn abandon(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        self.fail_bid(out);
        self.candidate.rest();
        if self.has_led || ctx.settings.timing.lock_ttl_max.is_zero() {
            self.let_all_go(ctx, out);
        } else {
            let released = Released { holder: self.me, epoch: self.voter.epoch() };
            tell(ctx, self.told_list(), &Msg::Abandon(released), out);
            self.abandoned(ctx, released, out);
        }
        Candidate::retry_later(ctx, out);
    }

    pub(super) fn retry(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        if self.voter.is_blank() {
            if !self.voter.is_settling() {
                self.survey(ctx, out);
            }
            return;
        }
        self.candidate.retry(self.leader.is_some());
        if self.leader.is_none() && self.candidate.bid().is_some() {
            return self.abandon(ctx, out);
        }
        self.ask(ctx, out);
    }

    /// A voter may answer differently now, or has just been connected.
    pub(super) fn ask_again(&mut self, ctx: &Context<'_>, peer: NodeId, out: &mut impl Outbox<Self>) {
        if self.voter.is_blank() && !self.voter.is_settling() {
            return out.send(peer, Msg::Survey { incarnation: self.me.incarnation });
        }
        if !self.candidate.ask_again(peer, self.leader.is_some(), out) {
            self.ask(ctx, out);
        }
    }
}

/// Promises that end.
impl Reign {
    /// Members that were refused may ask again, this one among them.
    pub(super) fn free(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        self.voter.free(ctx, out);
        self.ask_again(ctx, ctx.me.id, out);
    }

    pub(super) fn release(&mut self, ctx: &Context<'_>, released: Released, out: &mut impl Outbox<Self>) {
        if self.voter.release(released, out) {
            self.free(ctx, out);
        }
    }

    /// A process that has never led has given its bid up.
    pub(super) fn abandoned(&mut self, ctx: &Context<'_>, released: Released, out: &mut impl Outbox<Self>) {
        if self.voter.release(released, out) {
            self.voter.abandoned();
            self.free(ctx, out);
        }
    }

    pub(super) fn let_all_go(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        assert!(self.leader.is_none(), "E3: no voter is released while this member leads");
        let released = Released { holder: self.me, epoch: self.voter.epoch() };
        tell(ctx, self.told_list(), &Msg::Release(released), out);
        self.release(ctx, released, out);
    }

    pub(super) fn settled(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        self.voter.settle(out);
        if self.voter.is_blank() {
            self.survey(ctx, out);
        } else {
            self.free(ctx, out);
        }
    }

    fn survey(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        tell(ctx, self.known_list(), &Msg::Survey { incarnation: self.me.incarnation }, out);
        Candidate::retry_later(ctx, out);
        self.learn(ctx, out);
    }

    pub(super) fn learn(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let known = Arc::clone(self.known_list());
        let may_begin = ctx.settings.founding.bootstrap == Bootstrap::Auto || self.lists.is_told_to_begin();
        if self.voter.learn(ctx, &known, may_begin, out) {
            self.report_to_all(ctx, out);
            self.free(ctx, out);
        }
    }
}
