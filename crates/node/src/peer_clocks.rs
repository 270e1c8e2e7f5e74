//! How fast the clocks of the peers run against this member's clock.
//!
//! A member sends the reading of its clock of leases behind a message that it sends anyway, at most twice a second and peer:
//! this wakes nobody. So clocks are compared on the links that carry messages, at least between the leader and every
//! other member.
//!
//! A reading is late by the delay of its frame. Of all readings of a slot of five seconds only the one with the least delay
//! counts, and the estimate is the median over all pairs of slots. If the least delays differ by d, the estimate errs by
//! d / 5 s at most: 200 ppm for 1 ms. One slot of which all frames were late does not change it much.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use algorithms::NodeId;

const STAMP_EVERY: Duration = Duration::from_millis(500);
const SLOT: Duration = Duration::from_secs(5);
/// An estimate needs this many slots.
const FEWEST: usize = 5;
/// Older slots are forgotten: the last two minutes count.
const MOST: usize = 24;

#[derive(Debug, Default)]
pub(crate) struct PeerClocks(BTreeMap<NodeId, PeerClock>);

#[derive(Debug, Default)]
struct PeerClock {
    stamped: Option<Duration>,
    /// The oldest first; the last one is not complete.
    slots: VecDeque<Slot>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    begun: Duration,
    /// When the reading with the least delay arrived.
    at: Duration,
    /// How far the peer's clock was ahead of ours in that reading, in nanoseconds: its origin is arbitrary.
    ahead: i128,
}

impl PeerClocks {
    /// A new connection: the peer may have been restarted on a machine that booted since.
    pub(crate) fn forget(&mut self, peer: NodeId) {
        self.0.remove(&peer);
    }

    /// Is it time to send this peer a reading of our clock?
    pub(crate) fn stamp_due(&mut self, peer: NodeId, now: Duration) -> bool {
        let clock = self.0.entry(peer).or_default();
        let due = clock.stamped.is_none_or(|last| now >= last + STAMP_EVERY);
        if due {
            clock.stamped = Some(now);
        }
        due
    }

    /// A reading of the peer's clock has arrived. Returns a new estimate, in millionths by which the peer's clock runs
    /// fast.
    pub(crate) fn read(&mut self, peer: NodeId, reading_ns: u64, now: Duration) -> Option<i64> {
        let clock = self.0.entry(peer).or_default();
        let ahead = i128::from(reading_ns) - now.as_nanos().cast_signed();
        match clock.slots.back_mut() {
            Some(slot) if now < slot.begun + SLOT => {
                if ahead > slot.ahead {
                    (slot.ahead, slot.at) = (ahead, now);
                }
                None
            }
            _ => {
                let estimate = clock.estimate();
                clock.slots.push_back(Slot { begun: now, at: now, ahead });
                if clock.slots.len() > MOST + 1 {
                    clock.slots.pop_front();
                }
                estimate
            }
        }
    }
}

impl PeerClock {
    /// Called when all slots are complete.
    fn estimate(&self) -> Option<i64> {
        if self.slots.len() < FEWEST {
            return None;
        }
        let later = |n: usize| self.slots.range(n + 1..);
        let pairs = self.slots.iter().enumerate().flat_map(|(n, a)| later(n).map(move |b| (a, b)));
        let mut rates: Vec<i128> = pairs
            .map(|(a, b)| (b.ahead - a.ahead) * 1_000_000 / b.at.saturating_sub(a.at).as_nanos().max(1).cast_signed())
            .collect();
        rates.sort_unstable();
        let median = *rates.get(rates.len() / 2)?;
        // A member may claim any reading of its clock.
        Some(median.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: NodeId = NodeId(2);
    const ORIGIN: u64 = 77_000_000_000_000;

    /// Readings every half second for so long, of a clock that runs fast by `ppm`; `delay` gives the delay in
    /// microseconds of each. Returns the last estimate and when the first one came.
    fn measured(seconds: u64, ppm: i64, delay: impl Fn(u64) -> u64) -> (Option<i64>, Option<u64>) {
        let mut clocks = PeerClocks::default();
        let (mut last, mut first) = (None, None);
        for n in 0..seconds * 2 {
            let sent = Duration::from_secs(1_000) + STAMP_EVERY * n as u32;
            let reading = ORIGIN.saturating_add_signed((sent.as_nanos() as i64 / 1_000_000) * (1_000_000 + ppm));
            if let Some(found) = clocks.read(PEER, reading, sent + Duration::from_micros(delay(n))) {
                last = Some(found);
                first.get_or_insert(n / 2);
            }
        }
        (last, first)
    }

    #[test]
    fn a_rate_is_known_after_half_a_minute_within_the_stated_error() {
        for ppm in [-100_000, -20_000, -50, 0, 50, 20_000, 100_000] {
            // One frame in ten is fast, within a millisecond.
            let delay = |n: u64| if n.is_multiple_of(10) { 100 + (n / 10 * 7919) % 1000 } else { 30_000 };
            let (found, first) = measured(120, ppm, delay);
            let found = found.expect("an estimate after two minutes");
            assert!(found.abs_diff(ppm) <= 200, "{found} instead of {ppm}");
            assert!(first.is_some_and(|first| (25..=30).contains(&first)), "{first:?}");
        }
        assert_eq!(measured(20, 0, |_| 100), (None, None));
    }

    #[test]
    fn one_slot_of_late_frames_is_no_drift() {
        for slot in 0..5 {
            // The network held everything back for a whole slot.
            let (found, _) = measured(28, 0, |n| if n / 10 == slot { 400_000 } else { 200 });
            assert!(found.is_some_and(|ppm| ppm.abs() < 200), "slot {slot}: {found:?}");
        }
    }

    #[test]
    fn absurd_readings_are_absurd_rates_and_nothing_worse() {
        let mut clocks = PeerClocks::default();
        for n in 0..2_000_u32 {
            let reading = if n.is_multiple_of(2) { u64::MAX } else { 0 };
            clocks.read(PEER, reading, SLOT * n);
        }
        assert!(clocks.0[&PEER].slots.len() <= MOST + 1);
    }

    #[test]
    fn a_new_connection_begins_a_new_measurement_and_stamps_are_rare() {
        let mut clocks = PeerClocks::default();
        for n in 0..20 {
            clocks.read(PEER, 5, SLOT * n);
        }
        clocks.forget(PEER);
        assert_eq!(clocks.read(PEER, 5, SLOT * 20), None);
        let due = (0..100).filter(|n| clocks.stamp_due(PEER, Duration::from_millis(100) * *n)).count();
        assert_eq!(due, 20);
    }
}
