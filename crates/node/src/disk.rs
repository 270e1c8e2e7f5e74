//! The thread that waits for the disk, so that the event loop never does.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::descriptors;
use crate::storage::{StateFile, Store};

/// The number of writes that the median covers.
const TIMES: usize = 64;

/// Names one write; its answer carries the same ticket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Ticket(u64);

#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) ticket: Ticket,
    pub(crate) result: io::Result<()>,
    pub(crate) took: Duration,
}

#[derive(Debug)]
pub(crate) struct Disk {
    jobs: mpsc::Sender<(Ticket, StateFile)>,
    done: UnboundedReceiver<Written>,
    next: u64,
    /// The state file.
    path: PathBuf,
    /// How long the last writes took.
    times: VecDeque<Duration>,
}

impl Disk {
    pub(crate) fn start(store: Store) -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel();
        let (answers, done) = unbounded_channel();
        let path = store.path();
        descriptors::spawn("disk", move || write_all(&store, &queue, &answers))?;
        Ok(Disk { jobs, done, next: 0, path, times: VecDeque::new() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn write(&mut self, file: StateFile) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        // The thread ends only when this struct is dropped. If it ended earlier, no write would be answered or
        // acknowledged.
        let _ = self.jobs.send((ticket, file));
        ticket
    }

    /// The next finished write. Cancel-safe.
    pub(crate) async fn written(&mut self) -> Written {
        match self.done.recv().await {
            Some(written) => {
                self.times.truncate(TIMES - 1);
                self.times.push_front(written.took);
                written
            }
            None => std::future::pending().await,
        }
    }

    /// How long the last write took.
    pub(crate) fn latest(&self) -> Option<Duration> {
        self.times.front().copied()
    }

    /// The median time of the last writes.
    pub(crate) fn median(&self) -> Option<Duration> {
        let mut times: Vec<Duration> = self.times.iter().copied().collect();
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    }
}

fn write_all(store: &Store, queue: &mpsc::Receiver<(Ticket, StateFile)>, answers: &UnboundedSender<Written>) {
    for (ticket, file) in queue {
        let begun = Instant::now();
        let result = store.write(&file);
        if answers.send(Written { ticket, result, took: begun.elapsed() }).is_err() {
            return;
        }
    }
}
