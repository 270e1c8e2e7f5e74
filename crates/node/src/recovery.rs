//! A majority of the voters is lost for ever: the operator's word makes this member the only voter of a new cluster.
//!
//! The new cluster has a new id, so that members of the old one refuse it and are refused. Its epochs begin above all that
//! the lost voters can have granted unseen: tokens never go back, if every resource's largest token was told.

use std::collections::BTreeSet;
use std::sync::Arc;

use algorithms::{Epoch, NodeId};
use member::reign::{ClusterMark, LockPast, Vote};
use thiserror::Error;
use types::{ClusterId, InstanceId, MemberList, Stamp, Token};

use crate::config::Config;
use crate::records::{self, AuthorityRecord, ListMark};
use crate::storage::StateFile;

/// More reigns than the lost voters can have granted unseen.
const LEAP: u64 = 1 << 20;

/// What the operator says with `--force-voters`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forced {
    /// The voters of the new cluster: this member.
    pub voters: BTreeSet<NodeId>,
    /// Voters that are off and stay off.
    pub lost: BTreeSet<NodeId>,
    /// The largest token that any resource has seen; `None`: nobody can tell.
    pub token_above: Option<Token>,
    /// The id of the new cluster.
    pub cluster: ClusterId,
}

/// Why a forced start is refused. Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ForceRefusal {
    #[error(
        "--force-voters is for a member with votes on disk, and this one has none: force the survivor with the newest list"
    )]
    NoVotes,
    #[error("--force-voters needs safety = \"quorum\"")]
    Classic,
    #[error(
        "--force-voters names the one member that runs this command, {me}: the others are emptied and added one by one"
    )]
    NotAlone { me: NodeId },
    #[error("this member may not lead: force another survivor")]
    MayNotLead,
    #[error("--lost names {0}, which is no other voter of the list on disk")]
    NoVoter(NodeId),
    #[error(
        "the voters that are not lost are a majority: start them instead of --force-voters. Not lost: {}",
        .0.iter().map(NodeId::to_string).collect::<Vec<_>>().join(", ")
    )]
    MajorityLives(Vec<NodeId>),
    #[error("--force-voters and [[instances]]: remove the [[instances]] from the config first")]
    Instances,
    #[error("epoch {0} is above the largest epoch that tokens have room for: was --token-above mistyped?")]
    NoRoom(u64),
}

/// Changes the record: a new cluster of this member alone.
pub(crate) fn force(config: &Config, id: NodeId, file: &mut StateFile, forced: &Forced) -> Result<(), ForceRefusal> {
    if !config.instances.is_empty() {
        return Err(ForceRefusal::Instances);
    }
    let Some(AuthorityRecord::Quorum(mut record)) = records::authority(file, InstanceId::ELECTION) else {
        return Err(ForceRefusal::Classic);
    };
    let Some(vote) = record.vote.as_ref() else { return Err(ForceRefusal::NoVotes) };
    check(&vote.list, id, forced)?;
    let seen = forced.token_above.map_or(0, |token| token.epoch().0);
    let epoch = [vote.epoch.0, vote.list.stamp.epoch.0, record.belief.followed.0, seen].into_iter().max().unwrap_or(0);
    let epoch = Epoch(epoch.saturating_add(LEAP));
    if epoch.0 > Epoch::MAX.0 - LEAP {
        return Err(ForceRefusal::NoRoom(epoch.0));
    }
    let Some(me) = vote.list.get(id).cloned() else { return Err(ForceRefusal::MayNotLead) };
    let list = Arc::new(MemberList { stamp: Stamp::new(epoch, 0), members: vec![me] });
    let longest_lease = vote.longest_lease.max(config.settings.timing.lease);
    let locks = LockPast { only_holder: false, ..vote.locks };
    record.vote = Some(Vote { epoch, holder: None, longest_lease, list, locks });
    record.cluster = Some(ClusterMark { agreed: true, epoch, id: forced.cluster });
    records::put_authority(file, InstanceId::ELECTION, AuthorityRecord::Quorum(record).encode());
    records::put_list_mark(file, ListMark { listed: true, forced: true, removed: None });
    file.volume.seen.clear();
    file.volume.refused = false;
    Ok(())
}

fn check(list: &MemberList, id: NodeId, forced: &Forced) -> Result<(), ForceRefusal> {
    if forced.voters != BTreeSet::from([id]) {
        return Err(ForceRefusal::NotAlone { me: id });
    }
    if !list.may_lead(id) {
        return Err(ForceRefusal::MayNotLead);
    }
    if let Some(&wrong) = forced.lost.iter().find(|&&lost| lost == id || !list.votes(lost)) {
        return Err(ForceRefusal::NoVoter(wrong));
    }
    if list.is_majority(|id| !forced.lost.contains(&id)) {
        return Err(ForceRefusal::MajorityLives(list.voters().filter(|id| !forced.lost.contains(id)).collect()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{Listed, PeerRole, Uid};

    fn list(voters: &[u32]) -> MemberList {
        let listed = |&id: &u32| Listed { uid: Uid::plain(id), role: PeerRole::Member, address: String::new() };
        MemberList { stamp: Stamp::FIRST, members: voters.iter().map(listed).collect() }
    }

    fn forced(voters: &[u32], lost: &[u32]) -> Forced {
        let ids = |ids: &[u32]| ids.iter().copied().map(NodeId).collect();
        Forced { voters: ids(voters), lost: ids(lost), token_above: None, cluster: ClusterId(1) }
    }

    #[test]
    fn only_a_survivor_of_a_lost_majority_is_forced_and_alone() {
        let judge = |of: &[u32], voters: &[u32], lost: &[u32]| check(&list(of), NodeId(2), &forced(voters, lost));
        assert_eq!(judge(&[1, 2, 3], &[2], &[1, 3]), Ok(()));
        assert_eq!(judge(&[1, 2], &[2], &[1]), Ok(()));
        assert_eq!(judge(&[1, 2, 3, 4, 5], &[2], &[1, 3, 5]), Ok(()), "4 is emptied and added again");
        assert_eq!(judge(&[1, 2, 3], &[2], &[1]), Err(ForceRefusal::MajorityLives([2, 3].map(NodeId).into())));
        assert_eq!(judge(&[1, 2, 3], &[2, 3], &[1]), Err(ForceRefusal::NotAlone { me: NodeId(2) }));
        assert_eq!(judge(&[1, 2, 3], &[2], &[1, 4]), Err(ForceRefusal::NoVoter(NodeId(4))));
        assert_eq!(judge(&[1, 2, 3], &[2], &[1, 2, 3]), Err(ForceRefusal::NoVoter(NodeId(2))));
        assert_eq!(judge(&[1, 3, 4], &[2], &[1, 3]), Err(ForceRefusal::MayNotLead));
    }
}
