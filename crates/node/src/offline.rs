//! The data directory of a member that does not run, read and not changed: for `ctl member survey`, `ctl history` and `ctl audit`.

use std::io;
use std::path::{Path, PathBuf};

use client::LedgerPage;
use thiserror::Error;
use types::{ClusterId, Epoch, InstanceId, MemberList, NodeId, Stamp};

use crate::records::{self, AuthorityRecord};
use crate::storage::StorageError;

/// What a member had on its disk when it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Volume {
    pub id: NodeId,
    /// `None` before the voters agreed on one, and under classic safety.
    pub cluster: Option<ClusterId>,
    /// The largest epoch that the member granted or followed.
    pub epoch: Epoch,
    /// The holder of its last grant; `None` if it never voted.
    pub holder: Option<NodeId>,
    /// The list on its disk; `None` under classic safety, and for a member that does not know what was granted. Without
    /// members: the list of the config.
    pub list: Option<MemberList>,
    /// The list in force without this member, if it was removed.
    pub removed: Option<Stamp>,
    pub ledger: LedgerPage,
    /// When its process was last alive, in milliseconds since 1970.
    pub last_alive_ms: Option<u64>,
}

#[derive(Debug, Error)]
pub enum OfflineError {
    #[error("{} has no state file: it is no data directory of a member, or was emptied", .0.display())]
    NoState(PathBuf),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("cannot read the ledger in {}: {source}", dir.display())]
    Ledger { dir: PathBuf, source: io::Error },
}

/// Reads a data directory, or a copy of one.
pub fn read(dir: &Path) -> Result<Volume, OfflineError> {
    let file = records::peek(dir)?.ok_or_else(|| OfflineError::NoState(dir.to_path_buf()))?;
    let (ledger, last_alive_ms) = peek(dir, records::ledger(&file))?;
    let removed = records::list_mark(&file).removed;
    let (vote, cluster, followed) = match records::authority(&file, InstanceId::ELECTION) {
        Some(AuthorityRecord::Quorum(record)) => (record.vote, record.cluster, record.belief.followed),
        Some(AuthorityRecord::Classic(record)) => (None, None, record.followed),
        None => (None, None, Epoch(0)),
    };
    let granted = vote.as_ref().map_or(Epoch(0), |vote| vote.epoch.max(vote.list.stamp.epoch));
    Ok(Volume {
        id: file.volume.id,
        cluster: cluster.map(|mark| mark.id),
        epoch: granted.max(followed),
        holder: vote.as_ref().and_then(|vote| vote.holder).map(|holder| holder.id),
        list: vote.map(|vote| MemberList::clone(&vote.list)),
        removed,
        ledger,
        last_alive_ms,
    })
}

/// The ledger in a directory without a usable state file: nothing tells whether entries are missing at its end.
pub fn read_ledger(dir: &Path, known: Option<client::LedgerHead>) -> Result<LedgerPage, OfflineError> {
    peek(dir, known).map(|(page, _)| page)
}

fn peek(dir: &Path, known: Option<client::LedgerHead>) -> Result<(LedgerPage, Option<u64>), OfflineError> {
    let failed = |source| OfflineError::Ledger { dir: dir.to_path_buf(), source };
    crate::ledger::peek(dir, known).map_err(failed)
}
