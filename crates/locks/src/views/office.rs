//! The leader's side: which members take part in the present view, what they hold, and which of them the leader waits for.

use std::collections::{BTreeMap, BTreeSet};

use types::{NodeId, Uid};

use super::messages::{Condition, Holding, Kept, Parts, ViewId};
use crate::name::LockName;
use crate::wire::Mode;

/// After so many beats of a participant that still waits for Thaw it is sent again: the first may have crossed it.
const LATE_BEATS: u8 = 2;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Office {
    pub view: ViewId,
    pub set: BTreeSet<NodeId>,
    /// All of the set have answered.
    pub thawed: bool,
    /// Nothing was ever held before this view.
    pub fresh: bool,
    answers: BTreeMap<NodeId, Vec<Kept>>,
    arriving: BTreeMap<NodeId, Parts<Kept>>,
    /// The members of the list, and former members that may still act.
    members: BTreeSet<NodeId>,
    /// Members that were silent for a tenancy, or never asked to take part.
    gone: BTreeSet<NodeId>,
    /// Members whose beats are not acknowledged any more, so that they fall silent.
    dropped: BTreeSet<NodeId>,
    /// Who has no connection to whom, as the last beats of this view say.
    apart: BTreeMap<NodeId, BTreeSet<NodeId>>,
    /// What the view began with.
    pub holders: Vec<Holding>,
    /// Beats that are acknowledged when the clock shows that the lease holds.
    owed: BTreeMap<NodeId, u64>,
    /// How many beats of each participant said that it still waits for Thaw.
    late: BTreeMap<NodeId, u8>,
    /// The numbers of this epoch are used up: the next view is of the next epoch.
    pub needs_epoch: bool,
}

/// What follows from a beat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Nothing,
    /// Messages may be lost, or names are used up, or a member wants in.
    NewView,
    NewEpoch,
    /// This participant missed Thaw.
    ThawAgain,
    /// Two participants have no connection to each other, and all had before.
    Apart,
}

impl Office {
    /// `last`: the last view of this epoch, or number 0.
    pub fn new(last: ViewId, fresh: bool, members: BTreeSet<NodeId>) -> Self {
        Office {
            view: last,
            set: BTreeSet::new(),
            thawed: false,
            fresh,
            answers: BTreeMap::new(),
            arriving: BTreeMap::new(),
            members,
            gone: BTreeSet::new(),
            dropped: BTreeSet::new(),
            apart: BTreeMap::new(),
            holders: Vec::new(),
            owed: BTreeMap::new(),
            late: BTreeMap::new(),
            needs_epoch: false,
        }
    }

    /// The next view takes in every member that is not gone.
    pub fn begin_view(&mut self) {
        self.view.number += 1;
        self.fresh &= self.view.number == 1;
        self.set = self.members.difference(&self.gone).copied().collect();
        self.thawed = false;
        self.answers.clear();
        self.arriving.clear();
        self.apart.clear();
        self.holders.clear();
        self.owed.clear();
        self.late.clear();
    }

    pub fn members(&self) -> &BTreeSet<NodeId> {
        &self.members
    }

    /// The participants that have not answered Freeze.
    pub fn waits_for(&self) -> Vec<NodeId> {
        if self.thawed {
            return Vec::new();
        }
        self.set.iter().copied().filter(|id| !self.answers.contains_key(id)).collect()
    }

    /// Takes a part of an answer. Returns whether all of the set have answered now.
    pub fn frozen(&mut self, from: NodeId, view: ViewId, part: u32, held: Vec<Kept>, last: bool, limit: usize) -> bool {
        let counts = view == self.view && !self.thawed && self.set.contains(&from) && !self.answers.contains_key(&from);
        if !counts {
            return false;
        }
        let Some(held) = self.arriving.entry(from).or_default().take(part, held, last, limit) else { return false };
        self.arriving.remove(&from);
        self.answers.insert(from, held);
        self.set.iter().all(|id| self.answers.contains_key(id))
    }

    /// All have answered: the view begins with these locks. The first entry of a lock is the participant whose machine
    /// holds it; further ones are readers that it stands for.
    pub fn thaw(&mut self) -> &[Holding] {
        self.thawed = true;
        let mut by_name: BTreeMap<LockName, Vec<(Kept, NodeId)>> = BTreeMap::new();
        for (member, held) in std::mem::take(&mut self.answers) {
            for kept in held {
                by_name.entry(kept.name.clone()).or_default().push((kept, member));
            }
        }
        for (name, mut all) in by_name {
            if all.iter().any(|(kept, _)| kept.mode != Mode::Shared) {
                // Two answers cannot both be right: the later section is the one that may still run.
                all.sort_by_key(|(kept, _)| std::cmp::Reverse(kept.token));
                all.truncate(1);
            }
            let holding = |(kept, member): (Kept, NodeId)| Holding { name: name.clone(), member, token: kept.token };
            self.holders.extend(all.into_iter().map(holding));
        }
        &self.holders
    }

