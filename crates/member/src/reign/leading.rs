//! Leading: renewing the lease, and giving leadership away. There is one path for giving it away, whatever asked for
//! it: the children stop, the end of the leadership is announced, and only then is any voter released.

use std::time::Duration;

use algorithms::{Epoch, NodeId, Outbox, Span};

use super::candidate::Candidate;
use super::leader::{Leader, Leaving};
use super::{LossCause, Msg, Reign, ReignEvent, ReignTimer, Released, is_majority};
use crate::messages::{Context, LeaseTimer};
use crate::positions::FullPos;
use crate::settings::OnClose;

impl Reign {
    pub(super) fn renew(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let Some(epoch) = self.leads() else { return self.candidate.is_late() };
        self.bid_again(ctx, epoch, out);
        self.name_cluster(ctx, out);
        if let Some(successor) = self.leader.as_mut().and_then(Leader::wait_for_successor) {
            // The last offer may be lost, or may have arrived before the successor had granted this epoch.
            out.send(successor, Msg::Offer { epoch });
        }
    }

    fn bid_again(&mut self, ctx: &Context<'_>, lead: Epoch, out: &mut impl Outbox<Self>) {
        let outvoted = self.leader.as_ref().is_some_and(Leader::is_outvoted);
        let next = self.next_epoch(ctx);
        let behind = (outvoted || next > lead.next()) && next > lead && next <= Epoch::MAX;
        if let Some(bid) = self.candidate.bid().filter(|bid| bid.epoch > lead || !behind) {
            let (epoch, after) = (bid.epoch, bid.after);
            if bid.lost.is_empty() {
                // The lease counts from the first sending, so sending the bid again is safe.
                self.candidate.is_late();
                Candidate::renew_later(ctx, out);
                return self.candidate.send_bid(ctx, out);
            }
            // Answers of voters whose connection closed count only for a new request.
            self.candidate.forget_bid(out);
            return self.bid_anew(ctx, epoch, after, out);
        }
        if behind {
            // A voter has granted a later epoch and would refuse for ever: bid above it, and lead on until that bid is
            // granted. A refused bid is dropped first, or the lease would end before the voters that granted it are
            // asked again.
            self.candidate.forget_bid(out);
            self.open(ctx, next, None, out);
            return out.cancel_timer(ReignTimer::Retry);
        }
        self.bid_anew(ctx, lead, None, out);
    }

    pub(super) fn lease_ends(&mut self, lease: LeaseTimer, out: &mut impl Outbox<Self>) {
        if self.leader.as_ref().is_some_and(|leader| leader.lease() == lease) {
            self.candidate.forget_bid(out);
            self.lose(LossCause::LeaseEnded, out);
        } else if self.candidate.bid().is_some_and(|bid| bid.lease == lease) {
            self.fail_bid(out);
        }
    }

    pub(super) fn lose(&mut self, cause: LossCause, out: &mut impl Outbox<Self>) {
        self.naming = None;
        if let Some(leader) = self.leader.take() {
            out.cancel_timer(ReignTimer::Renew);
            out.cancel_timer(ReignTimer::Lease(leader.lease()));
            if leader.proposal().is_pending() {
                out.cancel_timer(ReignTimer::Change);
            }
            out.announce(ReignEvent::Lost { cause });
            self.know_own_list(out);
        }
    }

    /// True if the children must stop first. They are told to stop; leadership is given away after that.
    fn waits_for_children(&mut self, out: &mut impl Outbox<Self>) -> bool {
        if self.has_child {
            out.announce(ReignEvent::StopChildren);
        }
        self.has_child
    }

    /// The order: the children stop, the announcement that this member leads no more, the release.
    pub(super) fn step_down(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        if let Some(leader) = &mut self.leader {
            leader.leave_now();
            if self.waits_for_children(out) {
                return;
            }
        }
        self.candidate.withdraw();
        if self.leader.is_some() || self.candidate.bid().is_some() {
            self.candidate.forget_bid(out);
            self.lose(LossCause::SteppedDown, out);
            self.let_all_go(ctx, out);
        }
    }

    pub(super) fn transfer(&mut self, ctx: &Context<'_>, to: NodeId, returns: bool, out: &mut impl Outbox<Self>) {
        let possible = |leader: &&mut Leader| to != ctx.me.id && leader.proposal().force.may_lead(to);
        if let Some(leader) = self.leader.as_mut().filter(possible) {
            leader.leave_to(to, returns);
            out.send(to, Msg::Offer { epoch: leader.epoch() });
        }
    }

