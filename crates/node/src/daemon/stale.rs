//! Is this volume old? Peers that have seen a later incarnation of this member refuse it. One peer's word is never
//! enough to mark a disk: a peer may be wrong, on an old disk of its own, or lie.

use std::collections::{BTreeMap, BTreeSet};

use algorithms::NodeId;

/// More starts than any member ever has.
const COUNTER_MAX: u64 = 1 << 40;
/// How far one peer may raise the count of this member's starts.
const LEAP: u64 = 1 << 20;

/// What the peers say that refuse this process, and which of them was believed alone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Voices {
    /// The counter of the latest incarnation that each of them has seen.
    seen: BTreeMap<NodeId, u64>,
    /// Peers that raised the count of this member alone: each may do it once in a process.
    heeded: BTreeSet<NodeId>,
}

/// What this process does about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Judgement {
    /// Too few voices: continue with the members that accept this process.
    Wait,
    /// The disk has no promises to forget: begin again with a later incarnation than this one.
    ResumeAfter(u64),
    /// A majority of the voters has seen a later incarnation, so promises are missing here.
    Old,
}

impl Voices {
    /// True if this peer did not say so before.
    pub(super) fn hear(&mut self, peer: NodeId, seen: u64) -> bool {
        self.seen.insert(peer, seen).is_none()
    }

    /// The machines begin again: the peers judge the next incarnation anew.
    pub(super) fn begin_again(&mut self) {
        self.seen.clear();
    }

    /// This peer accepts the process.
    pub(super) fn forget(&mut self, peer: NodeId) {
        self.seen.remove(&peer);
    }

    /// `peer` spoke last. `voters`: all that are configured, this member included if it is one; it is no voice itself.
    pub(super) fn judge(&mut self, peer: NodeId, voters: &BTreeSet<NodeId>, own: u64, no_past: bool) -> Judgement {
        let mut seen: Vec<u64> =
            self.seen.iter().filter(|(id, _)| voters.contains(id)).map(|(_, &seen)| seen).collect();
        seen.sort_unstable_by(|a, b| b.cmp(a));
        // At least a majority has seen this count.
        let agreed = seen.get(voters.len() / 2).copied();
        match (agreed, no_past) {
            (Some(_), false) => Judgement::Old,
            (Some(agreed), true) if agreed < COUNTER_MAX => Judgement::ResumeAfter(agreed),
            (None, true) => self.heed(peer, own),
            _ => Judgement::Wait,
        }
    }

    fn heed(&mut self, peer: NodeId, own: u64) -> Judgement {
        match self.seen.get(&peer) {
            Some(&seen) if seen <= own.saturating_add(LEAP) && seen < COUNTER_MAX && self.heeded.insert(peer) => {
                Judgement::ResumeAfter(seen)
            }
            _ => Judgement::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voters(n: u32) -> BTreeSet<NodeId> {
        (1..=n).map(NodeId).collect()
    }

    /// Member 1, with run 3, is told by these peers, one after the other.
    fn told(said: &[(u32, u64)], n: u32, no_past: bool) -> Vec<Judgement> {
        let mut voices = Voices::default();
        let judge = |&(peer, seen): &(u32, u64)| {
            voices.hear(NodeId(peer), seen);
            voices.judge(NodeId(peer), &voters(n), 3, no_past)
        };
        said.iter().map(judge).collect()
    }

    #[test]
    fn a_disk_with_a_past_is_old_by_the_word_of_a_majority_and_not_of_one_peer() {
        use Judgement::{Old, Wait};
        assert_eq!(told(&[(2, 9), (2, 10), (2, 11)], 3, false), [Wait, Wait, Wait], "one peer, however often");
        assert_eq!(told(&[(2, 9), (3, 9)], 3, false), [Wait, Old]);
        assert_eq!(told(&[(2, 9), (3, 9), (4, 4)], 5, false), [Wait, Wait, Old]);
        assert_eq!(told(&[(2, 9), (3, 9), (7, 9)], 5, false), [Wait, Wait, Wait], "7 has no vote");
        assert_eq!(told(&[(2, 9)], 2, false), [Wait], "of two voters neither is a majority");
    }

    #[test]
    fn a_peer_that_accepts_the_process_has_taken_its_word_back() {
        let mut voices = Voices::default();
        assert!(voices.hear(NodeId(2), 9) && !voices.hear(NodeId(2), 9));
        voices.forget(NodeId(2));
        voices.hear(NodeId(3), 9);
        assert_eq!(voices.judge(NodeId(3), &voters(3), 3, false), Judgement::Wait);
    }

    #[test]
    fn without_a_past_one_peer_raises_the_count_by_one_leap_and_once() {
        use Judgement::{ResumeAfter, Wait};
        assert_eq!(told(&[(2, 9), (2, 20)], 5, true), [ResumeAfter(9), Wait]);
        assert_eq!(told(&[(2, 1 << 60)], 5, true), [Wait], "no member starts so often");
        assert_eq!(told(&[(2, 4 + LEAP)], 5, true), [Wait]);
        assert_eq!(told(&[(2, 3 + LEAP)], 5, true), [ResumeAfter(3 + LEAP)]);
    }

    #[test]
    fn without_a_past_a_majority_raises_it_to_what_all_of_them_have_seen() {
        use Judgement::{ResumeAfter, Wait};
        let far = 1 << 30;
        assert_eq!(told(&[(2, 1 << 39), (3, far), (4, far + 5)], 5, true), [Wait, Wait, ResumeAfter(far)]);
        let beyond = 1 << 41;
        assert_eq!(told(&[(2, beyond), (3, beyond)], 3, true), [Wait, Wait]);
    }
}
