//! Gives each thread beside the event loop's its own table of open files.
//!
//! Peers take a closed connection for the death of a member. The kernel closes the connections of a killed process when
//! the last thread that shares its table of open files has ended. A thread inside a write to disk ends only when the
//! disk has answered: a slow disk would hide the death for as long. Every other thread has to be woken to end.

use std::sync::mpsc;
use std::{io, thread};

use anyhow::bail;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::UnshareFlags;

const LAST_TO_EXIT: &str = "last-to-exit";
const LOWEST_PRIORITY: i32 = 19;

/// More file descriptors than a process of the largest cluster uses. A higher limit would only be inherited by the
/// operator's hooks, and some programs close every descriptor below their limit, one by one.
const ENOUGH: u64 = 2048;
/// For the state file, the ledger, the log, hooks, timers and the resolver.
const FILES: usize = 64;
/// A link, and a dial or a later process of the same member that waits to be connected.
const PER_PEER: usize = 2;
const CLIENTS_MAX: usize = 1024;
const UNAUTHENTICATED_MAX: usize = 256;
const HTTP_MAX: usize = 1200;
/// With fewer connections of clients and strangers than this a cluster cannot be operated.
const CONNECTIONS_MIN: usize = 16;

/// How many of the process's file descriptors clients and strangers may have. The others are for the members and the disk,
/// whatever clients do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shares {
    pub(crate) clients_max: usize,
    pub(crate) unauthenticated_max: usize,
    /// Of a table of its own: the thread of the HTTP face shares no descriptors with the event loop.
    pub(crate) http_connections: usize,
}

/// Raises the limit of open files of this process, as far as it may, and divides it.
pub(crate) fn claim(peers: usize) -> anyhow::Result<Shares> {
    let limit = raise();
    match shares(limit, peers) {
        Some(shares) => Ok(shares),
        None => bail!(
            "this process may open {limit} files, too few for a member of this cluster: raise the limit (ulimit -n, \
             LimitNOFILE=) to {} or more",
            FILES + PER_PEER * peers + CONNECTIONS_MIN
        ),
    }
}

fn raise() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(ENOUGH, |maximum| maximum.min(ENOUGH));
    match current {
        Some(current) if current < wanted => {
            match setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }) {
                Ok(()) => wanted,
                Err(error) => {
                    tracing::warn!(%error, limit = current, "the limit of open files cannot be raised");
                    current
                }
            }
        }
        Some(current) => current,
        None => ENOUGH,
    }
}

/// `None` if there is not enough for any client.
fn shares(limit: u64, peers: usize) -> Option<Shares> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let connections = limit.checked_sub(FILES + PER_PEER * peers).filter(|&rest| rest >= CONNECTIONS_MIN)?;
    let unauthenticated_max = UNAUTHENTICATED_MAX.min(connections / 4);
    let clients_max = CLIENTS_MAX.min(connections - unauthenticated_max);
    // The face dials every member, and may follow and ask it at the same time.
    let http_connections = HTTP_MAX.min(limit.saturating_sub(FILES + 4 * peers)).max(CONNECTIONS_MIN);
    Some(Shares { clients_max, unauthenticated_max, http_connections })
}

/// The process or the machine has no file descriptor left: no fault of the file that was to be opened.
pub(crate) fn have_run_out(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE].into_iter().any(|errno| code == Some(errno.raw_os_error()))
}

/// Starts a thread with its own copy of the table of open files: files that other threads open after this returns are
/// not in it. So the thread must not be given files afterwards, files that it opens are its own, and a runtime that it
/// wakes must exist already. Its stack is small on purpose: a small process dies faster, and its peers notice sooner.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    spawn_with_stack(name, 128 << 10, work)
}

pub(crate) fn spawn_with_stack(name: &str, bytes: usize, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let (ready, is_ready) = mpsc::channel();
    thread::Builder::new().name(name.into()).stack_size(bytes).spawn(move || {
        keep_own();
        let _ = ready.send(());
        work();
    })?;
    let _ = is_ready.recv();
    Ok(())
}

