//! Wakes a task at a set moment of the clock of timers and leases, which runs while the machine sleeps.
//!
//! The kernel has no timers on that clock, only on CLOCK_BOOTTIME, which NTP may slew by up to 10 %. A timer that fires
//! too early is set again for the rest. A timer of a slowed CLOCK_BOOTTIME fires too late, by up to a tenth of its span, and
//! there are two answers to that. [`Alarm::new`] accepts it: the daemon compares the clock with every event and in every
//! answer, so a late timer delays a heartbeat or an election and never prolongs a lease. [`Alarm::never_late`] looks at the
//! clock earlier and again: the deadlines of `ctl lead` have no other check. These deadlines move on with every renewal
//! long before the first look, so neither kind wakes an idle process more often.
//!
//! Not a timer of the runtime: those stop while the machine is suspended. They are also kept in slots of 64 ms, the
//! process is woken at the border of every slot to sort them again, and setting one wakes the runtime itself: this was
//! every third wake-up of an idle leader.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use types::{kernel_moment_after, since_boot};

/// NTP corrects the rate of a clock by up to a two-thousandth for ever. A timer is set later by this part of its span, so
/// that such a correction does not cost a second wake-up for each timer.
const CORRECTED: u32 = 1000;
/// The deadline of a follower moves on with every heartbeat. The kernel's timer stays where it is while more than this part of the
/// time to the deadline is left: it is set anew with every fourth heartbeat or so, and does not fire.
const STAYS: u32 = 4;
/// More than the part by which the kernel lets NTP slow a clock.
const SLOWED: u32 = 8;
/// The last part of a span: an eighth of it is no delay worth a wake-up.
const NEAR: Duration = Duration::from_millis(1);

/// One alarm of one task.
#[derive(Debug)]
pub struct Alarm {
    timer: AsyncFd<OwnedFd>,
    /// The moment of the alarm; `None` if it is not set or has rung.
    set_to: Option<Duration>,
    /// The moment, not after that, for which the kernel's timer was set; `None` if it may have fired or was stopped.
    armed_for: Option<Duration>,
    never_late: bool,
}

impl Alarm {
    /// Late by up to a tenth of its span while NTP slows the machine's clock. Must be called inside a runtime.
    pub fn new() -> io::Result<Self> {
        Self::with(false)
    }

    /// Punctual whatever NTP does, for deadlines that are not checked elsewhere. Must be called inside a runtime.
    pub fn never_late() -> io::Result<Self> {
        Self::with(true)
    }

    #[expect(
        deprecated,
        reason = "unsound where the file is closed or replaced while registered; the alarm owns its own"
    )]
    fn with(never_late: bool) -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        Ok(Alarm {
            timer: AsyncFd::with_interest(timer, Interest::READABLE)?,
            set_to: None,
            armed_for: None,
            never_late,
        })
    }

    /// Sets the alarm to a moment of the clock of leases, or to none. A moment in the past is due now.
    pub fn set(&mut self, due: Option<Duration>) -> io::Result<()> {
        if due != self.set_to {
            if !self.is_early_enough(due) {
                self.arm(due)?;
            }
            self.set_to = due;
        }
        Ok(())
    }

    /// Does the kernel's timer fire before this moment, and not so soon that it should be set anew?
    fn is_early_enough(&self, due: Option<Duration>) -> bool {
        let (Some(due), Some(armed_for)) = (due, self.armed_for.filter(|_| !self.never_late)) else { return false };
        let now = since_boot();
        armed_for <= due && armed_for.saturating_sub(now) > due.saturating_sub(now) / STAYS
    }

    /// Sets the kernel's timer.
    fn arm(&mut self, due: Option<Duration>) -> io::Result<()> {
        // Zero stops the timer; no moment after now is zero.
        let moment = due.map_or(Duration::ZERO, |due| {
            kernel_moment_after(|| {
                let rest = due.saturating_sub(since_boot());
                if self.never_late { next_look(rest) } else { usual(rest) }
            })
        });
        let it_value = Timespec { tv_sec: moment.as_secs().cast_signed(), tv_nsec: moment.subsec_nanos().into() };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval, it_value })?;
        self.armed_for = due;
        Ok(())
    }

    /// Waits until the last set moment; for ever if none is set. Cancel-safe.
    pub async fn due(&mut self) -> io::Result<()> {
        loop {
            // The count of expirations is not read: setting the timer clears it, and each expiration is an event of its
            // own.
            poll_fn(|cx| self.timer.poll_read_ready(cx)).await?.clear_ready();
            self.armed_for = None;
            match self.set_to {
                Some(moment) if moment <= since_boot() => {
                    self.set_to = None;
                    return Ok(());
                }
                // Too early, or set for a deadline that has moved on.
                Some(moment) => self.arm(Some(moment))?,
                None => {}
            }
        }
    }
}

fn usual(rest: Duration) -> Duration {
    rest + rest / CORRECTED
}

