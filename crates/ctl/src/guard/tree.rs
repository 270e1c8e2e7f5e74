//! All descendants of this process: found in /proc, signalled, reaped.
//!
//! This process is a subreaper, so a daemonised descendant becomes its child, not init's; and as long as any descendant
//! is left, it has a child. So an answer of `wait` that there is no child is exact, while any reading of /proc is
//! already old.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpgrp, getpid, kill_process_group, pidfd_open,
    pidfd_send_signal, wait,
};
use tokio::signal::unix;

/// The pause before the next search for descendants that were forked while others were killed.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A descendant that loses its parent becomes a child of this process.
pub(super) fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(getpid()))?)
}

/// Fails if this machine does not permit finding descendants.
pub(super) fn check() -> io::Result<()> {
    let own = read(getpid().as_raw_nonzero().get());
    let unreadable =
        || io::Error::other("/proc is not mounted or not readable: the command's processes would not be found");
    own.map(drop).ok_or_else(unreadable)
}

/// Signals every descendant. Descendants forked during this call are missed: call again until [`reap`] returns false.
pub(super) fn signal_all(signal: Signal) {
    for process in descendants() {
        // A pid may have passed to another process since it was read; a pidfd with the same start time has not.
        let Some(pid) = Pid::from_raw(process.pid) else { continue };
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        if read(process.pid).is_none_or(|now| now.born != process.born) {
            continue;
        }
        let _ = pidfd_send_signal(&pidfd, signal);
        // A group is killed at once: no process of it can escape by forking. Groups do not extend beyond the tree,
        // because they do not extend beyond a session; the group of this process is the one exception.
        let group = Pid::from_raw(process.group).filter(|&group| group != getpgrp());
        if let Some(group) = group.filter(|_| signal == Signal::KILL) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Reaps all children that have ended. False: no child is left.
pub(super) fn reap(mut ended: impl FnMut(Pid, WaitStatus)) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => ended(pid, status),
            Ok(None) | Err(Errno::INTR) => return true,
            Err(_) => return false,
        }
    }
}

/// Kills until no descendant is left.
pub(super) async fn sweep(children: &mut unix::Signal) {
    while reap(|_, _| {}) {
        signal_all(Signal::KILL);
        let _ = tokio::time::timeout(LOOK_AGAIN, children.recv()).await;
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    /// In clock ticks since the machine started.
    born: u64,
}

/// Parents come before their children.
fn descendants() -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    let names =
        fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    for process in names.filter_map(|name| read(name.parse().ok()?)) {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut parent = getpid().as_raw_nonzero().get();
    let mut looked_at = 0;
    loop {
        found.extend(children.remove(&parent).unwrap_or_default());
        let Some(next) = found.get(looked_at) else { return found };
        parent = next.pid;
        looked_at += 1;
    }
}

fn read(pid: i32) -> Option<Process> {
    parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// See proc(5); the second field is a name in parentheses that may contain any character, parentheses and spaces
/// included.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let id = |field: usize| i32::try_from(number(field)?).ok();
    Some(Process { pid, parent: id(4)?, group: id(5)?, born: number(22)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_confuse() {
        let stat = "7 (a) b) (c) S 5 6 6 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 2";
        assert_eq!(parse(7, stat), Some(Process { pid: 7, parent: 5, group: 6, born: 12345 }));
    }
}
