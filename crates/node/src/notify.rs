//! The service manager: `READY=1` once, the role in `STATUS=` at every transition, `WATCHDOG=1` as long as the event loop
//! turns.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use client::{Announcement, Happened};
use types::InstanceId;

use crate::publisher::Subscriber;

#[derive(Debug)]
pub(crate) struct Notify {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Watchdog>,
}

/// The service manager restarts a process that is silent for longer than it allows.
#[derive(Debug)]
struct Watchdog {
    every: Duration,
    /// Since boot.
    due: Duration,
}

impl Subscriber for Notify {
    fn take(&mut self, announcement: &Announcement) {
        match &announcement.what {
            Happened::Became(became) if announcement.instance == InstanceId::ELECTION => {
                self.say(&format!("STATUS={} in epoch {}", became.now.role, became.now.epoch));
            }
            _ => {}
        }
    }
}

impl Notify {
    /// Sends to the socket in `NOTIFY_SOCKET`; does nothing without one.
    pub(crate) fn from_env() -> Self {
        let socket = std::env::var("NOTIFY_SOCKET").ok().and_then(|name| {
            let address = match name.strip_prefix('@') {
                Some(name) => SocketAddr::from_abstract_name(name).ok()?,
                None => SocketAddr::from_pathname(&name).ok()?,
            };
            let socket = UnixDatagram::unbound().ok()?;
            socket.set_nonblocking(true).ok()?;
            Some((socket, address))
        });
        let watchdog = watchdog_of(|name| std::env::var(name).ok()).filter(|_| socket.is_some());
        Notify { socket, watchdog }
    }

    pub(crate) fn say(&self, state: &str) {
        if let Some((socket, address)) = &self.socket {
            // A service manager that does not read is no reason to stop.
            let _ = socket.send_to_addr(state.as_bytes(), address);
        }
    }

    /// When the service manager is to be told that the loop turns, since boot.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.watchdog.as_ref().map(|watchdog| watchdog.due)
    }

    /// A turn of the loop.
    pub(crate) fn turn(&mut self, now: Duration) {
        let Some(watchdog) = self.watchdog.as_mut().filter(|watchdog| watchdog.due <= now) else { return };
        watchdog.due = now + watchdog.every;
        self.say("WATCHDOG=1");
    }
}

/// Half of the time that `WATCHDOG_USEC` allows, unless `WATCHDOG_PID` names another process.
fn watchdog_of(variable: impl Fn(&str) -> Option<String>) -> Option<Watchdog> {
    let allowed: u64 = variable("WATCHDOG_USEC")?.parse().ok()?;
    let mine = variable("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
    let every = Duration::from_micros(allowed / 2);
    (mine && !every.is_zero()).then_some(Watchdog { every, due: Duration::ZERO })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_of_another_process_or_without_a_time_is_none() {
        let watchdog = |usec: &str, pid: Option<u32>| {
            watchdog_of(|name| match name {
                "WATCHDOG_USEC" => Some(usec.to_owned()),
                _ => pid.map(|pid| pid.to_string()),
            })
            .map(|watchdog| watchdog.every)
        };
        let second = Some(Duration::from_secs(1));
        assert_eq!(watchdog("2000000", None), second);
        assert_eq!(watchdog("2000000", Some(std::process::id())), second);
        assert_eq!(watchdog("2000000", Some(1)), None);
        assert_eq!(watchdog("0", None), None);
        assert_eq!(watchdog("soon", None), None);
    }
}
