//! The leader: heartbeats, the lease that their acknowledgements give, and the transfer to a successor.

use std::collections::BTreeSet;

use super::{Msg, Raft, Role, Slot, Timer, election_timeout, is_majority};
use crate::protocol::{Ctx, Outbox, Outcome, Span};
use types::NodeId;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Leadership {
    /// The heartbeat that is to renew the lease. It is repeated until a majority has acknowledged it: the
    /// lease counts from the first time.
    number: u64,
    /// Empty: a majority has acknowledged it, or it is too old.
    acknowledged: BTreeSet<NodeId>,
    /// The timer that ends the leadership.
    lease: Slot,
    /// Has a majority acknowledged any heartbeat?
    has_lease: bool,
    /// A successor was told to take over: it may be elected although the lease runs.
    gave_way: bool,
}

impl Leadership {
    pub(super) fn heartbeat(&self, term: u64) -> Msg {
        Msg::Heartbeat { term, number: self.number }
    }
}

impl Slot {
    fn other(self) -> Self {
        match self {
            Slot::A => Slot::B,
            Slot::B => Slot::A,
        }
    }
}

impl Raft {
    /// Leads, and no other node can be elected until the timer of the lease has fired.
    pub fn has_lease(&self) -> bool {
        matches!(&self.role, Role::Leader(Leadership { has_lease: true, gave_way: false, .. }))
    }

    pub(super) fn lead(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        self.role = Role::Leader(Leadership {
            number: 0,
            acknowledged: BTreeSet::new(),
            lease: Slot::A,
            has_lease: false,
            gave_way: false,
        });
        self.leader = Some(ctx.me.id);
        self.bound = false;
        out.cancel_timer(Timer::Contact);
        out.cancel_timer(Timer::Election);
        out.set_timer(Timer::Lease(Slot::A), Span::exactly(election_timeout(ctx)));
        out.announce(Outcome::Won);
        self.beat(ctx, out);
    }

    pub(super) fn beat(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let term = self.ballot.term;
        let Role::Leader(leadership) = &mut self.role else { return };
        if leadership.acknowledged.is_empty() {
            leadership.number += 1;
            leadership.acknowledged.insert(ctx.me.id);
            let lease = Timer::Lease(leadership.lease.other());
            out.set_timer(lease, Span::exactly(election_timeout(ctx) / 10 * 9));
        }
        for peer in ctx.view.others(ctx.me.id) {
            out.send(peer.id, leadership.heartbeat(term));
        }
        out.set_timer(Timer::Heartbeat, Span::exactly(ctx.settings.answer_timeout));
        self.renew(ctx, out);
    }

    pub(super) fn acknowledged(&mut self, ctx: &Ctx<'_>, from: NodeId, number: u64, out: &mut impl Outbox<Self>) {
        let Role::Leader(leadership) = &mut self.role else { return };
        if number == leadership.number && !leadership.acknowledged.is_empty() {
            leadership.acknowledged.insert(from);
            self.renew(ctx, out);
        }
    }

    fn renew(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let Role::Leader(leadership) = &mut self.role else { return };
        if is_majority(ctx, &leadership.acknowledged) {
            out.cancel_timer(Timer::Lease(leadership.lease));
            leadership.lease = leadership.lease.other();
            leadership.has_lease = true;
            leadership.acknowledged.clear();
        }
    }

    pub(super) fn lease_over(&mut self, ctx: &Ctx<'_>, slot: Slot, out: &mut impl Outbox<Self>) {
        let Role::Leader(leadership) = &mut self.role else { return };
        if slot == leadership.lease {
            self.retire(ctx, out);
        } else {
            leadership.acknowledged.clear();
        }
    }

    /// The lease is given up before the successor hears of it.
    pub(super) fn transfer(&mut self, ctx: &Ctx<'_>, to: NodeId, out: &mut impl Outbox<Self>) {
        let term = self.ballot.term;
        let Role::Leader(leadership) = &mut self.role else { return };
        if to != ctx.me.id && ctx.view.contains(to) && ctx.settings.votes(to) {
            leadership.gave_way = true;
            out.send(to, Msg::TimeoutNow { term });
        }
    }
}

pub(super) fn cancel_timers(out: &mut impl Outbox<Raft>) {
    for timer in [Timer::Lease(Slot::A), Timer::Lease(Slot::B), Timer::Heartbeat] {
        out.cancel_timer(timer);
    }
}
