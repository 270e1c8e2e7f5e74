//! `--load`: the command writes what it does and could do to a pipe, and the member shows it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use client::{Reporter, Workload};
use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionbio};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::watch;
use types::since_boot;

use crate::failure::remark;

/// A longer line is no pair of numbers.
const LINE_MAX: usize = 128;
/// The member is told the newest line, and no more often than this.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// The reading end of the command's pipe, and what was read.
#[derive(Debug)]
pub(super) struct Load {
    pipe: Receiver,
    /// The command inherits it, through its guard.
    writing: OwnedFd,
    lines: Lines,
    /// When the member was told last, since boot.
    told: Option<Duration>,
}

impl Load {
    /// Must be called before the guard is started.
    pub(super) fn new() -> io::Result<Self> {
        let (reading, writing) = io::pipe()?;
        // Both ends close when another program is run. The guard and the command shall have the writing end.
        fcntl_setfd(&writing, FdFlags::empty())?;
        let (reading, writing) = (OwnedFd::from(reading), OwnedFd::from(writing));
        ioctl_fionbio(&reading, true)?;
        Ok(Load { pipe: Receiver::from_owned_fd(reading)?, writing, lines: Lines::default(), told: None })
    }

    /// For the environment of the command: the number of the descriptor that it writes to.
    pub(super) fn descriptor(&self) -> String {
        self.writing.as_raw_fd().to_string()
    }

    /// What the member is to be told next; without `--load` it never returns. Cancel-safe.
    pub(super) async fn next_of(load: &mut Option<Load>) -> io::Result<Workload> {
        match load {
            Some(load) => load.next().await,
            None => std::future::pending().await,
        }
    }

    async fn next(&mut self) -> io::Result<Workload> {
        loop {
            let rest = self.told.map(|told| (told + TELL_EVERY).saturating_sub(since_boot())).unwrap_or_default();
            let mut bytes = [0; 1024];
            tokio::select! {
                biased;
                // Always read: a command must not wait for a member that is slow.
                read = self.pipe.read(&mut bytes) => {
                    let length = read?;
                    if self.lines.take(&bytes[..length]) {
                        remark("the command wrote a line to CONCLAVE_LOAD_FD that is not LOAD CAPACITY, two numbers");
                    }
                }
                () = tokio::time::sleep(rest), if self.lines.newest.is_some() => {
                    if let Some(newest) = self.lines.newest.take() {
                        self.told = Some(since_boot());
                        return Ok(newest);
                    }
                }
            }
        }
    }
}

/// Tells the member the newest, one after another: it may be slow to answer, and nothing depends on it.
pub(super) async fn tell(reporter: Reporter, mut newest: watch::Receiver<Option<Workload>>) {
    while newest.changed().await.is_ok() {
        let work = *newest.borrow_and_update();
        if let Some(work) = work {
            // A member of an earlier release does not know the request.
            let _ = reporter.report(work).await;
        }
    }
}

/// Lines out of a stream of bytes, in bounded memory.
#[derive(Debug, Default)]
struct Lines {
    line: Vec<u8>,
    /// The rest of a line that is too long.
    skips: bool,
    newest: Option<Workload>,
    complained: bool,
}

impl Lines {
    /// True for the first line that cannot be read.
    fn take(&mut self, bytes: &[u8]) -> bool {
        let mut complains = false;
        for &byte in bytes {
            if byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                let read = std::str::from_utf8(&line).ok().and_then(|line| line.parse().ok());
                match read.filter(|_| !self.skips) {
                    Some(work) => self.newest = Some(work),
                    None => complains |= !std::mem::replace(&mut self.complained, true),
                }
                self.skips = false;
            } else if self.line.len() < LINE_MAX {
                self.line.push(byte);
            } else {
                self.skips = true;
            }
        }
        complains
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_whole_line_counts_and_others_are_left_out() {
        let mut lines = Lines::default();
        assert!(!lines.take(b"1 2\n3 "));
        assert_eq!(lines.newest.take(), "1 2".parse().ok());
        assert!(!lines.take(b"10\n4 10\n5"));
        assert_eq!(lines.newest.take(), "4 10".parse().ok());
        assert!(lines.take(b" ten\n"), "the first line of that kind");
        assert!(!lines.take(b"\xff\n\n6 NaN\n"));
        assert_eq!(lines.newest, None);
        let mut long = vec![b' '; 3 * LINE_MAX];
        long.extend(b"7 8\n9 10\n");
        assert!(!lines.take(&long) && lines.line.capacity() <= 2 * LINE_MAX);
        assert_eq!(lines.newest.take(), "9 10".parse().ok());
    }
}