/// When to look at the clock again: before the end even if NTP slows the kernel's clock all the time.
fn next_look(rest: Duration) -> Duration {
    if rest > NEAR { rest.saturating_sub(rest / SLOWED) } else { rest }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: Duration = Duration::from_hours(1);
    /// An alarm that has not fired after this time never will.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// How late it rings, and after how many wake-ups, if the kernel's clock runs this much slower or faster.
    fn rings_late(span: Duration, kernel_rate: f64, wait: impl Fn(Duration) -> Duration) -> (Duration, u32) {
        let (mut now, mut wakes) = (Duration::ZERO, 0);
        while now < span {
            // No process wakes up sooner than this after its timer fired.
            now += wait(span.saturating_sub(now)).div_f64(kernel_rate) + Duration::from_micros(1);
            wakes += 1;
        }
        (now.saturating_sub(span), wakes)
    }

    #[test]
    fn deadlines_that_nothing_else_checks_are_kept_whatever_ntp_does() {
        for span in [Duration::from_micros(700), Duration::from_millis(500), FAR] {
            for kernel_rate in [0.9, 0.917, 1.0, 1.083, 1.1] {
                let (late, wakes) = rings_late(span, kernel_rate, next_look);
                assert!(late < NEAR / 8, "{late:?} late after {span:?} at {kernel_rate}");
                assert!(wakes < 30, "{wakes} wake-ups in {span:?} at {kernel_rate}");
            }
        }
    }

    #[test]
    fn other_timers_wake_once_if_ntp_only_corrects_the_clock_and_seldom_more_if_it_slews() {
        let span = Duration::from_millis(150);
        for (kernel_rate, late_part, wakes) in
            [(0.9, 8, 1), (0.9995, 600, 1), (1.0, 900, 1), (1.0005, 900, 1), (1.1, 900, 6)]
        {
            let (late, woken) = rings_late(span, kernel_rate, usual);
            assert!(late <= span / late_part, "{late:?} late at {kernel_rate}");
            assert!(woken <= wakes, "{woken} wake-ups at {kernel_rate}");
        }
    }

    async fn rings(alarm: &mut Alarm) {
        tokio::time::timeout(PATIENCE, alarm.due()).await.expect("it rings").unwrap();
    }

    #[tokio::test]
    async fn it_rings_at_every_moment_it_is_set_to_and_never_before_the_last() {
        let mut alarm = Alarm::new().unwrap();
        for wait in [Duration::ZERO, Duration::from_millis(3), Duration::from_millis(70)] {
            let due = since_boot() + wait;
            alarm.set(Some(due)).unwrap();
            rings(&mut alarm).await;
            assert!(since_boot() >= due, "{wait:?}");
        }
        alarm.set(Some(Duration::ZERO)).unwrap();
        rings(&mut alarm).await;
    }

    #[tokio::test]
    async fn a_later_setting_replaces_an_earlier_one_also_if_it_is_none() {
        let (mut alarm, mut other) = (Alarm::new().unwrap(), Alarm::new().unwrap());
        for replaced_by in [Some(since_boot() + FAR), None] {
            let due = since_boot() + Duration::from_millis(5);
            alarm.set(Some(due)).unwrap();
            alarm.set(replaced_by).unwrap();
            other.set(Some(due + Duration::from_millis(5))).unwrap();
            tokio::select! {
                biased;
                _ = alarm.due() => panic!("it fired for a moment that was replaced by {replaced_by:?}"),
                rang = other.due() => rang.unwrap(),
            }
        }
        alarm.set(Some(since_boot() + FAR)).unwrap();
        alarm.set(Some(since_boot())).unwrap();
        rings(&mut alarm).await;
    }

    #[tokio::test]
    async fn an_alarm_that_has_gone_off_unheard_and_is_set_anew_is_not_due_before_its_new_moment() {
        let (mut alarm, mut other) = (Alarm::new().unwrap(), Alarm::new().unwrap());
        alarm.set(Some(since_boot())).unwrap();
        other.set(Some(since_boot() + Duration::from_millis(5))).unwrap();
        rings(&mut other).await;
        let due = since_boot() + Duration::from_millis(10);
        alarm.set(Some(due)).unwrap();
        rings(&mut alarm).await;
        assert!(since_boot() >= due);
    }

    #[tokio::test]
    async fn a_deadline_that_moves_on_leaves_the_timer_alone_and_is_kept() {
        let mut alarm = Alarm::new().unwrap();
        let first = since_boot() + FAR;
        for moved in [0, 20, 70].map(|ms| first + Duration::from_millis(ms)) {
            alarm.set(Some(moved)).unwrap();
            assert_eq!((alarm.armed_for, alarm.set_to), (Some(first), Some(moved)));
        }
        let first = since_boot() + Duration::from_millis(40);
        alarm.set(Some(first)).unwrap();
        let due = first + Duration::from_millis(20);
        alarm.set(Some(due)).unwrap();
        rings(&mut alarm).await;
        assert!(since_boot() >= due);
        // Too near, earlier, or none at all: the timer is set anew.
        let near = since_boot() + Duration::from_secs(1);
        for due in [near, since_boot() + FAR, near, since_boot()] {
            alarm.set(Some(due)).unwrap();
            assert_eq!(alarm.armed_for, Some(due));
        }
        alarm.set(None).unwrap();
        assert_eq!(alarm.armed_for, None);
        let mut punctual = Alarm::never_late().unwrap();
        for due in [near, near + Duration::from_millis(1)] {
            punctual.set(Some(due)).unwrap();
            assert_eq!(punctual.armed_for, Some(due), "each deadline has looks of its own");
        }
    }
}
