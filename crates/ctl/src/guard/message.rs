//! What `ctl` and its guard say to each other: one JSON object per line, over a socket that only they have.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Until when the command may run, on the clock of [`super::boottime`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Deadlines {
    /// From here on the tree is asked to end (SIGTERM).
    pub(crate) soft: Duration,
    /// Here it is killed.
    pub(crate) hard: Duration,
}

impl Deadlines {
    /// What was allowed once stays allowed.
    pub(crate) fn later(self, other: Deadlines) -> Deadlines {
        if other.hard > self.hard { other } else { self }
    }
}

/// From `ctl` to the guard. The end of the stream means that `ctl` is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Comes first, and with it the command's stdin.
    Start { deadlines: Deadlines, grace: Duration },
    /// Leadership was confirmed anew.
    Renew(Deadlines),
    /// It is over: ask the tree to end now, kill it then.
    Stop { kill_at: Duration },
    /// Pass a signal on to the command.
    Signal(i32),
}

/// From the guard to `ctl`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    Started,
    /// The command could not be started; `code` is what a shell would say.
    Failed {
        code: u8,
        reason: String,
    },
    /// Nobody of the tree is left. `stopped`: the command did not end by itself.
    Ended {
        code: u8,
        stopped: bool,
    },
}
