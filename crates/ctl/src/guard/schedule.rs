//! When a command is stopped and killed. The guard has one schedule, and `ctl` has one of its own: neither needs the other to be
//! in time.

use std::time::Duration;

use super::Deadlines;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Schedule {
    deadlines: Deadlines,
    /// The command got SIGTERM, and is killed at this time, or at the hard deadline if that is earlier.
    kill_at: Option<Duration>,
}

impl Schedule {
    pub(super) fn new(deadlines: Deadlines) -> Self {
        Schedule { deadlines, kill_at: None }
    }

    pub(super) fn deadlines(&self) -> Deadlines {
        self.deadlines
    }

    /// A granted deadline is never taken back.
    pub(super) fn renew(&mut self, deadlines: Deadlines) {
        if deadlines.hard > self.deadlines.hard {
            self.deadlines = deadlines;
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.kill_at.is_some()
    }

    /// Stops the command. An earlier time to kill still counts; returns the one that counts now.
    pub(super) fn stop(&mut self, kill_at: Duration) -> Duration {
        let counts = self.kill_at.map_or(kill_at, |earlier| earlier.min(kill_at));
        self.kill_at = Some(counts);
        counts
    }

    /// When something is due next: SIGTERM, or the kill once the command is stopped, which no grace delays beyond the hard
    /// deadline.
    pub(super) fn due_at(&self) -> Duration {
        self.kill_at.map_or(self.deadlines.soft, |wanted| wanted.min(self.deadlines.hard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    fn until(soft: u64, hard: u64) -> Deadlines {
        Deadlines { soft: ms(soft), hard: ms(hard) }
    }

    #[test]
    fn without_a_renewal_the_command_is_stopped_at_the_soft_deadline_and_killed_at_the_hard_one() {
        let mut schedule = Schedule::new(until(800, 1000));
        assert_eq!((schedule.due_at(), schedule.is_stopped()), (ms(800), false));
        schedule.stop(schedule.deadlines().hard);
        assert_eq!((schedule.due_at(), schedule.is_stopped()), (ms(1000), true));
    }

    #[test]
    fn a_grace_does_not_reach_beyond_the_hard_deadline() {
        for (wanted, expected) in [(900, 900), (1000, 1000), (1001, 1000), (9000, 1000)] {
            let mut schedule = Schedule::new(until(800, 1000));
            assert_eq!(schedule.stop(ms(wanted)), ms(wanted));
            assert_eq!(schedule.due_at(), ms(expected), "{wanted}");
        }
    }

    #[test]
    fn a_later_order_to_stop_takes_no_time_back_and_gives_none() {
        let mut schedule = Schedule::new(until(800, 1000));
        assert_eq!(schedule.stop(ms(950)), ms(950));
        assert_eq!(schedule.stop(ms(990)), ms(950));
        assert_eq!(schedule.stop(ms(900)), ms(900));
        assert_eq!(schedule.due_at(), ms(900));
    }

    #[test]
    fn deadlines_only_move_on_also_while_the_command_stops() {
        let mut schedule = Schedule::new(until(800, 1000));
        schedule.renew(until(700, 900));
        assert_eq!(schedule.deadlines(), until(800, 1000));
        schedule.renew(until(1800, 2000));
        assert_eq!((schedule.deadlines(), schedule.due_at()), (until(1800, 2000), ms(1800)));
        schedule.stop(ms(2500));
        assert_eq!(schedule.due_at(), ms(2000));
        schedule.renew(until(2800, 3000));
        assert_eq!(schedule.due_at(), ms(2500), "the leadership lasts while it is handed over");
    }
}
