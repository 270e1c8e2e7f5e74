//! A resource that deposed leaders cannot touch: it remembers the largest fencing token it has seen and refuses every
//! smaller one.
//!
//! Elections and leases only determine which process *should* act. A process that was paused at the wrong moment acts
//! too late, and only the resource itself can notice. So every request to it carries the token of the reign it was made
//! in, and the resource asks its [`Fence`] first:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = std::env::temp_dir().join(format!("fence-example-{}", std::process::id()));
//! # std::fs::create_dir_all(&directory)?;
//! # let path = directory.join("fence");
//! use client::{Fence, FenceError};
//!
//! let mut fence = Fence::open(&path)?;
//! fence.check(7 << 16 | 5)?; // epoch 7, member 5: the first one is accepted
//! fence.check(7 << 16 | 5)?; // as often as it comes
//! fence.check(8 << 16 | 4)?; // the next reign
//! assert!(matches!(fence.check(7 << 16 | 5), Err(FenceError::Stale { .. })));
//! # std::fs::remove_dir_all(&directory)?;
//! # Ok(())
//! # }
//! ```
//!
//! An accepted token is on the disk before `check` returns: a restarted resource without it would accept a smaller
//! token.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The beginning of the file; the number is the version of the format.
const FORMAT: &str = "conclave-fence/1";
/// Longer files are no fences: no more bytes than this are read into memory.
const FILE_BYTES_MAX: u64 = 256;

/// The durable memory of one resource, locked exclusively until this is dropped.
#[derive(Debug)]
pub struct Fence {
    path: PathBuf,
    largest: Option<u64>,
    /// The kernel frees the lock when the process ends, however it ends.
    _lock: File,
}

#[derive(Debug, Error)]
pub enum FenceError {
    #[error("token {token} is older than {largest}, which was seen before")]
    Stale { token: u64, largest: u64 },
    #[error("{} is damaged, so it is unknown which tokens it has seen", path.display())]
    Damaged { path: PathBuf },
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl Fence {
    /// Opens the memory in this file, or creates one that has seen nothing. Waits while another process holds it. The
    /// lock is a file of its own, `FILE.lock`, because the file itself is replaced as a whole.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FenceError> {
        let path = path.as_ref().to_path_buf();
        let lock_path = beside(&path, ".lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(failed("create", &lock_path))?;
        lock.lock().map_err(failed("lock", &lock_path))?;
        let largest = read(&path)?;
        Ok(Fence { path, largest, _lock: lock })
    }

    /// The largest token that was ever accepted.
    pub fn largest(&self) -> Option<u64> {
        self.largest
    }

    /// Accepts a token that is not smaller than any before it. After `Ok` the acceptance survives a power cut. After an
    /// error the file contains the old token or the new one: with both, every stale token is refused.
    pub fn check(&mut self, token: u64) -> Result<(), FenceError> {
        match self.largest {
            Some(largest) if token < largest => return Err(FenceError::Stale { token, largest }),
            Some(largest) if token == largest => {}
            _ => self.replace(token)?,
        }
        // Also for a token that is there already: the process that wrote it may have died between rename and sync.
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed("sync", directory))?;
        self.largest = Some(token);
        Ok(())
    }

    fn replace(&self, token: u64) -> Result<(), FenceError> {
        let temporary = beside(&self.path, ".tmp");
        let mut file = File::create(&temporary).map_err(failed("create", &temporary))?;
        file.write_all(&encode(token)).map_err(failed("write", &temporary))?;
        file.sync_all().map_err(failed("sync", &temporary))?;
        fs::rename(&temporary, &self.path).map_err(failed("replace", &self.path))
    }
}

fn read(path: &Path) -> Result<Option<u64>, FenceError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed("open", path))?,
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed("read", path))?;
    decode(&bytes).map(Some).ok_or_else(|| FenceError::Damaged { path: path.to_path_buf() })
}

/// One readable line: the format, the token, and the checksum of both.
fn encode(token: u64) -> Vec<u8> {
    let content = format!("{FORMAT} {token}");
    format!("{content} {:08x}\n", crc32fast::hash(content.as_bytes())).into_bytes()
}

/// Accepts only the exact bytes that [`encode`] writes.
fn decode(bytes: &[u8]) -> Option<u64> {
    let token = std::str::from_utf8(bytes).ok()?.split(' ').nth(1)?.parse().ok()?;
    (encode(token) == bytes).then_some(token)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FenceError {
    let path = path.to_path_buf();
    move |source| FenceError::Io { action, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_byte_and_every_other_length_is_noticed() {
        let bytes = encode(458_757);
        assert_eq!(decode(&bytes), Some(458_757));
        for at in 0..bytes.len() {
            for mask in [0x01, 0x80, 0xff] {
                let mut flipped = bytes.clone();
                flipped[at] ^= mask;
                assert_eq!(decode(&flipped), None, "byte {at} ^ {mask:#x}");
            }
            assert_eq!(decode(&bytes[..at]), None, "cut to {at}");
        }
        assert_eq!(decode(&[bytes.as_slice(), b"\n"].concat()), None);
    }

    #[test]
    fn the_format_of_version_1_does_not_change() {
        assert_eq!(encode(458_757), b"conclave-fence/1 458757 a132d522\n");
    }
}
