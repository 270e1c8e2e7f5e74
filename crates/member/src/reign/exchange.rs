//! Asking, bidding and winning; promises that end: what the voter and the candidate of one reign exchange, and what
//! reigns exchange.

use algorithms::{Epoch, NodeId, Outbox, Span};

use super::candidate::{Assent, Bid, Candidate};
use super::leader::Leader;
use super::{Holder, LossCause, Msg, Reign, ReignEvent, ReignTimer, Released, is_majority};
use crate::messages::{Context, LeaseTimer};
use crate::positions::FullPos;

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
        let request = self.candidate.probe(ctx, after, out);
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
        out: &mut impl Outbox<Self>,
    ) {
        if !ctx.settings.votes(ctx.me.id) {
            return;
        }
        let to = from.id(ctx.view);
        if self.voter.would_grant(holder, after) {
            out.send(to, Msg::ProbeOk { request });
        } else {
            self.voter.refuse(from);
            out.send(to, Msg::ProbeDenied { epoch: self.voter.epoch() });
        }
    }

    pub(super) fn probe_ok(&mut self, ctx: &Context<'_>, from: FullPos, request: u64, out: &mut impl Outbox<Self>) {
        match self.candidate.probe_ok(ctx, from, request) {
            None => {}
            Some(Assent::Succeed(leader)) => {
                let write_time = ctx.settings.write_time;
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
        let known = self.voter.epoch().max(self.candidate.seen());
        if known == Epoch(0) { ctx.settings.first_epoch.max(Epoch(1)) } else { known.next().min(self.voter.reach()) }
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
        self.bid_for(ctx, epoch, after, out);
        self.grant(ctx, epoch, self.me, out);
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
        self.bid_for(ctx, epoch, after, out);
        self.grant(ctx, epoch, self.me, out);
        self.candidate.send_bid(ctx, out);
        self.count(ctx, out);
    }

    /// The timer that the present lease does not use measures the lease applied for.
    fn bid_for(&mut self, ctx: &Context<'_>, epoch: Epoch, after: Option<Released>, out: &mut impl Outbox<Self>) {
        let lease = self.leader.as_ref().map_or(LeaseTimer::A, |leader| leader.lease().other());
        self.candidate.bid_for(ctx, (epoch, after), lease, !self.has_child, out);
        if let Some(leader) = &mut self.leader {
            leader.tells(!self.has_child);
        }
    }

    pub(super) fn grant(&mut self, ctx: &Context<'_>, epoch: Epoch, holder: Holder, out: &mut impl Outbox<Self>) {
        if holder != self.me {
            self.fail_bid(out);
            self.lose(LossCause::Superseded, out);
            self.candidate.give_way();
        }
        self.voter.grant(ctx, epoch, holder, out);
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
        epoch: Epoch,
        request: u64,
        out: &mut impl Outbox<Self>,
    ) {
        if self.candidate.ack(from, epoch, request) {
            self.count(ctx, out);
        } else if let Some(leader) = &mut self.leader {
            leader.ack(from, epoch, request);
        }
    }

    fn count(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        if let Some(bid) = self.candidate.granted(ctx) {
            self.accede(ctx, bid, out);
        }
    }

    /// A majority has granted the bid. If that took long, the lease that it won is partly over: the next one is applied
    /// for at once.
    fn accede(&mut self, ctx: &Context<'_>, bid: Bid, out: &mut impl Outbox<Self>) {
        assert!(is_majority(ctx, &bid.acks), "E5: a leader has the grants of a majority");
        let before = self.leader.take();
        if let Some(before) = &before {
            assert!(before.lease() != bid.lease, "E3: the lease in hand and the lease applied for have a timer each");
            out.cancel_timer(ReignTimer::Lease(before.lease()));
        }
        let extended = before.as_ref().is_some_and(|before| before.epoch() == bid.epoch);
        self.leader = Some(Leader::new(bid, before.as_ref()));
        self.candidate.succeed();
        let Bid { epoch, lease: until, no_child, late, .. } = bid;
        out.announce(if extended {
            ReignEvent::Extended { until, no_child }
        } else {
            ReignEvent::Leading { epoch, until, no_child }
        });
        out.cancel_timer(ReignTimer::Retry);
        if late {
            self.renew(ctx, out);
        }
    }

    pub(super) fn refused(
        &mut self,
        ctx: &Context<'_>,
        from: FullPos,
        epoch: Epoch,
        request: u64,
        out: &mut impl Outbox<Self>,
    ) {
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

    /// Frees the voters that granted the bid, so that two candidates do not block each other for a lease. It asks again
    /// a little later, so that the two do not retry at the same moments.
    fn abandon(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        self.fail_bid(out);
        self.candidate.rest();
        self.let_all_go(ctx, out);
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

    pub(super) fn let_all_go(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        assert!(self.leader.is_none(), "E3: no voter is released while this member leads");
        let released = Released { holder: self.me, epoch: self.voter.epoch() };
        Self::tell(ctx, Msg::Release(released), out);
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
        Self::tell(ctx, Msg::Survey { incarnation: self.me.incarnation }, out);
        Candidate::retry_later(ctx, out);
        self.learn(ctx, out);
    }

    pub(super) fn learn(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        if self.voter.learn(ctx, out) {
            self.free(ctx, out);
        }
    }
}
