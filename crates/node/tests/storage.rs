//! The state file survives what disks and operators do to it, or says plainly that it did not.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use algorithms::{Epoch, Incarnation, NodeId, Safety};
use member::Record;
use member::reign::{Holder, Vote};
use node::storage::{Damage, StateRecord, StorageError, Store};

/// A directory of its own for each test, removed at its end.
struct Dir(PathBuf);

impl Dir {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("conclave-storage-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Dir(path)
    }

    fn state(&self) -> PathBuf {
        self.0.join("state")
    }

    fn temporary(&self) -> PathBuf {
        self.0.join("state.tmp")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn record(ceiling: u64) -> StateRecord {
    let incarnation = Incarnation { counter: 4, nonce: 0xdead_beef };
    let holder = Some(Holder { id: NodeId(3), life: incarnation });
    let vote = Vote { epoch: Epoch(7), holder, longest_lease: Duration::from_millis(500) };
    StateRecord {
        id: NodeId(3),
        refused: false,
        members: 99,
        safety: Safety::Quorum,
        member: Record { incarnation, ceiling: Epoch(ceiling), followed: Epoch(7), vote: Some(vote) },
        seen: BTreeMap::from([(NodeId(2), incarnation)]),
    }
}

fn read(dir: &Path) -> Option<StateRecord> {
    Store::open(dir).unwrap_or_else(|error| panic!("{error}")).1
}

#[test]
fn what_was_written_is_read_after_a_restart() {
    let dir = Dir::new("restart");
    let (store, none) = Store::open(dir.0.join("deep/er")).unwrap();
    assert_eq!(none, None, "a new directory is made and has no record");
    store.write(&record(64)).unwrap();
    store.write(&record(128)).unwrap();
    drop(store);
    assert_eq!(read(&dir.0.join("deep/er")), Some(record(128)));
}

#[test]
fn a_second_process_is_kept_out_and_the_first_is_named() {
    let dir = Dir::new("busy");
    let (store, _) = Store::open(&dir.0).unwrap();
    store.write(&record(64)).unwrap();
    let error = Store::open(&dir.0).unwrap_err();
    assert!(matches!(error, StorageError::Busy { pid: Some(pid), .. } if pid == std::process::id()));
    let printed = error.to_string();
    assert!(printed.contains("another node process"), "{printed}");
    assert!(printed.contains(&dir.0.display().to_string()) && printed.contains("--data-dir"), "{printed}");
    drop(store);
    assert_eq!(read(&dir.0), Some(record(64)), "the lock goes with its holder");
}

#[test]
fn every_flipped_byte_and_every_cut_is_an_error_that_overwrites_nothing() {
    let dir = Dir::new("damage");
    Store::open(&dir.0).unwrap().0.write(&record(64)).unwrap();
    let whole = fs::read(dir.state()).unwrap();
    let refused = |bytes: &[u8], what: String| {
        fs::write(dir.state(), bytes).unwrap();
        let error = Store::open(&dir.0).expect_err(&what);
        assert!(matches!(error, StorageError::Damaged { .. }), "{what}: {error}");
        let printed = error.to_string();
        assert!(printed.contains(&dir.state().display().to_string()), "{printed}");
        assert!(printed.contains("move it away") && printed.contains("start again"), "{printed}");
        assert_eq!(fs::read(dir.state()).unwrap(), bytes, "{what}: the file is as it was");
    };
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        refused(&flipped, format!("byte {at} flipped"));
    }
    for length in 0..whole.len() {
        refused(&whole[..length], format!("cut to {length} bytes"));
    }
    refused(&[whole.as_slice(), b"x"].concat(), "one byte more".to_owned());
    refused(&vec![0; 1 << 20], "a large file of zeros".to_owned());
    fs::write(dir.state(), &whole).unwrap();
    assert_eq!(read(&dir.0), Some(record(64)), "put back, it is good again");
}

#[test]
fn a_file_of_another_kind_and_one_of_a_newer_version_are_told_apart() {
    let dir = Dir::new("kinds");
    Store::open(&dir.0).unwrap().0.write(&record(64)).unwrap();
    let mut newer = fs::read(dir.state()).unwrap();
    newer[8] = 2;
    let end = newer.len() - 4;
    let crc = crc32fast::hash(&newer[..end]).to_le_bytes();
    newer[end..].copy_from_slice(&crc);
    fs::write(dir.state(), &newer).unwrap();
    let error = Store::open(&dir.0).unwrap_err();
    assert!(matches!(error, StorageError::Newer { version: 2, .. }), "{error}");
    assert!(error.to_string().contains("written by a newer version (format 2"), "{error}");
    assert_eq!(fs::read(dir.state()).unwrap(), newer);
    fs::write(dir.state(), "[cluster]\nname = \"a config, perhaps\"\n").unwrap();
    let error = Store::open(&dir.0).unwrap_err();
    assert!(matches!(error, StorageError::Damaged { damage: Damage::Magic, .. }), "{error}");
}

#[test]
fn a_crash_before_the_rename_leaves_the_old_record() {
    let dir = Dir::new("crash");
    let (store, _) = Store::open(&dir.0).unwrap();
    store.write(&record(128)).unwrap();
    let newer = fs::read(dir.state()).unwrap();
    store.write(&record(64)).unwrap();
    drop(store);
    // The temporary file holds anything from nothing to the whole new record; without the rename none of it counts.
    for written in [0, 1, newer.len() / 2, newer.len()] {
        fs::write(dir.temporary(), &newer[..written]).unwrap();
        let (store, found) = Store::open(&dir.0).unwrap();
        assert_eq!(found, Some(record(64)));
        assert!(!dir.temporary().exists(), "the leftover is gone");
        store.write(&record(64)).unwrap();
    }
    fs::write(dir.temporary(), b"rubbish").unwrap();
    fs::remove_file(dir.state()).unwrap();
    assert_eq!(read(&dir.0), None, "a first write that was never renamed never happened");
}

#[test]
fn a_failed_write_is_reported_and_keeps_the_old_record() {
    let dir = Dir::new("failed");
    let (store, _) = Store::open(&dir.0).unwrap();
    store.write(&record(64)).unwrap();
    let seen = (0..257).map(|id| (NodeId(id), Incarnation::default())).collect();
    let too_long = StateRecord { seen, ..record(128) };
    assert!(store.write(&too_long).unwrap_err().to_string().contains("257 peers were seen"));
    fs::create_dir(dir.temporary()).unwrap();
    store.write(&record(128)).expect_err("the temporary file cannot be made");
    fs::remove_dir(dir.temporary()).unwrap();
    assert!(store.write(&record(192)).is_ok(), "later writes go on");
    drop(store);
    assert_eq!(read(&dir.0).unwrap().member.ceiling, Epoch(192));
}

#[test]
fn what_cannot_be_a_directory_is_named() {
    let dir = Dir::new("nodir");
    fs::create_dir_all(&dir.0).unwrap();
    let file = dir.0.join("file");
    fs::write(&file, "").unwrap();
    let printed = Store::open(&file).unwrap_err().to_string();
    assert!(printed.contains("cannot create the data directory") && printed.contains("file"), "{printed}");
}
