//! The member's own record in the state file: the one place that knows how it becomes a section and comes back.

use std::io;
use std::path::Path;

use algorithms::Epoch;
use member::Record;
use member::reign::{Holder, Vote};
use transport::codec;

use crate::storage::{Damage, InstanceId, RecordKind, RecordV1, StateFile, StorageError, Store, VoteV1};

/// A state file and the member's record out of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored {
    /// Everything in the file. Its member section is as it was read; `member` is what counts.
    pub file: StateFile,
    pub member: Record,
}

impl Stored {
    /// Opens the data directory; `None` if this member has no state yet.
    pub fn open(dir: &Path) -> Result<(Store, Option<Stored>), StorageError> {
        let (store, file) = Store::open(dir)?;
        let Some(file) = file else {
            return Ok((store, None));
        };
        // A volume without its member's promises has forgotten them.
        let stored = read(file).ok_or_else(|| StorageError::Damaged { path: store.path(), damage: Damage::Content })?;
        Ok((store, Some(stored)))
    }

    /// Writes the member's record together with all other sections. Blocks for the disk.
    pub fn write(&self, store: &Store) -> io::Result<()> {
        let mut file = self.file.clone();
        let bytes = codec::to_vec(&self.member).map_err(io::Error::other)?;
        file.put_record(InstanceId::ELECTION, RecordKind::Member, bytes);
        store.write(&file)
    }
}

fn read(mut file: StateFile) -> Option<Stored> {
    let member = match file.legacy.take() {
        Some(legacy) => from_v1(&legacy),
        None => codec::decode(&file.record(InstanceId::ELECTION, RecordKind::Member)?.bytes).ok()?,
    };
    Some(Stored { file, member })
}

fn from_v1(legacy: &RecordV1) -> Record {
    let vote = |vote: VoteV1| Vote {
        epoch: Epoch(vote.epoch),
        holder: vote.holder.map(|(id, life)| Holder { id, life }),
        longest_lease: vote.longest_lease,
    };
    Record {
        incarnation: legacy.incarnation,
        ceiling: Epoch(legacy.ceiling),
        followed: Epoch(legacy.followed),
        vote: legacy.vote.map(vote),
    }
}
