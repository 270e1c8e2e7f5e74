//! Lamport clocks (Lamport 1978), shared by every machine that orders requests by timestamps.
//!
//! A local event counts the clock up; a message carries the clock of its sender, and its receiver sets its own clock
//! above both. If one event happened before another, its time is smaller. The converse does not hold, and two members
//! may have the same time: requests are ordered by the pair of time and id. Neither alone would do: ids know nothing of
//! what happened before, and equal times make both of two members wait, or both enter.

use std::fmt;

use serde::{Deserialize, Serialize};

use types::NodeId;

/// A Lamport clock. It does not overflow: a peer that claims the largest time makes times equal, not small.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Clock(u64);

impl Clock {
    pub fn new(time: u64) -> Self {
        Clock(time)
    }

    pub fn time(self) -> u64 {
        self.0
    }

    /// A local event, or a message sent: returns its time.
    pub fn tick(&mut self) -> u64 {
        self.0 = self.0.saturating_add(1);
        self.0
    }

    /// A message of this time has arrived.
    pub fn receive(&mut self, time: u64) {
        self.0 = self.0.max(time).saturating_add(1);
    }
}

/// The timestamp of a request: a total order that agrees with what happened before what.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Stamp {
    pub time: u64,
    pub id: NodeId,
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{},{}>", self.time, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_is_later_than_the_sender_and_than_itself() {
        let (mut sender, mut receiver) = (Clock::new(6), Clock::new(2));
        receiver.receive(sender.tick());
        assert_eq!((sender.time(), receiver.time()), (7, 8));
        receiver.receive(3);
        assert_eq!(receiver.time(), 9);
    }

    #[test]
    fn the_largest_time_does_not_overflow() {
        let mut clock = Clock::default();
        clock.receive(u64::MAX);
        assert_eq!(clock.tick(), u64::MAX);
    }

    #[test]
    fn stamps_order_by_time_and_ids_break_ties() {
        let stamp = |time, id| Stamp { time, id: NodeId(id) };
        assert!(stamp(7, 3) < stamp(15, 2));
        assert!(stamp(7, 2) < stamp(7, 3));
        assert_eq!(stamp(7, 3).to_string(), "<7,3>");
    }
}
