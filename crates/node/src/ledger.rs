//! What happened to this member, kept over restarts: an append-only, checksummed, bounded file for `ctl history` and
//! `ctl audit`.
//!
//! A thread of its own writes it, in order and in batches, so that the event loop never waits. The member does not
//! depend on it: if the ledger cannot be written, one log line and every answer say so, and the member continues.

mod record;
mod segments;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender, TrySendError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use client::{Announcement, Happened, LedgerEntry, LedgerKind, LedgerPage};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use segments::{Found, Segments};
use types::InstanceId;

use crate::publisher::Subscriber;

/// Entries and page requests that may wait for the disk.
const QUEUE: usize = 4096;
/// Such a page is far smaller than the largest frame.
const PAGE_ENTRIES: usize = 1000;
/// How often the process writes the time at which it was last alive.
const ALIVE_EVERY: Duration = Duration::from_secs(1);
/// How long a leaving process waits for its last entries.
const FAREWELL: Duration = Duration::from_secs(1);

/// The event loop's end of the ledger: pages are requested here, and entries are written through a [`LedgerWriter`].
/// `C` names the client that requested a page.
#[derive(Debug)]
pub struct Ledger<C> {
    jobs: Option<SyncSender<Job<C>>>,
    answers: UnboundedReceiver<(C, LedgerPage)>,
    ended: mpsc::Receiver<()>,
    boot_id: [u8; 16],
    next_sequence: Arc<AtomicU64>,
    /// When the process before this one was last alive.
    last_alive_ms: Option<u64>,
}

#[derive(Debug)]
enum Job<C> {
    Append(LedgerEntry),
    Page { client: C, after: Option<u64> },
}

