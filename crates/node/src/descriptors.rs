//! A table of open files for threads that wait for the disk.
//!
//! Peers take a closed connection for the death of a member. The kernel closes the connections of a killed process when
//! the last thread that shares its table of open files has ended, and a thread inside a write to disk ends only when the
//! disk has answered: a slow disk would hide the death for as long.

use rustix::thread::UnshareFlags;

/// Gives the calling thread a table of its own, with what is open now. What others open later is not in it, so the thread
/// must not be handed files, and what it opens is its own. A runtime that it wakes must be there already. Where the
/// kernel refuses, the thread goes on sharing: deaths are noticed later, and that is all.
#[expect(deprecated, reason = "unsound where open files travel between the threads afterwards; here none does")]
pub(crate) fn keep_own() {
    if let Err(error) = rustix::thread::unshare(UnshareFlags::FILES) {
        tracing::debug!(%error, "this thread shares its table of open files: a slow disk can hide the end of this process");
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_with_its_own_table_keeps_no_connection_open_that_came_later() {
        let (ready, is_ready) = mpsc::channel();
        let (look, may_look) = mpsc::channel::<String>();
        let thread = thread::spawn(move || {
            keep_own();
            ready.send(()).unwrap();
            let link = may_look.recv().unwrap();
            let held = std::fs::read_dir("/proc/thread-self/fd").unwrap().flatten();
            held.filter_map(|entry| std::fs::read_link(entry.path()).ok()).any(|to| to.to_string_lossy() == link)
        });
        is_ready.recv().unwrap();
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let link = std::fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        look.send(link.to_string_lossy().into_owned()).unwrap();
        assert!(!thread.join().unwrap(), "it holds {}", link.display());
    }
}
