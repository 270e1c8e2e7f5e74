//! One line for each cause why a peer cannot be connected, and one when it is connected again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::handshake::PeerId;

/// Members of a cluster start one after the other, and a restart takes a moment: nothing is said before that.
const PATIENCE: Duration = Duration::from_secs(1);
/// A peer can invent causes: so many of each are told.
const CAUSES_MAX: usize = 8;

/// The dials that failed since a peer was connected.
#[derive(Debug, Default)]
pub(crate) struct DialLog(Mutex<HashMap<PeerId, Failures>>);

#[derive(Debug)]
struct Failures {
    since: Instant,
    told: Vec<String>,
}

/// How soon a cause is worth a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Urgency {
    /// It may pass by itself.
    Passing,
    /// It does not.
    Lasting,
}

impl DialLog {
    /// Whether this failure is worth a line.
    pub(crate) fn failed(&self, peer: PeerId, cause: &str, urgency: Urgency) -> bool {
        self.failed_at(peer, cause, urgency, Instant::now())
    }

    fn failed_at(&self, peer: PeerId, cause: &str, urgency: Urgency, now: Instant) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = all.entry(peer).or_insert_with(|| Failures { since: now, told: Vec::new() });
        let too_soon = urgency == Urgency::Passing && now.duration_since(failures.since) < PATIENCE;
        if too_soon || failures.told.len() >= CAUSES_MAX || failures.told.iter().any(|told| told == cause) {
            return false;
        }
        failures.told.push(cause.to_owned());
        true
    }

    /// The peer is connected, or is in the list no more. Returns whether a line has told that it was not.
    pub(crate) fn ended(&self, peer: PeerId) -> bool {
        let ended = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&peer);
        ended.is_some_and(|failures| !failures.told.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once_until_the_peer_is_connected() {
        let (log, start) = (DialLog::default(), Instant::now());
        let refused = |at| log.failed_at(2, "Connection refused", Urgency::Passing, start + at);
        assert!(!refused(Duration::ZERO), "it may be about to start");
        assert!(!refused(PATIENCE / 2));
        assert!(refused(PATIENCE));
        assert!((1..1000).all(|k| !refused(PATIENCE * k)));
        assert!(log.failed_at(2, "connect timed out", Urgency::Passing, start + 2 * PATIENCE), "another cause");
        assert!(log.failed_at(2, "another cluster", Urgency::Lasting, start + 2 * PATIENCE));
        assert!(log.failed_at(3, "another cluster", Urgency::Lasting, start), "another peer");
        assert!(log.ended(2));
        assert!(!log.ended(2), "told once");
        assert!(!refused(3 * PATIENCE));
        assert!(!log.ended(2), "nothing was told, and nothing has healed");
    }

    #[test]
    fn invented_causes_are_bounded() {
        let (log, now) = (DialLog::default(), Instant::now());
        let told = (0..10_000).filter(|k| log.failed_at(2, &format!("cause {k}"), Urgency::Lasting, now)).count();
        assert_eq!(told, CAUSES_MAX);
    }
}
