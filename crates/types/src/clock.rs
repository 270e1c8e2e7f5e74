//! The clocks of one machine. Both run while the machine sleeps, and both are the same for all its processes.
//!
//! NTP may slew CLOCK_BOOTTIME and CLOCK_MONOTONIC by several percent: chrony by 8.3 % unless configured otherwise, and
//! the kernel accepts 10 %. A lease is safe only while the clocks of two machines run within `max_drift` of each other, so
//! leases are measured with CLOCK_MONOTONIC_RAW, whose rate nothing bends.

mod bend;

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

pub use bend::{BendError, bent_for_a_test};

/// The clock of leases and timers: about the time since the machine booted, suspensions included. A lease measured by a
/// clock that stops during a suspension would outlive its promises.
pub fn since_boot() -> Duration {
    static SLEPT: Slept = Slept(AtomicI64::new(i64::MIN));
    // Before the slept time: a suspension between the two reads is counted.
    let raw = bend::raw(read(ClockId::MonotonicRaw));
    moment(raw.saturating_add(SLEPT.latest(|| {
        let boot = bend::slewed(read(ClockId::Boottime));
        boot - bend::slewed(read(ClockId::Monotonic))
    })))
}

/// The clock that stamps announcements and ledgers: CLOCK_BOOTTIME. NTP keeps its rate near that of the wall clock for
/// days, which the clock of leases does not promise. Never compared with a moment of [`since_boot`].
pub fn boot_clock() -> Duration {
    moment(bend::slewed(read(ClockId::Boottime)))
}

/// The moment, for a timer of the kernel on CLOCK_BOOTTIME, at which that clock will have advanced by a span. The clock is
/// read before `span` is called: a suspension in between makes the timer early, not late.
pub fn kernel_moment_after(span: impl FnOnce() -> Duration) -> Duration {
    let now = moment(read(ClockId::Boottime));
    now + bend::true_span(span())
}

/// How long the machine has slept: CLOCK_BOOTTIME less CLOCK_MONOTONIC. NTP slews both alike, so the difference changes by
/// suspensions alone, and only grows.
struct Slept(AtomicI64);

impl Slept {
    /// After a growth of this many nanoseconds the machine was suspended.
    const SUSPENDED: i64 = 1_000_000;
    /// Reads after a suspension, and at the start of the process.
    const READS: usize = 8;

    /// `read` reads CLOCK_BOOTTIME first: a preemption before it reads CLOCK_MONOTONIC makes the difference smaller, never
    /// larger. So the largest of all differences is the nearest to the truth, and it never goes back.
    fn latest(&self, mut read: impl FnMut() -> i64) -> i64 {
        let now = read();
        let known = self.0.fetch_max(now, Ordering::Relaxed);
        if now <= known.saturating_add(Self::SUSPENDED) {
            return known.max(now);
        }
        // Not all of several reads are preempted.
        (0..Self::READS).fold(now, |largest, _| {
            let now = read();
            self.0.fetch_max(now, Ordering::Relaxed).max(now).max(largest)
        })
    }
}

/// Nanoseconds; they reach for 292 years.
fn read(clock: ClockId) -> i64 {
    let now = clock_gettime(clock);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

fn moment(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slept_after(reads: &[i64]) -> Vec<i64> {
        let slept = Slept(AtomicI64::new(i64::MIN));
        let mut reads = reads.iter().copied();
        let mut seen = Vec::new();
        while reads.len() > 0 {
            let mut last = 0;
            seen.push(slept.latest(|| {
                last = reads.next().unwrap_or(last);
                last
            }));
        }
        seen
    }

    #[test]
    fn a_preemption_between_two_reads_does_not_turn_the_clock_back() {
        let start = [90_i64, 95, 99, 97, 98, 60, 99, 99, 99];
        let slept = slept_after(&[&start[..], &[-5_000_000, 98, 99, 40]].concat());
        assert_eq!(slept, [99, 99, 99, 99, 99]);
    }

    #[test]
    fn a_suspension_counts_at_once_also_if_its_first_read_was_preempted() {
        let hour = 3_600_000_000_000;
        let after = [hour - 20_000_000, hour, hour - 1, hour - 2, hour - 90, hour, hour, hour, hour];
        let slept = slept_after(&[&[0; 9][..], &[-70], &after].concat());
        assert_eq!(slept, [0, 0, hour]);
    }

    #[test]
    fn it_never_goes_back_in_any_thread_and_does_not_stand_still() {
        let begun = since_boot();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..100_000).fold(begun, |before, _| {
                        let now = since_boot();
                        assert!(now >= before, "{now:?} after {before:?}");
                        now
                    })
                });
            }
        });
        assert!(since_boot() > begun);
    }

    #[test]
    fn its_origin_is_near_that_of_the_boot_clock() {
        // As far as two hours of NTP at full slew could separate the two.
        let (ours, boot) = (since_boot(), boot_clock());
        assert!(ours.abs_diff(boot) < Duration::from_mins(12) + boot / 1000, "{ours:?} {boot:?}");
    }
}
