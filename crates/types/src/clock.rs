//! The clock of timers and leases: it runs while the machine sleeps.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time since the machine booted, suspensions included. A lease measured by a clock that stops during a suspension
/// would outlive its promises.
pub fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}
