//! The thread that waits for the disk, so that the event loop never does.

use std::io;
use std::sync::mpsc;
use std::thread;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::storage::{StateRecord, Store};

/// Names one write; the answer carries it back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Ticket(u64);

#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) ticket: Ticket,
    pub(crate) result: io::Result<()>,
}

#[derive(Debug)]
pub(crate) struct Disk {
    jobs: mpsc::Sender<(Ticket, StateRecord)>,
    done: UnboundedReceiver<Written>,
    next: u64,
}

impl Disk {
    pub(crate) fn start(store: Store) -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel();
        let (answers, done) = unbounded_channel();
        // Small on purpose: a small process dies faster, and its peers notice sooner.
        thread::Builder::new()
            .name("disk".into())
            .stack_size(128 << 10)
            .spawn(move || write_all(&store, &queue, &answers))?;
        Ok(Disk { jobs, done, next: 0 })
    }

    pub(crate) fn write(&mut self, record: StateRecord) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        // The thread ends only with this struct; were it gone, the answer would never come and nothing be acknowledged.
        let _ = self.jobs.send((ticket, record));
        ticket
    }

    /// The next finished write. Cancel-safe.
    pub(crate) async fn written(&mut self) -> Written {
        match self.done.recv().await {
            Some(written) => written,
            None => std::future::pending().await,
        }
    }
}

fn write_all(store: &Store, queue: &mpsc::Receiver<(Ticket, StateRecord)>, answers: &UnboundedSender<Written>) {
    for (ticket, record) in queue {
        if answers.send(Written { ticket, result: store.write(&record) }).is_err() {
            return;
        }
    }
}
