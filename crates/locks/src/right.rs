//! Until when a client may act on its locks, by its own clock.
//!
//! The clerk ends a session when it has heard nothing of it for a time to live, counted from an arrival. The client counts
//! from before: from the moment at which it *sent* the last message that the clerk has answered. Never from an arrival, of
//! which nobody knows how long the message was on its way. Both clocks may run wrong by the drift, the client's slow and the
//! clerk's fast, and the client needs a moment to stop: its right is shorter by both.

use std::collections::VecDeque;
use std::time::Duration;

use crate::wire::SendNumber;

const MILLION: u128 = 1_000_000;
/// Messages without an answer whose send times are kept; of more, the oldest are forgotten and extend nothing.
const SENT_MAX: usize = 1_024;

/// What the clerk told when it opened the session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Terms {
    pub ttl: Duration,
    pub max_drift_ppm: u32,
    pub margin: Duration,
}

impl Terms {
    /// How long the client may act behind the moment at which it sent a message that was answered:
    /// `ttl * (1 - r) / (1 + r) - margin`, rounded down.
    pub fn right(&self) -> Duration {
        let drift = u128::from(self.max_drift_ppm).min(MILLION);
        let nanos = self.ttl.as_nanos().saturating_mul(MILLION - drift) / (MILLION + drift);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).saturating_sub(self.margin)
    }
}

/// The send times of one session, and the right that follows. For drivers: it needs a clock, the machine has none.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Right {
    /// In the order of their numbers.
    sent: VecDeque<(SendNumber, Duration)>,
    until: Duration,
}

impl Right {
    /// This message is about to be sent. The time is read before that. Numbers rise.
    pub fn sends(&mut self, number: SendNumber, now: Duration) {
        self.sent.push_back((number, now));
        if self.sent.len() > SENT_MAX {
            self.sent.pop_front();
        }
    }

    /// The clerk has answered this message. True if the client may act longer than before.
    pub fn answered(&mut self, number: SendNumber, terms: &Terms) -> bool {
        let Ok(at) = self.sent.binary_search_by_key(&number, |(number, _)| *number) else { return false };
        // What was sent earlier can extend nothing any more.
        let Some((_, sent)) = self.sent.drain(..=at).next_back() else { return false };
        let until = sent.saturating_add(terms.right());
        let longer = until > self.until;
        self.until = self.until.max(until);
        longer
    }

    /// The client may act until then, and not at that moment.
    pub fn until(&self) -> Duration {
        self.until
    }

    /// The session is over: nothing that it held may be used.
    pub fn end(&mut self) {
        *self = Right::default();
    }
}
