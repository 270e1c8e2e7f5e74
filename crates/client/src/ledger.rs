//! The entries of a member's ledger, as they are sent to a client. `history` judges them.

use serde::{Deserialize, Serialize};
use types::Stamp;

use crate::announcement::Transition;
use crate::order::Ordered;

/// One event at one member, stamped by its driver.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// Counts from 1. A missing number was lost: to damage, a failed write, rotation, or somebody who removed it.
    pub sequence: u64,
    /// Milliseconds since the Unix epoch.
    pub wall_ms: u64,
    /// Nanoseconds since the machine started, sleep included.
    pub boot_ns: u64,
    /// Identifies a boot of a machine: boot clocks are comparable only where this is equal.
    pub boot_id: [u8; 16],
    pub kind: LedgerKind,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LedgerKind {
    /// The process started. Its earlier standing has ended.
    Started {
        incarnation: u64,
        /// When the process before it was last alive, by the wall clock.
        last_alive_ms: Option<u64>,
    },
    /// The member changed its standing.
    Became(Transition),
    /// This voter granted the epoch to the holder, under the member list with this stamp.
    Granted { epoch: u64, holder: u32, list: Stamp },
    /// This voter's promise to the holder ended: it expired or was released.
    PromiseEnded { epoch: u64, holder: u32 },
    /// This member carried out a request of an operator.
    Ordered(Ordered),
    /// This member has a newer member list on its disk.
    Adopted(ListPart),
    /// At the leader: a majority of the voters of this list has it on disk.
    InForce(ListPart),
    /// An operator declared all other voters lost: a new cluster begins with this list.
    Forced(ListPart),
    /// The process has left the cluster in order; the last entry of its run.
    Left,
}

impl LedgerKind {
    /// Is it a grant of this epoch to this holder, under whatever list?
    pub fn grants(&self, epoch: u64, holder: u32) -> bool {
        matches!(*self, LedgerKind::Granted { epoch: e, holder: h, .. } if (e, h) == (epoch, holder))
    }
}

/// The voters of a member list, or a part of them: an entry has room for [`ListPart::VOTERS_MAX`], a longer list is told
/// by successive entries.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ListPart {
    pub stamp: Stamp,
    /// The number of voters of the whole list.
    pub of: u16,
    /// The place of this part's first voter in the whole list.
    pub from: u16,
    pub voters: Vec<u32>,
}

impl ListPart {
    pub const VOTERS_MAX: usize = 12;

    /// A whole list in parts, at least one.
    pub fn split(stamp: Stamp, voters: &[u32]) -> Vec<ListPart> {
        let part = |from: usize, part: &[u32]| ListPart {
            stamp,
            of: voters.len() as u16,
            from: from as u16,
            voters: part.to_vec(),
        };
        if voters.is_empty() {
            return vec![part(0, &[])];
        }
        voters.chunks(ListPart::VOTERS_MAX).enumerate().map(|(n, v)| part(n * ListPart::VOTERS_MAX, v)).collect()
    }
}

/// A part of one member's ledger, oldest entry first.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LedgerPage {
    pub entries: Vec<LedgerEntry>,
    /// There are later entries: ask again after the last of these.
    pub more: bool,
    /// The damage of the ledger, as text: damaged records, failed writes. Empty if the ledger is complete.
    pub troubles: Vec<String>,
    /// On the first page, the oldest one; empty on the pages after it.
    pub proof: LedgerProof,
}

/// Several times what a member keeps: it drops its oldest entries.
const ENTRIES_MAX: usize = 1 << 17;

impl LedgerPage {
    /// Appends the page that the member sent next. False if it goes back, or makes these more entries than any member keeps: asking
    /// that member for the next page might never end.
    pub(crate) fn append(&mut self, mut page: LedgerPage) -> bool {
        let last = self.entries.last().map(|entry| entry.sequence);
        let sequences = last.into_iter().chain(page.entries.iter().map(|entry| entry.sequence));
        let goes_on = sequences.is_sorted_by(|a, b| a < b);
        if last.is_none() {
            self.proof = page.proof;
        }
        self.more = page.more && !page.entries.is_empty();
        self.troubles = page.troubles;
        self.entries.append(&mut page.entries);
        goes_on && self.entries.len() <= ENTRIES_MAX
    }
}

/// The beginning of a SHA-256 over the bytes of a record.
pub type LedgerHash = [u8; 16];

/// The newest entry of a ledger that is on the disk, and the oldest that must still be there. Every record contains the
/// hash of the record before it, so this hash stands for all entries. The member keeps it in its state file, outside
/// the ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LedgerHead {
    /// Rotation has dropped the entries before it.
    pub first: u64,
    pub sequence: u64,
    pub hash: LedgerHash,
}

/// Whether a ledger has all the entries that were written to it, as its member has just verified.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LedgerProof {
    /// `None` for a ledger in which no entry was ever written.
    pub head: Option<LedgerHead>,
    /// Oldest first.
    pub breaks: Vec<LedgerBreak>,
}