impl<C: Send + 'static> Ledger<C> {
    /// Opens the ledger of a data directory. Never fails: without a readable, writable ledger the member runs and
    /// reports it. Called before the first socket is opened: the ledger's thread must hold none open.
    pub fn open(dir: &Path) -> Self {
        let (jobs, queue) = mpsc::sync_channel(QUEUE);
        let (sender, answers) = unbounded_channel();
        let (farewell, ended) = mpsc::channel();
        let mut troubles = Vec::new();
        let mut found = Found { next_sequence: 1, ..Found::default() };
        let segments = match Segments::open(dir) {
            Ok((segments, what)) => {
                found = what;
                troubles.extend(report(&found));
                Some(segments)
            }
            Err(error) => {
                tracing::error!(%error, "no ledger: this member runs without a history");
                troubles.push(format!("the ledger cannot be opened: {error}"));
                None
            }
        };
        let boot_id = boot_id();
        let scribe = Scribe { segments, troubles, boot_id, lost: 0, failing: false, answers: sender };
        let spawned = crate::descriptors::spawn("ledger", move || {
            scribe.work(&queue);
            let _ = farewell.send(());
        });
        if let Err(error) = spawned {
            tracing::error!(%error, "no thread for the ledger: this member runs without a history");
        }
        let (next_sequence, last_alive_ms) = (Arc::new(AtomicU64::new(found.next_sequence)), found.last_alive_ms);
        Ledger { jobs: Some(jobs), answers, ended, boot_id, next_sequence, last_alive_ms }
    }

    /// The ledger ends when this and every writer is dropped.
    pub fn writer(&self) -> LedgerWriter<C> {
        LedgerWriter {
            jobs: self.jobs.clone(),
            boot_id: self.boot_id,
            next_sequence: Arc::clone(&self.next_sequence),
            last_alive_ms: self.last_alive_ms,
        }
    }

    /// Requests a page on behalf of a client; [`Ledger::answered`] returns it, with everything appended before. False
    /// if the disk is so slow that the queue is full.
    pub fn ask(&mut self, client: C, after: Option<u64>) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| jobs.try_send(Job::Page { client, after }).is_ok())
    }

    /// The next requested page. Cancel-safe.
    pub async fn answered(&mut self) -> (C, LedgerPage) {
        match self.answers.recv().await {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

impl<C> Drop for Ledger<C> {
    /// Waits a moment for the last entries, but not for a disk that hangs.
    fn drop(&mut self) {
        self.jobs = None;
        let _ = self.ended.recv_timeout(FAREWELL);
    }
}

/// Writes announcements into the ledger, if they belong there. An entry is lost if the queue is full: a reader sees the
/// gap in the numbers.
#[derive(Debug)]
pub struct LedgerWriter<C> {
    jobs: Option<SyncSender<Job<C>>>,
    boot_id: [u8; 16],
    next_sequence: Arc<AtomicU64>,
    last_alive_ms: Option<u64>,
}

impl<C: Send> LedgerWriter<C> {
    /// The ledger is the history of the cluster's election; other instances have none.
    pub fn write(&mut self, announcement: &Announcement) {
        let kind = self.kind(&announcement.what).filter(|_| announcement.instance == InstanceId::ELECTION);
        if let Some(kind) = kind {
            self.append(kind, announcement.wall_ms, announcement.boot_ns);
        }
    }

    /// Numbers the entry and queues it; returns at once.
    fn append(&mut self, kind: LedgerKind, wall_ms: u64, boot_ns: u64) {
        let sequence = self.next_sequence.fetch_add(1, Ordering::Relaxed);
        let entry = LedgerEntry { sequence, wall_ms, boot_ns, boot_id: self.boot_id, kind };
        let full = |jobs: &SyncSender<Job<C>>| matches!(jobs.try_send(Job::Append(entry)), Err(TrySendError::Full(_)));
        if self.jobs.as_ref().is_some_and(full) {
            tracing::error!(sequence, "the disk is too slow for the ledger: an entry is lost");
        }
    }

    /// What the ledger keeps of an announcement.
    fn kind(&self, what: &Happened) -> Option<LedgerKind> {
        Some(match *what {
            Happened::Started { incarnation } => LedgerKind::Started { incarnation, last_alive_ms: self.last_alive_ms },
            Happened::Became(transition) => LedgerKind::Became(transition),
            Happened::Granted { epoch, holder } => LedgerKind::Granted { epoch, holder },
            Happened::PromiseEnded { epoch, holder } => LedgerKind::PromiseEnded { epoch, holder },
            Happened::Elected(_) | Happened::Link { .. } | Happened::Faults(_) | Happened::Leaving => return None,
        })
    }
}

impl<C: Send> Subscriber for LedgerWriter<C> {
    fn take(&mut self, announcement: &Announcement) {
        self.write(announcement);
    }
}

/// The thread's end of the ledger.
struct Scribe<C> {
    segments: Option<Segments>,
    /// Damage of the file from before this process.
    troubles: Vec<String>,
    boot_id: [u8; 16],
    /// Entries that could not be written.
    lost: u64,
    /// The last write failed: its reason has been logged.
    failing: bool,
    answers: UnboundedSender<(C, LedgerPage)>,
}

impl<C> Scribe<C> {
    /// Runs until the event loop has ended. All queued entries are written together; a page shows all entries before
    /// it.
    fn work(mut self, queue: &mpsc::Receiver<Job<C>>) {
        let mut signed: Option<Instant> = None;
        loop {
            if signed.is_none_or(|at| at.elapsed() >= ALIVE_EVERY) {
                signed = Some(Instant::now());
                self.sign();
            }
            let first = match queue.recv_timeout(ALIVE_EVERY) {
                Ok(job) => Some(job),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return self.sign(),
            };
            let mut batch = Vec::new();
            for job in first.into_iter().chain(queue.try_iter()) {
                match job {
                    Job::Append(entry) => batch.push(entry),
                    Job::Page { client, after } => {
                        self.write(&mut batch);
                        let _ = self.answers.send((client, self.page(after)));
                    }
                }
            }
            self.write(&mut batch);
        }
    }

    fn write(&mut self, batch: &mut Vec<LedgerEntry>) {
        let (Some(segments), false) = (&mut self.segments, batch.is_empty()) else { return batch.clear() };
        match segments.append(batch) {
            Ok(()) if self.failing => {
                self.failing = false;
                tracing::info!(lost = self.lost, "the ledger can be written again");
            }
            Ok(()) => {}
            Err(error) => {
                self.lost += batch.len() as u64;
                if !self.failing {
                    tracing::error!(%error, "cannot write the ledger: this member continues; is the disk full?");
                }
                self.failing = true;
            }
        }
        batch.clear();
    }

    fn page(&self, after: Option<u64>) -> LedgerPage {
        let mut troubles = self.troubles.clone();
        if self.lost > 0 {
            troubles.push(format!("{} entries could not be written", self.lost));
        }
        let entries = match self.segments.as_ref().map(Segments::entries) {
            Some(Ok(entries)) => entries,
            Some(Err(error)) => {
                troubles.push(format!("the ledger cannot be read: {error}"));
                Vec::new()
            }
            None => Vec::new(),
        };
        let from = entries.partition_point(|entry| after.is_some_and(|after| entry.sequence <= after));
        let more = entries.len() - from > PAGE_ENTRIES;
        LedgerPage { entries: entries.into_iter().skip(from).take(PAGE_ENTRIES).collect(), more, troubles }
    }

    fn sign(&mut self) {
        if let Some(segments) = &self.segments {
            let alive = LedgerKind::Started { incarnation: 0, last_alive_ms: None };
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let (wall_ms, boot_ns) = (wall.as_millis() as u64, types::boot_clock().as_nanos() as u64);
            segments.alive(&LedgerEntry { sequence: 0, wall_ms, boot_ns, boot_id: self.boot_id, kind: alive });
        }
    }
}

/// Logs the state that was found at the start, and returns it as text.
fn report(found: &Found) -> Option<String> {
    if found.cut > 0 {
        tracing::warn!(bytes = found.cut, "the ledger ended in the middle of a write: cut off");
    }
    if found.damaged == 0 {
        return None;
    }
    tracing::error!(records = found.damaged, "the ledger is damaged: its readable records are kept");
    Some(format!("{} records are damaged", found.damaged))
}

/// The kernel's id of this boot; zeros, which match no boot, if it has none.
fn boot_id() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).unwrap_or(0).to_be_bytes()
}