    pub fn beat(&mut self, from: NodeId, view: ViewId, number: u64, condition: &Condition) -> Verdict {
        if self.gone.contains(&from) {
            return self.let_in(from, &condition.apart);
        }
        if view != self.view || !self.set.contains(&from) {
            return Verdict::Nothing;
        }
        let apart: BTreeSet<NodeId> = condition.apart.iter().copied().filter(|id| self.set.contains(id)).collect();
        if self.dropped.contains(&from) {
            if !apart.is_empty() {
                return Verdict::Nothing;
            }
            self.dropped.remove(&from);
        }
        self.owed.insert(from, number);
        if !self.thawed {
            return Verdict::Nothing;
        }
        let (is_apart, was_apart) = (!apart.is_empty(), self.apart.values().any(|of| !of.is_empty()));
        self.apart.insert(from, apart);
        match condition {
            Condition { full: Some(super::messages::Full::Tokens), .. } => Verdict::NewEpoch,
            Condition { full: Some(super::messages::Full::Names), .. } => Verdict::NewView,
            _ if is_apart => {
                if was_apart {
                    Verdict::Nothing
                } else {
                    Verdict::Apart
                }
            }
            Condition { broken: true, .. } => Verdict::NewView,
            Condition { runs: false, .. } => self.is_late(from),
            _ => Verdict::Nothing,
        }
    }

    fn is_late(&mut self, from: NodeId) -> Verdict {
        let beats = self.late.entry(from).or_default();
        *beats = beats.saturating_add(1);
        if *beats < LATE_BEATS {
            return Verdict::Nothing;
        }
        *beats = 0;
        Verdict::ThawAgain
    }

    /// A settled member knocked, or a beat came of a member that was silent for too long.
    pub fn let_in(&mut self, from: NodeId, apart: &[NodeId]) -> Verdict {
        if apart.iter().any(|id| self.members.contains(id) && !self.gone.contains(id)) {
            return Verdict::Nothing;
        }
        let rejoins = self.gone.remove(&from) || (self.thawed && self.set.contains(&from));
        if rejoins { Verdict::NewView } else { Verdict::Nothing }
    }

    /// The beats that are to be acknowledged.
    pub fn take_owed(&mut self) -> BTreeMap<NodeId, u64> {
        std::mem::take(&mut self.owed)
    }

    pub fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Of two participants that stayed apart, the one with the smaller uid is not acknowledged any more; never `me`.
    pub fn drop_apart(&mut self, me: NodeId, uid: impl Fn(NodeId) -> Uid) {
        for (one, others) in std::mem::take(&mut self.apart) {
            for other in others {
                let loser = match (one == me, other == me) {
                    (true, _) => other,
                    (_, true) => one,
                    _ => std::cmp::min_by_key(one, other, |&id| uid(id)),
                };
                self.dropped.insert(loser);
                self.owed.remove(&loser);
            }
        }
    }

    /// It was silent for a tenancy. Returns whether the view has to change.
    pub fn silent(&mut self, id: NodeId, list: &BTreeSet<NodeId>) -> bool {
        if !self.members.contains(&id) {
            return false;
        }
        self.dropped.remove(&id);
        if list.contains(&id) {
            self.gone.insert(id);
        } else {
            self.members.remove(&id);
        }
        self.set.contains(&id)
    }

