//! The records of this process's machines in the state file: the only place that converts records to sections and back.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use algorithms::Epoch;
use client::LedgerHead;
use member::reign::{ClusterMark, Holder, LockPast, Vote};
use member::{BeliefRecord, Incarnation, QuorumRecord, Safety};
use transport::codec;
use types::{InstanceId, MemberList, Stamp};

use crate::storage::{Damage, RecordKind, RecordV1, StateFile, StorageError, Store, VoteV1};

/// A member's record as bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    pub authority: Vec<u8>,
    /// `None`: the algorithm has never kept anything.
    pub algorithm: Option<Vec<u8>>,
    /// `None`: no operator has ever ordered a pause.
    pub mode: Option<Vec<u8>>,
}

/// The record of an authority, for checks of a disk before its machine runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AuthorityRecord {
    Classic(BeliefRecord),
    Quorum(QuorumRecord),
}

impl AuthorityRecord {
    /// The record of a member that has never run.
    pub fn blank(safety: Safety) -> Self {
        match safety {
            Safety::Classic => AuthorityRecord::Classic(BeliefRecord::default()),
            Safety::Quorum => AuthorityRecord::Quorum(QuorumRecord::default()),
        }
    }

    /// `version`: of the section that holds it.
    pub fn decode(safety: Safety, version: u16, bytes: &[u8]) -> Option<Self> {
        Some(match safety {
            Safety::Classic => AuthorityRecord::Classic(codec::decode(bytes).ok()?),
            Safety::Quorum if version == 1 => {
                let (belief, vote): (_, Option<VoteWithoutList>) = codec::decode(bytes).ok()?;
                AuthorityRecord::Quorum(QuorumRecord { belief, vote: vote.map(with_list), cluster: None })
            }
            Safety::Quorum if version == 2 => {
                let (belief, vote, cluster): (_, Option<VoteWithoutList>, _) = codec::decode(bytes).ok()?;
                AuthorityRecord::Quorum(QuorumRecord { belief, vote: vote.map(with_list), cluster })
            }
            Safety::Quorum if version == 3 => {
                let (belief, vote, cluster): (_, Option<VoteWithoutLocks>, _) = codec::decode(bytes).ok()?;
                AuthorityRecord::Quorum(QuorumRecord { belief, vote: vote.map(without_locks), cluster })
            }
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

    fn without_followed(mut self) -> Self {
        match &mut self {
            AuthorityRecord::Classic(record) => record.followed = Epoch::default(),
            AuthorityRecord::Quorum(record) => record.belief.followed = Epoch::default(),
        }
        self
    }

    pub fn vote(&self) -> Option<&Vote> {
        match self {
            AuthorityRecord::Classic(_) => None,
            AuthorityRecord::Quorum(record) => record.vote.as_ref(),
        }
    }

    /// The member list on disk; `None` if the record has none.
    pub fn list(&self) -> Option<&Arc<MemberList>> {
        self.vote().map(|vote| &vote.list).filter(|list| !list.members.is_empty())
    }

    /// What this member knows of the cluster's id.
    pub fn cluster(&self) -> Option<ClusterMark> {
        match self {
            AuthorityRecord::Classic(_) => None,
            AuthorityRecord::Quorum(record) => record.cluster,
        }
    }

    fn from_v1(legacy: &RecordV1) -> Self {
        let vote = |vote: VoteV1| Vote {
            epoch: Epoch(vote.epoch),
            holder: vote.holder.map(|(id, incarnation)| Holder { id, incarnation }),
            longest_lease: vote.longest_lease,
            list: Arc::default(),
            locks: LockPast::default(),
        };
        let (incarnation, reserved_until, followed) = (legacy.incarnation, legacy.ceiling, Epoch(legacy.followed));
        let belief = BeliefRecord { incarnation, reserved_until, followed };
        match legacy.safety {
            Safety::Classic => AuthorityRecord::Classic(belief),
            Safety::Quorum => {
                AuthorityRecord::Quorum(QuorumRecord { belief, vote: legacy.vote.map(vote), cluster: None })
            }
        }
    }
}

/// A vote in the sections of versions 1 and 2: epoch, holder, longest lease. Its list is that of the config.
type VoteWithoutList = (Epoch, Option<Holder>, Duration);

fn with_list((epoch, holder, longest_lease): VoteWithoutList) -> Vote {
    without_locks((epoch, holder, longest_lease, Arc::default()))
}

/// A vote in the sections of version 3: epoch, holder, longest lease, list. There was no lock service.
type VoteWithoutLocks = (Epoch, Option<Holder>, Duration, Arc<MemberList>);

fn without_locks((epoch, holder, longest_lease, list): VoteWithoutLocks) -> Vote {
    Vote { epoch, holder, longest_lease, list, locks: LockPast::default() }
}

/// What a member must remember of the member lists, beside its own list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ListMark {
    /// This member has known a list with itself in it.
    pub listed: bool,
    /// The list in force without this member.
    pub removed: Option<Stamp>,
    /// An operator has declared the other voters lost, and no announcement has said so yet.
    pub forced: bool,
}

/// The record of an algorithm begins with the algorithm's name: another algorithm could not use it.
type AlgorithmRecord = (String, Vec<u8>);

/// The algorithm's record on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OnDisk {
    Nothing,
    Record(Vec<u8>),
    /// Another algorithm wrote it.
    OfAnother(String),
}

/// Opens the data directory; `None` if this member has no state yet. A file of an earlier format is converted.
pub fn open(dir: &Path) -> Result<(Store, Option<StateFile>), StorageError> {
    let (store, file) = Store::open(dir)?;
    let path = store.path();
    Ok((store, file.map(|file| usable(file, path)).transpose()?))
}

/// The state of a member that does not run; `None` if there is none. Changes nothing.
pub fn peek(dir: &Path) -> Result<Option<StateFile>, StorageError> {
    Store::peek(dir)?.map(|file| usable(file, dir.join("state"))).transpose()
}

fn usable(mut file: StateFile, path: PathBuf) -> Result<StateFile, StorageError> {
    if let Some(legacy) = file.legacy.take() {
        put_authority(&mut file, InstanceId::ELECTION, AuthorityRecord::from_v1(&legacy).encode());
    }
    // A volume without its member's promises has lost them, and so has a volume with unreadable promises.
    let is_unreadable = |instance: InstanceId, kind: u16| {
        let kept = instance.is_election() && kind == RecordKind::Authority.number();
        kept && authority(&file, instance).is_none()
    };
    let unreadable = file.sections().iter().any(|(instance, kind, _)| is_unreadable(instance, kind));
    if unreadable || authority(&file, InstanceId::ELECTION).is_none() {
        return Err(StorageError::Damaged { path, damage: Damage::Content });
    }
    Ok(file)
}

pub fn authority(file: &StateFile, instance: InstanceId) -> Option<AuthorityRecord> {
    let section = file.record(instance, RecordKind::Authority)?;
    AuthorityRecord::decode(file.volume.safety, section.version, &section.bytes)
}

/// May this record, which no effect waits for, be written later? It differs from the file in the algorithm's part, and in
/// nothing else but the epoch that the member follows, which no machine stores for its own sake.
pub fn can_wait(file: &StateFile, instance: InstanceId, name: &str, record: &Kept) -> bool {
    let of_algorithm = record.algorithm.clone().map_or(OnDisk::Nothing, OnDisk::Record);
    let new = AuthorityRecord::decode(file.volume.safety, RecordKind::Authority.version(), &record.authority);
    let promises = |authority: Option<AuthorityRecord>| authority.map(AuthorityRecord::without_followed);
    algorithm(file, instance, name) != of_algorithm
        && mode(file, instance) == record.mode
        && promises(authority(file, instance)) == promises(new)
}

pub fn put_authority(file: &mut StateFile, instance: InstanceId, bytes: Vec<u8>) {
    file.put_record(instance, RecordKind::Authority, bytes);
}

pub fn algorithm(file: &StateFile, instance: InstanceId, name: &str) -> OnDisk {
    let Some(section) = file.record(instance, RecordKind::Algorithm) else { return OnDisk::Nothing };
    match codec::decode::<AlgorithmRecord>(&section.bytes) {
        Ok((algorithm, bytes)) if algorithm == name => OnDisk::Record(bytes),
        Ok((algorithm, _)) => OnDisk::OfAnother(algorithm),
        Err(_) => OnDisk::OfAnother("an unknown algorithm".to_owned()),
    }
}

/// The record with which an instance continues after the last process. All instances of a process have one incarnation,
/// so an instance that is new to this disk continues from the incarnation of the cluster's election.
pub fn kept(file: &StateFile, instance: InstanceId, name: &str) -> Option<Kept> {
    let mut of_election = authority(file, InstanceId::ELECTION)?;
    let mut authority = authority(file, instance).unwrap_or_else(|| AuthorityRecord::blank(file.volume.safety));
    *authority.incarnation_mut() = *of_election.incarnation_mut();
    let algorithm = if let OnDisk::Record(bytes) = algorithm(file, instance, name) { Some(bytes) } else { None };
    Some(Kept { authority: authority.encode(), algorithm, mode: mode(file, instance) })
}

fn mode(file: &StateFile, instance: InstanceId) -> Option<Vec<u8>> {
    file.record(instance, RecordKind::Mode).map(|section| section.bytes.clone())
}

/// The newest entry that the ledger had on its disk when this file was written.
pub fn ledger(file: &StateFile) -> Option<LedgerHead> {
    let section = file.record(InstanceId::ELECTION, RecordKind::Ledger)?;
    codec::decode(&section.bytes).ok()
}

pub fn put_ledger(file: &mut StateFile, head: LedgerHead) {
    file.put_record(InstanceId::ELECTION, RecordKind::Ledger, encode(codec::to_vec(&head)));
}

pub fn list_mark(file: &StateFile) -> ListMark {
    let section = file.record(InstanceId::ELECTION, RecordKind::ListMark);
    let mark = section.and_then(|section| codec::decode::<(bool, Option<Stamp>, bool)>(&section.bytes).ok());
    mark.map_or(ListMark::default(), |(listed, removed, forced)| ListMark { listed, removed, forced })
}

pub fn put_list_mark(file: &mut StateFile, ListMark { listed, removed, forced }: ListMark) {
    file.put_record(InstanceId::ELECTION, RecordKind::ListMark, encode(codec::to_vec(&(listed, removed, forced))));
}

/// The priority that an operator gave this member.
pub fn priority(file: &StateFile) -> Option<u32> {
    let section = file.record(InstanceId::ELECTION, RecordKind::Priority)?;
    codec::decode::<Option<u32>>(&section.bytes).ok().flatten()
}

pub fn put_priority(file: &mut StateFile, priority: Option<u32>) {
    file.put_record(InstanceId::ELECTION, RecordKind::Priority, encode(codec::to_vec(&priority)));
}

/// Was the record of the election written before member lists were on disk?
pub fn is_without_list(file: &StateFile) -> bool {
    file.record(InstanceId::ELECTION, RecordKind::Authority).is_some_and(|section| section.version < 3)
}

/// All records of a member are put into the file together.
pub fn put(file: &mut StateFile, instance: InstanceId, name: &str, Kept { authority, algorithm, mode }: Kept) {
    put_authority(file, instance, authority);
    if let Some(bytes) = mode {
        file.put_record(instance, RecordKind::Mode, bytes);
    }
    if let Some(bytes) = algorithm {
        let record: AlgorithmRecord = (name.to_owned(), bytes);
        file.put_record(instance, RecordKind::Algorithm, encode(codec::to_vec(&record)));
    }
}

/// Records are plain values of bounded size: a record that cannot be encoded is a defect of this program, and
/// continuing without it would break promises.
pub(crate) fn encode<E: std::fmt::Display>(bytes: Result<Vec<u8>, E>) -> Vec<u8> {
    match bytes {
        Ok(bytes) => bytes,
        Err(error) => panic!("a record cannot be encoded: {error}"),
    }
}
