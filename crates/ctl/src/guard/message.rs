//! The messages between `ctl` and its guard: one JSON object per line, over a socket that no other process has.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Until when the command may run, in time since boot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Deadlines {
    /// When the processes get SIGTERM.
    pub(crate) soft: Duration,
    /// When they are killed.
    pub(crate) hard: Duration,
}

impl Deadlines {
    /// A granted deadline is never taken back.
    pub(crate) fn later(self, other: Deadlines) -> Deadlines {
        if other.hard > self.hard { other } else { self }
    }

    /// When processes that got SIGTERM are killed: never after the hard deadline, whatever grace they have.
    pub(crate) fn kill_at(self, wanted: Duration) -> Duration {
        wanted.min(self.hard)
    }
}

/// From `ctl` to the guard. The end of the stream means that `ctl` has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// The first order; the command's stdin is sent with it.
    Start { deadlines: Deadlines, grace: Duration },
    /// Leadership was confirmed again.
    Renew(Deadlines),
    /// Leadership is over, or ends when the command has: send SIGTERM now, kill at `kill_at`, or at the hard deadline if that
    /// is earlier. Of several such orders the earliest time counts; the hard deadline may still move on.
    Stop { kill_at: Duration },
    /// Pass a signal on to the command.
    Signal(i32),
}

/// From the guard to `ctl`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    Started,
    /// The command could not be started; `code` is the exit code that a shell would use.
    Failed {
        code: u8,
        reason: String,
    },
    /// No process of the command is left. `stopped`: the command did not end by itself.
    Ended {
        code: u8,
        stopped: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    #[test]
    fn a_grace_does_not_reach_beyond_the_hard_deadline() {
        let deadlines = Deadlines { soft: ms(800), hard: ms(1000) };
        for (wanted, expected) in [(900, 900), (1000, 1000), (1001, 1000), (9000, 1000)] {
            assert_eq!(deadlines.kill_at(ms(wanted)), ms(expected), "{wanted}");
        }
    }

    #[test]
    fn deadlines_only_move_on() {
        let (early, late) = (Deadlines { soft: ms(1), hard: ms(5) }, Deadlines { soft: ms(2), hard: ms(6) });
        assert_eq!(early.later(late), late);
        assert_eq!(late.later(early), late);
    }
}
