//! The state kept for one peer, connected or not.

use std::time::Duration;

use tokio::time::Instant;
use types::Dice;

use crate::accept::Accepted;
use crate::admit::Claim;
use crate::dial::Running;

/// Traffic with one peer since the start, over all connections.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    pub frames_in: u64,
    pub frames_out: u64,
    /// Payload bytes, without length prefixes.
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// How often a connection with it was made.
    pub connections: u64,
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: String,
    /// Is it in the list? A guest is not, and is forgotten when its connection ends.
    pub(crate) listed: bool,
    /// Whether to keep a connection by dialling.
    pub(crate) wanted: bool,
    /// The key of its connection.
    pub(crate) link: Option<u64>,
    pub(crate) dial: Option<Running>,
    /// Under way while a later process of this peer waits to be connected.
    pub(crate) probe: Option<Probe>,
    /// Dials begun so far; see [`mod@crate::admit`].
    pub(crate) dials: u64,
    pub(crate) backoff: Backoff,
    pub(crate) counters: Counters,
}

impl Peer {
    /// `dials`: an earlier entry of this id had begun at most so many.
    pub(crate) fn new(address: String, listed: bool, dials: u64, backoff: Backoff) -> Self {
        let counters = Counters::default();
        Self { address, listed, wanted: false, link: None, dial: None, probe: None, dials, backoff, counters }
    }
}

/// A question to the peer's connection: is its process alive?
#[derive(Debug)]
pub(crate) struct Probe {
    pub(crate) begun: Instant,
    pub(crate) until: Instant,
    pub(crate) newcomer: Newcomer,
}

/// A process that is connected if the old connection does not answer.
#[derive(Debug)]
pub(crate) struct Newcomer {
    pub(crate) claim: Claim,
    pub(crate) accepted: Accepted,
}

/// Growing pauses between dials.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
    dice: Dice,
}

impl Backoff {
    pub(crate) fn new(min: Duration, max: Duration, seed: u64) -> Self {
        Self { min, max: max.max(min), next: min, dice: Dice(seed) }
    }

    /// The next pause: between half and the whole of a bound that doubles each time. Members that lost the same peer in
    /// the same moment dial at different moments.
    pub(crate) fn pause(&mut self) -> Duration {
        let bound = self.next;
        self.next = (bound * 2).min(self.max);
        let sixteenths = self.dice.below(9) as u32 + 8;
        bound / 16 * sixteenths
    }

    pub(crate) fn reset(&mut self) {
        self.next = self.min;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_maximum_and_start_over() {
        let (min, max) = (Duration::from_millis(20), Duration::from_secs(1));
        let mut backoff = Backoff::new(min, max, 7);
        let mut bound = min;
        for _ in 0..12 {
            let pause = backoff.pause();
            assert!(pause >= bound / 2 && pause <= bound, "{pause:?} of {bound:?}");
            bound = (bound * 2).min(max);
        }
        assert_eq!(bound, max);
        backoff.reset();
        assert!(backoff.pause() <= min);
    }

    #[test]
    fn pauses_differ_between_seeds() {
        let pauses = |seed| {
            let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1), seed);
            (0..8).map(|_| backoff.pause()).collect::<Vec<_>>()
        };
        assert_ne!(pauses(1), pauses(2));
    }
}
