//! The ledger survives what disks, crashes and rotation do to it, and shows what it lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use client::{Announcement, Happened, LedgerEntry, LedgerKind, LedgerPage};
use node::ledger::{Ledger, LedgerNews};
use testkit::Scratch;
use types::{InstanceId, Stamp, boot_clock};

const RECORD: usize = 128;

/// A directory of its own for each test, removed at its end.
struct Dir(Scratch);

impl Dir {
    fn new(test: &str) -> Self {
        Dir(Scratch::new(test).unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn file(&self) -> PathBuf {
        self.path().join("ledger")
    }

    /// A process that starts, writes these epochs down and ends.
    fn run(&self, incarnation: u64, epochs: impl IntoIterator<Item = u64>) {
        let mut ledger = open(self.path(), incarnation);
        for (count, epoch) in epochs.into_iter().enumerate() {
            append(&ledger, epoch);
            if count % 1000 == 999 {
                // A queue that is full loses entries, and the disk is slower than this loop.
                ask(&mut ledger, Some(u64::MAX));
            }
        }
    }
}

/// One page; everything announced before is written.
fn ask(ledger: &mut Ledger<u32>, after: Option<u64>) -> LedgerPage {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(ledger.ask(7, after));
    loop {
        if let LedgerNews::Page(client, page) = runtime.block_on(ledger.news()) {
            assert_eq!(client, 7);
            return page;
        }
    }
}

fn announce(ledger: &Ledger<u32>, instance: InstanceId, what: Happened) {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let (wall_ms, boot_ns) = (wall.as_millis() as u64, boot_clock().as_nanos() as u64);
    ledger.writer().write(&Announcement { member: 1, instance, sequence: 1, wall_ms, boot_ns, what });
}

fn append(ledger: &Ledger<u32>, epoch: u64) {
    announce(ledger, InstanceId::ELECTION, Happened::Granted { epoch, holder: 3, list: Stamp::FIRST });
}

/// Everything, page by page, as a client gets it.
fn read(ledger: &mut Ledger<u32>) -> LedgerPage {
    let mut all = LedgerPage::default();
    loop {
        let page = ask(ledger, all.entries.last().map(|entry| entry.sequence));
        all.entries.extend(page.entries);
        all.troubles = page.troubles;
        if all.proof.head.is_none() {
            all.proof = page.proof;
        }
        if !page.more {
            return all;
        }
    }
}

/// The epochs granted; starts are left out.
fn epochs(page: &LedgerPage) -> Vec<u64> {
    let epoch = |entry: &LedgerEntry| match entry.kind {
        LedgerKind::Granted { epoch, .. } => Some(epoch),
        _ => None,
    };
    page.entries.iter().filter_map(epoch).collect()
}

fn sequences(page: &LedgerPage) -> Vec<u64> {
    page.entries.iter().map(|entry| entry.sequence).collect()
}

/// The ledger of a process that has just started.
fn open(dir: &Path, incarnation: u64) -> Ledger<u32> {
    let ledger = Ledger::open(dir, None);
    announce(&ledger, InstanceId::ELECTION, Happened::Started { incarnation });
    ledger
}

#[test]
fn entries_survive_restarts_in_order_and_both_clocks_stamp_them() {
    let dir = Dir::new("restart");
    dir.run(1, 1..=3);
    let mut ledger = open(dir.path(), 2);
    append(&ledger, 4);
    let page = read(&mut ledger);
    assert_eq!(epochs(&page), [1, 2, 3, 4], "what was appended before the question is in the answer");
    assert_eq!(sequences(&page), [1, 2, 3, 4, 5, 6]);
    assert_eq!(page.troubles, [""; 0]);
    let starts = page.entries.iter().filter_map(|entry| match entry.kind {
        LedgerKind::Started { incarnation, last_alive_ms } => Some((incarnation, last_alive_ms)),
        _ => None,
    });
    let starts: Vec<_> = starts.collect();
    assert_eq!((starts[0], starts[1].0), ((1, None), 2));
    let last_alive = starts[1].1.expect("the first process left a sign of life");
    assert!(page.entries[0].wall_ms <= last_alive && last_alive <= page.entries[4].wall_ms);
    for pair in page.entries.windows(2) {
        assert_eq!(pair[0].boot_id, pair[1].boot_id);
        assert!(pair[0].boot_ns <= pair[1].boot_ns);
    }
    assert_ne!(page.entries[0].boot_id, [0; 16], "the kernel names its boot");
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_off_and_its_number_given_again() {
    let dir = Dir::new("torn");
    dir.run(1, 1..=3);
    let whole = fs::read(dir.file()).unwrap();
    assert_eq!(whole.len(), 5 * RECORD, "head, start and three grants");
    for length in 0..whole.len() {
        fs::write(dir.file(), &whole[..length]).unwrap();
        let mut ledger = open(dir.path(), 2);
        append(&ledger, 9);
        let page = read(&mut ledger);
        // The head is no entry.
        let kept = (length / RECORD).saturating_sub(1) as u64;
        assert_eq!(sequences(&page), (1..=kept + 2).collect::<Vec<_>>(), "cut to {length} bytes");
        assert_eq!(epochs(&page).last(), Some(&9));
        assert_eq!(page.troubles, [""; 0], "a torn tail is a crash, no damage");
        assert_eq!(page.proof.breaks, [], "the state file never knew it");
    }
}

#[test]
fn a_tail_of_zeros_is_cut_off() {
    let dir = Dir::new("zeros");
    dir.run(1, 1..=3);
    let mut bytes = fs::read(dir.file()).unwrap();
    bytes.resize(bytes.len() + 300, 0);
    fs::write(dir.file(), &bytes).unwrap();
    let page = read(&mut open(dir.path(), 2));
    assert_eq!(sequences(&page), [1, 2, 3, 4, 5]);
}

#[test]
fn a_flipped_bit_costs_its_record_and_no_other() {
    let dir = Dir::new("flip");
    dir.run(1, 1..=3);
    let whole = fs::read(dir.file()).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(dir.file(), &bytes).unwrap();
        let page = read(&mut open(dir.path(), 2));
        let record = at / RECORD;
        let expected: Vec<u64> = (1..=5).filter(|&sequence| sequence != record as u64).collect();
        let found = sequences(&page);
        // The last record may be a torn write: its number is given again.
        let expected = if record == 4 { vec![1, 2, 3, 4] } else { expected };
        assert_eq!(found, expected, "byte {at}");
        let reported = page.troubles.iter().any(|trouble| trouble.contains("damaged"));
        assert_eq!(reported, record < 4, "byte {at}: {:?}", page.troubles);
    }
}

#[test]
fn it_stays_bounded_and_the_first_number_shows_what_was_dropped() {
    let dir = Dir::new("rotate");
    dir.run(1, 1..=20_000);
    for name in ["ledger", "ledger.1"] {
        assert!(fs::metadata(dir.path().join(name)).unwrap().len() <= 1 << 20, "{name}");
    }
    let page = read(&mut open(dir.path(), 2));
    let found = sequences(&page);
    assert!(found[0] > 1, "something was dropped");
    assert_eq!(found.last(), Some(&20_002));
    assert!(found.windows(2).all(|pair| pair[1] == pair[0] + 1), "what is kept has no gap");
    assert!(found.len() > 8000, "more than a segment is kept");
    assert_eq!(epochs(&page).last(), Some(&20_000));
}

#[test]
fn a_crash_between_the_renames_of_a_rotation_loses_nothing() {
    let dir = Dir::new("renames");
    dir.run(1, 1..=3);
    fs::rename(dir.file(), dir.path().join("ledger.1")).unwrap();
    dir.run(2, [4]);
    let page = read(&mut open(dir.path(), 3));
    assert_eq!((epochs(&page), sequences(&page)), (vec![1, 2, 3, 4], (1..=7).collect()));
}

#[test]
fn a_ledger_that_cannot_be_written_is_said_and_stops_nobody() {
    let dir = Dir::new("impossible");
    fs::create_dir(dir.file()).unwrap();
    let mut ledger = open(dir.path(), 1);
    append(&ledger, 1);
    let page = read(&mut ledger);
    assert_eq!(page.entries, []);
    assert!(page.troubles.iter().any(|trouble| trouble.contains("cannot be opened")), "{:?}", page.troubles);
}

#[test]
fn entries_that_could_not_be_written_are_counted_and_leave_a_gap() {
    let dir = Dir::new("lost");
    dir.run(1, 1..=8180);
    // The next segment cannot be made: its place is taken by something that cannot be removed.
    let obstacle = dir.path().join("ledger.new");
    fs::create_dir(&obstacle).unwrap();
    fs::set_permissions(&obstacle, fs::Permissions::from_mode(0o700)).unwrap();
    let mut ledger = open(dir.path(), 2);
    read(&mut ledger);
    for epoch in 0..20 {
        append(&ledger, 9000 + epoch);
        read(&mut ledger);
    }
    let page = read(&mut ledger);
    assert!(page.troubles.iter().any(|trouble| trouble.contains("could not be written")), "{:?}", page.troubles);
    fs::remove_dir(&obstacle).unwrap();
    append(&ledger, 9999);
    let page = read(&mut ledger);
    assert_eq!(epochs(&page).last(), Some(&9999), "it goes on when it can");
    let gaps = sequences(&page).windows(2).filter(|pair| pair[1] > pair[0] + 1).count();
    assert_eq!(gaps, 1, "and the gap stays");
    drop(ledger);
    let page = read(&mut open(dir.path(), 3));
    assert_eq!(epochs(&page).last(), Some(&9999));
}

#[test]
fn a_newer_version_is_left_alone() {
    let dir = Dir::new("newer");
    dir.run(1, 1..=3);
    let mut bytes = fs::read(dir.file()).unwrap();
    bytes[8] = 9;
    let crc = crc32fast::hash(&bytes[..RECORD - 4]).to_le_bytes();
    bytes[RECORD - 4..RECORD].copy_from_slice(&crc);
    fs::write(dir.file(), &bytes).unwrap();
    let page = read(&mut open(dir.path(), 2));
    assert!(page.troubles.iter().any(|trouble| trouble.contains("newer version")), "{:?}", page.troubles);
    assert_eq!(fs::read(dir.file()).unwrap(), bytes);
}

#[test]
fn only_the_history_of_the_clusters_election_is_kept() {
    let dir = Dir::new("others");
    let mut ledger = open(dir.path(), 1);
    announce(&ledger, InstanceId(256), Happened::Granted { epoch: 5, holder: 3, list: Stamp::FIRST });
    announce(&ledger, InstanceId::ELECTION, Happened::Link { peer: 2, up: true });
    announce(&ledger, InstanceId::ELECTION, Happened::Leaving);
    append(&ledger, 6);
    let page = read(&mut ledger);
    // The start of the process, its end in order, and the change.
    assert_eq!((epochs(&page), sequences(&page)), (vec![6], vec![1, 2, 3]));
}
