//! The meaning of the sections of a state file for this version of the program, and the sections that it only keeps.

use std::collections::BTreeMap;

use algorithms::NodeId;
use member::{Incarnation, Safety};

use super::frame::{self, Damage, Fields, SEEN_MAX, Unwritable, put_incarnation};
use super::sections::{Section, Sections};
use super::v1::{self, RecordV1};
use crate::binding::Binding;
use types::InstanceId;

/// The format this code writes, and the newest it reads.
pub(super) const FORMAT: u16 = 2;

const VOLUME: u16 = 1;
/// Version 1 had no binding.
const VOLUME_VERSION: u16 = 2;

/// Everything the process keeps over restarts. It is written as a whole: related records are never half on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateFile {
    pub volume: VolumeRecord,
    /// Set when the file was of format 1. The volume's part of it is in `volume`; its reader converts the member's
    /// part into records and clears this. Until then the state cannot be written: that would forget promises.
    pub legacy: Option<RecordV1>,
    /// All sections but the volume's own, including those that this code does not know.
    sections: Sections,
}

/// The member that owns this state, and the config it was written under.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeRecord {
    /// The owner.
    pub id: NodeId,
    /// A majority of the voters has seen a later incarnation: promises are missing here, and this member does not vote.
    pub refused: bool,
    /// Digest of the cluster's member list and leases; see [`crate::config::Config::votes_digest`].
    pub members: u64,
    /// Epochs of one kind of safety cannot be compared with epochs of the other.
    pub safety: Safety,
    /// The latest incarnation of every peer that this member was ever connected to: an earlier one has lost promises.
    pub seen: BTreeMap<NodeId, Incarnation>,
    /// Where this volume belongs; `None` where volumes are not bound, and in files of earlier versions.
    pub binding: Option<Binding>,
}

/// Records whose content the storage does not interpret: it keeps their bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RecordKind {
    /// The record of the authority.
    Authority = 3,
    /// The record of the algorithm.
    Algorithm = 4,
    /// The newest entry of the ledger; of the cluster's election alone.
    Ledger = 5,
    /// Whether this member was removed; of the cluster's election alone.
    ListMark = 6,
    /// The priority that an operator gave this member; of the cluster's election alone.
    Priority = 7,
    /// The newest order of a pause, or of its end.
    Mode = 8,
}

impl RecordKind {
    pub const ALL: [RecordKind; 6] = [
        RecordKind::Authority,
        RecordKind::Algorithm,
        RecordKind::Ledger,
        RecordKind::ListMark,
        RecordKind::Priority,
        RecordKind::Mode,
    ];

    /// The version of its layout that this code writes, and the newest it reads. Any change of the layout must raise
    /// it.
    pub fn version(self) -> u16 {
        match self {
            // Version 1 had no cluster id, version 2 no member list, version 3 knew nothing of locks.
            RecordKind::Authority => 4,
            RecordKind::Algorithm
            | RecordKind::Ledger
            | RecordKind::ListMark
            | RecordKind::Priority
            | RecordKind::Mode => 1,
        }
    }

    pub(crate) fn number(self) -> u16 {
        self as u16
    }

    fn name(self) -> &'static str {
        match self {
            RecordKind::Authority => "authority",
            RecordKind::Algorithm => "algorithm",
            RecordKind::Ledger => "ledger",
            RecordKind::ListMark => "list mark",
            RecordKind::Priority => "priority",
            RecordKind::Mode => "mode",
        }
    }
}

/// Why a state could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unreadable {
    Damaged(Damage),
    NewerFormat { format: u16 },
    NewerSection { name: &'static str, version: u16, known: u16 },
}

impl StateFile {
    /// A state without records.
    pub fn new(volume: VolumeRecord) -> Self {
        StateFile { volume, legacy: None, sections: Sections::default() }
    }

    /// A record with the version it was stored with. The version of an election's record is between 1 and
    /// [`RecordKind::version`]; other machines check their own.
    pub fn record(&self, instance: InstanceId, kind: RecordKind) -> Option<&Section> {
        self.sections.get(instance, kind.number())
    }

    /// Replaces a record by one of the version that this code writes.
    pub fn put_record(&mut self, instance: InstanceId, kind: RecordKind, bytes: Vec<u8>) {
        self.sections.put(instance, kind.number(), Section { version: kind.version(), bytes });
    }

