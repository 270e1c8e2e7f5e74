//! Which list of members counts: the newest one that this member has heard of, and at a leader the list in force and the
//! one that is proposed. A change of the list is a renewal that carries another list: docs/quorum.md has the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use algorithms::{Epoch, NodeId, Outbox, Span};
use types::{Change, ChangeRefusal, Listed, MemberList, Membership, Stamp};

use super::leader::Leader;
use super::{ListEvent, Msg, Reign, ReignEvent, ReignTimer, is_in, is_majority};
use crate::messages::Context;
use crate::positions::NodeSet;

/// A connection is dropped long before a member has so many: a bound on what unlisted members can make this one keep.
const REPORTS_MAX: usize = 2 * NodeSet::MAX;

/// What this member has heard of lists.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Lists {
    /// The newest list. While this member leads and proposes a list without some member: the list before that one, so
    /// that the member stays connected until the list is in force.
    known: Arc<MemberList>,
    /// Connected members that reported their list, and whether they know what was granted.
    reports: BTreeMap<NodeId, bool>,
    /// The operator has said that this cluster is new.
    bootstrap: bool,
}

/// The lists of a leader.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Proposal {
    /// The last list in force.
    pub(super) force: Arc<MemberList>,
    /// The list of the last bid. Another one than `force`: it is pending.
    pub(super) sent: Arc<MemberList>,
}

impl Proposal {
    pub(super) fn is_pending(&self) -> bool {
        self.force.stamp != self.sent.stamp
    }

    /// Would the voters differ if the pending list came into force, or would roles or addresses?
    fn changes(&self) -> bool {
        !self.force.same_members(&self.sent)
    }

    /// The stamp of the next list of this reign.
    fn next_stamp(&self, epoch: Epoch) -> Stamp {
        let Stamp { epoch: made_in, n } = self.sent.stamp;
        if made_in == epoch { Stamp::new(epoch, n + 1) } else { Stamp::new(epoch, 0) }
    }
}

impl Lists {
    pub(super) fn start(known: Arc<MemberList>) -> Self {
        Lists { known, reports: BTreeMap::new(), bootstrap: false }
    }

    pub(super) fn known(&self) -> &Arc<MemberList> {
        &self.known
    }

    pub(super) fn is_told_to_begin(&self) -> bool {
        self.bootstrap
    }

    pub(super) fn begin(&mut self) {
        self.bootstrap = true;
    }

    fn report(&mut self, of: NodeId, blank: bool) {
        if self.reports.len() < REPORTS_MAX || self.reports.contains_key(&of) {
            self.reports.insert(of, !blank);
        }
    }

    pub(super) fn forget(&mut self, peer: NodeId) {
        self.reports.remove(&peer);
    }

    /// A list without voters, of a member that is yet to be added, is older than any other.
    fn is_newer(&self, list: &MemberList) -> bool {
        list.stamp > self.known.stamp || self.known.voters().next().is_none()
    }
}

/// No list of a leader is otherwise.
fn is_well_formed(list: &MemberList) -> bool {
    let ids = |of: &[Listed]| of.iter().map(|listed| listed.uid.id).collect::<BTreeSet<_>>().len();
    let members = &list.members;
    members.len() <= NodeSet::MAX && ids(members) == members.len() && list.voters().next().is_some()
}

/// What this member hears of lists.
impl Reign {
    /// The newest list that this member has heard of.
    pub fn known_list(&self) -> &Arc<MemberList> {
        self.lists.known()
    }

    /// The list on this voter's disk.
    pub fn list(&self) -> &Arc<MemberList> {
        self.voter.list()
    }

    /// At a leader: the last list in force, and the list of its last bid.
    pub fn proposal(&self) -> Option<(&Arc<MemberList>, &Arc<MemberList>)> {
        self.leader.as_ref().map(Leader::proposal).map(|lists| (&lists.force, &lists.sent))
    }

