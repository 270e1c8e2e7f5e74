//! Keeps a hostile or misconfigured peer from filling the log.

use std::collections::HashMap;
use std::mem::discriminant;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::handshake::{PeerId, RefuseCode};

const INTERVAL: Duration = Duration::from_secs(10);
/// Different lines of one kind per interval: limits a flood with invented ids or many addresses.
const LINES_MAX: usize = 64;

/// The topic of a log line: repeated lines of the same topic are dropped for [`INTERVAL`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Topic {
    /// This member refused a dialler.
    Refused { from: IpAddr, id: Option<PeerId>, code: RefuseCode },
    /// A connection with invalid bytes.
    Garbage { from: IpAddr },
    /// The listener failed.
    Listener,
}

#[derive(Debug, Default)]
pub(crate) struct LogLimit(Mutex<HashMap<Topic, Instant>>);

impl LogLimit {
    /// Whether a line about this topic may be written now.
    pub(crate) fn allows(&self, topic: Topic) -> bool {
        self.allows_at(topic, Instant::now())
    }

    fn allows_at(&self, topic: Topic, now: Instant) -> bool {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = |at: &Instant| now.duration_since(*at) < INTERVAL;
        if written.get(&topic).is_some_and(recent) {
            return false;
        }
        // Counted per kind: a flood of garbage must not silence a refusal that explains why a member is missing.
        let alike = |written: &HashMap<Topic, Instant>| {
            written.keys().filter(|known| discriminant(*known) == discriminant(&topic)).count()
        };
        if alike(&written) >= LINES_MAX {
            written.retain(|_, at| recent(at));
            if alike(&written) >= LINES_MAX {
                return false;
            }
        }
        written.insert(topic, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_line_is_repeated_only_after_the_interval() {
        let limit = LogLimit::default();
        let line = |id| Topic::Refused { from: Ipv4Addr::LOCALHOST.into(), id: Some(id), code: RefuseCode::Cluster };
        let topic = line(1);
        let start = Instant::now();
        assert!(limit.allows_at(topic, start));
        assert!(!limit.allows_at(topic, start + INTERVAL / 2));
        assert!(limit.allows_at(line(2), start));
        assert!(limit.allows_at(topic, start + INTERVAL));
    }

    #[test]
    fn many_different_lines_are_bounded_too() {
        let limit = LogLimit::default();
        let start = Instant::now();
        let line = |id| Topic::Refused { from: Ipv4Addr::LOCALHOST.into(), id: Some(id), code: RefuseCode::Unknown };
        let written = (0..10_000).filter(|id| limit.allows_at(line(*id), start)).count();
        assert_eq!(written, LINES_MAX);
        assert!(limit.allows_at(line(20_000), start + INTERVAL));
    }
}
