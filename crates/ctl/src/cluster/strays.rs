//! Members of a directory that this process did not start: restarted by hand, or left behind.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

use super::layout::member_directory;
use super::plan::NODES_MAX;
use super::{GRACE, KILLED};

/// The lock of a data directory; its holder has written its process id into it.
const LOCK: &str = "lock";
const LOOK: Duration = Duration::from_millis(10);

/// A process that holds the data directory of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stray {
    pub(crate) id: u32,
    pid: Option<Pid>,
}

impl Stray {
    /// Is it this process, as far as is known?
    pub(crate) fn may_be(self, pid: u32) -> bool {
        self.pid.is_none_or(|own| own.as_raw_nonzero().get().cast_unsigned() == pid)
    }
}

/// All members whose data directories below this one are in use.
pub(crate) fn strays(directory: &Path) -> Vec<Stray> {
    let held = |id: u32| {
        let path = directory.join(member_directory(id)).join(LOCK);
        let file = File::open(&path).ok()?;
        // Freed again when the file is closed.
        flock(&file, FlockOperation::NonBlockingLockShared).err()?;
        let pid = fs::read_to_string(&path).ok().and_then(|text| Pid::from_raw(text.trim().parse().ok()?));
        Some(Stray { id, pid })
    };
    (1..=NODES_MAX).filter_map(held).collect()
}

/// Stops these processes: in order if they can, by SIGKILL after a grace. Fails if one cannot be stopped.
pub(crate) async fn stop_strays(directory: &Path, found: &[Stray]) -> Result<()> {
    let signal = |stray: &Stray, signal| stray.pid.is_some_and(|pid| kill_process(pid, signal).is_ok());
    let still = |found: &[Stray]| {
        let now = strays(directory);
        found.iter().copied().filter(|stray| now.contains(stray)).collect::<Vec<_>>()
    };
    let mut left = found.to_vec();
    for (how, patience) in [(Signal::TERM, GRACE), (Signal::KILL, KILLED)] {
        for stray in &left {
            signal(stray, how);
            // A paused process ends when it runs again.
            signal(stray, Signal::CONT);
        }
        let gone = async {
            while !still(&left).is_empty() {
                tokio::time::sleep(LOOK).await;
            }
        };
        if tokio::time::timeout(patience, gone).await.is_ok() {
            return Ok(());
        }
        left = still(&left);
    }
    let first = left.first().map_or(0, |stray| stray.id);
    bail!("another process uses {} and cannot be stopped", directory.join(member_directory(first)).display())
}
