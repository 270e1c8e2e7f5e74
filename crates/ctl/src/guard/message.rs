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