    /// All sections but the volume's own.
    pub fn sections(&self) -> &Sections {
        &self.sections
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, Unwritable> {
        if self.legacy.is_some() {
            return Err(Unwritable::Legacy);
        }
        let mut sections = self.sections.clone();
        let volume = Section { version: VOLUME_VERSION, bytes: self.volume.encode()? };
        sections.put(InstanceId::ELECTION, VOLUME, volume);
        frame::seal(FORMAT, &sections.encode()?)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let nonsense = Unreadable::Damaged(Damage::Content);
        let (format, content) = frame::open(bytes).map_err(Unreadable::Damaged)?;
        match format {
            0 => Err(nonsense),
            1 => v1::decode(content).map(StateFile::from).ok_or(nonsense),
            FORMAT => StateFile::from_sections(Sections::decode(content).ok_or(nonsense)?),
            _ => Err(Unreadable::NewerFormat { format }),
        }
    }

    fn from_sections(mut sections: Sections) -> Result<Self, Unreadable> {
        let nonsense = Unreadable::Damaged(Damage::Content);
        let volume = sections.remove(InstanceId::ELECTION, VOLUME).ok_or(nonsense)?;
        check_version("volume", volume.version, VOLUME_VERSION)?;
        for (_, number, section) in sections.iter().filter(|(instance, ..)| instance.is_election()) {
            if let Some(kind) = RecordKind::ALL.into_iter().find(|kind| kind.number() == number) {
                check_version(kind.name(), section.version, kind.version())?;
            }
        }
        let volume = VolumeRecord::decode(volume.version, &volume.bytes).ok_or(nonsense)?;
        Ok(StateFile { volume, legacy: None, sections })
    }
}

fn check_version(name: &'static str, version: u16, known: u16) -> Result<(), Unreadable> {
    match version {
        0 => Err(Unreadable::Damaged(Damage::Content)),
        _ if version > known => Err(Unreadable::NewerSection { name, version, known }),
        _ => Ok(()),
    }
}

impl From<RecordV1> for StateFile {
    fn from(record: RecordV1) -> Self {
        let RecordV1 { id, refused, members, safety, .. } = record;
        let volume = VolumeRecord { id, refused, members, safety, seen: record.seen.clone(), binding: None };
        StateFile { legacy: Some(record), ..StateFile::new(volume) }
    }
}

/// `id u32 | refused u8 | members u64 | safety u8 | number of peers u16 | each: id u32, counter u64, nonce u64`, and from
/// version 2 on `bound u8 | if it is 1: machine u64, inode u64, born u64`
impl VolumeRecord {
    fn encode(&self) -> Result<Vec<u8>, Unwritable> {
        if self.seen.len() > SEEN_MAX {
            return Err(Unwritable::Peers(self.seen.len()));
        }
        let mut bytes = Vec::with_capacity(16 + 20 * self.seen.len());
        bytes.extend(self.id.0.to_le_bytes());
        bytes.push(u8::from(self.refused));
        bytes.extend(self.members.to_le_bytes());
        bytes.push(u8::from(self.safety == Safety::Quorum));
        bytes.extend((self.seen.len() as u16).to_le_bytes());
        for (peer, &incarnation) in &self.seen {
            bytes.extend(peer.0.to_le_bytes());
            put_incarnation(&mut bytes, incarnation);
        }
        bytes.push(u8::from(self.binding.is_some()));
        if let Some(Binding { machine, inode, born }) = self.binding {
            bytes.extend([machine, inode, born].map(u64::to_le_bytes).as_flattened());
        }
        Ok(bytes)
    }

