//! The candidate: bids only when a majority would grant it, and numbers every request anew.

use std::sync::Arc;

use algorithms::{Epoch, Outbox, Span, View};
use types::MemberList;

use super::{Holder, LockPast, Msg, Reign, ReignTimer, Released, is_hopeless, is_majority, tell};
use crate::messages::{Context, LeaseTimer};
use crate::positions::{FullPos, NodeSet};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Candidate {
    me: Holder,
    /// The largest epoch that any member named: the next bid goes above it.
    seen: Epoch,
    /// The election chose this member.
    wants: bool,
    /// Has just given up a bid. Without a pause two candidates would retry at the same moments for ever.
    resting: bool,
    /// Has handed over to a successor and gives it time. Stands again if the successor does not come to lead.
    handed_over: bool,
    probe: Option<Probe>,
    bid: Option<Bid>,
    /// The number of the latest request.
    request: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Probe {
    oks: NodeSet,
    /// The answers are counted in this list.
    list: Arc<MemberList>,
    /// The sitting leader, if this bid is to make its successor.
    after: Option<Released>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Bid {
    pub(super) epoch: Epoch,
    pub(super) request: u64,
    /// The list that it carries, and whose voters get it.
    pub(super) list: Arc<MemberList>,
    pub(super) acks: NodeSet,
    refusals: NodeSet,
    /// Voters whose connection closed since this request. A voter may have become free by then while its answer was
    /// still on its way behind a slow write, so its answer does not count.
    pub(super) lost: NodeSet,
    pub(super) after: Option<Released>,
    pub(super) lease: LeaseTimer,
    pub(super) no_child: bool,
    /// The next lease should have been applied for by now.
    pub(super) late: bool,
    /// What the voters that granted it know of locks.
    pub(super) locks: LockPast,
}

/// What a majority of answers to a probe permits.
pub(super) enum Assent {
    Bid,
    /// To take over from this leader, once it has released the voters.
    Succeed(Released),
}

impl Candidate {
    pub(super) fn start(me: Holder) -> Self {
        Candidate {
            me,
            seen: Epoch(0),
            wants: false,
            resting: false,
            handed_over: false,
            probe: None,
            bid: None,
            request: 0,
        }
    }

    pub(super) fn seen(&self) -> Epoch {
        self.seen
    }

    pub(super) fn saw(&mut self, epoch: Epoch) {
        self.seen = self.seen.max(epoch);
    }

    pub(super) fn want(&mut self) {
        self.wants = true;
    }

    pub(super) fn withdraw(&mut self) {
        self.wants = false;
        self.handed_over = false;
    }

    pub(super) fn hand_over(&mut self, returns: bool) {
        self.handed_over = returns;
    }

    pub(super) fn give_way(&mut self) {
        self.handed_over = false;
    }

    pub(super) fn bid(&self) -> Option<&Bid> {
        self.bid.as_ref()
    }

    pub(super) fn is_asking(&self) -> bool {
        self.probe.is_some() || self.bid.is_some()
    }

    /// May it ask now?
    pub(super) fn is_ready(&self) -> bool {
        self.wants && !self.is_asking() && !self.handed_over && !self.resting
    }

    /// Asks the voters of this list whether they would grant an epoch.
    pub(super) fn probe(
        &mut self,
        ctx: &Context<'_>,
        after: Option<Released>,
        list: &Arc<MemberList>,
        out: &mut impl Outbox<Reign>,
    ) -> u64 {
        self.request += 1;
        let probe = Probe { oks: NodeSet::default(), list: Arc::clone(list), after };
        tell(ctx, list, &self.probe_message(&probe), out);
        self.probe = Some(probe);
        Self::retry_later(ctx, out);
        self.request
    }

    fn probe_message(&self, Probe { after, list, .. }: &Probe) -> Msg {
        Msg::Probe { request: self.request, holder: self.me, after: *after, list: Arc::clone(list) }
    }

    pub(super) fn retry_later(ctx: &Context<'_>, out: &mut impl Outbox<Reign>) {
        out.set_timer(ReignTimer::Retry, Span::jittered(ctx.settings.election.answer_timeout));
    }

    pub(super) fn probe_ok(&mut self, ctx: &Context<'_>, from: FullPos, request: u64) -> Option<Assent> {
        let probe = self.probe.as_mut().filter(|_| request == self.request)?;
        probe.oks.insert(from);
        if !is_majority(ctx, &probe.list, &probe.oks) {
            return None;
        }
        let after = self.probe.take()?.after;
        Some(after.map_or(Assent::Bid, Assent::Succeed))
    }

    pub(super) fn forget_probe(&mut self) {
        self.probe = None;
    }

    /// A new request: answers to an older request do not count. The lease timer is set before any message is sent: the
    /// lease counts from then, and so does the time of its renewal.
    pub(super) fn bid_for(
        &mut self,
        ctx: &Context<'_>,
        (epoch, after): (Epoch, Option<Released>),
        list: &Arc<MemberList>,
        (lease, no_child): (LeaseTimer, bool),
        out: &mut impl Outbox<Reign>,
    ) {
        self.request += 1;
        let acks = FullPos::of(ctx.view, ctx.me.id).into_iter().collect();
        let (refusals, lost) = (NodeSet::default(), NodeSet::default());
        let (request, list, late) = (self.request, Arc::clone(list), false);
        let locks = LockPast { only_holder: true, ..LockPast::default() };
        self.bid = Some(Bid { epoch, request, list, acks, refusals, lost, after, lease, no_child, late, locks });
        out.set_timer(ReignTimer::Lease(lease), Span::exactly(ctx.settings.timing.reign()));
        Self::renew_later(ctx, out);
    }

    pub(super) fn renew_later(ctx: &Context<'_>, out: &mut impl Outbox<Reign>) {
        out.set_timer(ReignTimer::Renew, Span::exactly(ctx.settings.timing.reign() / 3));
    }

    /// A third of the lease that this bid applies for has passed.
    pub(super) fn is_late(&mut self) {
        if let Some(bid) = &mut self.bid {
            bid.late = true;
        }
    }

    /// To every voter of its list that has not answered.
    pub(super) fn send_bid(&self, ctx: &Context<'_>, out: &mut impl Outbox<Reign>) {
        let Some(bid) = &self.bid else { return };
        let answered = |id| FullPos::of(ctx.view, id).is_some_and(|at| bid.acks.contains(at));
        for id in bid.list.voters().filter(|&id| id != ctx.me.id && !answered(id)) {
            out.send(id, self.bid_message(bid));
        }
    }

    fn bid_message(&self, Bid { epoch, request, list, after, no_child, .. }: &Bid) -> Msg {
        let (epoch, request, after, no_child) = (*epoch, *request, *after, *no_child);
        Msg::Bid { epoch, request, holder: self.me, after, no_child, list: Arc::clone(list) }
    }

    /// False if this is no answer to the present bid, or not of a voter of its list.
    pub(super) fn ack(&mut self, ctx: &Context<'_>, from: FullPos, epoch: Epoch, request: u64) -> bool {
        let bid = self.bid.as_mut().filter(|bid| (bid.epoch, bid.request) == (epoch, request));
        if let Some(bid) = bid.filter(|bid| !bid.lost.contains(from) && bid.list.votes(from.id(ctx.view))) {
            bid.acks.insert(from);
            return true;
        }
        false
    }

    /// A voter that granted the present bid knows this of locks.
    pub(super) fn hear_locks(&mut self, locks: LockPast) {
        if let Some(bid) = &mut self.bid {
            bid.locks = bid.locks.and(locks);
        }
    }

    /// True if so many voters have refused that no majority remains.
    pub(super) fn refused(&mut self, ctx: &Context<'_>, from: FullPos, request: u64) -> bool {
        let Some(bid) = self.bid.as_mut().filter(|bid| bid.request == request) else { return false };
        bid.refusals.insert(from);
        is_hopeless(ctx, &bid.list, &bid.refusals)
    }

    /// A voter whose connection closed may be free, if it was told that no child depends on this leadership.
    pub(super) fn lose_supporter(&mut self, voter: FullPos) {
        if let Some(bid) = self.bid.as_mut().filter(|bid| bid.no_child) {
            bid.acks.remove(voter);
            bid.lost.insert(voter);
        }
    }

    pub(super) fn forget_bid(&mut self, out: &mut impl Outbox<Reign>) {
        if let Some(bid) = self.bid.take() {
            out.cancel_timer(ReignTimer::Lease(bid.lease));
        }
    }

    /// Is this the bid of a successor, for which a leader has released its leadership?
    pub(super) fn succeeds(&self) -> bool {
        self.bid.as_ref().is_some_and(|bid| bid.after.is_some())
    }

    pub(super) fn rest(&mut self) {
        self.resting = true;
    }

    /// A request has taken too long. If a successor did not come to lead, this member stands again, above the released
    /// epoch.
    pub(super) fn retry(&mut self, leads: bool) {
        self.probe = None;
        self.resting = false;
        if !leads && self.bid.is_none() {
            self.wants |= std::mem::take(&mut self.handed_over);
        }
    }

    /// This member leads.
    pub(super) fn succeed(&mut self) {
        self.resting = false;
        self.handed_over = false;
        self.probe = None;
        self.bid = None;
        self.wants = false;
    }

    /// Repeats the open request to this voter, which may answer differently now. False if there is no open request.
    pub(super) fn ask_again(&self, to: algorithms::NodeId, leads: bool, out: &mut impl Outbox<Reign>) -> bool {
        let own = to == self.me.id;
        match (&self.probe, &self.bid) {
            (Some(probe), _) if !own && probe.list.votes(to) => out.send(to, self.probe_message(probe)),
            // The lease counts from the first sending, so sending the bid again is safe; a freed voter may grant it
            // now.
            (None, Some(bid)) if !own && !leads && bid.list.votes(to) => out.send(to, self.bid_message(bid)),
            (None, None) => return false,
            _ => {}
        }
        true
    }

    /// The view has changed.
    pub(super) fn reseat(&mut self, old: &View, new: &View) {
        if let Some(probe) = &mut self.probe {
            probe.oks = probe.oks.reseated(old, new);
        }
        if let Some(bid) = &mut self.bid {
            for set in [&mut bid.acks, &mut bid.refusals, &mut bid.lost] {
                *set = set.reseated(old, new);
            }
        }
    }
}
