//! The candidate: no bid without a majority that would grant it, and a new number for every attempt.

use algorithms::{Ctx, Epoch, NodeId, Outbox, Span};

use super::{Bid, Check, Clock, Holder, Msg, Reign, Released, is_hopeless, is_majority};
use crate::types::NodeSet;

impl Reign {
    /// Asks the voters whether they would grant an epoch.
    pub(super) fn ask(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        // A successor is on its way until the next retry.
        let busy = self.lead.is_some() || self.bid.is_some() || self.check.is_some() || self.target.is_some();
        if !self.wants || busy || self.resting || !self.electable(ctx) {
            return;
        }
        if self.would_grant(self.me, None) {
            self.pre_check(ctx, None, out);
        } else {
            // Its own promise has to end first.
            Self::retry_later(ctx, out);
        }
    }

    pub(super) fn pre_check(&mut self, ctx: &Ctx<'_>, after: Option<Released>, out: &mut impl Outbox<Self>) {
        self.k += 1;
        self.check = Some(Check { oks: NodeSet::default(), after });
        Self::tell(ctx, Msg::PreAsk { k: self.k, holder: self.me, after }, out);
        Self::retry_later(ctx, out);
        if let Some(me) = ctx.view.position(ctx.me.id) {
            self.pre_ok(ctx, me, self.k, out);
        }
    }

    pub(super) fn retry_later(ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        out.set_timer(Clock::Retry, Span::jittered(ctx.settings.timing.answer_timeout));
    }

    pub(super) fn pre_ok(&mut self, ctx: &Ctx<'_>, from: usize, k: u64, out: &mut impl Outbox<Self>) {
        let Some(check) = self.check.as_mut().filter(|_| k == self.k) else { return };
        check.oks.insert(from);
        if !is_majority(ctx, &check.oks) {
            return;
        }
        match self.check.take().and_then(|check| check.after) {
            Some(leader) => out.send(leader.holder.id, Msg::Ready { epoch: leader.epoch }),
            // It may have promised itself to another since it asked.
            None if self.lead.is_none() && self.bid.is_none() && self.would_grant(self.me, None) => {
                let epoch = self.epoch.max(self.seen).next();
                self.open(ctx, epoch, None, out);
            }
            None => {}
        }
    }

    /// Bids for an epoch. The lease timer runs before anything is sent: the lease counts from then.
    pub(super) fn open(&mut self, ctx: &Ctx<'_>, epoch: Epoch, after: Option<Released>, out: &mut impl Outbox<Self>) {
        self.check = None;
        self.bid_for(ctx, epoch, after, out);
        self.grant(ctx, epoch, self.me, out);
        self.send_bid(ctx, out);
        // Voters write before they answer, so a bid has longer than a question. Half of its lease must be left.
        let timing = &ctx.settings.timing;
        out.set_timer(Clock::Retry, Span::jittered(timing.answer_timeout.max(timing.lease / 3)));
        self.count(ctx, out);
    }

    /// A new attempt: whatever was said to an older one does not count.
    pub(super) fn bid_for(
        &mut self,
        ctx: &Ctx<'_>,
        epoch: Epoch,
        after: Option<Released>,
        out: &mut impl Outbox<Self>,
    ) {
        self.k += 1;
        let slot = self.slot.other();
        let acks = ctx.view.position(ctx.me.id).into_iter().collect();
        self.bid =
            Some(Bid { epoch, k: self.k, acks, refusals: NodeSet::default(), after, slot, bare: !self.attached });
        self.exposed |= !self.attached;
        out.set_timer(Clock::Lease(slot), Span::exactly(ctx.settings.timing.reign()));
    }

    /// To every voter that has not answered.
    pub(super) fn send_bid(&self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let Some(bid) = self.bid else { return };
        let message = self.bid_message(bid);
        for (at, peer) in ctx.view.members().iter().enumerate() {
            if ctx.settings.votes(peer.id) && !bid.acks.contains(at) {
                out.send(peer.id, message);
            }
        }
    }

