//! The voter: grants each epoch once, and nothing while a promise to another holder runs.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use algorithms::{Epoch, NodeId, Outbox, Span, View};

use super::lock_memory::LockMemory;
use super::{
    ClusterMark, Holder, ListEvent, LockPast, Msg, Reign, ReignEvent, ReignTimer, Released, Vote, VoterRecord,
};
use crate::attempts::{MAX_LEAP, MAX_STEP};
use crate::messages::Context;
use crate::positions::{FullPos, NodeSet};
use crate::settings::OnClose;
use types::{Incarnation, MemberList, Stamp};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Voter {
    /// The incarnation of this process: a part of the record.
    incarnation: Incarnation,
    epoch: Epoch,
    holder: Option<Holder>,
    past: Past,
    /// The newest list under which it has granted an epoch; the list of the config file while it is blank.
    list: Arc<MemberList>,
    /// The promise to `holder` runs.
    promised: bool,
    latest: LatestRequest,
    /// A promise of an earlier incarnation may still run.
    settling: bool,
    /// The disk was lost: nothing is granted before the other voters have reported what was granted.
    blank: Option<Survey>,
    /// Members that were refused. They are told when they may ask again.
    refused: NodeSet,
    name: Name,
    /// Its epoch has leapt within the last lease.
    leapt: bool,
}

/// How long leases and lock sessions of earlier reigns may run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Past {
    longest_lease: Duration,
    locks: LockMemory,
}

/// Of the holder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct LatestRequest {
    request: u64,
    /// It said that no child process depends on the holder's leadership.
    no_child: bool,
}

/// What this voter knows of the cluster's id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Name {
    mark: Option<ClusterMark>,
    /// Its own leader belongs to another cluster than this voter's disk: it grants nothing more.
    foreign: bool,
}

/// What the other voters reported to a blank voter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Survey {
    /// Voters that know what was granted.
    told: NodeSet,
    /// Voters that do not know, or never granted anything.
    fresh: NodeSet,
    epoch: Epoch,
    mark: Option<ClusterMark>,
}

impl Voter {
    pub(super) fn start(ctx: &Context<'_>, record: VoterRecord) -> Self {
        let VoterRecord { incarnation, vote, cluster: mark } = record;
        let (lease, first) = (ctx.settings.timing.lease, ctx.settings.first_list(ctx.view));
        let blank = vote.is_none().then(Survey::default);
        let locks = LockPast::default();
        let vote =
            vote.unwrap_or(Vote { epoch: Epoch(0), holder: None, longest_lease: lease, list: Arc::default(), locks });
        Voter {
            incarnation,
            epoch: vote.epoch,
            holder: vote.holder,
            past: Past {
                longest_lease: vote.longest_lease.max(lease),
                locks: LockMemory::start(vote.locks, ctx.settings.timing.lock_ttl_max),
            },
            list: if vote.list.members.is_empty() { first } else { vote.list },
            promised: false,
            latest: LatestRequest::default(),
            settling: true,
            blank,
            refused: NodeSet::default(),
            name: Name { mark, foreign: false },
            leapt: false,
        }
    }

    /// Contains no vote while it is not known what was granted.
    pub(super) fn record(&self) -> VoterRecord {
        let Voter { incarnation, epoch, holder, past: Past { longest_lease, locks }, .. } = *self;
        let vote = || Vote { epoch, holder, longest_lease, list: Arc::clone(&self.list), locks: locks.past() };
        let vote = self.blank.is_none().then(vote);
        VoterRecord { incarnation, vote, cluster: self.name.mark }
    }

