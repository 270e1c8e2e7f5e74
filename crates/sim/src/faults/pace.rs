//! The bound of a run that makes no progress: members that answer each other without end, or a timer that is always due, would
//! keep the virtual clock from the end of the run.

use super::plan::SECOND;
use super::report::Violation;

/// Far more events and steps than the members of any run need in a virtual second.
const MOST: u64 = 200_000;

#[derive(Default)]
pub(super) struct Pace {
    second: u64,
    /// Events and steps before this second.
    before: u64,
}

impl Pace {
    /// `done`: all events and steps of the run until `now`.
    pub(super) fn check(&mut self, now: u64, done: u64) -> Option<Violation> {
        let second = now / SECOND;
        if second != self.second {
            *self = Pace { second, before: done };
        }
        (done - self.before > MOST).then(|| Violation {
            invariant: "pace",
            sentence: "Members do not answer each other, or their own timers, without end",
            how: format!("more than {MOST} events and steps in virtual second {second}"),
        })
    }
}
