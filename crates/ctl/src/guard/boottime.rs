//! The clock that deadlines are on: CLOCK_BOOTTIME also counts while the machine sleeps, as other machines' clocks do.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// Time since the machine started.
pub(crate) fn now() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Boottime);
    Duration::new(tv_sec.cast_unsigned(), tv_nsec as u32)
}

/// Goes off at an instant of that clock.
#[derive(Debug)]
pub(crate) struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        #[expect(deprecated, reason = "unsound for types that do not own what they name; an OwnedFd does")]
        let timer = AsyncFd::new(timer)?;
        Ok(Alarm(timer))
    }

    /// Replaces what was set before. An instant that has passed is due at once.
    pub(crate) fn set(&self, at: Duration) -> io::Result<()> {
        let at = Timespec { tv_sec: at.as_secs().cast_signed(), tv_nsec: at.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }

    /// Cancel-safe.
    pub(crate) async fn due(&self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            let read = ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut [0; 8])?));
            if let Ok(read) = read {
                return read.map(drop);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_alarm_is_due_at_its_time_and_can_be_moved() {
        let alarm = Alarm::new().unwrap();
        let start = now();
        alarm.set(start + Duration::from_hours(1)).unwrap();
        alarm.set(start + Duration::from_millis(5)).unwrap();
        alarm.due().await.unwrap();
        assert!(now() >= start + Duration::from_millis(5));
        alarm.set(start).unwrap();
        alarm.due().await.unwrap();
    }
}