    pub(super) fn longest_lease(&self) -> Duration {
        self.past.longest_lease
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(super) fn holder(&self) -> Option<Holder> {
        self.holder
    }

    /// What it knows of locks, with its last grant.
    pub(super) fn locks(&self) -> LockPast {
        self.past.locks.past()
    }

    /// The list on its disk; the list of the config file while it is blank.
    pub(super) fn list(&self) -> &Arc<MemberList> {
        &self.list
    }

    pub(super) fn is_blank(&self) -> bool {
        self.blank.is_some()
    }

    pub(super) fn is_settling(&self) -> bool {
        self.settling
    }

    /// True if this voter cannot grant an epoch to any holder but `to`.
    pub(super) fn binds(&self, to: Holder) -> bool {
        let recorded = self.holder == Some(to);
        (recorded && (self.promised || self.settling)) || (self.blank.is_some() && self.settling)
    }

    /// The leader of the last grant, while the promise to it runs: a successor takes over from this leader.
    pub(super) fn sitting(&self) -> Option<Released> {
        let holder = self.holder.filter(|_| self.promised)?;
        Some(Released { holder, epoch: self.epoch })
    }

    /// Can the epoch after this one still be bid for, and be granted by voters that know no later epoch?
    pub(super) fn is_near(&self, epoch: Epoch) -> bool {
        epoch < self.reach() && epoch < Epoch::MAX
    }

    /// The largest epoch that this voter may have next. One message raises the epoch by a limited leap, and only one
    /// leap is made in the time of a lease: a single member needs hours to use up all epochs. A voter that knows of no
    /// grant has nothing to measure a leap from, and takes any epoch.
    pub(super) fn reach(&self) -> Epoch {
        let leap = if self.leapt { MAX_STEP } else { MAX_LEAP };
        if self.epoch == Epoch(0) { Epoch::MAX } else { Epoch(self.epoch.0.saturating_add(leap)) }
    }

    pub(super) fn has_leapt(&self) -> bool {
        self.leapt
    }

    pub(super) fn may_leap(&mut self) {
        self.leapt = false;
    }

    /// A bid names an epoch beyond this voter's reach: this member was away while the others made many epochs. It moves
    /// one leap towards that epoch, which grants nothing.
    pub(super) fn climb(&mut self, ctx: &Context<'_>, to: Epoch, out: &mut impl Outbox<Reign>) {
        let free = self.blank.is_none() && !self.promised && !self.settling && !self.leapt;
        if free && to > self.reach() && to <= Epoch::MAX {
            let reach = self.reach();
            self.leap(ctx, reach, out);
            self.epoch = reach;
            self.holder = None;
            out.persist(self.record());
        }
    }

    fn leap(&mut self, ctx: &Context<'_>, to: Epoch, out: &mut impl Outbox<Reign>) {
        if self.epoch != Epoch(0) && to.0 > self.epoch.0 + MAX_STEP {
            self.leapt = true;
            out.set_timer(ReignTimer::Leap, Span::exactly(ctx.settings.timing.lease));
        }
    }

    pub(super) fn mark(&self) -> Option<ClusterMark> {
        self.name.mark
    }

    /// Its disk belongs to another cluster than its leader's.
    pub(super) fn is_foreign(&self) -> bool {
        self.name.foreign
    }

    /// Takes the id of the cluster, on disk before anything else happens. An id that is agreed on is announced after that:
    /// a voter that votes alone agrees with itself before its write, and forgets that id if it crashes. False if this voter
    /// knows that another id was agreed on.
    pub(super) fn take(&mut self, mark: ClusterMark, out: &mut impl Outbox<Reign>) -> bool {
        if let Some(known) = self.name.mark.filter(|known| known.agreed) {
            self.name.foreign |= mark.agreed && known.id != mark.id;
            return known.id == mark.id;
        }
        if self.name.mark != Some(mark) {
            self.name.mark = Some(mark);
            out.persist(self.record());
            self.announce_name(out);
        }
        true
    }

    fn announce_name(&self, out: &mut impl Outbox<Reign>) {
        if let Some(mark) = self.name.mark.filter(|mark| mark.agreed) {
            out.announce(ReignEvent::Named(mark.id));
        }
    }

    pub(super) fn would_grant(&self, holder: Holder, after: Option<Released>) -> bool {
        let free = !self.promised || self.holder == Some(holder) || self.let_go(after);
        free && !self.settling && self.blank.is_none() && !self.name.foreign
    }

    /// Is this a list under which this voter may grant an epoch to this member? Never an older list than its own.
    pub(super) fn accepts(&self, list: &MemberList, bidder: NodeId, me: NodeId) -> bool {
        list.stamp >= self.list.stamp && list.votes(me) && list.may_lead(bidder)
    }

    /// Does a member hear a refusal that asked under this list? Not from a voter that the list does not name.
    pub(super) fn refuses(&self, list: &MemberList, bidder: NodeId, me: NodeId) -> bool {
        self.accepts(list, bidder, me) || self.blank.is_some() || list.stamp < self.list.stamp
    }

    /// A running promise is never overridden, except by a release of the holder itself.
    pub(super) fn grants(&self, epoch: Epoch, holder: Holder, after: Option<Released>) -> bool {
        let same = self.holder == Some(holder);
        let possible = self.blank.is_none() && !self.name.foreign && self.is_near(Epoch(epoch.0.saturating_sub(1)));
        possible
            && match epoch.cmp(&self.epoch) {
                Ordering::Less => false,
                // Also while settling: a restarted voter continues with the holder in its record.
                Ordering::Equal => same,
                Ordering::Greater => self.let_go(after) || (!self.settling && (!self.promised || same)),
            }
    }

    fn let_go(&self, after: Option<Released>) -> bool {
        after.is_some_and(|released| self.holder == Some(released.holder) && self.epoch <= released.epoch)
    }

    /// The grant and its list are on disk before it is answered: the later effects of the step wait for that. Returns the
    /// announcement of the grant, which follows the answer: a message that the announcement causes follows it too.
    #[must_use]
    pub(super) fn grant(
        &mut self,
        ctx: &Context<'_>,
        (epoch, holder): (Epoch, Holder),
        list: &Arc<MemberList>,
        out: &mut impl Outbox<Reign>,
    ) -> Option<ReignEvent> {
        assert!(self.blank.is_none(), "E4: a blank voter grants nothing");
        assert!(epoch > self.epoch || self.holder == Some(holder), "E4: epoch {epoch} is granted to one holder only");
        assert!(list.stamp >= self.list.stamp, "E16: no grant under a list older than the voter's own");
        let changed = (self.epoch, self.holder) != (epoch, Some(holder));
        let adopted = list.stamp > self.list.stamp;
        if adopted {
            self.list = Arc::clone(list);
        }
        if changed {
            if let Some(old) = self.holder.filter(|&old| self.promised && old != holder) {
                out.announce(ReignEvent::PromiseEnded { epoch: self.epoch, holder: old });
            }
            if self.holder != Some(holder) {
                self.latest = LatestRequest::default();
            }
            let first = self.epoch == Epoch(0) && self.holder.is_none();
            self.past.locks.grant(first, self.holder == Some(holder));
            self.leap(ctx, epoch, out);
            self.epoch = epoch;
            self.holder = Some(holder);
        }
        if changed || adopted {
            out.persist(self.record());
        }
        if adopted {
            out.announce(ReignEvent::List(ListEvent::Adopted(Arc::clone(list))));
        }
        // Also when a restarted voter continues with the holder in its record: its earlier process may not have announced
        // it.
        let announced = changed || !self.promised;
        self.promised = true;
        out.set_timer(ReignTimer::Promise, Span::exactly(ctx.settings.timing.lease));
        announced.then_some(ReignEvent::Granted { epoch, holder, list: list.stamp })
    }

    /// A list in force in which this member does not vote.
    pub(super) fn adopt(&mut self, list: &Arc<MemberList>, out: &mut impl Outbox<Reign>) {
        assert!(list.stamp > self.list.stamp && self.blank.is_none(), "E16: a list is replaced by a newer one only");
        self.list = Arc::clone(list);
        out.persist(self.record());
        out.announce(ReignEvent::List(ListEvent::Adopted(Arc::clone(list))));
    }

    /// Bids may overtake each other: the latest one decides whether the holder has children.
    pub(super) fn heard(&mut self, request: u64, no_child: bool) {
        if request >= self.latest.request {
            self.latest = LatestRequest { request, no_child };
        }
    }

    /// This member is told when it may ask again.
    pub(super) fn refuse(&mut self, member: FullPos) {
        self.refused.insert(member);
    }

    /// Members that were refused may ask again.
    pub(super) fn free(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Reign>) {
        for at in std::mem::take(&mut self.refused).iter() {
            out.send(at.id(ctx.view), Msg::Free);
        }
    }

    pub(super) fn promise_ends(&mut self, out: &mut impl Outbox<Reign>) {
        let ended = std::mem::take(&mut self.promised);
        if let Some(holder) = self.holder.filter(|_| ended) {
            out.announce(ReignEvent::PromiseEnded { epoch: self.epoch, holder });
        }
    }

    /// The holder has released its leadership. The epoch stays: it is never granted twice. False if the sender was not
    /// the holder.
    pub(super) fn release(&mut self, released: Released, out: &mut impl Outbox<Reign>) -> bool {
        let released = self.let_go(Some(released));
        if released {
            self.settling = false;
            out.cancel_timer(ReignTimer::Settle);
            out.cancel_timer(ReignTimer::Promise);
            self.promise_ends(out);
        }
        released
    }

    /// The holder, which has released this voter, has never led.
    pub(super) fn abandoned(&mut self) {
        self.past.locks.abandoned();
    }

    /// The holder's process has ended, so nothing acts on the promise, unless a child of it still runs. False if the
    /// promise stays in force.
    pub(super) fn closed_there(&mut self, ctx: &Context<'_>, holder: Holder, out: &mut impl Outbox<Reign>) -> bool {
        let void = self.promised && self.holder == Some(holder) && self.latest.no_child;
        let void = void && ctx.settings.on_close == OnClose::Immediate;
        if void {
            out.cancel_timer(ReignTimer::Promise);
            self.promise_ends(out);
        }
        void
    }

    /// Every promise of an earlier incarnation is over.
    pub(super) fn settle(&mut self, out: &mut impl Outbox<Reign>) {
        self.settling = false;
        if let Some(holder) = self.holder.filter(|_| !self.promised) {
            out.announce(ReignEvent::PromiseEnded { epoch: self.epoch, holder });
        }
    }

    /// Another member answered the survey of this blank voter.
    pub(super) fn survey_reply(&mut self, from: FullPos, epoch: Option<Epoch>, mark: Option<ClusterMark>) {
        let possible = epoch.is_none_or(|epoch| epoch < Epoch::MAX);
        let Some(survey) = self.blank.as_mut().filter(|_| !self.settling && possible) else { return };
        if let Some(epoch) = epoch {
            survey.told.insert(from);
            survey.epoch = survey.epoch.max(epoch);
            survey.mark = survey.mark.max(mark);
        }
        if epoch.is_none_or(|epoch| epoch == Epoch(0)) {
            survey.fresh.insert(from);
        } else {
            survey.fresh.remove(from);
        }
    }

    /// `known` is the newest list that this voter has heard of: answers of its voters count, and this voter itself does not.
    /// A majority of them intersects every majority that this voter may have been part of. Or the cluster is new: all
    /// other voters of the first list answered, none of them has ever granted anything, and the cluster may begin. True
    /// if this voter is blank no more.
    pub(super) fn learn(
        &mut self,
        ctx: &Context<'_>,
        known: &Arc<MemberList>,
        may_begin: bool,
        out: &mut impl Outbox<Reign>,
    ) -> bool {
        let Some(survey) = self.blank else { return false };
        let is_in = |set: &NodeSet, id| id != ctx.me.id && FullPos::of(ctx.view, id).is_some_and(|at| set.contains(at));
        let told = known.is_majority(|id| is_in(&survey.told, id));
        let first = known.stamp == Stamp::FIRST && known.votes(ctx.me.id) && may_begin;
        let enough = told || (first && known.voters().all(|id| id == ctx.me.id || is_in(&survey.fresh, id)));
        if enough {
            self.blank = None;
            self.epoch = survey.epoch.max(known.stamp.epoch);
            self.list = Arc::clone(known);
            self.name.mark = self.name.mark.max(survey.mark);
            out.persist(self.record());
            self.announce_name(out);
        }
        enough
    }

    /// The view has changed.
    pub(super) fn reseat(&mut self, old: &View, new: &View) {
        self.refused = self.refused.reseated(old, new);
        if let Some(survey) = &mut self.blank {
            survey.told = survey.told.reseated(old, new);
            survey.fresh = survey.fresh.reseated(old, new);
        }
    }
}
