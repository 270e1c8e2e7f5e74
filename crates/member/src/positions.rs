//! Positions of members. There are two lists, and their positions are two types: the list of all members of the cluster
//! and the list of the participants of one round.

use algorithms::{NodeId, Uid, View};
use serde::{Deserialize, Serialize};

/// A position in the list of all members.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FullPos(pub usize);

impl FullPos {
    /// `full` is the view of all members.
    pub fn of(full: &View, id: NodeId) -> Option<Self> {
        full.position(id).map(FullPos)
    }

    pub fn all(full: &View) -> impl Iterator<Item = FullPos> + use<> {
        (0..full.len()).map(FullPos)
    }

    pub fn uid(self, full: &View) -> Uid {
        full.members()[self.0]
    }

    pub fn id(self, full: &View) -> NodeId {
        self.uid(full).id
    }
}

/// A position among the participants of one round.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct RoundPos(pub usize);

impl RoundPos {
    /// `participants` is the view of the round.
    pub(crate) fn of(participants: &View, id: NodeId) -> Option<Self> {
        participants.position(id).map(RoundPos)
    }
}

/// A set of members of the full list. A cluster has at most 256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct NodeSet([u64; 4]);

impl NodeSet {
    pub const MAX: usize = 256;

    pub fn insert(&mut self, FullPos(at): FullPos) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    pub fn remove(&mut self, FullPos(at): FullPos) {
        self.0[at / 64] &= !(1 << (at % 64));
    }

    pub fn contains(&self, FullPos(at): FullPos) -> bool {
        at < Self::MAX && self.0[at / 64] & (1 << (at % 64)) != 0
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// The same members at their positions in another view; members that are not in it are dropped.
    #[must_use]
    pub fn reseated(&self, old: &View, new: &View) -> Self {
        self.iter().filter(|at| at.0 < old.len()).filter_map(|at| FullPos::of(new, at.id(old))).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = FullPos> + use<> {
        self.0.into_iter().enumerate().flat_map(|(number, mut word)| {
            std::iter::from_fn(move || {
                let at = (word != 0).then(|| FullPos(number * 64 + word.trailing_zeros() as usize))?;
                word &= word - 1;
                Some(at)
            })
        })
    }
}

impl FromIterator<FullPos> for NodeSet {
    fn from_iter<I: IntoIterator<Item = FullPos>>(positions: I) -> Self {
        let mut set = NodeSet::default();
        positions.into_iter().for_each(|at| set.insert(at));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_into_it_up_to_the_last_member_of_the_largest_cluster() {
        let some = [0, 63, 64, 127, 255].map(FullPos);
        let mut set: NodeSet = some.into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), some);
        set.remove(FullPos(64));
        assert!(!set.contains(FullPos(64)) && set.len() == 4 && !set.is_empty());
        assert!(!set.contains(FullPos(256)));
    }
}
