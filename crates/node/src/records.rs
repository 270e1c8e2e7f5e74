//! What the machines of this process keep in the state file: the one place that knows how records become sections and
//! come back.

use std::path::Path;

use algorithms::Epoch;
use member::reign::{Holder, Vote};
use member::{BeliefRecord, Incarnation, QuorumRecord, Safety};
use transport::codec;

use crate::storage::{Damage, InstanceId, RecordKind, RecordV1, StateFile, StorageError, Store, VoteV1};

/// A member's record as bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    pub authority: Vec<u8>,
    /// `None`: the algorithm has never kept anything.
    pub algorithm: Option<Vec<u8>>,
}

/// The record of an authority, for the questions that are asked of a disk before its machine runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AuthorityRecord {
    Classic(BeliefRecord),
    Quorum(QuorumRecord),
}

impl AuthorityRecord {
    /// Of a member that has never run.
    pub fn blank(safety: Safety) -> Self {
        match safety {
            Safety::Classic => AuthorityRecord::Classic(BeliefRecord::default()),
            Safety::Quorum => AuthorityRecord::Quorum(QuorumRecord::default()),
        }
    }

    pub fn decode(safety: Safety, bytes: &[u8]) -> Option<Self> {
        Some(match safety {
            Safety::Classic => AuthorityRecord::Classic(codec::decode(bytes).ok()?),
            Safety::Quorum => AuthorityRecord::Quorum(codec::decode(bytes).ok()?),
        })
    }

    pub fn encode(&self) -> Vec<u8> {
        encode(match self {
            AuthorityRecord::Classic(record) => codec::to_vec(record),
            AuthorityRecord::Quorum(record) => codec::to_vec(record),
        })
    }

    pub fn incarnation_mut(&mut self) -> &mut Incarnation {
        match self {
            AuthorityRecord::Classic(record) => &mut record.incarnation,
            AuthorityRecord::Quorum(record) => &mut record.belief.incarnation,
        }
    }

    pub fn vote(&self) -> Option<Vote> {
        match self {
            AuthorityRecord::Classic(_) => None,
            AuthorityRecord::Quorum(record) => record.vote,
        }
    }

    fn from_v1(legacy: &RecordV1) -> Self {
        let vote = |vote: VoteV1| Vote {
            epoch: Epoch(vote.epoch),
            holder: vote.holder.map(|(id, incarnation)| Holder { id, incarnation }),
            longest_lease: vote.longest_lease,
        };
        let (incarnation, reserved_until, followed) = (legacy.incarnation, legacy.ceiling, Epoch(legacy.followed));
        let belief = BeliefRecord { incarnation, reserved_until, followed };
        match legacy.safety {
            Safety::Classic => AuthorityRecord::Classic(belief),
            Safety::Quorum => AuthorityRecord::Quorum(QuorumRecord { belief, vote: legacy.vote.map(vote) }),
        }
    }
}

/// The record of an algorithm begins with the algorithm's name: another one could make nothing of it.
type AlgorithmRecord = (String, Vec<u8>);

/// The algorithm's record on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OnDisk {
    Nothing,
    Record(Vec<u8>),
    /// It was written by this other algorithm.
    OfAnother(String),
}

/// Opens the data directory; `None` if this member has no state yet. A file of an earlier format is converted.
pub fn open(dir: &Path) -> Result<(Store, Option<StateFile>), StorageError> {
    let (store, file) = Store::open(dir)?;
    let Some(mut file) = file else { return Ok((store, None)) };
    if let Some(legacy) = file.legacy.take() {
        put_authority(&mut file, AuthorityRecord::from_v1(&legacy).encode());
    }
    // A volume without its member's promises has forgotten them.
    if authority(&file).is_none() {
        return Err(StorageError::Damaged { path: store.path(), damage: Damage::Content });
    }
    Ok((store, Some(file)))
}

pub fn authority(file: &StateFile) -> Option<AuthorityRecord> {
    let section = file.record(InstanceId::ELECTION, RecordKind::Authority)?;
    AuthorityRecord::decode(file.volume.safety, &section.bytes)
}

pub fn put_authority(file: &mut StateFile, bytes: Vec<u8>) {
    file.put_record(InstanceId::ELECTION, RecordKind::Authority, bytes);
}

pub fn algorithm(file: &StateFile, name: &str) -> OnDisk {
    let Some(section) = file.record(InstanceId::ELECTION, RecordKind::Algorithm) else { return OnDisk::Nothing };
    match codec::decode::<AlgorithmRecord>(&section.bytes) {
        Ok((algorithm, bytes)) if algorithm == name => OnDisk::Record(bytes),
        Ok((algorithm, _)) => OnDisk::OfAnother(algorithm),
        Err(_) => OnDisk::OfAnother("an unknown algorithm".to_owned()),
    }
}

/// All that a member keeps goes into the file together.
pub fn put(file: &mut StateFile, name: &str, Kept { authority, algorithm }: Kept) {
    put_authority(file, authority);
    if let Some(bytes) = algorithm {
        let record: AlgorithmRecord = (name.to_owned(), bytes);
        file.put_record(InstanceId::ELECTION, RecordKind::Algorithm, encode(codec::to_vec(&record)));
    }
}

/// Records are plain values of bounded size: what cannot be encoded is a defect of this program, and going on without
/// the record would break promises.
pub(crate) fn encode<E: std::fmt::Display>(bytes: Result<Vec<u8>, E>) -> Vec<u8> {
    match bytes {
        Ok(bytes) => bytes,
        Err(error) => panic!("a record cannot be encoded: {error}"),
    }
}
