//! The leader: renews its lease, hands over, lets go; and says that it leads no more before anybody else can.

use algorithms::{Ctx, Epoch, NodeId, OnClose, Outbox, Span};

use super::{Bid, Clock, Fact, Msg, Reign, Released, Slot, is_majority};

/// Renewals for which a leader waits for a successor and its own children, four leases: whoever asked for it may have
/// given up by then.
const PATIENCE: u8 = 12;

impl Reign {
    /// A majority has promised.
    pub(super) fn accede(&mut self, ctx: &Ctx<'_>, bid: Bid, out: &mut impl Outbox<Self>) {
        if self.lead.is_some() {
            out.cancel_timer(Clock::Lease(self.slot));
        }
        let extended = self.lead == Some(bid.epoch);
        if self.lead.is_none() {
            self.target = None;
        }
        self.resting = false;
        self.exposed = bid.bare;
        self.bid = None;
        self.check = None;
        self.wants = false;
        self.slot = bid.slot;
        self.won = bid.k;
        self.supporters = bid.acks;
        self.lead = Some(bid.epoch);
        self.outvoted &= extended;
        out.announce(if extended {
            Fact::Extended { until: bid.slot, bare: bid.bare }
        } else {
            Fact::Leading { epoch: bid.epoch, until: bid.slot, bare: bid.bare }
        });
        out.cancel_timer(Clock::Retry);
        out.set_timer(Clock::Renew, Span::exactly(ctx.settings.timing.reign() / 3));
    }

    pub(super) fn renew(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let Some(lead) = self.lead else { return };
        out.set_timer(Clock::Renew, Span::exactly(ctx.settings.timing.reign() / 3));
        self.bid_again(ctx, lead, out);
        self.patience = self.patience.saturating_sub(1);
        self.target = self.target.filter(|_| self.patience > 0);
        if let Some(successor) = self.target {
            // The last offer may be lost, or came before it had granted this epoch.
            out.send(successor, Msg::Offer { epoch: lead });
        }
    }

    fn bid_again(&mut self, ctx: &Ctx<'_>, lead: Epoch, out: &mut impl Outbox<Self>) {
        let behind = self.outvoted || self.seen.max(self.epoch) > lead;
        if self.bid.is_some_and(|bid| bid.epoch > lead || !behind) {
            // Counts from its first sending, so saying it again is safe.
            return self.send_bid(ctx, out);
        }
        if behind {
            // A voter is ahead and would refuse for ever: move past it, still leading until that is granted. A bid that
            // it has refused gives way, or the lease would end before those who granted it are asked anew.
            self.forget_bid(out);
            self.open(ctx, self.seen.max(self.epoch).next(), None, out);
            return out.cancel_timer(Clock::Retry);
        }
        self.bid_anew(ctx, lead, None, out);
    }

    /// Another attempt at an epoch that is on its own disk already.
    fn bid_anew(&mut self, ctx: &Ctx<'_>, epoch: Epoch, after: Option<Released>, out: &mut impl Outbox<Self>) {
        self.bid_for(ctx, epoch, after, out);
        self.grant(ctx, epoch, self.me, out);
        self.send_bid(ctx, out);
        self.count(ctx, out);
    }

    pub(super) fn lease_ends(&mut self, slot: Slot, out: &mut impl Outbox<Self>) {
        if self.lead.is_some() && slot == self.slot {
            self.forget_bid(out);
            self.lose(out);
        } else if self.bid.is_some_and(|bid| bid.slot == slot) {
            self.bid = None;
        }
    }

    pub(super) fn lose(&mut self, out: &mut impl Outbox<Self>) {
        if self.lead.take().is_some() {
            self.outvoted = false;
            self.target = None;
            out.cancel_timer(Clock::Renew);
            out.cancel_timer(Clock::Lease(self.slot));
            out.announce(Fact::Lost);
        }
    }

    /// First the word that it leads no more, then the release; and before both, the end of what acts on its leadership.
    pub(super) fn step_down(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.lead.is_some() && self.attached {
            return out.announce(Fact::StopChildren);
        }
        self.wants = false;
        self.target = None;
        if self.lead.is_some() || self.bid.is_some() {
            self.forget_bid(out);
            self.lose(out);
            self.let_all_go(ctx, out);
        }
    }

