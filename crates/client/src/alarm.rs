//! Wakes a task at a set moment: one timer of the kernel, on the clock of timers and leases, which runs while the
//! machine sleeps.
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
use types::since_boot;

/// One alarm of one task.
#[derive(Debug)]
pub struct Alarm {
    timer: AsyncFd<OwnedFd>,
    /// The setting of the kernel's timer; `None` if it is not set or has fired.
    set_to: Option<Duration>,
}

impl Alarm {
    /// Must be called inside a runtime.
    #[expect(
        deprecated,
        reason = "unsound where the file is closed or replaced while registered; the alarm owns its own"
    )]
    pub fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        Ok(Alarm { timer: AsyncFd::with_interest(timer, Interest::READABLE)?, set_to: None })
    }

    /// Sets the alarm to a moment since boot, or to none. A moment in the past is due now.
    pub fn set(&mut self, due: Option<Duration>) -> io::Result<()> {
        if due != self.set_to {
            // Zero would stop the timer.
            let moment = due.map_or(Duration::ZERO, |due| due.max(Duration::from_nanos(1)));
            let nanos = moment.subsec_nanos().into();
            let it_value = Timespec { tv_sec: moment.as_secs().cast_signed(), tv_nsec: nanos };
            let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval, it_value })?;
            self.set_to = due;
        }
        Ok(())
    }

    /// Waits until the last set moment; for ever if none is set. Cancel-safe.
    pub async fn due(&mut self) -> io::Result<()> {
        loop {
            // The count of expirations is not read: setting the timer clears it, and each expiration is an event of its
            // own.
            poll_fn(|cx| self.timer.poll_read_ready(cx)).await?.clear_ready();
            // The event may be that of an earlier setting.
            if self.set_to.is_some_and(|moment| moment <= since_boot()) {
                self.set_to = None;
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: Duration = Duration::from_hours(1);
    /// An alarm that has not fired after this time never will.
    const PATIENCE: Duration = Duration::from_secs(20);

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
}
