//! A ledger from which something was removed or changed says so, and a crash never looks like that.

use std::fs;
use std::path::{Path, PathBuf};

use client::{Announcement, Happened, LedgerBreak, LedgerHead, LedgerPage};
use node::ledger::{Ledger, LedgerNews};
use testkit::Scratch;
use types::{InstanceId, Stamp};

const RECORD: usize = 128;
const SEGMENT: usize = 1 << 20;

/// The data directory of a member: its ledger, and the heads that its state file could know, oldest first.
struct Member {
    scratch: Scratch,
    heads: Vec<LedgerHead>,
}

impl Member {
    fn new(test: &str) -> Self {
        Member { scratch: Scratch::new(test).unwrap(), heads: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn records(&self) -> Vec<u8> {
        fs::read(self.path("ledger")).unwrap()
    }

    /// A process that knows this head from its state file, writes so many entries, and says what it finds.
    fn run(&mut self, known: Option<LedgerHead>, entries: u64) -> LedgerPage {
        let mut ledger: Ledger<u32> = Ledger::open(self.scratch.path(), known);
        for count in 0..entries {
            grant(&ledger, count);
            if count % 1000 == 999 {
                self.page(&mut ledger, Some(u64::MAX));
            }
        }
        self.page(&mut ledger, Some(u64::MAX));
        self.page(&mut ledger, None)
    }

    fn page(&mut self, ledger: &mut Ledger<u32>, after: Option<u64>) -> LedgerPage {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(ledger.ask(7, after));
        loop {
            match runtime.block_on(ledger.news()) {
                LedgerNews::Page(_, page) => return page,
                LedgerNews::Synced(head) => self.heads.push(head),
            }
        }
    }

    fn newest(&self) -> Option<LedgerHead> {
        self.heads.last().copied()
    }

    /// The next two processes both find this, and nothing else: what was removed stays removed.
    fn finds(&mut self, expected: &[LedgerBreak]) {
        for process in 1..=2 {
            let page = self.run(self.newest(), 3);
            assert_eq!(page.proof.breaks, expected, "process {process}");
        }
    }
}

fn grant(ledger: &Ledger<u32>, epoch: u64) {
    let (instance, what) = (InstanceId::ELECTION, Happened::Granted { epoch, holder: 3, list: Stamp::FIRST });
    ledger.writer().write(&Announcement { member: 1, instance, sequence: 1, wall_ms: 1, boot_ns: 1, what });
}

fn missing(from: u64, to: u64) -> LedgerBreak {
    LedgerBreak::Missing { from, to }
}

#[test]
fn an_untouched_ledger_is_whole_for_every_head_that_the_state_file_may_know() {
    let mut member = Member::new("chain-whole");
    for _ in 0..5 {
        let newest = member.newest();
        assert_eq!(member.run(newest, 4).proof.breaks, []);
    }
    assert_eq!(member.newest().map(|head| (head.first, head.sequence)), Some((1, 20)));
    for known in member.heads.clone() {
        assert_eq!(member.run(Some(known), 0).proof.breaks, [], "{known:?}");
    }
}

#[test]
fn a_deleted_ledger_is_missing_from_its_first_entry_on() {
    let mut member = Member::new("chain-deleted");
    member.run(None, 9);
    fs::remove_file(member.path("ledger")).unwrap();
    member.finds(&[missing(1, 9)]);
}

#[test]
fn a_tail_that_was_cut_is_missing_unless_the_state_file_never_knew_it() {
    for kept in 0..9_u64 {
        let mut member = Member::new("chain-cut");
        member.run(None, 5);
        let known = member.newest().unwrap();
        member.run(Some(known), 4);
        let whole = member.records();
        fs::write(member.path("ledger"), &whole[..RECORD * (1 + kept as usize)]).unwrap();
        if kept >= known.sequence {
            assert_eq!(member.run(Some(known), 3).proof.breaks, [], "a crash may lose what was not known: {kept}");
        } else {
            member.heads.push(known);
            member.finds(&[missing(kept + 1, known.sequence)]);
        }
    }
}

/// A record with one changed bit and a checksum that fits.
fn forge(member: &Member, sequence: usize) {
    let mut bytes = member.records();
    let record = &mut bytes[RECORD * sequence..][..RECORD];
    record[8] ^= 1;
    let crc = crc32fast::hash(&record[..RECORD - 4]).to_le_bytes();
    record[RECORD - 4..].copy_from_slice(&crc);
    fs::write(member.path("ledger"), bytes).unwrap();
}

#[test]
fn every_changed_record_with_a_right_checksum_is_named() {
    for sequence in 1..=6 {
        let mut member = Member::new("chain-forged");
        member.run(None, 6);
        forge(&member, sequence);
        member.finds(&[LedgerBreak::Replaced { sequence: sequence as u64 }]);
    }
}

#[test]
fn an_older_copy_of_a_ledger_is_noticed_and_so_is_the_ledger_of_another_member() {
    let mut member = Member::new("chain-older");
    member.run(None, 5);
    let older = member.records();
    member.run(member.newest(), 4);
    fs::write(member.path("ledger"), older).unwrap();
    member.finds(&[missing(6, 9)]);

    let mut other = Member::new("chain-other");
    other.run(None, 20);
    let mut member = Member::new("chain-one");
    let mut ledger: Ledger<u32> = Ledger::open(member.scratch.path(), None);
    (100..109).for_each(|epoch| grant(&ledger, epoch));
    member.page(&mut ledger, None);
    member.page(&mut ledger, Some(0));
    drop(ledger);
    fs::copy(other.path("ledger"), member.path("ledger")).unwrap();
    let replaced = |sequence| LedgerBreak::Replaced { sequence };
    let known = member.newest();
    assert_eq!(member.run(known, 1).proof.breaks, [replaced(9), replaced(20)]);
    let known = member.newest();
    assert_eq!(member.run(known, 1).proof.breaks, [replaced(20)], "where the known chain continues the other ledger");
}

#[test]
fn a_ledger_that_is_deleted_below_a_running_process_is_noticed_at_the_next_question() {
    let mut member = Member::new("chain-running");
    let mut ledger: Ledger<u32> = Ledger::open(member.scratch.path(), None);
    (1..=5).for_each(|epoch| grant(&ledger, epoch));
    assert_eq!(member.page(&mut ledger, None).proof.breaks, []);
    fs::remove_file(member.path("ledger")).unwrap();
    assert_eq!(member.page(&mut ledger, None).proof.breaks, [missing(1, 5)]);
}

#[test]
fn rotation_keeps_the_chain_and_says_what_it_dropped() {
    let mut member = Member::new("chain-rotation");
    let page = member.run(None, 20_000);
    assert_eq!(page.proof.breaks, []);
    let head = page.proof.head.unwrap();
    assert_eq!((head.first, head.sequence), (8192, 20_000), "two segments of 8191 are kept, the first was dropped");
    assert_eq!(page.entries[0].sequence, head.first);
    assert_eq!(fs::metadata(member.path("ledger.1")).unwrap().len(), SEGMENT as u64, "a segment is filled");
    assert_eq!(member.run(Some(head), 5).proof.breaks, [], "after a restart");

    fs::remove_file(member.path("ledger.1")).unwrap();
    member.finds(&[missing(8192, 16_382)]);
}

/// The state file is written later than the ledger: a process may be killed between a rotation and that write.
#[test]
fn a_crash_after_a_rotation_that_the_state_file_does_not_know_is_no_break() {
    let mut member = Member::new("chain-crash");
    member.run(None, 16_380);
    let before = member.newest().unwrap();
    assert_eq!(before.first, 1);
    member.run(Some(before), 10);
    assert_eq!(member.newest().unwrap().first, 8192, "the oldest segment was dropped");
    assert_eq!(member.run(Some(before), 0).proof.breaks, []);

    // Between the two renames: no `ledger` at all.
    fs::remove_file(member.path("ledger")).unwrap();
    assert_eq!(member.run(Some(before), 1).proof.breaks, []);
}

#[test]
fn a_dropped_segment_that_rotation_did_not_drop_is_a_break() {
    let mut member = Member::new("chain-dropped");
    member.run(None, 8200);
    let head = member.newest().unwrap();
    // As after a rotation, but the segment is not full.
    fs::rename(member.path("ledger"), member.path("ledger.1")).unwrap();
    assert_eq!(member.run(Some(head), 1).proof.breaks, [missing(1, 8191)]);
}

/// Records of version 1: no hash, and a head that says so.
fn as_version_1(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    for (at, record) in bytes.chunks_mut(RECORD).enumerate() {
        if at == 0 {
            record[8..10].copy_from_slice(&1_u16.to_le_bytes());
        } else {
            record[RECORD - 20..RECORD - 4].fill(0);
        }
        let crc = crc32fast::hash(&record[..RECORD - 4]).to_le_bytes();
        record[RECORD - 4..].copy_from_slice(&crc);
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_ledger_of_version_1_goes_on_and_its_chain_begins_with_the_next_entry() {
    let mut member = Member::new("chain-v1");
    member.run(None, 5);
    as_version_1(&member.path("ledger"));
    let page = member.run(None, 5);
    assert_eq!((page.proof.breaks, page.entries.len()), (vec![], 10));
    assert_eq!(member.records()[8], 3, "an earlier version must not continue it");
    assert_eq!(page.entries.last().map(|entry| entry.sequence), Some(10));
    let head = member.newest();
    assert_eq!(member.run(head, 1).proof.breaks, []);
    // The last entry of version 1 is the first that the chain protects.
    forge(&member, 5);
    member.finds(&[LedgerBreak::Replaced { sequence: 5 }]);
}
