//! What `ctl` and its guard say to each other: one JSON object per line, over a socket that only they have.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Until when the command may run, in time since boot.
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

    /// When a tree that was asked to end is killed: never after the hard deadline, whatever grace it has, and not later
    /// than was said before.
    pub(crate) fn kill_at(self, said: Option<Duration>, wanted: Duration) -> Duration {
        said.unwrap_or(wanted).min(wanted).min(self.hard)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    #[test]
    fn a_grace_does_not_reach_beyond_the_hard_deadline_and_an_earlier_kill_stays() {
        let deadlines = Deadlines { soft: ms(800), hard: ms(1000) };
        for (said, wanted, expected) in [
            (None, 900, 900),
            (None, 1000, 1000),
            (None, 1001, 1000),
            (None, 9000, 1000),
            (Some(700), 900, 700),
            (Some(900), 700, 700),
            (Some(900), 9000, 900),
            // Deadlines move on with every confirmation; what was said before them was within the earlier ones.
            (Some(1000), 1000, 1000),
        ] {
            assert_eq!(deadlines.kill_at(said.map(ms), ms(wanted)), ms(expected), "{said:?}, {wanted}");
        }
    }

    #[test]
    fn deadlines_only_move_on() {
        let (early, late) = (Deadlines { soft: ms(1), hard: ms(5) }, Deadlines { soft: ms(2), hard: ms(6) });
        assert_eq!(early.later(late), late);
        assert_eq!(late.later(early), late);
    }
}