/// A place where a ledger does not have what was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LedgerBreak {
    /// These entries were on the disk and are gone.
    Missing { from: u64, to: u64 },
    /// This entry is not the one that was written.
    Replaced { sequence: u64 },
}

#[cfg(test)]
mod tests {
    use types::{Access, Cause, Epoch, InstanceId, NodeId, Role, Standing};

    use super::*;
    use crate::chaos::{Chaos, Way};
    use crate::order::{ClaimedName, Order};

    #[test]
    fn a_long_list_is_told_in_parts_that_fit_an_entry() {
        let stamp = Stamp::new(Epoch(7), 2);
        for length in [0, 1, 12, 13, 24, 256] {
            let voters: Vec<u32> = (1..=length).collect();
            let parts = ListPart::split(stamp, &voters);
            assert_eq!(parts.len(), voters.len().div_ceil(ListPart::VOTERS_MAX).max(1), "{length}");
            let mut told: Vec<u32> = Vec::new();
            for part in &parts {
                assert_eq!((usize::from(part.from), u32::from(part.of), part.stamp), (told.len(), length, stamp));
                told.extend(&part.voters);
            }
            assert_eq!(told, voters);
        }
    }

    #[test]
    fn a_member_whose_pages_go_back_or_never_end_is_believed_no_further() {
        let entry = |sequence| {
            let kind = LedgerKind::Started { incarnation: 1, last_alive_ms: None };
            LedgerEntry { sequence, wall_ms: 0, boot_ns: 0, boot_id: [0; 16], kind }
        };
        let page = |sequences: std::ops::RangeInclusive<u64>| LedgerPage {
            entries: sequences.map(entry).collect(),
            more: true,
            ..LedgerPage::default()
        };
        let mut all = LedgerPage::default();
        assert!(all.append(page(1..=1000)) && all.more);
        assert!(all.append(page(1003..=1004)), "two entries were lost");
        assert!(all.clone().append(LedgerPage::default()), "the entries after these were dropped meanwhile");
        for again in [2..=1005, 1004..=1005] {
            assert!(!all.clone().append(page(again)));
        }
        let swapped = LedgerPage { entries: vec![entry(1006), entry(1005)], ..LedgerPage::default() };
        assert!(!all.clone().append(swapped));

        let most = ENTRIES_MAX as u64;
        assert!(all.append(page(1005..=most + 2)) && all.entries.len() == ENTRIES_MAX);
        assert!(!all.append(page(most + 3..=most + 3)), "more than any member keeps");
        let mut empty = LedgerPage::default();
        assert!(
            empty.append(LedgerPage { more: true, ..LedgerPage::default() }) && !empty.more,
            "an empty page is the last"
        );
    }

    #[test]
    fn pages_of_any_length_and_kind_are_read_back_within_a_frame() {
        let standing = Standing { role: Role::Follower, leader: Some(NodeId(u32::MAX)), epoch: Epoch(u64::MAX) };
        let became = LedgerKind::Became(Transition {
            old: Some(Role::Leader),
            now: standing,
            cause: Cause::Superseded,
            lease_until_ns: Some(u64::MAX),
        });
        let small = LedgerKind::Started { incarnation: 0, last_alive_ms: None };
        let ordered = LedgerKind::Ordered(Ordered {
            order: Order::Chaos(Chaos::Delay { peer: u32::MAX, way: Way::Both, ms: u64::MAX }),
            instance: InstanceId(u16::MAX),
            access: Access::Operator,
            address: "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535".parse().unwrap(),
            name: ClaimedName::from("x".repeat(100)),
        });
        let granted = LedgerKind::Granted { epoch: 0, holder: 0, list: Stamp::FIRST };
        let longest = Stamp::new(Epoch(u64::MAX), u32::MAX);
        let adopted = LedgerKind::Adopted(ListPart::split(longest, &[u32::MAX; 256]).remove(0));
        let kinds = [(became, u64::MAX), (small, 0), (granted, 0), (ordered, u64::MAX), (adopted, u64::MAX)];
        for (kind, number) in kinds {
            for length in [0, 1, 100, 1000] {
                let entry = LedgerEntry {
                    sequence: number,
                    wall_ms: number,
                    boot_ns: number,
                    boot_id: [0; 16],
                    kind: kind.clone(),
                };
                let head = LedgerHead { first: number, sequence: number, hash: [0xff; 16] };
                let breaks = vec![LedgerBreak::Missing { from: number, to: number }; 16];
                let (entries, troubles) = (vec![entry; length], vec!["t".repeat(200)]);
                let proof = LedgerProof { head: Some(head), breaks };
                let page = LedgerPage { entries, more: true, troubles, proof };
                let bytes = transport::codec::to_vec(&page).unwrap();
                assert!(bytes.len() < transport::FRAME_MAX_BYTES / 4, "{} bytes", bytes.len());
                assert_eq!(transport::codec::decode::<LedgerPage>(&bytes).unwrap(), page);
            }
        }
    }
}
