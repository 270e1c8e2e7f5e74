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
/// The pause before a write that found no file descriptor is tried again.
const DESCRIPTOR_AGAIN: Duration = Duration::from_millis(20);

/// Names one write; its answer carries the same ticket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Ticket(u64);

/// What the thread tells the event loop.
#[derive(Debug)]
pub(crate) enum Report {
    Written(Written),
    /// A write waits for a file descriptor: clients should be closed.
    OutOfDescriptors,
}

#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) ticket: Ticket,
    pub(crate) result: io::Result<()>,
    pub(crate) took: Duration,
}

#[derive(Debug)]
pub(crate) struct Disk {
    jobs: mpsc::Sender<(Ticket, StateFile)>,
    done: UnboundedReceiver<Report>,
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

    /// The next report. Cancel-safe.
    pub(crate) async fn written(&mut self) -> Report {
        let Some(report) = self.done.recv().await else { return std::future::pending().await };
        if let Report::Written(written) = &report {
            self.times.truncate(TIMES - 1);
            self.times.push_front(written.took);
        }
        report
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

fn write_all(store: &Store, queue: &mpsc::Receiver<(Ticket, StateFile)>, answers: &UnboundedSender<Report>) {
    for (ticket, file) in queue {
        let begun = Instant::now();
        let result = loop {
            match store.write(&file) {
                // The disk is not broken. Every write replaces the whole file, so it can be repeated.
                Err(error) if descriptors::have_run_out(&error) => {
                    if answers.send(Report::OutOfDescriptors).is_err() {
                        return;
                    }
                    std::thread::sleep(DESCRIPTOR_AGAIN);
                }
                result => break result,
            }
        };
        if answers.send(Report::Written(Written { ticket, result, took: begun.elapsed() })).is_err() {
            return;
        }
    }
}
