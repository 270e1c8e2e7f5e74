//! The cost of the last election for all its participants together.

use std::collections::BTreeMap;

use types::{Uid, Wins};

use crate::announcement::{ElectionName, KindCount};
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
    /// The participants that started it themselves; not known for an algorithm that numbers its own attempts.
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
        let uid = |id: &u32| told.get(id).map(|(status, _)| status.uid());
        let initiators = told.iter().filter(|(_, (_, cost))| cost.initiator).map(|(&id, _)| id);
        let by_rounds = matches!(newest.election, ElectionName::Round { .. });
        let mut sent = newest.sent.clone();
        for (at, kind) in sent.iter_mut().enumerate() {
            let counts = told.values().filter_map(|(_, cost)| cost.sent.get(at));
            kind.count = counts.map(|kind| kind.count).sum();
        }
        Some(ElectionSummary {
            name: newest.election,
            algorithm: first.algorithm.clone(),
            wins: first.wins,
            participants: newest.participants.clone(),
            uids: newest.participants.iter().map(uid).collect(),
            initiators: by_rounds.then(|| initiators.collect()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::announcement::ElectionCost;

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
}
