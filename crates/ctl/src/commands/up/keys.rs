//! The Enter key, or lines that a script writes.

use std::io::{Stdin, stdin};
use std::time::Duration;

use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// In the background nothing may be read from a terminal.
const BACKGROUND: Duration = Duration::from_millis(500);

/// Ends by itself where there is nothing to read: a file, or the end of a pipe.
pub(super) struct Enter(Option<AsyncFd<Stdin>>);

impl Enter {
    #[expect(deprecated, reason = "the new function is unsafe code; the descriptor of stdin is never closed")]
    pub(super) fn new() -> Self {
        Enter(AsyncFd::with_interest(stdin(), Interest::READABLE).ok())
    }

    pub(super) fn can_come(&self) -> bool {
        self.0.is_some()
    }

    /// Cancel-safe.
    pub(super) async fn pressed(&mut self) {
        loop {
            let Some(input) = &self.0 else { return std::future::pending().await };
            let Ok(mut ready) = input.readable().await else { return std::future::pending().await };
            let group = tcgetpgrp(input.get_ref());
            if group.is_ok_and(|foreground| foreground != getpgrp()) {
                tokio::time::sleep(BACKGROUND).await;
                continue;
            }
            ready.clear_ready();
            drop(ready);
            // The read must not block: it is not tried unless there is something.
            let waiting = rustix::io::ioctl_fionread(input.get_ref()).unwrap_or(0);
            let mut line = [0; 256];
            match rustix::io::read(input.get_ref(), &mut line[..(waiting as usize).min(256)]) {
                Ok(read) if read > 0 => return,
                // A terminal can be ready without input; a pipe that is ready without input has ended.
                Ok(_) if group.is_ok() => {}
                _ => self.0 = None,
            }
        }
    }
}
