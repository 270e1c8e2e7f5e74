//! Is there a second process with this member's id? The peers say so when they refuse a dial: their connection to the first
//! process has just answered a ping.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A peer is believed when it has refused for this long. A restarted member is refused only until its peers notice that
/// its old connections are dead.
const REFUSED_FOR: Duration = Duration::from_secs(3);
/// A refusal that was not repeated for this long is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3);
/// No single peer's word ends this process.
const PEERS_MIN: usize = 2;

/// The first and the last refusal of every peer that refuses this process now.
#[derive(Debug, Default)]
pub(super) struct Duplicates(BTreeMap<u32, (Instant, Instant)>);

impl Duplicates {
    pub(super) fn connected(&mut self, peer: u32) {
        self.0.remove(&peer);
    }

    /// A peer has refused this process as a duplicate. True if the majority of the `others` has done so for some time.
    pub(super) fn refused(&mut self, peer: u32, others: usize, now: Instant) -> bool {
        self.0.retain(|_, (_, last)| now.duration_since(*last) < FORGOTTEN_AFTER);
        let (_, last) = self.0.entry(peer).or_insert((now, now));
        *last = now;
        let sure = self.0.values().filter(|(first, _)| now.duration_since(*first) >= REFUSED_FOR).count();
        sure >= PEERS_MIN && 2 * sure > others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lasting_refusals_of_a_majority_and_never_those_of_one_peer_are_believed() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        for (others, needed) in [(1, None), (2, Some(2)), (3, Some(2)), (4, Some(3)), (6, Some(4))] {
            for refusing in 1..=others {
                let mut duplicates = Duplicates::default();
                let mut believed = false;
                for ms in (0..=3000).step_by(500) {
                    for peer in 1..=refusing {
                        assert!(!believed || ms == 3000, "too early: {ms} ms");
                        believed |= duplicates.refused(peer, others as usize, at(ms));
                    }
                }
                assert_eq!(believed, needed.is_some_and(|needed| refusing >= needed), "{refusing} of {others}");
            }
        }
    }

    #[test]
    fn a_connection_and_a_long_silence_make_a_refusal_forgotten() {
        let start = Instant::now();
        let mut duplicates = Duplicates::default();
        for ms in (0..=3000).step_by(500) {
            let now = start + Duration::from_millis(ms);
            let believed = duplicates.refused(1, 2, now) | duplicates.refused(2, 2, now);
            assert!(!believed, "member 2 was connected meanwhile");
            if ms == 2500 {
                duplicates.connected(2);
            }
        }
        let later = start + Duration::from_mins(1);
        assert!(!duplicates.refused(1, 2, later) && !duplicates.refused(2, 2, later));
    }
}
