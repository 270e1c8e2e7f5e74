//! What happened to this member, kept over restarts: an append-only, checksummed, bounded file for `ctl history` and
//! `ctl audit`.
//!
//! A thread of its own writes it, in order and in batches, so that the event loop never waits. Nothing the member does
//! depends on it: a ledger that cannot be written is said once in the log and in every answer, and the member goes on.

mod record;
mod segments;

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use client::{LedgerEntry, LedgerKind, LedgerPage};
use member::{Cause, Standing};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use segments::{Found, Segments};

/// Far below a frame, whatever the entries are.
const PAGE_ENTRIES: usize = 1000;
/// How often the process leaves a sign of life.
const ALIVE_EVERY: Duration = Duration::from_secs(1);
/// How long a leaving process waits for its last entries.
const FAREWELL: Duration = Duration::from_secs(1);

/// The event loop's end of the ledger. `C` names who asked for a page.
#[derive(Debug)]
pub struct Ledger<C> {
    jobs: Option<mpsc::Sender<Job<C>>>,
    answers: UnboundedReceiver<(C, LedgerPage)>,
    ended: mpsc::Receiver<()>,
    boot_id: [u8; 16],
    next_sequence: u64,
    /// The last sign of life of the process before this one.
    last_alive_ms: Option<u64>,
}

#[derive(Debug)]
enum Job<C> {
    Append(LedgerEntry),
    Page { client: C, after: Option<u64> },
}

impl<C: Send + 'static> Ledger<C> {
    /// Opens the ledger of a data directory. Never fails: without a readable, writable ledger the member runs and says so.
    /// Comes before the first socket: its thread must hold none open.
    pub fn open(dir: &Path) -> Self {
        let (jobs, queue) = mpsc::channel();
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
        let (next_sequence, last_alive_ms) = (found.next_sequence, found.last_alive_ms);
        Ledger { jobs: Some(jobs), answers, ended, boot_id, next_sequence, last_alive_ms }
    }

    /// This incarnation of the member begins.
    pub fn started(&mut self, incarnation: u64) {
        self.append(LedgerKind::Started { incarnation, last_alive_ms: self.last_alive_ms });
    }

    /// Stamps with both clocks and hands over; returns at once.
    pub fn append(&mut self, kind: LedgerKind) {
        let entry = stamp(self.next_sequence, self.boot_id, kind);
        self.next_sequence += 1;
        self.send(Job::Append(entry));
    }

    pub fn became(&mut self, old: Option<Standing>, now: Standing, cause: Cause) {
        self.append(LedgerKind::Became {
            old: old.map(|standing| standing.role.name().to_owned()),
            new: now.role.name().to_owned(),
            leader: now.leader.map(|leader| leader.0),
            epoch: now.epoch.0,
            cause: cause.name().to_owned(),
        });
    }

    /// Asks for a page on behalf of a client; [`Ledger::answered`] gives it, with everything appended before.
    pub fn ask(&mut self, client: C, after: Option<u64>) {
        self.send(Job::Page { client, after });
    }

    /// The next page that was asked for. Cancel-safe.
    pub async fn answered(&mut self) -> (C, LedgerPage) {
        match self.answers.recv().await {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    fn send(&self, job: Job<C>) {
        if let Some(jobs) = &self.jobs {
            // Gone only if the thread never started, which was said.
            let _ = jobs.send(job);
        }
    }
}

impl<C> Drop for Ledger<C> {
    /// The last entries are worth a moment, a hanging disk is not.
    fn drop(&mut self) {
        self.jobs = None;
        let _ = self.ended.recv_timeout(FAREWELL);
    }
}

/// The thread's end.
struct Scribe<C> {
    segments: Option<Segments>,
    /// What happened to the file before this process.
    troubles: Vec<String>,
    boot_id: [u8; 16],
    /// Entries that could not be written.
    lost: u64,
    /// The last write failed: its reason has been logged.
    failing: bool,
    answers: UnboundedSender<(C, LedgerPage)>,
}

impl<C> Scribe<C> {
    /// Until the event loop is gone. Whatever waits is written together; a page shows all that came before it.
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
                    tracing::error!(%error, "cannot write the ledger: this member goes on without; is the disk full?");
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
            segments.alive(&stamp(0, self.boot_id, alive));
        }
    }
}

/// Says what was found at the start, and gives it in words.
fn report(found: &Found) -> Option<String> {
    if found.cut > 0 {
        tracing::warn!(bytes = found.cut, "the ledger ended in the middle of a write: cut off");
    }
    if found.damaged == 0 {
        return None;
    }
    tracing::error!(records = found.damaged, "the ledger is damaged: what is readable is kept");
    Some(format!("{} records are damaged", found.damaged))
}

fn stamp(sequence: u64, boot_id: [u8; 16], kind: LedgerKind) -> LedgerEntry {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let boot_ns = crate::clock::since_boot().as_nanos() as u64;
    LedgerEntry { sequence, wall_ms: wall.as_millis() as u64, boot_ns, boot_id, kind }
}

/// The kernel's name of this boot; zeros, which compare with nothing, if it tells none.
fn boot_id() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).unwrap_or(0).to_be_bytes()
}