    pub fn membership(&self, ctx: &Context<'_>) -> Membership {
        let lists = self.leader.as_ref().map(Leader::proposal);
        let members = self.lists.known.members.iter().map(|listed| listed.uid.id);
        let ready = members.filter(|&id| lists.is_some() && self.is_ready(ctx, id));
        Membership {
            known: MemberList::clone(&self.lists.known),
            on_disk: (!self.voter.is_blank()).then_some(self.voter.list().stamp),
            in_force: lists.map(|lists| lists.force.stamp),
            pending: lists.filter(|lists| lists.is_pending()).map(|lists| lists.sent.stamp),
            ready: ready.collect(),
        }
    }

    /// Another member has this list. False if there is no such list: the message is to be dropped.
    pub(super) fn hear(&mut self, ctx: &Context<'_>, list: &Arc<MemberList>, out: &mut impl Outbox<Self>) -> bool {
        for own in [self.voter.list(), self.lists.known()] {
            if own.stamp == list.stamp && own.voters().next().is_some() {
                return own == list;
            }
        }
        let near = list.stamp.epoch <= self.voter.reach() && list.stamp.epoch < Epoch::MAX;
        if !near || !is_well_formed(list) {
            return false;
        }
        if self.lists.is_newer(list) {
            self.know(list, out);
            self.candidate.saw(list.stamp.epoch);
            if self.leader.is_some() {
                self.stay_ahead(ctx, out);
            } else {
                // The attempt under the older list is dropped.
                self.start_over(ctx, out);
            }
        }
        true
    }

    fn know(&mut self, list: &Arc<MemberList>, out: &mut impl Outbox<Self>) {
        if self.lists.is_newer(list) {
            self.lists.known = Arc::clone(list);
            out.announce(ReignEvent::List(ListEvent::Known(Arc::clone(list))));
        }
    }

    /// A leader that has proposed a list without some member leads no more.
    pub(super) fn know_own_list(&mut self, out: &mut impl Outbox<Self>) {
        let own = Arc::clone(self.voter.list());
        self.know(&own, out);
    }

    /// Another member reports its list.
    pub(super) fn listed(
        &mut self,
        ctx: &Context<'_>,
        from: NodeId,
        (list, blank, in_force): (&Arc<MemberList>, bool, bool),
        out: &mut impl Outbox<Self>,
    ) {
        if !self.hear(ctx, list, out) {
            return;
        }
        self.lists.report(from, blank);
        let me = ctx.me.id;
        let newer = list.stamp > self.voter.list().stamp;
        if !in_force || list.votes(me) || self.voter.is_blank() || self.leader.is_some() {
            return;
        }
        if newer {
            // No bid under this list comes to this member: it votes no more.
            self.voter.adopt(list, out);
        }
        // No answer to a bid shows the leader any more that this member knows what was granted: it says so, and may be
        // made a voter again over the same connection.
        self.tell_list(from, out);
        // A newer list with this member may be proposed already: it is being added, and this message was on its way.
        if !self.lists.known.contains(me) && *list == *self.voter.list() {
            out.announce(ReignEvent::List(ListEvent::Removed(list.stamp)));
        }
    }

    /// To a member that has just been connected. Voters of the first list have nothing to tell each other.
    pub(super) fn greet(&self, ctx: &Context<'_>, peer: NodeId, out: &mut impl Outbox<Self>) {
        let known = &self.lists.known;
        if known.stamp > Stamp::FIRST || !known.votes(ctx.me.id) || !known.contains(peer) {
            self.tell_list(peer, out);
        }
    }

    pub(super) fn tell_list(&self, to: NodeId, out: &mut impl Outbox<Self>) {
        let force = self.leader.as_ref().map(|leader| &leader.proposal().force);
        let list = force.unwrap_or_else(|| self.told_list());
        let (list, blank, in_force) = (Arc::clone(list), self.voter.is_blank(), force.is_some());
        out.send(to, Msg::List { list, blank, in_force });
    }

    /// The list that this member names in refusals and reports.
    pub(super) fn told_list(&self) -> &Arc<MemberList> {
        if self.voter.is_blank() { self.lists.known() } else { self.voter.list() }
    }

