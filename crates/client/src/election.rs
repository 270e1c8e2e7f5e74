//! The cost of the last election for all its participants together.

use std::collections::BTreeMap;

use types::{Uid, Wins};

use crate::announcement::{ElectionCost, ElectionName, KindCount};
use crate::wire::MemberStatus;

/// One election, assembled from the answers of its participants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ElectionSummary {
    pub name: ElectionName,
    pub algorithm: String,
    pub wins: Wins,
    /// In the order of the member list.
    pub participants: Vec<u32>,
    /// The uids of the participants, in the same order; only if every participant has answered.
    pub uids: Option<Vec<Uid>>,
    /// The participants that started it themselves; not known for most algorithms that number their own attempts.
    pub initiators: Option<Vec<u32>>,
    /// The messages sent, by kind, in the order of the algorithm's kinds.
    pub sent: Vec<KindCount>,
}

impl ElectionSummary {
    /// The newest election that any of these members reports.
    pub fn newest(statuses: &[&MemberStatus]) -> Option<Self> {
        let elections = || statuses.iter().filter_map(|status| Some((status, status.election.as_ref()?)));
        let (_, newest) = elections().max_by_key(|(_, cost)| cost.election)?;
        let told: BTreeMap<u32, _> = elections()
            .filter(|(_, cost)| cost.election == newest.election)
            .map(|(status, cost)| (status.id, (*status, cost)))
            .collect();
        let (first, _) = told.values().next()?;
        let initiators: Vec<u32> = told.iter().filter(|(_, (_, cost))| cost.initiator).map(|(&id, _)| id).collect();
        let by_rounds = matches!(newest.election, ElectionName::Round { .. });
        let participants = if by_rounds || initiators.is_empty() {
            newest.participants.clone()
        } else {
            participants_without_round(statuses, &told, &newest.participants)
        };
        let uid = |id: &u32| told.get(id).map(|(status, _)| status.uid());
        let mut sent = newest.sent.clone();
        for (at, kind) in sent.iter_mut().enumerate() {
            let counts = told.iter().filter(|(id, _)| participants.contains(id));
            kind.count = counts.filter_map(|(_, (_, cost))| cost.sent.get(at)).map(|kind| kind.count).sum();
        }
        Some(ElectionSummary {
            name: newest.election,
            algorithm: first.algorithm.clone(),
            wins: first.wins,
            uids: participants.iter().map(uid).collect(),
            participants,
            initiators: (by_rounds || !initiators.is_empty()).then_some(initiators),
            sent,
        })
    }

    /// Messages that search for a leader.
    pub fn election_messages(&self) -> u64 {
        self.sent.iter().filter(|kind| !kind.announcement).map(|kind| kind.count).sum()
    }

    /// Messages that announce a result that is already decided.
    pub fn announcement_messages(&self) -> u64 {
        self.sent.iter().filter(|kind| kind.announcement).map(|kind| kind.count).sum()
    }

    /// Positions of the initiators among the participants, where both are known.
    pub fn initiator_positions(&self) -> Option<Vec<usize>> {
        let initiators = self.initiators.as_ref().filter(|initiators| !initiators.is_empty())?;
        let at = |id: &u32| self.participants.iter().position(|participant| participant == id);
        let mut positions: Vec<usize> = initiators.iter().map(at).collect::<Option<_>>()?;
        positions.sort_unstable();
        Some(positions)
    }
}

/// An election without a round has no list of participants. Those that searched for a leader took part, and so may members
/// have that do not answer now although a member is connected to them. A member that was dead, or started later and only
/// heard the result, did not.
fn participants_without_round(
    statuses: &[&MemberStatus],
    told: &BTreeMap<u32, (&MemberStatus, &ElectionCost)>,
    all: &[u32],
) -> Vec<u32> {
    let searched = |cost: &ElectionCost| cost.sent.iter().any(|kind| !kind.announcement && kind.count > 0);
    let took_part = |id: &u32| told.get(id).is_some_and(|(_, cost)| searched(cost));
    let answers = |id: &u32| statuses.iter().any(|status| status.id == *id);
    let connected =
        |id: &u32| statuses.iter().flat_map(|status| &status.peers).any(|peer| peer.id == *id && peer.connected);
    all.iter().copied().filter(|id| took_part(id) || (!answers(id) && connected(id))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(id: u32, attempt: u64, initiator: bool, counts: [u64; 2]) -> MemberStatus {
        let election = ElectionName::Round { attempt, initiator: 3, incarnation: 1 };
        let kind =
            |(kind, announcement, count): (&str, bool, u64)| KindCount { kind: kind.to_owned(), announcement, count };
        let sent = [("probe", false, counts[0]), ("elected", true, counts[1])].map(kind).to_vec();
        let cost = ElectionCost { election, participants: vec![3, 1, 2], initiator, sent };
        MemberStatus { id, election: Some(cost), ..MemberStatus::example() }
    }

    #[test]
    fn the_messages_of_one_election_are_added_up_and_those_of_an_older_one_are_not() {
        let all = [status(1, 7, true, [4, 1]), status(2, 6, true, [50, 50]), status(3, 7, true, [2, 1])];
        let summary = ElectionSummary::newest(&all.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!((summary.election_messages(), summary.announcement_messages()), (6, 2));
        assert_eq!((summary.initiators.as_deref(), &summary.uids), (Some(&[1, 3][..]), &None), "2 has not answered");
        assert_eq!(summary.initiator_positions(), Some(vec![0, 1]));
        let all = [status(1, 7, false, [4, 1]), status(2, 7, false, [0, 1]), status(3, 7, true, [2, 1])];
        let summary = ElectionSummary::newest(&all.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(summary.uids, Some([3, 1, 2].map(Uid::plain).to_vec()));
        assert_eq!(summary.initiators, Some(vec![3]));
        assert_eq!(ElectionSummary::newest(&[]), None);
    }

    /// Members 1 to 4 elected 4 after the death of 5.
    fn voted(id: u32, initiator: bool, counts: [u64; 2]) -> MemberStatus {
        let of_round = status(id, 7, initiator, counts);
        let cost = of_round.election.map(|cost| ElectionCost {
            election: ElectionName::Epoch(9),
            participants: (1..=5).collect(),
            ..cost
        });
        MemberStatus { election: cost, ..of_round }
    }

    #[test]
    fn an_election_without_a_round_is_of_the_members_that_searched_and_its_candidates_started_it() {
        let mut all = vec![voted(1, false, [2, 1]), voted(2, false, [2, 1]), voted(3, false, [2, 1])];
        all.push(voted(4, true, [6, 3]));
        let newest = |all: &[MemberStatus]| ElectionSummary::newest(&all.iter().collect::<Vec<_>>()).unwrap();
        let summary = newest(&all);
        assert_eq!(
            (summary.participants.as_slice(), summary.initiators.as_deref()),
            (&[1, 2, 3, 4][..], Some(&[4][..]))
        );
        assert_eq!((summary.election_messages(), summary.announcement_messages()), (12, 6));
        assert_eq!(summary.initiator_positions(), Some(vec![3]));
        // A member that was started again has heard the result and voted for no member.
        all.push(voted(5, false, [0, 1]));
        assert_eq!(newest(&all), summary);
        // A connected member that does not answer may have voted.
        all.remove(0);
        let peer = crate::PeerStatus { id: 1, connected: true, ..crate::PeerStatus::default() };
        all[0].peers.push(peer);
        assert_eq!((newest(&all).participants, newest(&all).uids), (vec![1, 2, 3, 4], None));
    }
}
