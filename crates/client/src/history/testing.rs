//! Ledgers written by hand.

use super::{Ledgers, MemberLedger, Missing};
use crate::ledger::{LedgerEntry, LedgerKind};

/// One member's entries, at (wall clock in ms, kind); numbered from 1, all members on one machine.
pub(crate) fn ledger(id: u32, entries: impl IntoIterator<Item = (u64, LedgerKind)>) -> MemberLedger {
    let entry = |(sequence, (wall_ms, kind))| LedgerEntry {
        sequence,
        wall_ms,
        boot_ns: wall_ms * 1_000_000,
        boot_id: [1; 16],
        kind,
    };
    MemberLedger { id, entries: (1..).zip(entries).map(entry).collect(), troubles: Vec::new() }
}

pub(crate) fn cluster(members: impl IntoIterator<Item = MemberLedger>) -> Ledgers {
    Ledgers { members: members.into_iter().collect(), missing: Vec::new() }
}

pub(crate) fn missing(id: u32) -> Missing {
    Missing { id: Some(id), address: format!("n{id}:7400"), why: "no answer in time".to_owned() }
}

pub(crate) fn started(last_alive_ms: impl Into<Option<u64>>) -> LedgerKind {
    LedgerKind::Started { incarnation: 1, last_alive_ms: last_alive_ms.into() }
}

fn became(new: &str, leader: Option<u32>, epoch: u64, cause: &str) -> LedgerKind {
    LedgerKind::Became { old: None, new: new.to_owned(), leader, epoch, cause: cause.to_owned() }
}

pub(crate) fn leads(me: u32, epoch: u64) -> LedgerKind {
    became("leader", Some(me), epoch, "elected")
}

pub(crate) fn follows(leader: u32, epoch: u64) -> LedgerKind {
    became("follower", Some(leader), epoch, "other-elected")
}

pub(crate) fn lost(epoch: u64) -> LedgerKind {
    became("candidate", None, epoch, "leader-lost")
}

/// Wakes up and finds its lease over.
pub(crate) fn lease_over(epoch: u64) -> LedgerKind {
    became("candidate", None, epoch, "lease-ended")
}

pub(crate) fn granted(epoch: u64, holder: u32) -> LedgerKind {
    LedgerKind::Granted { epoch, holder }
}

pub(crate) fn ended(epoch: u64, holder: u32) -> LedgerKind {
    LedgerKind::PromiseEnded { epoch, holder }
}