    /// This voter knows now what was granted: it may be made a voter.
    pub(super) fn report_to_all(&self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        for peer in ctx.view.others(ctx.me.id) {
            self.greet(ctx, peer.id, out);
        }
    }

    /// To all members that get no bids under the list in force.
    pub(super) fn tell_others(&self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let Some(force) = self.leader.as_ref().map(|leader| &leader.proposal().force) else { return };
        let in_view = ctx.view.members().iter().map(|uid| uid.id);
        let all: BTreeSet<NodeId> = in_view.chain(self.lists.reports.keys().copied()).collect();
        for id in all.into_iter().filter(|&id| id != ctx.me.id && !force.votes(id)) {
            self.tell_list(id, out);
        }
    }
}

/// The leader changes the list.
impl Reign {
    pub(super) fn change(&mut self, ctx: &Context<'_>, change: &Change, out: &mut impl Outbox<Self>) {
        let refused = match self.changed(ctx, change) {
            Ok(members) => return self.propose(ctx, members, out),
            Err(refused) => refused,
        };
        match refused {
            None => {
                let force = self.leader.as_ref().map(|leader| Arc::clone(&leader.proposal().force));
                out.announce(ReignEvent::List(ListEvent::Proposed(force.expect("only a leader has nothing to do"))));
            }
            Some(refusal) => {
                if refusal == ChangeRefusal::NotAffirmed {
                    self.affirm(ctx, out);
                }
                out.announce(ReignEvent::List(ListEvent::Refused(refusal)));
            }
        }
    }

    /// The members of the next list; `Err(None)`: they are so already.
    fn changed(&self, ctx: &Context<'_>, change: &Change) -> Result<Vec<Listed>, Option<ChangeRefusal>> {
        let leader = self.leader.as_ref().ok_or(ChangeRefusal::NotLeading)?;
        let lists = leader.proposal();
        if *change == Change::Abort {
            let pending = lists.is_pending() && lists.changes();
            return if pending { Ok(lists.force.members.clone()) } else { Err(Some(ChangeRefusal::NothingPending)) };
        }
        let next = with(&lists.force, change)?;
        if next.same_members(&lists.force) && !lists.changes() {
            return Err(None);
        }
        if lists.is_pending() && lists.changes() {
            return Err(Some(ChangeRefusal::Pending(lists.sent.stamp)));
        }
        if !next.may_lead(ctx.me.id) {
            return Err(Some(ChangeRefusal::Leader(ctx.me.id)));
        }
        if next.voters().count() < lists.force.voters().count().min(2) {
            return Err(Some(ChangeRefusal::TooFew));
        }
        if let Some(new) = next.voters().find(|&id| !lists.force.votes(id) && !self.is_ready(ctx, id)) {
            return Err(Some(ChangeRefusal::NotReady(new)));
        }
        if !next.is_majority(|id| self.is_ready(ctx, id)) {
            return Err(Some(ChangeRefusal::NoMajority));
        }
        // The cluster's id must be known to a majority of one list before the next list may be made.
        let affirmed = !lists.is_pending() && lists.force.stamp.epoch == leader.epoch();
        if !affirmed || self.voter.epoch() != leader.epoch() || !self.is_named(ctx) {
            return Err(Some(ChangeRefusal::NotAffirmed));
        }
        Ok(next.members)
    }

    /// Is it connected, and does it know what was granted? Voters show it by their answers.
    fn is_ready(&self, ctx: &Context<'_>, id: NodeId) -> bool {
        let supports = self.leader.as_ref().is_some_and(|leader| is_in(ctx, leader.supporters(), id));
        let acks = self.candidate.bid().is_some_and(|bid| is_in(ctx, &bid.acks, id));
        id == ctx.me.id || supports || acks || self.lists.reports.get(&id).is_some_and(|&ready| ready)
    }

    /// Stamps the list anew, in the epoch of this reign: every proposal of an earlier reign meets a voter that has a
    /// newer list. Only a leader stamps; a candidate keeps the stamp that it found.
    pub(super) fn affirm(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let Some(leader) = self.leader.as_ref().filter(|leader| leader.epoch() == self.voter.epoch()) else { return };
        let sent = &leader.proposal().sent;
        if sent.stamp.epoch < leader.epoch() {
            let members = sent.members.clone();
            self.propose(ctx, members, out);
        }
    }