    /// Voters must know whether anything still acts on this leadership when this process ends. If giving leadership
    /// away waited for the children, it continues here.
    pub(super) fn attach(&mut self, ctx: &Context<'_>, attached: bool, out: &mut impl Outbox<Self>) {
        self.has_child = attached;
        let Some(leader) = &self.leader else {
            // The voters that grant this bid must know of the child too.
            if let Some(bid) = self.candidate.bid().filter(|bid| attached && bid.no_child) {
                let (epoch, after) = (bid.epoch, bid.after);
                self.candidate.forget_bid(out);
                self.bid_anew(ctx, epoch, after, out);
            }
            return;
        };
        if attached {
            self.candidate.forget_bid(out);
            return self.renew(ctx, out);
        }
        match leader.leaving() {
            Some(Leaving::To { successor, returns, .. }) => self.transfer(ctx, successor, returns, out),
            Some(Leaving::Now) => self.step_down(ctx, out),
            None => {}
        }
    }

    /// The leader asks this member to get ready to succeed it.
    pub(super) fn offer(&mut self, ctx: &Context<'_>, from: NodeId, epoch: Epoch, out: &mut impl Outbox<Self>) {
        if self.voter.sitting().is_some_and(|leader| leader.holder.id == from && leader.epoch == epoch) {
            self.claim(ctx, out);
        }
    }

    /// Probes as the successor of the sitting leader; `Ready` follows.
    pub(super) fn claim(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let Some(leader) = self.voter.sitting().filter(|leader| leader.holder != self.me) else { return };
        if !self.candidate.is_asking() && self.electable(ctx) {
            self.probe(ctx, Some(leader), out);
        }
    }

    /// The successor has the assent of a majority: release, for this successor alone.
    /// Without an order to leave, only a better member with quick writes succeeds this leader.
    pub(super) fn ready(
        &mut self,
        ctx: &Context<'_>,
        from: NodeId,
        (epoch, write_time): (Epoch, Duration),
        out: &mut impl Outbox<Self>,
    ) {
        let Some(uid) = ctx.view.uid(from).filter(|_| self.leads() == Some(epoch)) else { return };
        let Some(leader) = &mut self.leader else { return };
        let leaving = leader.leaving();
        if !matches!(leaving, Some(Leaving::To { successor, .. }) if successor == from) {
            let better = ctx.beats(uid, ctx.me) && leader.proposal().force.may_lead(from);
            if !ctx.settings.preempt || self.keeps || !better || ctx.settings.is_slow(write_time) {
                return;
            }
            if leaving.is_none() {
                leader.leave_to(from, true);
            }
        }
        let returns = match leaving {
            Some(Leaving::To { returns, .. }) => returns,
            Some(Leaving::Now) => false,
            None => true,
        };
        if self.waits_for_children(out) {
            return self.wait_for_children(ctx);
        }
        self.candidate.forget_bid(out);
        self.lose(LossCause::HandedOver, out);
        assert!(!self.has_child, "E13: children stop before leadership is given away");
        self.candidate.hand_over(returns);
        out.send(from, Msg::Handover(Released { holder: self.me, epoch: self.voter.epoch() }));
        // Time for the writes of the successor and the voters: a bid of this member would only compete with the
        // successor's.
        out.set_timer(ReignTimer::Retry, Span::jittered(ctx.settings.timing.lease));
    }

    /// Children may need longer to stop than a leader waits for a successor.
    fn wait_for_children(&mut self, ctx: &Context<'_>) {
        let renewal = (ctx.settings.timing.reign() / 3).max(Duration::from_millis(1));
        let renewals = ctx.settings.children_patience().as_millis() / renewal.as_millis();
        if let Some(leader) = &mut self.leader {
            leader.wait_for_children(u16::try_from(renewals).unwrap_or(u16::MAX));
        }
    }

    /// The leader has released its leadership in favour of this member.
    pub(super) fn handover(&mut self, ctx: &Context<'_>, released: Released, out: &mut impl Outbox<Self>) {
        let idle = self.leader.is_none() && self.candidate.bid().is_none();
        let free = idle && self.voter.would_grant(self.me, Some(released));
        if free && self.electable(ctx) && self.voter.is_near(released.epoch) {
            let epoch = self.next_epoch(ctx).max(released.epoch.next());
            self.open(ctx, epoch, Some(released), out);
        }
    }

    /// Under `on_close = "immediate"` a voter whose connection closed may be free: a leader with perhaps less than a
    /// majority of supporters stops first.
    pub(super) fn lose_supporter(&mut self, ctx: &Context<'_>, peer: NodeId, out: &mut impl Outbox<Self>) {
        let frees = ctx.settings.on_close == OnClose::Immediate;
        let Some(at) = FullPos::of(ctx.view, peer).filter(|_| frees) else { return };
        self.candidate.lose_supporter(at);
        let Some(leader) = &mut self.leader else { return };
        leader.lose_supporter(at);
        if !is_majority(ctx, &leader.proposal().force, leader.supporters()) {
            self.candidate.forget_bid(out);
            self.lose(LossCause::SupportersLost, out);
            self.let_all_go(ctx, out);
        }
    }
}