    pub(super) fn transfer(&mut self, ctx: &Ctx<'_>, to: NodeId, out: &mut impl Outbox<Self>) {
        let possible = to != ctx.me.id && ctx.settings.may_lead(to);
        if let Some(epoch) = self.lead.filter(|_| possible) {
            self.wait_for(to);
            out.send(to, Msg::Offer { epoch });
        }
    }

    fn wait_for(&mut self, successor: NodeId) {
        self.target = Some(successor);
        self.patience = PATIENCE;
    }

    /// Voters must know whether this process's end is the end of everything that acts on its leadership; and a handover
    /// goes on where it waited for that.
    pub(super) fn attach(&mut self, ctx: &Ctx<'_>, attached: bool, out: &mut impl Outbox<Self>) {
        self.attached = attached;
        if self.lead.is_none() {
            // Whoever grants this bid must know of it too.
            if let Some(bid) = self.bid.filter(|bid| attached && bid.bare) {
                self.forget_bid(out);
                self.bid_anew(ctx, bid.epoch, bid.after, out);
            }
            return;
        }
        if attached {
            self.forget_bid(out);
            self.renew(ctx, out);
        } else if let Some(successor) = self.target {
            self.transfer(ctx, successor, out);
        }
    }

    /// The leader asks this member to be ready to follow it.
    pub(super) fn offer(&mut self, ctx: &Ctx<'_>, from: NodeId, epoch: Epoch, out: &mut impl Outbox<Self>) {
        if self.sitting().is_some_and(|leader| leader.holder.id == from && leader.epoch == epoch) {
            self.claim(ctx, out);
        }
    }

    /// Pre-checks as the successor of the sitting leader; `Ready` follows.
    pub(super) fn claim(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let Some(leader) = self.sitting().filter(|leader| leader.holder != self.me) else { return };
        if self.bid.is_none() && self.check.is_none() && self.electable(ctx) {
            self.pre_check(ctx, Some(leader), out);
        }
    }

    /// The successor has a majority in sight: let go, for it alone.
    pub(super) fn ready(&mut self, ctx: &Ctx<'_>, from: NodeId, epoch: Epoch, out: &mut impl Outbox<Self>) {
        let Some(uid) = ctx.view.uid(from).filter(|_| self.lead == Some(epoch)) else { return };
        let preempts = ctx.settings.preempt && ctx.beats(uid, ctx.me) && ctx.settings.may_lead(from);
        if self.target != Some(from) && !preempts {
            return;
        }
        if self.attached {
            if self.target.is_none() {
                self.wait_for(from);
            }
            return out.announce(Fact::StopChildren);
        }
        self.forget_bid(out);
        self.lose(out);
        self.target = Some(from);
        out.send(from, Msg::Handover(Released { holder: self.me, epoch: self.epoch }));
        // Time for its write and those of the voters: a bid of this member would only get in the way of the successor's.
        out.set_timer(Clock::Retry, Span::jittered(ctx.settings.timing.lease));
    }

    /// The leader has let go in favour of this member.
    pub(super) fn handover(&mut self, ctx: &Ctx<'_>, released: Released, out: &mut impl Outbox<Self>) {
        let free = self.lead.is_none() && self.bid.is_none() && self.would_grant(self.me, Some(released));
        if free && self.electable(ctx) && self.is_near(released.epoch) {
            let epoch = self.epoch.max(self.seen).max(released.epoch).next();
            self.open(ctx, epoch, Some(released), out);
        }
    }

    /// A voter whose connection closed may be free, where closing frees: a leader that may be left with less than a
    /// majority stops first.
    pub(super) fn lose_supporter(&mut self, ctx: &Ctx<'_>, peer: NodeId, out: &mut impl Outbox<Self>) {
        let frees = ctx.settings.on_close == OnClose::Immediate;
        let Some(at) = ctx.view.position(peer).filter(|_| frees) else { return };
        if self.exposed {
            self.supporters.remove(at);
        }
        if let Some(bid) = self.bid.as_mut().filter(|bid| bid.bare) {
            bid.acks.remove(at);
        }
        if self.lead.is_some() && !is_majority(ctx, &self.supporters) {
            self.forget_bid(out);
            self.lose(out);
            self.let_all_go(ctx, out);
        }
    }
}
