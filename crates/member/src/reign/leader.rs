//! The leader: its epoch, the lease timer that measures its claim, the voters that support it, and the member that it
//! is to hand over to.

use std::sync::Arc;

use algorithms::{Epoch, NodeId, View};
use types::MemberList;

use super::candidate::Bid;
use super::lists::Proposal;
use crate::messages::{Context, LeaseTimer};
use crate::positions::{FullPos, NodeSet};

/// A leader waits this many renewals for a successor and for its own children, four leases: the operator who asked for
/// it may have given up by then.
const PATIENCE: u16 = 12;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Leader {
    epoch: Epoch,
    /// The timer of the present lease, and the request that won it.
    lease: LeaseTimer,
    lease_request: u64,
    /// The list that this request carried.
    lease_list: Arc<MemberList>,
    supporters: NodeSet,
    /// Voters whose connection closed since this lease was asked for: a late answer of theirs does not count.
    lost: NodeSet,
    /// Some supporter may have been told that no child process depends on this leadership. Under `on_close = "immediate"`
    /// such a supporter drops its promise as soon as its connection to this process closes.
    told_childless: bool,
    /// A voter denied a renewal because its disk names another holder for this epoch, or none. Renewing cannot succeed:
    /// bid for a later epoch.
    outvoted: bool,
    leaving: Option<Leaving>,
    lists: Proposal,
}

/// Leadership is to be given away.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Leaving {
    /// To this member, once it is ready, within this many renewals.
    To { successor: NodeId, returns: bool, patience: u16 },
    /// As soon as no child depends on it.
    Now,
}

impl Leader {
    /// `before`: this member led already, and continues to lead or moves to a later epoch.
    pub(super) fn new(bid: &Bid, before: Option<&Leader>) -> Self {
        let force = before.map_or(&bid.list, |before| &before.lists.force);
        Leader {
            epoch: bid.epoch,
            lease: bid.lease,
            lease_request: bid.request,
            lease_list: Arc::clone(&bid.list),
            supporters: bid.acks,
            lost: bid.lost,
            told_childless: bid.no_child,
            outvoted: before.is_some_and(|before| before.outvoted && before.epoch == bid.epoch),
            leaving: before.and_then(|before| before.leaving),
            lists: Proposal { force: Arc::clone(force), sent: Arc::clone(&bid.list) },
        }
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(super) fn lease(&self) -> LeaseTimer {
        self.lease
    }

    pub(super) fn proposal(&self) -> &Proposal {
        &self.lists
    }

    /// The next bids carry this list.
    pub(super) fn send_list(&mut self, list: Arc<MemberList>) {
        self.lists.sent = list;
    }

    pub(super) fn put_in_force(&mut self, list: Arc<MemberList>) {
        self.lists.force = list;
    }

    pub(super) fn supporters(&self) -> &NodeSet {
        &self.supporters
    }

    pub(super) fn is_outvoted(&self) -> bool {
        self.outvoted
    }

    pub(super) fn outvote(&mut self) {
        self.outvoted = true;
    }

    /// A further answer to the request that won the present lease.
    pub(super) fn ack(&mut self, ctx: &Context<'_>, from: FullPos, epoch: Epoch, request: u64) -> bool {
        let answers = (self.epoch, self.lease_request) == (epoch, request);
        let counts = answers && !self.lost.contains(from) && self.lease_list.votes(from.id(ctx.view));
        if counts {
            self.supporters.insert(from);
        }
        counts
    }

    pub(super) fn lease_list(&self) -> &Arc<MemberList> {
        &self.lease_list
    }

    /// A bid is sent that says whether a child depends on this leadership.
    pub(super) fn tells(&mut self, no_child: bool) {
        self.told_childless |= no_child;
    }

    /// A voter whose connection closed may be free.
    pub(super) fn lose_supporter(&mut self, voter: FullPos) {
        if self.told_childless {
            self.supporters.remove(voter);
            self.lost.insert(voter);
        }
    }

    pub(super) fn leaving(&self) -> Option<Leaving> {
        self.leaving
    }

    pub(super) fn leave_to(&mut self, successor: NodeId, returns: bool) {
        self.leaving = Some(Leaving::To { successor, returns, patience: PATIENCE });
    }

    /// The successor is ready, and the children need so many renewals to stop.
    pub(super) fn wait_for_children(&mut self, renewals: u16) {
        if let Some(Leaving::To { patience, .. }) = &mut self.leaving {
            *patience = renewals.saturating_add(PATIENCE);
        }
    }

    pub(super) fn leave_now(&mut self) {
        self.leaving = Some(Leaving::Now);
    }

    /// Another renewal has passed; returns the successor if the leader still waits for it.
    pub(super) fn wait_for_successor(&mut self) -> Option<NodeId> {
        let Some(Leaving::To { successor, returns, patience }) = self.leaving else { return None };
        let patience = patience.saturating_sub(1);
        self.leaving = (patience > 0).then_some(Leaving::To { successor, returns, patience });
        (patience > 0).then_some(successor)
    }

    /// The view has changed.
    pub(super) fn reseat(&mut self, old: &View, new: &View) {
        self.supporters = self.supporters.reseated(old, new);
        self.lost = self.lost.reseated(old, new);
    }
}