    /// A list newer than the leader's own was heard of: the leader stamps its list anew, above it.
    pub(super) fn stay_ahead(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let known = self.lists.known.stamp;
        let Some(leader) = self.leader.as_mut().filter(|leader| known > leader.proposal().sent.stamp) else { return };
        if known.epoch >= leader.epoch() {
            // Bids for a later epoch first.
            leader.outvote();
        } else {
            self.affirm(ctx, out);
        }
    }

    /// The list is on this member's disk before any voter gets it.
    fn propose(&mut self, ctx: &Context<'_>, members: Vec<Listed>, out: &mut impl Outbox<Self>) {
        let Some(leader) = &mut self.leader else { return };
        let epoch = leader.epoch();
        let list = Arc::new(MemberList { stamp: leader.proposal().next_stamp(epoch), members });
        leader.send_list(Arc::clone(&list));
        if leader.proposal().changes() {
            out.set_timer(ReignTimer::Change, Span::exactly(ctx.settings.timing.change_timeout()));
        } else {
            out.cancel_timer(ReignTimer::Change);
        }
        if self.lists.known.members.iter().all(|listed| list.contains(listed.uid.id)) {
            self.know(&list, out);
        }
        out.announce(ReignEvent::List(ListEvent::Proposed(list)));
        self.candidate.forget_bid(out);
        self.bid_anew(ctx, epoch, None, out);
    }

    /// The pending list has not come into force in time. The list in force is proposed again, under a later stamp:
    /// nothing else may be sent before one of the two is in force.
    pub(super) fn revert(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let Some(leader) = self.leader.as_ref().filter(|leader| leader.proposal().changes()) else { return };
        if leader.epoch() == self.voter.epoch() {
            let members = leader.proposal().force.members.clone();
            self.propose(ctx, members, out);
        } else {
            // A bid for a later epoch is under way.
            out.set_timer(ReignTimer::Change, Span::exactly(ctx.settings.timing.change_timeout()));
        }
    }

    /// A majority of the voters of the pending list has it on disk, as the answers to one request show.
    pub(super) fn put_in_force(
        &mut self,
        ctx: &Context<'_>,
        list: &Arc<MemberList>,
        acks: &NodeSet,
        out: &mut impl Outbox<Self>,
    ) {
        let Some(leader) = &mut self.leader else { return };
        if leader.proposal().force.stamp == list.stamp || !is_majority(ctx, list, acks) {
            return;
        }
        let apart = leader.proposal().force.voters_apart(list);
        assert!(apart <= 1, "E17: two lists in force one after the other are {apart} voters apart");
        leader.put_in_force(Arc::clone(list));
        out.cancel_timer(ReignTimer::Change);
        self.in_force(ctx, out);
    }

    /// The list in force is another one, or this leader is new.
    pub(super) fn in_force(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let Some(force) = self.leader.as_ref().map(|leader| Arc::clone(&leader.proposal().force)) else { return };
        if force.stamp > Stamp::FIRST {
            self.know(&force, out);
            out.announce(ReignEvent::List(ListEvent::InForce(force)));
            self.tell_others(ctx, out);
        }
    }
}

/// The list after this change.
fn with(force: &MemberList, change: &Change) -> Result<MemberList, ChangeRefusal> {
    let mut next = force.clone();
    match change {
        Change::List(listed) => {
            let full = next.members.len() == NodeSet::MAX;
            match next.members.iter_mut().find(|old| old.uid.id == listed.uid.id) {
                Some(old) => *old = listed.clone(),
                None if full => return Err(ChangeRefusal::TooMany),
                None => next.members.push(listed.clone()),
            }
        }
        Change::Unlist(id) => {
            let before = next.members.len();
            next.members.retain(|listed| listed.uid.id != *id);
            if next.members.len() == before {
                return Err(ChangeRefusal::Unlisted(*id));
            }
        }
        Change::Abort => {}
    }
    Ok(next)
}
