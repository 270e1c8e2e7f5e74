//! The state file survives what disks and operators do to it, or says plainly that it did not.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use algorithms::{Epoch, NodeId};
use member::reign::{Holder, LockPast, Vote};
use member::{BeliefRecord, Incarnation, QuorumRecord, Safety};
use node::records::{self, AuthorityRecord};
use node::storage::{Damage, RecordKind, RecordV1, Section, StateFile, StorageError, Store, VolumeRecord, VoteV1};
use testkit::Scratch;
use types::InstanceId;

/// A directory of its own for each test, removed at its end.
struct Dir(Scratch);

impl Dir {
    fn new(test: &str) -> Self {
        Dir(Scratch::new(test).unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    fn temporary(&self) -> PathBuf {
        self.path().join("state.tmp")
    }
}

/// A state that one number tells from others.
fn state(number: u64) -> StateFile {
    let seen = BTreeMap::from([(NodeId(2), Incarnation { counter: 4, nonce: 0xdead_beef })]);
    let volume =
        VolumeRecord { id: NodeId(3), refused: false, members: 99, safety: Safety::Quorum, seen, binding: None };
    let mut file = StateFile::new(volume);
    file.put_record(InstanceId::ELECTION, RecordKind::Algorithm, number.to_le_bytes().to_vec());
    file.put_record(InstanceId::ELECTION, RecordKind::Authority, b"authority".to_vec());
    file
}

fn read(dir: &Path) -> Option<StateFile> {
    Store::open(dir).unwrap_or_else(|error| panic!("{error}")).1
}

/// The bytes of a file, laid out here once more by the description of the format.
fn sealed(format: u16, content: &[u8]) -> Vec<u8> {
    let length = 8 + 2 + 4 + content.len() as u32 + 4;
    let mut bytes = [b"cnclv-st".as_slice(), &format.to_le_bytes(), &length.to_le_bytes(), content].concat();
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

/// A section that claims this length.
fn section(instance: u16, kind: u16, version: u16, length: u32, bytes: &[u8]) -> Vec<u8> {
    let head = [instance, kind, version].map(u16::to_le_bytes).concat();
    [head.as_slice(), &length.to_le_bytes(), bytes].concat()
}

/// A file of format 2, with a sound volume and these sections after it.
fn file_with(more: &[(u16, u16, u16, &[u8])]) -> Vec<u8> {
    let volume = [&3_u32.to_le_bytes()[..], &[0], &99_u64.to_le_bytes(), &[1], &0_u16.to_le_bytes(), &[0]].concat();
    let mut content = (1 + more.len() as u16).to_le_bytes().to_vec();
    content.extend(section(0, 1, 2, volume.len() as u32, &volume));
    for &(instance, kind, version, bytes) in more {
        content.extend(section(instance, kind, version, bytes.len() as u32, bytes));
    }
    sealed(2, &content)
}

/// Why this file is not opened. It is as it was afterwards.
fn refused(dir: &Dir, bytes: &[u8], what: &str) -> StorageError {
    fs::create_dir_all(dir.path()).unwrap();
    fs::write(dir.state(), bytes).unwrap();
    let error = Store::open(dir.path()).expect_err(what);
    let printed = error.to_string();
    assert!(printed.contains(&dir.state().display().to_string()), "{what}: {printed}");
    assert!(printed.contains("move it away") && printed.contains("start again"), "{what}: {printed}");
    assert!(fs::read(dir.state()).unwrap() == bytes, "{what}: the file is as it was");
    error
}

#[test]
fn what_was_written_is_read_after_a_restart() {
    let dir = Dir::new("restart");
    let (store, none) = Store::open(dir.path().join("deep/er")).unwrap();
    assert_eq!(none, None, "a new directory is made and has no state");
    store.write(&state(64)).unwrap();
    store.write(&state(128)).unwrap();
    drop(store);
    assert_eq!(read(&dir.path().join("deep/er")), Some(state(128)));
}

#[test]
fn a_second_process_is_kept_out_and_the_first_is_named() {
    let dir = Dir::new("busy");
    let (store, _) = Store::open(dir.path()).unwrap();
    store.write(&state(64)).unwrap();
    let error = Store::open(dir.path()).unwrap_err();
    assert!(matches!(error, StorageError::Busy { pid: Some(pid), .. } if pid == std::process::id()));
    let printed = error.to_string();
    assert!(printed.contains("another node process"), "{printed}");
    assert!(printed.contains(&dir.path().display().to_string()) && printed.contains("--data-dir"), "{printed}");
    drop(store);
    assert_eq!(read(dir.path()), Some(state(64)), "the lock goes with its holder");
}

#[test]
fn every_flipped_byte_and_every_cut_is_an_error_that_overwrites_nothing() {
    let dir = Dir::new("damage");
    Store::open(dir.path()).unwrap().0.write(&state(64)).unwrap();
    let whole = fs::read(dir.state()).unwrap();
    let damaged = |bytes: &[u8], what: &str| {
        let error = refused(&dir, bytes, what);
        assert!(matches!(error, StorageError::Damaged { .. }), "{what}: {error}");
    };
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        damaged(&flipped, &format!("byte {at} flipped"));
    }
    for length in 0..whole.len() {
        damaged(&whole[..length], &format!("cut to {length} bytes"));
    }
    damaged(&[whole.as_slice(), b"x"].concat(), "one byte more");
    damaged(&vec![0; 1 << 20], "a large file of zeros");
    fs::write(dir.state(), &whole).unwrap();
    assert_eq!(read(dir.path()), Some(state(64)), "put back, it is good again");
}

#[test]
fn a_file_of_another_kind_and_one_of_a_newer_version_are_told_apart() {
    let dir = Dir::new("kinds");
    let error = refused(&dir, &sealed(3, b"whatever is in it"), "a newer format");
    assert!(matches!(error, StorageError::Newer { version: 3, .. }), "{error}");
    let printed = error.to_string();
    assert!(printed.contains("written by a newer version (format 3, this one reads up to 2)"), "{printed}");
    assert!(printed.contains("start that version"), "{printed}");
    let error = refused(&dir, b"[cluster]\nname = \"a config, perhaps\"\n", "a config");
    assert!(matches!(error, StorageError::Damaged { damage: Damage::Magic, .. }), "{error}");
}

#[test]
fn a_section_of_a_newer_version_is_named_with_what_to_do() {
    let dir = Dir::new("newer-section");
    for (instance, kind, name, reads) in [
        (0, 3, "authority", 4),
        (0, 4, "algorithm", 1),
        (0, 5, "ledger", 1),
        (0, 6, "list mark", 1),
        (256, 3, "authority", 4),
    ] {
        let newer = reads + 1;
        let error = refused(&dir, &file_with(&[(instance, kind, newer, b"from the future")]), name);
        let named =
            matches!(error, StorageError::NewerSection { version, known, .. } if (version, known) == (newer, reads));
        assert!(named, "{error}");
        let printed = error.to_string();
        assert!(printed.contains(&format!("the {name} section of the state file")), "{printed}");
        let versions = format!("(section version {newer}, this one reads up to {reads}): start that version");
        assert!(printed.contains(&versions), "{printed}");
    }
}

#[test]
fn a_start_waits_for_the_lock_of_a_process_that_is_ending() {
    let dir = Dir::new("ending");
    let (ending, _) = Store::open(dir.path()).unwrap();
    let path = dir.path().to_owned();
    let (begins, begun) = std::sync::mpsc::channel();
    let start = std::thread::spawn(move || {
        begins.send(()).unwrap();
        Store::open(path).map(drop)
    });
    begun.recv().unwrap();
    // Long enough for the start to find the lock taken; it has no event to wait for.
    std::thread::sleep(std::time::Duration::from_millis(50));
    drop(ending);
    start.join().unwrap().unwrap();
}

#[test]
fn sections_that_nobody_knows_survive_a_rewrite_byte_for_byte() {
    let dir = Dir::new("unknown");
    fs::create_dir_all(dir.path()).unwrap();
    let before =
        file_with(&[(0, 3, 1, b"old"), (0, 77, 9, b"of the election"), (1, 3, 5, b"locks"), (300, 1, 0, b"\0\xff")]);
    fs::write(dir.state(), &before).unwrap();
    let (store, file) = Store::open(dir.path()).unwrap();
    let mut file = file.unwrap();
    store.write(&file).unwrap();
    assert_eq!(fs::read(dir.state()).unwrap(), before, "unchanged, it is the same file");
    file.put_record(InstanceId::ELECTION, RecordKind::Authority, b"new".to_vec());
    store.write(&file).unwrap();
    drop(store);
    let after =
        file_with(&[(0, 3, 4, b"new"), (0, 77, 9, b"of the election"), (1, 3, 5, b"locks"), (300, 1, 0, b"\0\xff")]);
    assert_eq!(fs::read(dir.state()).unwrap(), after);
    let locks = Section { version: 5, bytes: b"locks".to_vec() };
    assert_eq!(read(dir.path()).unwrap().record(InstanceId(1), RecordKind::Authority), Some(&locks));
}

#[test]
fn sections_that_are_there_twice_or_out_of_order_are_damage() {
    let dir = Dir::new("twice");
    for (what, sections) in [
        ("the volume twice", [(0, 1, 1, b"".as_slice()), (0, 2, 1, b"")]),
        ("an unknown one twice", [(9, 9, 1, b"a"), (9, 9, 1, b"a")]),
        ("out of order", [(0, 3, 1, b""), (0, 2, 1, b"")]),
    ] {
        let error = refused(&dir, &file_with(&sections), what);
        assert!(matches!(error, StorageError::Damaged { damage: Damage::Content, .. }), "{what}: {error}");
    }
}

/// A file as the last version with format 1 wrote it.
fn first_format() -> Vec<u8> {
    let hex = include_str!("../../src/storage/record-v1.hex").trim();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn a_file_of_format_1_is_read_and_rewritten_as_format_2_with_nothing_lost() {
    let dir = Dir::new("format-1");
    fs::create_dir_all(dir.path()).unwrap();
    fs::write(dir.state(), first_format()).unwrap();
    let own = Incarnation { counter: 3, nonce: 0x0123_4567_89ab_cdef };
    let seen = BTreeMap::from([(NodeId(2), Incarnation { counter: 9, nonce: 0xabcd }), (NodeId(5), own)]);
    let volume = VolumeRecord {
        id: NodeId(4),
        refused: true,
        members: 0xfeed,
        safety: Safety::Quorum,
        seen: seen.clone(),
        binding: None,
    };
    let lease = Duration::from_millis(500);
    let vote = VoteV1 { epoch: 77, holder: Some((NodeId(5), own)), longest_lease: lease };
    let legacy = RecordV1 {
        id: NodeId(4),
        refused: true,
        members: 0xfeed,
        safety: Safety::Quorum,
        incarnation: own,
        ceiling: 128,
        followed: 78,
        vote: Some(vote),
        seen,
    };
    let (store, file) = Store::open(dir.path()).unwrap();
    let file = file.unwrap();
    assert_eq!((&file.volume, &file.legacy), (&volume, &Some(legacy)));
    let error = store.write(&file).unwrap_err().to_string();
    assert!(error.contains("format 1 was not converted"), "{error}");
    drop(store);
    assert_eq!(fs::read(dir.state()).unwrap(), first_format(), "a member's part is not dropped by a write");

    let (store, file) = records::open(dir.path()).unwrap();
    store.write(&file.unwrap()).unwrap();
    drop(store);
    assert_eq!(fs::read(dir.state()).unwrap()[8..10], [2, 0], "written in the new format");
    let again = records::open(dir.path()).unwrap().1.unwrap();
    assert_eq!((&again.volume, &again.legacy), (&volume, &None));
    let holder = Some(Holder { id: NodeId(5), incarnation: own });
    let vote = Some(Vote {
        epoch: Epoch(77),
        holder,
        longest_lease: lease,
        list: std::sync::Arc::default(),
        locks: LockPast::default(),
    });
    let belief = BeliefRecord { incarnation: own, reserved_until: 128, followed: Epoch(78) };
    let record = QuorumRecord { belief, vote, cluster: None };
    assert_eq!(records::authority(&again, InstanceId::ELECTION), Some(AuthorityRecord::Quorum(record)));
}

#[test]
fn a_record_of_a_version_without_locks_is_read() {
    let own = Incarnation { counter: 3, nonce: 5 };
    let belief = BeliefRecord { incarnation: own, reserved_until: 128, followed: Epoch(78) };
    let holder = Some(Holder { id: NodeId(5), incarnation: own });
    let lease = std::time::Duration::from_millis(500);
    let list = std::sync::Arc::new(types::MemberList::default());
    let bytes = transport::codec::to_vec(&(&belief, Some((Epoch(77), holder, lease, &list)), None::<()>)).unwrap();
    let vote = Vote { epoch: Epoch(77), holder, longest_lease: lease, list, locks: LockPast::default() };
    let record = AuthorityRecord::Quorum(QuorumRecord { belief, vote: Some(vote), cluster: None });
    assert_eq!(AuthorityRecord::decode(Safety::Quorum, 3, &bytes), Some(record.clone()));
    assert_eq!(AuthorityRecord::decode(Safety::Quorum, 4, &bytes), None, "it lacks what version 4 has");
    assert_eq!(AuthorityRecord::decode(Safety::Quorum, 4, &record.encode()), Some(record));
}

#[test]
fn a_volume_without_its_members_record_is_damaged() {
    let dir = Dir::new("no-member");
    fs::create_dir_all(dir.path()).unwrap();
    for bytes in [file_with(&[]), file_with(&[(0, 3, 1, b"not a record")])] {
        fs::write(dir.state(), &bytes).unwrap();
        let error = records::open(dir.path()).unwrap_err();
        assert!(matches!(error, StorageError::Damaged { damage: Damage::Content, .. }), "{error}");
        assert_eq!(fs::read(dir.state()).unwrap(), bytes);
    }
}

/// The most memory this process ever asked for, in bytes; `None` where the kernel does not say.
fn most_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

#[test]
fn absurd_lengths_are_damage_and_take_no_memory() {
    let dir = Dir::new("absurd");
    let before = most_memory();
    let volume = |peers: u16| [&[0; 14][..], &peers.to_le_bytes()].concat();
    let sections = |count: u16, section: Vec<u8>| sealed(2, &[&count.to_le_bytes()[..], &section].concat());
    let mut length_of_file = file_with(&[]);
    length_of_file[10..14].copy_from_slice(&u32::MAX.to_le_bytes());
    for (what, bytes) in [
        ("the file's length", length_of_file),
        ("the number of sections", sections(u16::MAX, section(0, 1, 1, 16, &volume(0)))),
        ("a section's length", sections(1, section(0, 1, 1, u32::MAX, &volume(0)))),
        ("an unknown section's length", sections(1, section(9, 9, 1, u32::MAX, b""))),
        ("the number of peers", sections(1, section(0, 1, 1, 16, &volume(u16::MAX)))),
    ] {
        let error = refused(&dir, &bytes, what);
        assert!(matches!(error, StorageError::Damaged { .. }), "{what}: {error}");
    }
    // A hole takes no room on the disk.
    fs::File::create(dir.state()).unwrap().set_len(8 << 30).unwrap();
    let error = Store::open(dir.path()).unwrap_err();
    assert!(matches!(error, StorageError::Damaged { damage: Damage::Length { found }, .. } if found == 8 << 30));
    if let (Some(before), Some(after)) = (before, most_memory()) {
        assert!(after - before < 1 << 30, "{before} bytes, then {after}");
    }
}

#[test]
fn a_crash_before_the_rename_leaves_the_old_state() {
    let dir = Dir::new("crash");
    let (store, _) = Store::open(dir.path()).unwrap();
    store.write(&state(128)).unwrap();
    let newer = fs::read(dir.state()).unwrap();
    store.write(&state(64)).unwrap();
    drop(store);
    // The temporary file holds anything from nothing to the whole new record; without the rename none of it counts.
    for written in [0, 1, newer.len() / 2, newer.len()] {
        fs::write(dir.temporary(), &newer[..written]).unwrap();
        let (store, found) = Store::open(dir.path()).unwrap();
        assert_eq!(found, Some(state(64)));
        assert!(!dir.temporary().exists(), "the leftover is gone");
        store.write(&state(64)).unwrap();
    }
    fs::write(dir.temporary(), b"rubbish").unwrap();
    fs::remove_file(dir.state()).unwrap();
    assert_eq!(read(dir.path()), None, "a first write that was never renamed never happened");
}

#[test]
fn a_failed_write_is_reported_and_keeps_the_old_state() {
    let dir = Dir::new("failed");
    let (store, _) = Store::open(dir.path()).unwrap();
    store.write(&state(64)).unwrap();
    let mut too_long = state(128);
    too_long.volume.seen = (0..257).map(|id| (NodeId(id), Incarnation::default())).collect();
    assert!(store.write(&too_long).unwrap_err().to_string().contains("257 peers were seen"));
    let mut too_large = state(128);
    too_large.put_record(InstanceId::ELECTION, RecordKind::Algorithm, vec![0; 1 << 20]);
    assert!(store.write(&too_large).unwrap_err().to_string().contains("the state file holds 1048576"));
    fs::create_dir(dir.temporary()).unwrap();
    store.write(&state(128)).expect_err("the temporary file cannot be made");
    fs::remove_dir(dir.temporary()).unwrap();
    assert!(store.write(&state(192)).is_ok(), "later writes go on");
    drop(store);
    assert_eq!(read(dir.path()), Some(state(192)));
}

#[test]
fn what_cannot_be_a_directory_is_named() {
    let dir = Dir::new("nodir");
    fs::create_dir_all(dir.path()).unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let printed = Store::open(&file).unwrap_err().to_string();
    assert!(printed.contains("cannot create the data directory") && printed.contains("file"), "{printed}");
}

#[test]
fn what_an_algorithm_remembers_can_wait_and_a_promise_cannot() {
    let belief = BeliefRecord { reserved_until: 40, followed: Epoch(7), ..BeliefRecord::default() };
    let vote = |epoch| Vote {
        epoch: Epoch(epoch),
        holder: None,
        longest_lease: Duration::ZERO,
        list: std::sync::Arc::default(),
        locks: LockPast::default(),
    };
    let quorum = |belief, epoch| QuorumRecord { belief, vote: Some(vote(epoch)), cluster: None };
    let (classic, quorum) = (AuthorityRecord::Classic, |belief, epoch| AuthorityRecord::Quorum(quorum(belief, epoch)));
    let later = BeliefRecord { followed: Epoch(8), ..belief };
    let reserved = BeliefRecord { reserved_until: 80, ..belief };
    for (on_disk, authority, algorithm, can_wait) in [
        (classic(belief), classic(belief), 2, true),
        (classic(belief), classic(later), 2, true),
        (classic(belief), classic(reserved), 2, false),
        (classic(belief), classic(later), 1, false),
        (quorum(belief, 7), quorum(later, 7), 2, true),
        (quorum(belief, 7), quorum(later, 8), 2, false),
    ] {
        let mut file = state(1);
        if let AuthorityRecord::Classic(_) = on_disk {
            file.volume.safety = Safety::Classic;
        }
        let kept = |authority: &AuthorityRecord, algorithm: u8| records::Kept {
            authority: authority.encode(),
            algorithm: Some(vec![algorithm]),
            mode: None,
        };
        records::put(&mut file, InstanceId::ELECTION, "improved-bully", kept(&on_disk, 1));
        let new = kept(&authority, algorithm);
        let found = records::can_wait(&file, InstanceId::ELECTION, "improved-bully", &new);
        assert_eq!(found, can_wait, "{on_disk:?}, then {authority:?} and {algorithm}");
    }
}
