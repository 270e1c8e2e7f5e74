//! Ledgers written by hand.

use types::{Cause, Epoch, NodeId, Role, Stamp, Standing};

use super::{Ledgers, MemberLedger, Missing};
use crate::announcement::Transition;
use crate::ledger::{LedgerEntry, LedgerKind, ListPart};

/// One member's entries, at (wall clock in ms, kind); numbered from 1, all members on one machine.
pub(crate) fn ledger(id: u32, entries: impl IntoIterator<Item = (u64, LedgerKind)>) -> MemberLedger {
    let entry = |(sequence, (wall_ms, kind))| LedgerEntry {
        sequence,
        wall_ms,
        boot_ns: wall_ms * 1_000_000,
        boot_id: [1; 16],
        kind,
    };
    MemberLedger { id, entries: (1..).zip(entries).map(entry).collect(), ..MemberLedger::default() }
}

pub(crate) fn cluster(members: impl IntoIterator<Item = MemberLedger>) -> Ledgers {
    Ledgers { members: members.into_iter().collect(), ..Ledgers::default() }
}

pub(crate) fn missing(id: u32) -> Missing {
    Missing { id: Some(id), address: format!("n{id}:7400"), why: "no answer in time".to_owned() }
}

pub(crate) fn started(last_alive_ms: impl Into<Option<u64>>) -> LedgerKind {
    LedgerKind::Started { incarnation: 1, last_alive_ms: last_alive_ms.into() }
}

pub(crate) fn became(role: Role, leader: Option<u32>, epoch: u64, cause: Cause) -> LedgerKind {
    let now = Standing { role, leader: leader.map(NodeId), epoch: Epoch(epoch) };
    LedgerKind::Became(Transition { old: None, now, cause, lease_until_ns: None })
}

pub(crate) fn leads(me: u32, epoch: u64) -> LedgerKind {
    became(Role::Leader, Some(me), epoch, Cause::Elected)
}

pub(crate) fn follows(leader: u32, epoch: u64) -> LedgerKind {
    became(Role::Follower, Some(leader), epoch, Cause::OtherElected)
}

pub(crate) fn lost(epoch: u64) -> LedgerKind {
    became(Role::Candidate, None, epoch, Cause::LeaderLost)
}

/// The member continues after a pause and finds its lease over.
pub(crate) fn lease_over(epoch: u64) -> LedgerKind {
    became(Role::Candidate, None, epoch, Cause::LeaseEnded)
}

pub(crate) fn granted(epoch: u64, holder: u32) -> LedgerKind {
    LedgerKind::Granted { epoch, holder, list: Stamp::FIRST }
}

/// A grant under the list with this stamp.
pub(crate) fn granted_under(epoch: u64, holder: u32, (of, n): (u64, u32)) -> LedgerKind {
    LedgerKind::Granted { epoch, holder, list: Stamp::new(Epoch(of), n) }
}

pub(crate) fn adopted((epoch, n): (u64, u32), voters: &[u32]) -> Vec<LedgerKind> {
    ListPart::split(Stamp::new(Epoch(epoch), n), voters).into_iter().map(LedgerKind::Adopted).collect()
}

pub(crate) fn in_force((epoch, n): (u64, u32), voters: &[u32]) -> Vec<LedgerKind> {
    ListPart::split(Stamp::new(Epoch(epoch), n), voters).into_iter().map(LedgerKind::InForce).collect()
}

pub(crate) fn forced((epoch, n): (u64, u32), voters: &[u32]) -> Vec<LedgerKind> {
    ListPart::split(Stamp::new(Epoch(epoch), n), voters).into_iter().map(LedgerKind::Forced).collect()
}

pub(crate) fn ended(epoch: u64, holder: u32) -> LedgerKind {
    LedgerKind::PromiseEnded { epoch, holder }
}
