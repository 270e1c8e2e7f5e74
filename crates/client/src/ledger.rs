//! The entries of a member's ledger, as they are sent to a client. `history` judges them.

use serde::{Deserialize, Serialize};

use crate::announcement::Transition;

/// One event at one member, stamped by its driver.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// Counts from 1 and never repeats. A missing number was lost: to damage, a failed write or rotation.
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
    /// This voter granted the epoch to the holder.
    Granted { epoch: u64, holder: u32 },
    /// This voter's promise to the holder ended: it expired or was released.
    PromiseEnded { epoch: u64, holder: u32 },
}

/// A part of one member's ledger, oldest entry first.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LedgerPage {
    pub entries: Vec<LedgerEntry>,
    /// There are later entries: ask again after the last of these.
    pub more: bool,
    /// The damage of the ledger, as text: damaged records, failed writes. Empty if the ledger is complete.
    pub troubles: Vec<String>,
}

#[cfg(test)]
mod tests {
    use types::{Cause, Epoch, NodeId, Role, Standing};

    use super::*;

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
        for (kind, number) in [(became, u64::MAX), (small, 0), (LedgerKind::Granted { epoch: 0, holder: 0 }, 0)] {
            for length in [0, 1, 100, 1000] {
                let entry = LedgerEntry {
                    sequence: number,
                    wall_ms: number,
                    boot_ns: number,
                    boot_id: [0; 16],
                    kind: kind.clone(),
                };
                let page = LedgerPage { entries: vec![entry; length], more: true, troubles: vec!["t".repeat(200)] };
                let bytes = transport::codec::to_vec(&page).unwrap();
                assert!(bytes.len() < transport::FRAME_MAX_BYTES / 4, "{} bytes", bytes.len());
                assert_eq!(transport::codec::decode::<LedgerPage>(&bytes).unwrap(), page);
            }
        }
    }
}
