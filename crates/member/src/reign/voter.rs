//! The voter: grants each epoch once, and nothing while a promise to somebody else runs.

use algorithms::{Ctx, Epoch, OnClose, Outbox, Span};

use super::{Clock, Fact, Holder, MAX_EPOCH, Msg, Reign, Released, voters};

impl Reign {
    pub(super) fn pre_ask(
        &mut self,
        ctx: &Ctx<'_>,
        from: usize,
        k: u64,
        holder: Holder,
        after: Option<Released>,
        out: &mut impl Outbox<Self>,
    ) {
        if !ctx.settings.votes(ctx.me.id) {
            return;
        }
        let to = ctx.view.members()[from].id;
        if self.would_grant(holder, after) {
            out.send(to, Msg::PreOk { k });
        } else {
            self.refused.insert(from);
            out.send(to, Msg::PreNo { epoch: self.epoch });
        }
    }

    pub(super) fn would_grant(&self, holder: Holder, after: Option<Released>) -> bool {
        let free = !self.promised || self.holder == Some(holder) || self.let_go(after);
        free && !self.settling && self.blank.is_none()
    }

    /// A running promise is never overridden, except by the word of the holder itself.
    pub(super) fn grants(&self, ctx: &Ctx<'_>, epoch: Epoch, holder: Holder, after: Option<Released>) -> bool {
        let same = self.holder == Some(holder);
        let possible = ctx.settings.votes(ctx.me.id) && self.blank.is_none();
        let near = self.is_near(Epoch(epoch.0.saturating_sub(1)));
        possible
            && near
            && match epoch.cmp(&self.epoch) {
                std::cmp::Ordering::Less => false,
                // Also while settling: a restarted voter goes on with the holder it has on record.
                std::cmp::Ordering::Equal => same,
                std::cmp::Ordering::Greater => self.let_go(after) || (!self.settling && (!self.promised || same)),
            }
    }

    fn let_go(&self, after: Option<Released>) -> bool {
        after.is_some_and(|released| self.holder == Some(released.holder) && self.epoch <= released.epoch)
    }

    /// On disk before it is answered: what follows in this step waits for that.
    pub(super) fn grant(&mut self, ctx: &Ctx<'_>, epoch: Epoch, holder: Holder, out: &mut impl Outbox<Self>) {
        if holder != self.me {
            self.forget_bid(out);
            self.lose(out);
            self.target = None;
        }
        let changed = (self.epoch, self.holder) != (epoch, Some(holder));
        if changed {
            if let Some(old) = self.holder.filter(|&old| self.promised && old != holder) {
                out.announce(Fact::PromiseEnded { epoch: self.epoch, holder: old });
            }
            if self.holder != Some(holder) {
                (self.latest, self.bare) = (0, false);
            }
            self.epoch = epoch;
            self.holder = Some(holder);
            out.persist(self.tenure());
        }
        if changed || !self.promised {
            // Also when a restarted voter goes on with the holder on its disk: the earlier life may not have told.
            out.announce(Fact::Granted { epoch, holder });
        }
        self.promised = true;
        out.set_timer(Clock::Promise, Span::exactly(ctx.settings.timing.lease));
    }

    /// Bids may overtake each other: the latest one says whether the holder has children.
    pub(super) fn heard(&mut self, k: u64, bare: bool) {
        if k >= self.latest {
            (self.latest, self.bare) = (k, bare);
        }
    }

    pub(super) fn promise_ends(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let ended = std::mem::take(&mut self.promised);
        if let Some(holder) = self.holder.filter(|_| ended) {
            out.announce(Fact::PromiseEnded { epoch: self.epoch, holder });
        }
        self.free(ctx, out);
    }

    /// Whoever was told no may ask again.
    fn free(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        for at in std::mem::take(&mut self.refused).iter() {
            out.send(ctx.view.members()[at].id, Msg::Free);
        }
        self.ask_again(ctx, ctx.me.id, out);
    }

    /// The epoch stays: it is never granted twice.
    pub(super) fn release(&mut self, ctx: &Ctx<'_>, released: Released, out: &mut impl Outbox<Self>) {
        if self.let_go(Some(released)) {
            self.settling = false;
            out.cancel_timer(Clock::Settle);
            out.cancel_timer(Clock::Promise);
            self.promise_ends(ctx, out);
        }
    }

    /// The holder's process is gone, so nobody acts on the promise, unless it left a child behind.
    pub(super) fn closed_there(&mut self, ctx: &Ctx<'_>, holder: Holder, out: &mut impl Outbox<Self>) {
        let void = self.promised && self.holder == Some(holder) && self.bare;
        if void && ctx.settings.on_close == OnClose::Immediate {
            out.cancel_timer(Clock::Promise);
            self.promise_ends(ctx, out);
        }
    }

    /// Every promise of an earlier life is over.
    pub(super) fn settled(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        self.settling = false;
        if let Some(holder) = self.holder.filter(|_| !self.promised) {
            out.announce(Fact::PromiseEnded { epoch: self.epoch, holder });
        }
        if self.blank.is_some() {
            self.read_all(ctx, out);
        } else {
            self.free(ctx, out);
        }
    }

    pub(super) fn read_all(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        Self::tell(ctx, Msg::Read { life: self.me.life }, out);
        Self::retry_later(ctx, out);
        self.learn(ctx, out);
    }

    pub(super) fn read(&mut self, ctx: &Ctx<'_>, from: usize, epoch: Option<Epoch>, out: &mut impl Outbox<Self>) {
        let voter = ctx.settings.votes(ctx.view.members()[from].id);
        let Some(reads) = self.blank.as_mut().filter(|_| !self.settling && voter) else { return };
        if epoch.is_some_and(|epoch| epoch.0 >= MAX_EPOCH) {
            return;
        }
        if let Some(epoch) = epoch {
            reads.told.insert(from);
            reads.epoch = reads.epoch.max(epoch);
        }
        if epoch.is_none_or(|epoch| epoch == Epoch(0)) {
            reads.fresh.insert(from);
        } else {
            reads.fresh.remove(from);
        }
        self.learn(ctx, out);
    }

    /// Enough others to meet every majority this voter may have been part of; or all others, and none of them has ever
    /// granted anything: the cluster is new.
    fn learn(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let Some(reads) = self.blank else { return };
        let all = voters(ctx).count();
        let others = all - usize::from(ctx.settings.votes(ctx.me.id));
        if reads.told.len() >= all.div_ceil(2).max(1) || reads.fresh.len() >= others {
            self.blank = None;
            self.epoch = reads.epoch;
            out.persist(self.tenure());
            self.free(ctx, out);
        }
    }
}
