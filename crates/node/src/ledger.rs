//! What happened to this member, kept over restarts: an append-only, checksummed, bounded file for `ctl history` and
//! `ctl audit`.
//!
//! Every record contains the hash of the one before it. The newest hash that is on the disk goes to the event loop, which
//! keeps it in the state file: after a crash the ledger has that entry or later ones, unless somebody removed them.
//!
//! A thread of its own writes it, in order and in batches, so that the event loop never waits. The member does not
//! depend on it: if the ledger cannot be written, one log line and every answer say so, and the member continues.

mod chain;
mod record;
mod segments;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, TrySendError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use client::{
    Announcement, Happened, LedgerBreak, LedgerEntry, LedgerHead, LedgerKind, LedgerPage, LedgerProof, ListPart,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use segments::{Found, Segments};
use types::{Epoch, InstanceId, Stamp};

use crate::bounded;
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
    jobs: Option<Jobs<C>>,
    news: UnboundedReceiver<LedgerNews<C>>,
    ended: mpsc::Receiver<()>,
    boot_id: [u8; 16],
    next_sequence: Arc<AtomicU64>,
    /// When the process before this one was last alive.
    last_alive_ms: Option<u64>,
}

/// What the ledger's thread reports to the event loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LedgerNews<C> {
    /// The page that this client requested.
    Page(C, LedgerPage),
    /// The entries up to this one are on the disk.
    Synced(LedgerHead),
}

type Jobs<C> = bounded::Sender<Job<C>>;

#[derive(Debug)]
enum Job<C> {
    Append(LedgerEntry),
    Page {
        client: C,
        after: Option<u64>,
    },
    /// Answered once all entries before it are written.
    Settle(mpsc::Sender<()>),
}