    /// Another list is in force. A former member is not acknowledged any more and falls silent; a new member joins the view when
    /// it knocks.
    pub fn list(&mut self, list: &BTreeSet<NodeId>, me: NodeId) {
        for &id in list {
            if self.members.insert(id) {
                self.gone.insert(id);
            } else {
                // Removed and added again while it still acted.
                self.dropped.remove(&id);
            }
        }
        for &id in self.members.difference(list).filter(|&&id| id != me) {
            self.dropped.insert(id);
            self.owed.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{Epoch, Token};

    fn ids(of: &[u32]) -> BTreeSet<NodeId> {
        of.iter().map(|&id| NodeId(id)).collect()
    }

    fn kept(token: u64, mode: Mode) -> Kept {
        Kept { name: LockName::new("x").expect("a name"), token: Token(token), mode }
    }

    fn office() -> Office {
        let mut office = Office::new(ViewId { epoch: Epoch(1), number: 0 }, false, ids(&[1, 2, 3]));
        office.begin_view();
        office
    }

    fn answer(office: &mut Office, id: u32, held: Vec<Kept>) -> bool {
        let view = office.view;
        office.frozen(NodeId(id), view, 0, held, true, 10)
    }

    fn thawed() -> Office {
        let mut office = office();
        for id in 1..=3 {
            answer(&mut office, id, vec![]);
        }
        office.thaw();
        office
    }

    #[test]
    fn a_view_begins_when_all_have_answered_and_only_answers_to_it_count() {
        let mut office = office();
        assert!(!answer(&mut office, 1, vec![]));
        assert!(!answer(&mut office, 2, vec![kept(5, Mode::Exclusive)]));
        assert_eq!(office.waits_for(), [NodeId(3)]);
        let earlier = ViewId { epoch: Epoch(1), number: 0 };
        assert!(!office.frozen(NodeId(3), earlier, 0, vec![], true, 10));
        assert!(answer(&mut office, 3, vec![]));
        let holders = office.thaw();
        assert_eq!(holders.iter().map(|of| (of.member.0, of.token.0)).collect::<Vec<_>>(), [(2, 5)]);
    }

    #[test]
    fn readers_are_all_kept_and_of_two_writers_the_later() {
        let mut both = office();
        answer(&mut both, 1, vec![kept(5, Mode::Shared)]);
        answer(&mut both, 2, vec![kept(5, Mode::Shared)]);
        answer(&mut both, 3, vec![]);
        assert_eq!(both.thaw().iter().map(|of| of.member.0).collect::<Vec<_>>(), [1, 2]);
        let mut one = office();
        answer(&mut one, 1, vec![kept(5, Mode::Shared)]);
        answer(&mut one, 2, vec![kept(6, Mode::Exclusive)]);
        answer(&mut one, 3, vec![]);
        assert_eq!(one.thaw().iter().map(|of| of.member.0).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn only_beats_of_the_present_view_are_owed_an_acknowledgement() {
        let mut office = thawed();
        let runs = Condition { runs: true, ..Condition::default() };
        let (now, earlier) = (office.view, ViewId { epoch: Epoch(1), number: 0 });
        assert_eq!(office.beat(NodeId(2), earlier, 4, &runs), Verdict::Nothing);
        assert!(!office.owes());
        assert_eq!(office.beat(NodeId(2), now, 5, &runs), Verdict::Nothing);
        assert_eq!(office.take_owed(), BTreeMap::from([(NodeId(2), 5)]));
    }

    #[test]
    fn a_participant_that_missed_thaw_gets_it_again() {
        let mut office = thawed();
        let (view, waits) = (office.view, Condition::default());
        assert_eq!(office.beat(NodeId(2), view, 1, &waits), Verdict::Nothing);
        assert_eq!(office.beat(NodeId(2), view, 2, &waits), Verdict::ThawAgain);
    }

    #[test]
    fn participants_that_stay_apart_lose_the_one_with_the_smaller_uid() {
        let mut office = thawed();
        let apart = Condition { runs: true, broken: true, apart: vec![NodeId(3)], full: None };
        let view = office.view;
        assert_eq!(office.beat(NodeId(2), view, 1, &apart), Verdict::Apart);
        office.drop_apart(NodeId(1), |id| Uid::plain(id.0));
        assert!(!office.owes(), "the beat of the one that is dropped");
        let runs = Condition { runs: true, ..Condition::default() };
        assert_eq!(office.beat(NodeId(3), view, 1, &runs), Verdict::Nothing);
        assert_eq!(office.take_owed(), BTreeMap::from([(NodeId(3), 1)]));
        assert!(office.silent(NodeId(2), &ids(&[1, 2, 3])));
        office.begin_view();
        assert_eq!(office.set, ids(&[1, 3]));
        assert_eq!(office.let_in(NodeId(2), &[NodeId(3)]), Verdict::Nothing, "still apart");
        assert_eq!(office.let_in(NodeId(2), &[]), Verdict::NewView);
    }

    #[test]
    fn a_broken_connection_that_is_back_makes_a_new_view() {
        let mut office = thawed();
        let broken = Condition { runs: true, broken: true, ..Condition::default() };
        let view = office.view;
        assert_eq!(office.beat(NodeId(2), view, 1, &broken), Verdict::NewView);
    }

    #[test]
    fn a_former_member_is_waited_for_and_a_new_one_knocks() {
        let mut office = thawed();
        office.list(&ids(&[1, 2, 4]), NodeId(1));
        office.begin_view();
        assert_eq!(office.set, ids(&[1, 2, 3]));
        assert!(office.silent(NodeId(3), &ids(&[1, 2, 4])));
        office.begin_view();
        assert_eq!(office.set, ids(&[1, 2]));
        assert_eq!(office.let_in(NodeId(4), &[]), Verdict::NewView);
        office.begin_view();
        assert_eq!(office.set, ids(&[1, 2, 4]));
    }
}
