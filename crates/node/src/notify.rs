//! Readiness for the service manager: `READY=1` once, the role in `STATUS=` at every transition.

use std::os::unix::net::UnixDatagram;

use client::{Announcement, Happened};
use types::InstanceId;

use crate::publisher::Subscriber;

#[derive(Debug)]
pub(crate) struct Notify(Option<(UnixDatagram, String)>);

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
        let socket = std::env::var("NOTIFY_SOCKET").ok().and_then(|path| {
            let socket = UnixDatagram::unbound().ok()?;
            socket.set_nonblocking(true).ok()?;
            Some((socket, path))
        });
        Notify(socket)
    }

    pub(crate) fn say(&self, state: &str) {
        if let Some((socket, path)) = &self.0 {
            // A service manager that does not read is no reason to stop.
            let _ = socket.send_to(state.as_bytes(), path);
        }
    }
}