/// Starts an idle thread that ends last when the process is killed.
///
/// The last thread of a killed process frees the memory of the process before it closes its files; every other thread
/// closes its files at once. If the event loop's thread were the last one, its connections would stay open until all
/// memory is freed. This thread has the lowest priority, so that it is the last one.
pub(crate) fn spawn_last_to_exit() -> io::Result<()> {
    spawn(LAST_TO_EXIT, || {
        if let Err(error) = rustix::process::setpriority_process(None, LOWEST_PRIORITY) {
            tracing::debug!(%error, "low priority is refused: peers may notice the end of this process later");
        }
        loop {
            thread::park();
        }
    })
}

/// If the kernel refuses, the thread keeps sharing the table: the only effect is that deaths are noticed later.
#[expect(deprecated, reason = "unsound where open files travel between the threads afterwards; here none does")]
fn keep_own() {
    if let Err(error) = rustix::thread::unshare(UnshareFlags::FILES) {
        tracing::debug!(%error, "this thread shares its table of open files: a slow disk can hide the end of this process");
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn members_and_the_disk_have_descriptors_whatever_clients_take() {
        for (limit, peers) in [(80, 0), (128, 3), (256, 5), (1024, 9), (2048, 256), (1 << 20, 256), (u64::MAX, 3)] {
            let Shares { clients_max, unauthenticated_max, http_connections } = shares(limit, peers).unwrap();
            let taken = (clients_max + unauthenticated_max + FILES + PER_PEER * peers) as u64;
            assert!(taken <= limit && clients_max > 0 && unauthenticated_max > 0, "{limit}, {peers}");
            assert!(http_connections as u64 <= limit && http_connections > 0, "{limit}, {peers}");
        }
        assert_eq!(
            shares(ENOUGH, 255).unwrap(),
            Shares { clients_max: 1024, unauthenticated_max: 256, http_connections: 964 }
        );
        assert_eq!((shares(64, 3), shares(79, 0)), (None, None));
    }

    #[test]
    fn the_limit_is_raised_as_far_as_it_may_be_and_needs_to_be() {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum }).unwrap();
        assert_eq!(raise(), maximum.map_or(ENOUGH, |maximum| maximum.min(ENOUGH)));
        assert_eq!(getrlimit(Resource::Nofile).current, Some(raise()));
    }

    /// The priorities of the threads of this name.
    fn priorities(name: &str) -> Vec<i32> {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let stats = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
        let named = stats.filter(|stat| stat.contains(&format!("({name})")));
        // The seventeenth field after the name.
        named.filter_map(|stat| stat.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok()).collect()
    }

    #[test]
    fn the_last_thread_to_exit_has_the_lowest_priority() {
        spawn_last_to_exit().unwrap();
        let begun = std::time::Instant::now();
        while priorities(LAST_TO_EXIT) != [LOWEST_PRIORITY] {
            assert!(begun.elapsed().as_secs() < 20, "{:?}", priorities(LAST_TO_EXIT));
            thread::yield_now();
        }
    }

    #[test]
    fn a_thread_with_its_own_table_keeps_no_connection_open_that_came_later() {
        let (look, may_look) = mpsc::channel::<String>();
        let (tell, told) = mpsc::channel();
        spawn("own-table", move || {
            let link = may_look.recv().unwrap();
            let held = std::fs::read_dir("/proc/thread-self/fd").unwrap().flatten();
            let mut held = held.filter_map(|entry| std::fs::read_link(entry.path()).ok());
            tell.send(held.any(|to| to.to_string_lossy() == link)).unwrap();
        })
        .unwrap();
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let link = std::fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        look.send(link.to_string_lossy().into_owned()).unwrap();
        assert!(!told.recv().unwrap(), "it holds {}", link.display());
    }
}
