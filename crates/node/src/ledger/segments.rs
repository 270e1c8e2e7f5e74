//! The files of a ledger: `ledger` grows at its end, and is renamed to `ledger.1` once it is full. `ledger.alive` holds
//! one record that is overwritten: when the process was last alive, which bounds the end of a killed process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use client::{LedgerBreak, LedgerEntry, LedgerHead, LedgerKind};

use super::chain::{self, Link};
use super::record::{self, RECORD_BYTES, Record, VERSION};

/// A segment holds 8191 entries and is filled to the last; two are kept.
pub(super) const SEGMENT_BYTES: u64 = 1 << 20;
/// The most bytes that are read: a longer file is no segment of this ledger.
const READ_MAX: u64 = 4 * SEGMENT_BYTES;

#[derive(Debug)]
pub(super) struct Segments {
    dir: PathBuf,
    file: File,
    alive: Option<File>,
    /// The length of the intact records. Bytes beyond it are the rest of a write that failed.
    length: u64,
    /// The newest record.
    tail: Link,
    /// The newest record that is on the disk; `None` before the first.
    head: Option<LedgerHead>,
    /// The oldest entry of `ledger`.
    segment_first: Option<u64>,
}

/// What was found at the start.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The number of the next entry: above the numbers of all entries that are known to have been written.
    pub(super) next_sequence: u64,
    pub(super) last_alive_ms: Option<u64>,
    /// Bytes after the last intact record, which were removed.
    pub(super) cut: u64,
    /// Damaged records that have intact ones behind them.
    pub(super) damaged: usize,
    pub(super) breaks: Vec<LedgerBreak>,
}

impl Segments {
    /// Opens or creates the files, and removes an incomplete record at the end. `known` is the newest entry that was on
    /// the disk according to the state file. Fails only if the disk fails or the file has a newer version.
    pub(super) fn open(dir: &Path, known: Option<LedgerHead>) -> io::Result<(Self, Found)> {
        let older = Scan::of(&read(&dir.join("ledger.1"))?);
        let path = dir.join("ledger");
        let bytes = read(&path)?;
        let version = record::head_version(&bytes);
        if let Some(version) = version.filter(|version| *version > VERSION) {
            let message = format!("{} is of a newer version ({version}; this one writes {VERSION})", path.display());
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        let scan = Scan::of(&bytes);
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&path)?;
        let length = scan.whole.max(RECORD_BYTES as u64);
        if bytes.is_empty() || scan.whole == 0 {
            // New, or without one intact record: begin with a head again.
            file.set_len(0)?;
            file.write_all(&record::head())?;
        } else if bytes.len() as u64 > scan.whole {
            file.set_len(scan.whole)?;
        }
        if version.is_some_and(|version| version < VERSION) {
            // An earlier version must not continue what this one writes. Within one sector: whole or not at all.
            OpenOptions::new().write(true).open(&path)?.write_all_at(&record::head(), 0)?;
        }
        file.sync_data()?;
        if bytes.is_empty() {
            // Makes the new name in the directory durable.
            File::open(dir)?.sync_all()?;
        }
        let cut = (bytes.len() as u64).saturating_sub(length);
        let segment_first = scan.records.first().map(|record| record.entry.sequence);
        let known = known.map(|head| after_rotation(head, &older, segment_first));
        let (cut_older, damaged) = (older.torn(), older.damaged + scan.damaged);
        let links: Vec<Link> = in_order([older, scan]).iter().map(Link::from).collect();
        let tail = chain::tail(&links, known);
        let first = known.map_or_else(|| links.first().map_or(1, |link| link.sequence), |head| head.first);
        let head = (tail.sequence > 0).then_some(LedgerHead { first, sequence: tail.sequence, hash: tail.hash });
        let alive_path = dir.join("ledger.alive");
        let alive = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(alive_path).ok();
        let found = Found {
            next_sequence: tail.sequence.saturating_add(1),
            last_alive_ms: alive.as_ref().and_then(last_alive),
            cut,
            damaged: damaged + cut_older,
            breaks: chain::breaks(&links, known),
        };
        Ok((Segments { dir: dir.to_path_buf(), file, alive, length, tail, head, segment_first }, found))
    }

    /// Appends records and waits until they are on the disk. After an error the file is as it was before, or is
    /// restored before the next write.
    pub(super) fn append(&mut self, entries: &[LedgerEntry]) -> io::Result<()> {
        let mut rest = entries;
        while !rest.is_empty() {
            let room = SEGMENT_BYTES.saturating_sub(self.length) as usize / RECORD_BYTES;
            if room == 0 {
                self.rotate()?;
                continue;
            }
            let (part, later) = rest.split_at(room.min(rest.len()));
            self.append_part(part)?;
            rest = later;
        }
        Ok(())
    }

    fn append_part(&mut self, part: &[LedgerEntry]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(part.len() * RECORD_BYTES);
        let mut tail = self.tail;
        for entry in part {
            let record = record::encode(entry, &tail.hash);
            tail = Link { sequence: entry.sequence, previous: Some(tail.hash), hash: record::hash(&record) };
            bytes.extend(record);
        }
        if self.file.metadata()?.len() != self.length {
            self.file.set_len(self.length)?;
        }
        self.file.write_all(&bytes)?;
        self.file.sync_data()?;
        self.length += bytes.len() as u64;
        let oldest = part.first().map_or(tail.sequence, |entry| entry.sequence);
        self.segment_first.get_or_insert(oldest);
        self.tail = tail;
        self.head = Some(LedgerHead {
            first: self.head.map_or(oldest, |head| head.first),
            sequence: tail.sequence,
            hash: tail.hash,
        });
        Ok(())
    }

