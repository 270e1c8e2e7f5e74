//! Readiness for the service manager: `READY=1` once, the role in `STATUS=` at every transition.

use std::os::unix::net::UnixDatagram;

#[derive(Debug)]
pub(crate) struct Notify(Option<(UnixDatagram, String)>);

impl Notify {
    /// Speaks to the socket in `NOTIFY_SOCKET`; silent without one.
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
            // A service manager that does not listen is no reason to stop.
            let _ = socket.send_to(state.as_bytes(), path);
        }
    }
}
