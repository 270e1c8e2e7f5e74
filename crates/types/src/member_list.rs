//! The list of a cluster's members, and the stamp that orders one list before another.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::name::parsed_names;
use crate::{Epoch, NodeId, Uid};

/// What a member may do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerRole {
    /// Stands and votes.
    #[default]
    Member,
    /// Votes, never leads.
    Witness,
    /// Neither votes nor leads.
    Learner,
}

parsed_names!(PeerRole { Member: "member", Witness: "witness", Learner: "learner" });

impl PeerRole {
    pub fn votes(self) -> bool {
        self != PeerRole::Learner
    }
}

/// Orders member lists: first by the epoch of the leader that made the list, then by its number within that reign. Never
/// compared by the number alone: two leaders may each have made a "list 1".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Stamp {
    pub epoch: Epoch,
    pub n: u32,
}

impl Stamp {
    /// The stamp of the list in the config file.
    pub const FIRST: Stamp = Stamp { epoch: Epoch(0), n: 0 };

    pub const fn new(epoch: Epoch, n: u32) -> Self {
        Stamp { epoch, n }
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.n)
    }
}

/// One line of a member list.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Listed {
    pub uid: Uid,
    pub role: PeerRole,
    /// `host:port` that other members dial.
    pub address: String,
}

/// One word for all but the address: models hash many lists, and their members have no addresses.
impl Hash for Listed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Listed { uid, role, address: _ } = self;
        (u64::from(uid.id.0) << 34 | u64::from(uid.priority) << 2 | *role as u64).hash(state);
    }
}

/// The members of a cluster, in the order of the ring. The list with the largest stamp that is on the disks of a majority
/// of its own voters is in force.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct MemberList {
    pub stamp: Stamp,
    pub members: Vec<Listed>,
}

impl MemberList {
    pub fn get(&self, id: NodeId) -> Option<&Listed> {
        self.members.iter().find(|listed| listed.uid.id == id)
    }

    pub fn contains(&self, id: NodeId) -> bool {
        self.get(id).is_some()
    }

    pub fn votes(&self, id: NodeId) -> bool {
        self.get(id).is_some_and(|listed| listed.role.votes())
    }

    pub fn may_lead(&self, id: NodeId) -> bool {
        self.get(id).is_some_and(|listed| listed.role == PeerRole::Member)
    }

    pub fn voters(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.iter().filter(|listed| listed.role.votes()).map(|listed| listed.uid.id)
    }

    /// More than half of all voters of this list, dead or alive.
    pub fn is_majority(&self, has: impl Fn(NodeId) -> bool) -> bool {
        2 * self.voters().filter(|&id| has(id)).count() > self.voters().count()
    }

    /// How many voters one of the two lists has and the other has not.
    pub fn voters_apart(&self, other: &MemberList) -> usize {
        let missing = |a: &MemberList, b: &MemberList| a.voters().filter(|&id| !b.votes(id)).count();
        missing(self, other) + missing(other, self)
    }

    /// The same members under another stamp.
    #[must_use]
    pub fn stamped(&self, stamp: Stamp) -> Self {
        MemberList { stamp, members: self.members.clone() }
    }

    /// Without regard to the stamp.
    pub fn same_members(&self, other: &MemberList) -> bool {
        self.members == other.members
    }
}

/// What an operator may ask of the leader: one step from the list in force to the next.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Change {
    /// This member is listed so: a new one is appended, a listed one gets this role, address and priority.
    List(Listed),
    /// This member is in the list no more.
    Unlist(NodeId),
    /// The pending list is given up: the list in force is proposed again, under a later stamp.
    Abort,
}

impl Change {
    /// Does the list say what this change asks for?
    pub fn is_made_in(&self, list: &MemberList) -> bool {
        match self {
            Change::List(listed) => list.get(listed.uid.id) == Some(listed),
            Change::Unlist(id) => !list.contains(*id),
            Change::Abort => true,
        }
    }
}

/// Why the leader does not make a change. Nothing was proposed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, Error)]
pub enum ChangeRefusal {
    #[error("this member does not lead")]
    NotLeading,
    #[error("the change to list {0} is still pending: wait for it, or give it up with `ctl member abort`")]
    Pending(Stamp),
    #[error("no change is pending")]
    NothingPending,
    #[error("member {0} is not in the list: `ctl member list` shows it")]
    Unlisted(NodeId),
    #[error("member {0} is the leader: hand over first with `ctl transfer`")]
    Leader(NodeId),
    #[error("member {0} is not connected to the leader, or does not know yet what was granted")]
    NotReady(NodeId),
    #[error("no majority of the new voters is connected to the leader: nobody could lead if the change were made")]
    NoMajority,
    #[error("the list would have no voter besides the leader")]
    TooFew,
    #[error("the list is full: a cluster has at most 256 members")]
    TooMany,
    #[error("the leader has not yet confirmed the present list in its own reign: try again")]
    NotAffirmed,
}

/// What one member knows of the lists.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Membership {
    /// The newest list that this member has heard of. It dials these members.
    pub known: MemberList,
    /// The stamp of the list on its own disk; `None` while the member does not know what was granted.
    pub on_disk: Option<Stamp>,
    /// At the leader: the last list in force.
    pub in_force: Option<Stamp>,
    /// At the leader: the list that is proposed and not in force yet.
    pub pending: Option<Stamp>,
    /// At the leader: members that are connected and know what was granted. A learner among these may become a voter.
    pub ready: Vec<NodeId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(voters: &[u32], learners: &[u32]) -> MemberList {
        let listed = |id, role| Listed { uid: Uid::plain(id), role, address: String::new() };
        let voters = voters.iter().map(|&id| listed(id, PeerRole::Member));
        let members = voters.chain(learners.iter().map(|&id| listed(id, PeerRole::Learner))).collect();
        MemberList { stamp: Stamp::FIRST, members }
    }

    #[test]
    fn a_stamp_of_a_later_reign_is_larger_whatever_its_number() {
        assert!(Stamp::new(Epoch(3), 0) > Stamp::new(Epoch(2), 9));
        assert!(Stamp::new(Epoch(3), 2) > Stamp::new(Epoch(3), 1));
        assert_eq!(Stamp::new(Epoch(3), 2).to_string(), "3.2");
    }

    #[test]
    fn learners_neither_make_a_majority_nor_set_two_lists_apart() {
        let four = list(&[1, 2, 3, 4], &[9]);
        assert!(!four.is_majority(|id| [1, 2, 9].contains(&id.0)));
        assert!(four.is_majority(|id| [1, 2, 3].contains(&id.0)));
        assert_eq!(four.voters_apart(&list(&[1, 2, 3, 4], &[])), 0);
        assert_eq!(four.voters_apart(&list(&[1, 2, 3], &[4])), 1);
        assert_eq!(four.voters_apart(&list(&[1, 2, 3, 5], &[])), 2);
    }
}