    /// The newest record that is on the disk.
    pub(super) fn head(&self) -> Option<LedgerHead> {
        self.head
    }

    /// The new segment is complete before the old one moves: after a failure at any point the next attempt loses
    /// nothing.
    fn rotate(&mut self) -> io::Result<()> {
        let [path, fresh] = ["ledger", "ledger.new"].map(|name| self.dir.join(name));
        let _ = fs::remove_file(&fresh);
        let mut file = OpenOptions::new().read(true).append(true).create_new(true).open(&fresh)?;
        file.write_all(&record::head())?;
        file.sync_data()?;
        let older = self.dir.join("ledger.1");
        let drops = older.exists();
        match fs::rename(&path, older) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::rename(&fresh, &path)?,
        }
        File::open(&self.dir)?.sync_all()?;
        self.file = file;
        self.length = RECORD_BYTES as u64;
        let oldest = self.segment_first.take();
        if let (true, Some(head), Some(oldest)) = (drops, &mut self.head, oldest) {
            head.first = oldest;
        }
        Ok(())
    }

    /// Everything that is readable, oldest first.
    pub(super) fn records(&self) -> io::Result<Vec<Record>> {
        let [older, newer] = ["ledger.1", "ledger"].map(|name| read(&self.dir.join(name)));
        Ok(in_order([Scan::of(&older?), Scan::of(&newer?)]))
    }

    pub(super) fn breaks(&self, records: &[Record]) -> Vec<LedgerBreak> {
        let links: Vec<Link> = records.iter().map(Link::from).collect();
        chain::breaks(&links, self.head)
    }

    /// Records that the process is alive. Not synced: it serves for killed processes, not for power cuts.
    pub(super) fn alive(&self, stamp: &LedgerEntry) {
        if let Some(file) = &self.alive {
            // Without it the end of this process is known less exactly; nothing else depends on it.
            let _ = file.write_all_at(&record::encode(stamp, &record::ORIGIN), 0);
        }
    }
}

/// The ledger of a member that does not run, and what is missing from it. Changes nothing.
pub(super) fn peek(dir: &Path, known: Option<LedgerHead>) -> io::Result<(Vec<LedgerEntry>, Found)> {
    let [older, newer] = [Scan::of(&read(&dir.join("ledger.1"))?), Scan::of(&read(&dir.join("ledger"))?)];
    let segment_first = newer.records.first().map(|record| record.entry.sequence);
    let known = known.map(|head| after_rotation(head, &older, segment_first));
    let damaged = older.damaged + newer.damaged;
    let records = in_order([older, newer]);
    let links: Vec<Link> = records.iter().map(Link::from).collect();
    let last_alive_ms = File::open(dir.join("ledger.alive")).ok().and_then(|file| last_alive(&file));
    let found = Found { damaged, breaks: chain::breaks(&links, known), last_alive_ms, ..Found::default() };
    Ok((records.into_iter().map(|record| record.entry).collect(), found))
}

fn last_alive(file: &File) -> Option<u64> {
    let mut bytes = [0; RECORD_BYTES];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let entry = record::decode(&bytes)?.entry;
    matches!(entry.kind, LedgerKind::Started { .. }).then_some(entry.wall_ms)
}

/// A copy of a segment, placed there by hand, adds no entry twice.
fn in_order(segments: [Scan; 2]) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    for record in segments.into_iter().flat_map(|scan| scan.records) {
        if records.last().is_none_or(|last| last.entry.sequence < record.entry.sequence) {
            records.push(record);
        }
    }
    records
}

/// The process may have ended after a rotation and before the state file knew of it. Then the segment that contains the
/// newest known entry is full and has become `ledger.1`, and nothing as old is in `ledger`: the entries before that
/// segment were dropped in order.
fn after_rotation(head: LedgerHead, older: &Scan, segment_first: Option<u64>) -> LedgerHead {
    let oldest = older.records.first().map(|record| record.entry.sequence);
    let rotated = older.bytes == SEGMENT_BYTES && segment_first.is_none_or(|first| first > head.sequence);
    match oldest {
        Some(first) if rotated && first <= head.sequence => LedgerHead { first: first.max(head.first), ..head },
        _ => head,
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => {
            opened?.take(READ_MAX).read_to_end(&mut bytes)?;
        }
    }
    Ok(bytes)
}

/// The content of a segment.
#[derive(Debug, Default)]
struct Scan {
    records: Vec<Record>,
    /// Damaged records before the last whole one; a damaged head counts.
    damaged: usize,
    /// Where the last whole record ends; 0 if there is neither a head nor a record.
    whole: u64,
    bytes: u64,
}

impl Scan {
    fn of(bytes: &[u8]) -> Self {
        let mut scan = Scan { bytes: bytes.len() as u64, ..Scan::default() };
        let mut doubtful = 0;
        for (at, chunk) in bytes.chunks(RECORD_BYTES).enumerate() {
            let whole = if at == 0 {
                record::head_version(chunk).is_some()
            } else {
                let record = record::decode(chunk);
                let whole = record.is_some();
                scan.records.extend(record);
                whole
            };
            if whole {
                scan.whole = ((at + 1) * RECORD_BYTES) as u64;
                scan.damaged += doubtful;
                doubtful = 0;
            } else {
                doubtful += 1;
            }
        }
        scan
    }

    /// Records after the last whole one.
    fn torn(&self) -> usize {
        (self.bytes - self.whole).div_ceil(RECORD_BYTES as u64) as usize
    }
}