impl<C: Send + 'static> Ledger<C> {
    /// Opens the ledger of a data directory. Never fails: without a readable, writable ledger the member runs and
    /// reports it. `known` is the newest entry according to the state file. Called before the first socket is opened: the
    /// ledger's thread must hold none open.
    pub fn open(dir: &Path, known: Option<LedgerHead>) -> Self {
        let (jobs, queue) = bounded::channel(QUEUE);
        let (sender, news) = unbounded_channel();
        let (farewell, ended) = mpsc::channel();
        let mut troubles = Vec::new();
        let mut found = Found { next_sequence: 1, ..Found::default() };
        let segments = match Segments::open(dir, known) {
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
        let breaks = std::mem::take(&mut found.breaks);
        let scribe = Scribe { segments, troubles, breaks, boot_id, lost: 0, failing: false, news: sender };
        let spawned = crate::descriptors::spawn("ledger", move || {
            scribe.work(&queue);
            let _ = farewell.send(());
        });
        if let Err(error) = spawned {
            tracing::error!(%error, "no thread for the ledger: this member runs without a history");
        }
        let (next_sequence, last_alive_ms) = (Arc::new(AtomicU64::new(found.next_sequence)), found.last_alive_ms);
        Ledger { jobs: Some(jobs), news, ended, boot_id, next_sequence, last_alive_ms }
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

    /// Requests a page on behalf of a client; [`Ledger::news`] returns it, with everything appended before. False
    /// if the disk is so slow that the queue is full.
    pub fn ask(&mut self, client: C, after: Option<u64>) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| jobs.try_send(Job::Page { client, after }).is_ok())
    }

    /// The next requested page, or the news that entries are on the disk. Cancel-safe.
    pub async fn news(&mut self) -> LedgerNews<C> {
        match self.news.recv().await {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }

    /// Before this process ends: waits until the entries so far are written, but not for a disk that hangs. Returns the
    /// newest entry, if [`Ledger::news`] has not reported it yet; pages that were requested are not answered.
    pub fn settle(&mut self) -> Option<LedgerHead> {
        let (done, settled) = mpsc::channel();
        self.jobs.as_ref()?.try_send(Job::Settle(done)).ok()?;
        settled.recv_timeout(FAREWELL).ok()?;
        let mut head = None;
        while let Ok(news) = self.news.try_recv() {
            if let LedgerNews::Synced(newest) = news {
                head = Some(newest);
            }
        }
        head
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
    jobs: Option<Jobs<C>>,
    boot_id: [u8; 16],
    next_sequence: Arc<AtomicU64>,
    last_alive_ms: Option<u64>,
}

impl<C: Send> LedgerWriter<C> {
    /// The ledger is the history of the cluster's election; of other instances it keeps what operators did.
    pub fn write(&mut self, announcement: &Announcement) {
        let belongs = announcement.instance == InstanceId::ELECTION;
        for kind in self.kinds(&announcement.what) {
            if belongs || matches!(kind, LedgerKind::Ordered(_)) {
                self.append(kind, announcement.wall_ms, announcement.boot_ns);
            }
        }
    }

    /// Numbers the entry and queues it; returns at once.
    fn append(&mut self, kind: LedgerKind, wall_ms: u64, boot_ns: u64) {
        let sequence = self.next_sequence.fetch_add(1, Ordering::Relaxed);
        let entry = LedgerEntry { sequence, wall_ms, boot_ns, boot_id: self.boot_id, kind };
        let job = Job::Append(entry);
        let full = |jobs: &Jobs<C>| matches!(jobs.try_send(job), Err(TrySendError::Full(_)));
        if self.jobs.as_ref().is_some_and(full) {
            tracing::error!(sequence, "the disk is too slow for the ledger: an entry is lost");
        }
    }

    /// What the ledger keeps of an announcement: an entry, or several for a long member list.
    fn kinds(&self, what: &Happened) -> Vec<LedgerKind> {
        let parts = |list: Stamp, voters: &[u32], kind: fn(ListPart) -> LedgerKind| -> Vec<LedgerKind> {
            ListPart::split(list, voters).into_iter().map(kind).collect()
        };
        match *what {
            Happened::Ordered(ref ordered) => vec![LedgerKind::Ordered(ordered.clone())],
            Happened::Started { incarnation } => {
                vec![LedgerKind::Started { incarnation, last_alive_ms: self.last_alive_ms }]
            }
            Happened::Became(transition) => vec![LedgerKind::Became(transition)],
            Happened::Granted { epoch, holder, list } => vec![LedgerKind::Granted { epoch, holder, list }],
            Happened::PromiseEnded { epoch, holder } => vec![LedgerKind::PromiseEnded { epoch, holder }],
            Happened::Adopted { list, ref voters } => parts(list, voters, LedgerKind::Adopted),
            Happened::InForce { list, ref voters } => parts(list, voters, LedgerKind::InForce),
            Happened::Forced { list, ref voters } => parts(list, voters, LedgerKind::Forced),
            Happened::Leaving => vec![LedgerKind::Left],
            Happened::Elected(_) | Happened::Link { .. } | Happened::Faults(_) => Vec::new(),
        }
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
    /// What was missing or changed when this process started.
    breaks: Vec<LedgerBreak>,
    boot_id: [u8; 16],
    /// Entries that could not be written.
    lost: u64,
    /// The last write failed: its reason has been logged.
    failing: bool,
    news: UnboundedSender<LedgerNews<C>>,
}

impl<C> Scribe<C> {
    /// Runs until the event loop has ended. All queued entries are written together; a page shows all entries before
    /// it.
    fn work(mut self, queue: &bounded::Receiver<Job<C>>) {
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
                        let _ = self.news.send(LedgerNews::Page(client, self.page(after)));
                    }
                    Job::Settle(done) => {
                        self.write(&mut batch);
                        let _ = done.send(());
                    }
                }
            }
            self.write(&mut batch);
        }
    }

    fn write(&mut self, batch: &mut Vec<LedgerEntry>) {
        let (Some(segments), false) = (&mut self.segments, batch.is_empty()) else { return batch.clear() };
        let before = segments.head();
        let result = segments.append(batch);
        let head = segments.head();
        if let Some(head) = head.filter(|_| head != before) {
            let _ = self.news.send(LedgerNews::Synced(head));
        }
        match result {
            Ok(()) if self.failing => {
                self.failing = false;
                tracing::info!(lost = self.lost, "the ledger can be written again");
            }
            Ok(()) => {}
            Err(error) => {
                let written = head.map_or(0, |head| head.sequence);
                self.lost += batch.iter().filter(|entry| entry.sequence > written).count() as u64;
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
        let records = match self.segments.as_ref().map(Segments::records) {
            Some(Ok(records)) => records,
            Some(Err(error)) => {
                troubles.push(format!("the ledger cannot be read: {error}"));
                Vec::new()
            }
            None => Vec::new(),
        };
        let proof = match &self.segments {
            Some(segments) if after.is_none() => {
                let mut breaks = self.breaks.clone();
                breaks.extend(segments.breaks(&records).into_iter().filter(|found| !self.breaks.contains(found)));
                LedgerProof { head: segments.head(), breaks }
            }
            _ => LedgerProof::default(),
        };
        let from = records.partition_point(|record| after.is_some_and(|after| record.entry.sequence <= after));
        let more = records.len() - from > PAGE_ENTRIES;
        let entries = records.into_iter().skip(from).take(PAGE_ENTRIES).map(|record| record.entry).collect();
        LedgerPage { entries, more, troubles, proof }
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

/// The whole ledger in a data directory whose member does not run. `known` is the newest entry according to the state file.
/// Changes nothing. Also when the process was last alive.
pub fn peek(dir: &Path, known: Option<LedgerHead>) -> std::io::Result<(LedgerPage, Option<u64>)> {
    let (entries, found) = segments::peek(dir, known)?;
    let troubles = (found.damaged > 0).then(|| format!("{} records are damaged", found.damaged));
    let proof = LedgerProof { head: known, breaks: found.breaks };
    let page = LedgerPage { entries, more: false, troubles: troubles.into_iter().collect(), proof };
    Ok((page, found.last_alive_ms))
}

/// Logs the state that was found at the start, and returns it as text.
fn report(found: &Found) -> Option<String> {
    if found.cut > 0 {
        tracing::warn!(bytes = found.cut, "the ledger ended in the middle of a write: cut off");
    }
    for broken in &found.breaks {
        match broken {
            LedgerBreak::Missing { from, to } => {
                tracing::error!(from, to, "entries of the ledger are missing that were on this disk: `ctl audit`");
            }
            LedgerBreak::Replaced { sequence } => {
                tracing::error!(
                    entry = sequence,
                    "an entry of the ledger is not the one that was written: `ctl audit`"
                );
            }
        }
    }
    if found.damaged == 0 {
        return None;
    }
    tracing::error!(records = found.damaged, "the ledger is damaged: its readable records are kept");
    Some(format!("{} records are damaged", found.damaged))
}

/// The kernel's id of this boot; zeros, which match no boot, if it has none.
pub fn boot_id() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).unwrap_or(0).to_be_bytes()
}

/// A record of these bytes, with and without a sound checksum, for the fuzz target. What was read is written as the same
/// record again.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    let _ = record::decode(bytes);
    let _ = record::head_version(bytes);
    let mut sound = bytes.to_vec();
    sound.resize(record::RECORD_BYTES - 4, 0);
    sound.extend(crc32fast::hash(&sound).to_le_bytes());
    let _ = record::head_version(&sound);
    if let Some(read) = record::decode(&sound)
        && let Some(previous) = read.previous
    {
        let again = record::decode(&record::encode(&read.entry, &previous));
        assert!(again.is_some_and(|again| again.entry == read.entry), "a record changed when it was written");
    }
}

/// Honest records.
#[doc(hidden)]
pub fn fuzz_seeds() -> Vec<Vec<u8>> {
    let kinds = [
        LedgerKind::Started { incarnation: 3, last_alive_ms: Some(9) },
        LedgerKind::Granted { epoch: 7, holder: 2, list: Stamp::new(Epoch(7), 1) },
        LedgerKind::PromiseEnded { epoch: 7, holder: 2 },
        LedgerKind::Adopted(ListPart::split(Stamp::new(Epoch(7), 1), &[1, 2, 3]).remove(0)),
    ];
    let entry = |kind| LedgerEntry { sequence: 1, wall_ms: 2, boot_ns: 3, boot_id: [4; 16], kind };
    kinds.into_iter().map(|kind| record::encode(&entry(kind), &record::ORIGIN).to_vec()).collect()
}
