//! `--progress`: the command proves that it works by writing to a pipe. A command that hangs must not keep what it holds
//! because `ctl` confirms it in the background.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use client::format_duration;
use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionbio};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use types::since_boot;

/// The reading end of the command's pipe.
#[derive(Debug)]
pub(crate) struct Progress {
    every: Duration,
    pipe: Receiver,
    /// The command inherits it, through its guard.
    writing: OwnedFd,
    /// When the last byte was read, since boot.
    last: Duration,
}

impl Progress {
    /// Must be called before the guard is started.
    pub(crate) fn new(every: Duration) -> io::Result<Self> {
        let (reading, writing) = io::pipe()?;
        // Both ends close when another program is run. The guard and the command shall have the writing end.
        fcntl_setfd(&writing, FdFlags::empty())?;
        let (reading, writing) = (OwnedFd::from(reading), OwnedFd::from(writing));
        ioctl_fionbio(&reading, true)?;
        Ok(Progress { every, pipe: Receiver::from_owned_fd(reading)?, writing, last: since_boot() })
    }

    /// For the environment of the command: the number of the descriptor that it writes to.
    pub(crate) fn descriptor(&self) -> String {
        self.writing.as_raw_fd().to_string()
    }

    /// The command starts now.
    pub(crate) fn begin(&mut self) {
        self.last = since_boot();
    }

    /// Why a command that is stalled loses what it holds.
    pub(crate) fn complaint(&self) -> String {
        format!("the command wrote nothing to CONCLAVE_PROGRESS_FD for {}", format_duration(self.every))
    }

    /// As [`Progress::next`]; without `--progress` it never returns.
    pub(crate) async fn next_of(progress: &mut Option<Progress>) -> io::Result<()> {
        match progress {
            Some(progress) => progress.next().await,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn is_stalled(&self) -> bool {
        since_boot() >= self.last + self.every
    }

    /// Returns when a byte was written, or when none was written for too long. Cancel-safe.
    async fn next(&mut self) -> io::Result<()> {
        let mut bytes = [0; 256];
        let left = (self.last + self.every).saturating_sub(since_boot());
        // A command that is late already is waited for until it writes.
        let left = if left.is_zero() { Duration::MAX } else { left };
        match tokio::time::timeout(left, self.pipe.read(&mut bytes)).await {
            Ok(read) => {
                if read? > 0 {
                    self.last = since_boot();
                }
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }
}