    fn decode(version: u16, bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let mut volume = VolumeRecord {
            id: NodeId(fields.u32()?),
            refused: fields.bool()?,
            members: fields.u64()?,
            safety: fields.safety()?,
            seen: fields.seen()?,
            binding: None,
        };
        if version >= 2 && fields.bool()? {
            volume.binding = Some(Binding { machine: fields.u64()?, inode: fields.u64()?, born: fields.u64()? });
        }
        fields.0.is_empty().then_some(volume)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::v1::tests as first;

    const CONTENT: Unreadable = Unreadable::Damaged(Damage::Content);

    fn volume() -> VolumeRecord {
        let seen = BTreeMap::from([
            (NodeId(2), Incarnation { counter: 9, nonce: 0xabcd }),
            (NodeId(5), Incarnation { counter: 3, nonce: 0x0123_4567_89ab_cdef }),
        ]);
        VolumeRecord { id: NodeId(4), refused: true, members: 0xfeed, safety: Safety::Quorum, seen, binding: None }
    }

    fn bound() -> VolumeRecord {
        let binding = Binding { machine: 0x0102_0304_0506_0708, inode: 77, born: 1_790_000_000_123_456_789 };
        VolumeRecord { binding: Some(binding), ..volume() }
    }

    fn section(version: u16, bytes: &[u8]) -> Section {
        Section { version, bytes: bytes.to_vec() }
    }

    /// Every kind of record, kinds of the election that this code does not know, and another instance.
    fn full() -> StateFile {
        let mut file = StateFile::new(bound());
        file.sections.put(InstanceId::ELECTION, 2, section(1, b"member"));
        file.put_record(InstanceId::ELECTION, RecordKind::Authority, b"authority".to_vec());
        file.put_record(InstanceId::ELECTION, RecordKind::Algorithm, Vec::new());
        file.sections.put(InstanceId::ELECTION, 99, section(7, b"unknown"));
        file.sections.put(InstanceId(256), 1, section(3, b"another's"));
        file
    }

    /// A whole file of these sections.
    fn sealed(sections: &[(u16, u16, Section)]) -> Vec<u8> {
        let mut all = Sections::default();
        for (instance, kind, section) in sections {
            all.put(InstanceId(*instance), *kind, section.clone());
        }
        frame::seal(FORMAT, &all.encode().unwrap()).unwrap()
    }

    #[test]
    fn every_state_comes_back_as_it_was_written() {
        let everybody =
            |peers| (0..peers).map(|id| (NodeId(id), Incarnation { counter: 1, nonce: u64::from(id) })).collect();
        let least = VolumeRecord { id: NodeId(0), refused: false, members: 0, safety: Safety::Classic, ..volume() };
        let least = StateFile::new(VolumeRecord { seen: BTreeMap::new(), ..least });
        let many = StateFile { volume: VolumeRecord { seen: everybody(256), ..volume() }, ..full() };
        for file in [least, full(), many] {
            assert_eq!(StateFile::decode(&file.encode().unwrap()), Ok(file));
        }
        let too_many = StateFile::new(VolumeRecord { seen: everybody(257), ..volume() });
        assert_eq!(too_many.encode(), Err(Unwritable::Peers(257)));
    }

    #[test]
    fn the_layout_of_format_2_does_not_change() {
        let stored = frame::from_hex(include_str!("state-v2-bound.hex"));
        let mut file = full();
        // The version of the authority's section that was written then.
        file.sections.put(InstanceId::ELECTION, RecordKind::Authority.number(), section(2, b"authority"));
        assert_eq!(file.encode(), Ok(stored.clone()));
        assert_eq!(StateFile::decode(&stored), Ok(file));
    }

    /// Version 1 of the volume's and of the authority's section.
    #[test]
    fn a_file_without_a_binding_is_still_read() {
        let stored = frame::from_hex(include_str!("state-v2.hex"));
        let mut expected = StateFile { volume: volume(), ..full() };
        expected.sections.put(InstanceId::ELECTION, RecordKind::Authority.number(), section(1, b"authority"));
        assert_eq!(StateFile::decode(&stored), Ok(expected));
    }

    #[test]
    fn a_file_of_format_1_gives_its_volume_and_is_not_written_before_its_member_is_converted() {
        let mut file = StateFile::decode(&first::stored()).unwrap();
        assert_eq!(file.volume, volume());
        assert_eq!(file.legacy, Some(first::full()));
        assert_eq!(file.sections().iter().count(), 0);
        assert_eq!(file.encode(), Err(Unwritable::Legacy));
        file.legacy = None;
        assert_eq!(StateFile::decode(&file.encode().unwrap()), Ok(StateFile::new(volume())));
    }

    #[test]
    fn without_a_sound_volume_section_there_is_no_state() {
        let good = bound().encode().unwrap();
        assert_eq!(StateFile::decode(&sealed(&[(0, 1, section(2, &good))])), Ok(StateFile::new(bound())));
        assert_eq!(StateFile::decode(&sealed(&[])), Err(CONTENT), "no section at all");
        assert_eq!(StateFile::decode(&sealed(&[(1, 1, section(2, &good))])), Err(CONTENT), "another instance's");
        assert_eq!(StateFile::decode(&sealed(&[(0, 1, section(0, &good))])), Err(CONTENT), "there is no version 0");
        for length in 0..good.len() {
            let cut = sealed(&[(0, 1, section(2, &good[..length]))]);
            assert_eq!(StateFile::decode(&cut), Err(CONTENT), "cut to {length}");
        }
        let longer = [good.as_slice(), &[0]].concat();
        assert_eq!(StateFile::decode(&sealed(&[(0, 1, section(2, &longer))])), Err(CONTENT), "one byte more");
    }

    #[test]
    fn a_newer_section_is_refused_where_this_code_knows_it_and_kept_where_it_does_not() {
        let volume = section(2, &volume().encode().unwrap());
        let known = [(1, "volume", 2), (3, "authority", 4), (4, "algorithm", 1), (5, "ledger", 1), (6, "list mark", 1)];
        for (kind, name, known) in known {
            let mut sections = vec![(0, 1, volume.clone())];
            let version = known + 1;
            sections.push((0, kind, section(version, b"newer")));
            let newer = Unreadable::NewerSection { name, version, known };
            assert_eq!(StateFile::decode(&sealed(&sections)), Err(newer));
        }
        for (instance, kind) in [(0, 9), (1, 2), (256, 1)] {
            let bytes = sealed(&[(0, 1, volume.clone()), (instance, kind, section(2, b"newer"))]);
            let file = StateFile::decode(&bytes).unwrap();
            assert_eq!(file.encode(), Ok(bytes), "section {kind} of instance {instance}");
        }
    }

    #[test]
    fn formats_that_this_code_does_not_know_are_told_apart() {
        let newer = frame::seal(9, b"new").unwrap();
        assert_eq!(StateFile::decode(&newer), Err(Unreadable::NewerFormat { format: 9 }));
        assert_eq!(StateFile::decode(&frame::seal(0, b"").unwrap()), Err(CONTENT));
        assert_eq!(StateFile::decode(&frame::seal(1, b"old").unwrap()), Err(CONTENT));
    }
}