    fn bid_message(&self, bid: Bid) -> Msg {
        let Bid { epoch, k, after, bare, .. } = bid;
        Msg::Bid { epoch, k, holder: self.me, after, bare }
    }

    pub(super) fn ack(&mut self, ctx: &Ctx<'_>, from: usize, epoch: Epoch, k: u64, out: &mut impl Outbox<Self>) {
        if let Some(bid) = self.bid.as_mut().filter(|bid| (bid.epoch, bid.k) == (epoch, k)) {
            bid.acks.insert(from);
            self.count(ctx, out);
        } else if self.lead == Some(epoch) && self.won == k {
            self.supporters.insert(from);
        }
    }

    pub(super) fn count(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if let Some(bid) = self.bid.filter(|bid| is_majority(ctx, &bid.acks)) {
            self.accede(ctx, bid, out);
        }
    }

    pub(super) fn refuse(&mut self, ctx: &Ctx<'_>, from: usize, epoch: Epoch, k: u64, out: &mut impl Outbox<Self>) {
        self.saw(epoch);
        self.outvoted |= self.is_near(epoch) && self.lead.is_some_and(|lead| epoch >= lead);
        let Some(bid) = self.bid.as_mut().filter(|bid| bid.k == k) else { return };
        bid.refusals.insert(from);
        let refusals = bid.refusals;
        if is_hopeless(ctx, &refusals) && self.lead.is_none() {
            self.abandon(ctx, out);
        }
    }

    /// Frees whoever granted it, so that two candidates do not lock each other out for a lease; and asks again a little
    /// later, so that they do not go on in step.
    fn abandon(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        self.forget_bid(out);
        self.resting = true;
        self.let_all_go(ctx, out);
        Self::retry_later(ctx, out);
    }

    pub(super) fn let_all_go(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let released = Released { holder: self.me, epoch: self.epoch };
        Self::tell(ctx, Msg::Release(released), out);
        self.release(ctx, released, out);
    }

    pub(super) fn forget_bid(&mut self, out: &mut impl Outbox<Self>) {
        if let Some(bid) = self.bid.take() {
            out.cancel_timer(Clock::Lease(bid.slot));
        }
    }

    pub(super) fn retry(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.blank.is_some() {
            if !self.settling {
                self.read_all(ctx, out);
            }
            return;
        }
        self.check = None;
        self.resting = false;
        if self.lead.is_none() {
            if self.bid.is_some() {
                return self.abandon(ctx, out);
            }
            // A successor that did not make it: stand again, above. What was let go is never resumed.
            self.wants |= self.target.take().is_some();
        }
        self.ask(ctx, out);
    }

    /// A voter may have changed its mind, or has just been connected.
    pub(super) fn ask_again(&mut self, ctx: &Ctx<'_>, peer: NodeId, out: &mut impl Outbox<Self>) {
        if self.blank.is_some() && !self.settling {
            return out.send(peer, Msg::Read { life: self.me.life });
        }
        match (self.check, self.bid) {
            (Some(_), _) if peer == ctx.me.id => {}
            (Some(check), _) => out.send(peer, Msg::PreAsk { k: self.k, holder: self.me, after: check.after }),
            // The lease counts from the first sending, so saying it again is safe; a freed voter may grant it now.
            (None, Some(bid)) if peer != ctx.me.id && self.lead.is_none() => {
                out.send(peer, self.bid_message(bid));
            }
            (None, Some(_)) => {}
            (None, None) => self.ask(ctx, out),
        }
    }

    /// The leader named in the last grant, if this voter is bound to it: whom a successor takes over from.
    pub(super) fn sitting(&self) -> Option<Released> {
        let holder: Holder = self.holder.filter(|_| self.promised)?;
        Some(Released { holder, epoch: self.epoch })
    }
}
