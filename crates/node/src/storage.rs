//! The state that a member must keep: one file of sections, replaced as a whole or not at all.
//!
//! In the data directory, `lock` keeps a second process out and `state` holds the sections of everything in this
//! process. Every write has all sections, so no crash leaves some old and some new; sections that this version does not
//! know are kept as they are. A file that cannot be trusted is an error with a remedy; it is never overwritten, because
//! a member that forgot its epoch could repeat it.

mod frame;
mod sections;
mod state;
mod v1;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use thiserror::Error;

pub use frame::Damage;
use frame::FILE_BYTES_MAX;
pub(crate) use frame::Fields;
pub use sections::{Section, Sections};
use state::{FORMAT, Unreadable};
pub use state::{RecordKind, StateFile, VolumeRecord};
pub use v1::{RecordV1, VoteV1};

/// How long a start waits for the lock of a process that is ending.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_AGAIN: Duration = Duration::from_millis(5);

/// The data directory of one member, locked exclusively until this is dropped.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    /// The kernel frees the lock when the process ends, however it ends.
    _lock: File,
}

/// Why a data directory cannot be used. Nothing in it was changed.
#[derive(Debug, Error)]
pub enum StorageError {
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "another node process{} uses the data directory {}: stop it, or give this one a --data-dir of its own",
        by(*pid), dir.display()
    )]
    Busy { dir: PathBuf, pid: Option<u32> },
    #[error("the state file {} is damaged: {damage}; {}", path.display(), move_away(path, "damaged"))]
    Damaged { path: PathBuf, damage: Damage },
    #[error(
        "the state file {} was written by a newer version (format {version}, this one reads up to {FORMAT}): \
         start that version; or, to go back, {}", path.display(), move_away(path, "newer")
    )]
    Newer { path: PathBuf, version: u16 },
    #[error(
        "the {section} section of the state file {} was written by a newer version (section version {version}, this \
         one reads up to {known}): start that version; or, to go back, {}", path.display(), move_away(path, "newer")
    )]
    NewerSection { path: PathBuf, section: &'static str, version: u16, known: u16 },
}

fn by(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}

fn move_away(path: &Path, suffix: &str) -> String {
    let path = path.display();
    format!(
        "move it away (mv {path} {path}.{suffix}) and start again: this member then begins without records and learns \
         the epoch from the other members"
    )
}

impl Store {
    /// Creates the directory if needed, locks it and reads the state; `None` if this member has none yet.
    pub fn open(dir: impl AsRef<Path>) -> Result<(Store, Option<StateFile>), StorageError> {
        let dir = dir.as_ref();
        fs::create_dir_all(dir).map_err(failed("create the data directory", dir))?;
        let lock = lock(dir)?;
        let store = Store { dir: dir.to_path_buf(), _lock: lock };
        let file = read(&store.path())?;
        // A crash between write and rename left this behind. `state` is the valid file.
        let temporary = store.temporary();
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("remove the unfinished", &temporary)(error))
            }
            _ => Ok((store, file)),
        }
    }

    /// Reads the state of a member that does not run; `None` if there is none. Changes nothing.
    pub fn peek(dir: &Path) -> Result<Option<StateFile>, StorageError> {
        if let Ok(lock) = File::open(dir.join("lock")) {
            match flock(&lock, FlockOperation::NonBlockingLockShared) {
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let pid = fs::read_to_string(dir.join("lock")).ok().and_then(|text| text.trim().parse().ok());
                    return Err(StorageError::Busy { dir: dir.to_path_buf(), pid });
                }
                result => result.map_err(|error| failed("lock", dir)(error.into()))?,
            }
        }
        read(&dir.join("state"))
    }

    /// Replaces all sections together, in the newest format. When this returns `Ok` they survive a power cut; after an
    /// error, or a crash at any point, the file holds the old state or the new one, whole. Blocks for the disk.
    pub fn write(&self, file: &StateFile) -> io::Result<()> {
        let bytes = file.encode().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let temporary = self.temporary();
        let mut file = File::create(&temporary)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, self.path())?;
        File::open(&self.dir)?.sync_all()
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The state file.
    pub fn path(&self) -> PathBuf {
        self.dir.join("state")
    }

    fn temporary(&self) -> PathBuf {
        self.dir.join("state.tmp")
    }
}

/// A process that was killed closes its connections first and gives up its lock when its last thread has ended, which may
/// be a moment later: a restart waits for that.
fn wait_for_lock(file: &File) -> rustix::io::Result<()> {
    let begun = Instant::now();
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) if begun.elapsed() < LOCK_PATIENCE => std::thread::sleep(LOCK_AGAIN),
            result => return result,
        }
    }
}

fn lock(dir: &Path) -> Result<File, StorageError> {
    let path = dir.join("lock");
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = open.map_err(failed("open the lock file", &path))?;
    match wait_for_lock(&file) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut holder = String::new();
            // Only to name the process: a lock file without a pid is locked all the same.
            let _ = file.read_to_string(&mut holder);
            return Err(StorageError::Busy { dir: dir.to_path_buf(), pid: holder.trim().parse().ok() });
        }
        Err(error) => return Err(failed("lock", &path)(error.into())),
    }
    file.set_len(0).map_err(failed("write the lock file", &path))?;
    writeln!(file, "{}", std::process::id()).map_err(failed("write the lock file", &path))?;
    Ok(file)
}

fn read(path: &Path) -> Result<Option<StateFile>, StorageError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed("open the state file", path))?,
    };
    let found = file.metadata().map_err(failed("read the state file", path))?.len();
    if found > FILE_BYTES_MAX as u64 {
        return Err(StorageError::Damaged { path: path.to_path_buf(), damage: Damage::Length { found } });
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX as u64).read_to_end(&mut bytes).map_err(failed("read the state file", path))?;
    StateFile::decode(&bytes).map(Some).map_err(|unreadable| unusable(path.to_path_buf(), unreadable))
}

fn unusable(path: PathBuf, unreadable: Unreadable) -> StorageError {
    match unreadable {
        Unreadable::Damaged(damage) => StorageError::Damaged { path, damage },
        Unreadable::NewerFormat { format: version } => StorageError::Newer { path, version },
        Unreadable::NewerSection { name: section, version, known } => {
            StorageError::NewerSection { path, section, version, known }
        }
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StorageError {
    let path = path.to_path_buf();
    move |source| StorageError::Io { action, path, source }
}

/// A state file of these bytes, and files with them as content behind sound checksums, for the fuzz target. What was
/// read is written as the same state again.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    let _ = StateFile::decode(bytes);
    for format in [1, FORMAT] {
        let Ok(file) = frame::seal(format, bytes) else { continue };
        if let Ok(state) = StateFile::decode(&file)
            && let Ok(again) = state.encode()
        {
            assert!(StateFile::decode(&again).is_ok_and(|read| read == state), "a state changed when it was written");
        }
    }
}

/// An honest state file, and the content of it.
#[doc(hidden)]
pub fn fuzz_seeds() -> Vec<Vec<u8>> {
    let seen = std::collections::BTreeMap::from([(algorithms::NodeId(2), types::Incarnation { counter: 3, nonce: 4 })]);
    let safety = member::Safety::Quorum;
    let volume = VolumeRecord { id: algorithms::NodeId(1), refused: false, members: 5, safety, seen, binding: None };
    let mut state = StateFile::new(volume);
    state.put_record(types::InstanceId::ELECTION, RecordKind::Authority, vec![1, 2, 3]);
    let file = state.encode().unwrap_or_default();
    let content = frame::open(&file).map(|(_, content)| content.to_vec()).unwrap_or_default();
    vec![file, content]
}
