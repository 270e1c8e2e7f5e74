//! The files of a ledger: `ledger` grows at its end, and is `ledger.1` once it is full. `ledger.alive` holds one
//! record that is written over: the last sign of life, which bounds when a killed process ended.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use client::{LedgerEntry, LedgerKind};

use super::record::{self, RECORD_BYTES, VERSION};

/// A segment holds 8191 entries; two are kept.
pub(super) const SEGMENT_BYTES: u64 = 1 << 20;
/// Nothing longer is read: it is no segment of ours.
const READ_MAX: u64 = 4 * SEGMENT_BYTES;

#[derive(Debug)]
pub(super) struct Segments {
    dir: PathBuf,
    file: File,
    alive: Option<File>,
    /// How much of the file is whole records. What lies beyond is the rest of a write that failed.
    length: u64,
}

/// What was found at the start.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The number that the next entry gets: beyond everything that was cut off, so that the gap stays visible.
    pub(super) next_sequence: u64,
    pub(super) last_alive_ms: Option<u64>,
    /// Bytes after the last whole record, now gone.
    pub(super) cut: u64,
    /// Records that are damaged, with whole ones behind them.
    pub(super) damaged: usize,
}

impl Segments {
    /// Opens or creates, and cuts off a torn tail. Only trouble with the disk, or a file of a newer version, fails.
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
            // New, or torn before its first record was whole: begin with a head again.
            file.set_len(0)?;
            file.write_all(&record::head())?;
        } else if bytes.len() as u64 > scan.whole {
            file.set_len(scan.whole)?;
        }
        file.sync_data()?;
        if bytes.is_empty() {
            // A new name in the directory.
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

    /// Appends whole records and waits until they are on the disk. After an error the file is as it was before, or is
    /// made so before the next write.
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

    /// The new segment is whole before the old one moves: after a failure at any point the next attempt loses nothing.
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
                // A copy of a segment, put there by hand, tells nothing twice.
                if entries.last().is_none_or(|last| last.sequence < entry.sequence) {
                    entries.push(entry);
                }
            }
        }
        Ok(entries)
    }

    /// A sign of life. Not synced: it is for processes that are killed, not for power cuts.
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

/// What a segment's bytes hold.
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
