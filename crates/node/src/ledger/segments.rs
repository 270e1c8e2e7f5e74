//! The files of a ledger: `ledger` grows at its end, and is renamed to `ledger.1` once it is full. `ledger.alive` holds
//! one record that is overwritten: when the process was last alive, which bounds the end of a killed process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use client::{LedgerEntry, LedgerKind};

use super::record::{self, RECORD_BYTES, VERSION};

/// A segment holds 8191 entries; two are kept.
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
}

/// What was found at the start.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The number of the next entry: above the numbers of all records that were cut off, so that the gap stays visible.
    pub(super) next_sequence: u64,
    pub(super) last_alive_ms: Option<u64>,
    /// Bytes after the last intact record, which were removed.
    pub(super) cut: u64,
    /// Damaged records that have intact ones behind them.
    pub(super) damaged: usize,
}

impl Segments {
    /// Opens or creates the files, and removes an incomplete record at the end. Fails only if the disk fails or the
    /// file has a newer version.
    pub(super) fn open(dir: &Path) -> io::Result<(Self, Found)> {
        let older = Scan::of(&read(&dir.join("ledger.1"))?);
        let path = dir.join("ledger");
        let bytes = read(&path)?;
        if let Some(version) = record::head_version(&bytes).filter(|version| *version > VERSION) {
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
        file.sync_data()?;
        if bytes.is_empty() {
            // Makes the new name in the directory durable.
            File::open(dir)?.sync_all()?;
        }
        let cut = (bytes.len() as u64).saturating_sub(length);
        let last = older.entries.iter().chain(&scan.entries).map(|entry| entry.sequence).max().unwrap_or(0);
        let alive_path = dir.join("ledger.alive");
        let alive = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(alive_path).ok();
        let found = Found {
            next_sequence: last + 1 + cut.div_ceil(RECORD_BYTES as u64),
            last_alive_ms: alive.as_ref().and_then(last_alive),
            cut,
            damaged: older.damaged + scan.damaged + older.torn(),
        };
        Ok((Segments { dir: dir.to_path_buf(), file, alive, length }, found))
    }

    /// Appends records and waits until they are on the disk. After an error the file is as it was before, or is
    /// restored before the next write.
    pub(super) fn append(&mut self, entries: &[LedgerEntry]) -> io::Result<()> {
        for part in entries.chunks(SEGMENT_BYTES as usize / RECORD_BYTES / 2) {
            let bytes: Vec<u8> = part.iter().flat_map(record::encode).collect();
            if self.length + bytes.len() as u64 > SEGMENT_BYTES {
                self.rotate()?;
            }
            if self.file.metadata()?.len() != self.length {
                self.file.set_len(self.length)?;
            }
            self.file.write_all(&bytes)?;
            self.file.sync_data()?;
            self.length += bytes.len() as u64;
        }
        Ok(())
    }

    /// The new segment is complete before the old one moves: after a failure at any point the next attempt loses
    /// nothing.
    fn rotate(&mut self) -> io::Result<()> {
        let [path, fresh] = ["ledger", "ledger.new"].map(|name| self.dir.join(name));
        let _ = fs::remove_file(&fresh);
        let mut file = OpenOptions::new().read(true).append(true).create_new(true).open(&fresh)?;
        file.write_all(&record::head())?;
        file.sync_data()?;
        match fs::rename(&path, self.dir.join("ledger.1")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::rename(&fresh, &path)?,
        }
        File::open(&self.dir)?.sync_all()?;
        self.file = file;
        self.length = RECORD_BYTES as u64;
        Ok(())
    }

    /// Everything that is readable, oldest first.
    pub(super) fn entries(&self) -> io::Result<Vec<LedgerEntry>> {
        let mut entries: Vec<LedgerEntry> = Vec::new();
        for name in ["ledger.1", "ledger"] {
            for entry in Scan::of(&read(&self.dir.join(name))?).entries {
                // A copy of a segment, placed there by hand, adds no entry twice.
                if entries.last().is_none_or(|last| last.sequence < entry.sequence) {
                    entries.push(entry);
                }
            }
        }
        Ok(entries)
    }

    /// Records that the process is alive. Not synced: it serves for killed processes, not for power cuts.
    pub(super) fn alive(&self, stamp: &LedgerEntry) {
        if let Some(file) = &self.alive {
            // Without it the end of this process is known less exactly; nothing else depends on it.
            let _ = file.write_all_at(&record::encode(stamp), 0);
        }
    }
}

fn last_alive(file: &File) -> Option<u64> {
    let mut bytes = [0; RECORD_BYTES];
    file.read_exact_at(&mut bytes, 0).ok()?;
    record::decode(&bytes).filter(|entry| matches!(entry.kind, LedgerKind::Started { .. })).map(|entry| entry.wall_ms)
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
    entries: Vec<LedgerEntry>,
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
                let entry = record::decode(chunk);
                let whole = entry.is_some();
                scan.entries.extend(entry);
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
