//! The bytes of the state file.
//!
//! ```text
//! magic (8) | version u16 | length of the whole file u32 | fields of that version | CRC32 of all before it
//! ```
//! Integers are little-endian. Every version keeps this frame, so that a damaged file and one of a newer version can
//! be told apart; the fields between may change with the version.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use algorithms::{Epoch, Incarnation, NodeId, Safety};
use member::Record;
use member::reign::{Holder, Vote};

/// The most peers whose latest incarnation is kept: the limit of the config.
const SEEN_MAX: usize = 256;

/// The format this code writes, and the newest it reads.
pub(super) const VERSION: u16 = 1;

const MAGIC: [u8; 8] = *b"cnclv-st";
const HEAD_BYTES: usize = MAGIC.len() + 2 + 4;
const CRC_BYTES: usize = 4;
/// Larger files are not state files: nothing is read into memory beyond this.
pub(super) const FILE_BYTES_MAX: u64 = 64 << 10;

/// Everything a member keeps over restarts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateRecord {
    /// Whose it is.
    pub id: NodeId,
    /// A peer has seen a later run: whatever is written here, promises are missing.
    pub refused: bool,
    /// Stands for the cluster's member list and leases; see [`crate::config::Config::digest`].
    pub members: u64,
    /// Epochs of one kind mean nothing to the other.
    pub safety: Safety,
    pub member: Record,
    /// The latest run of every peer this member was ever connected to: an earlier one has forgotten its promises.
    pub seen: BTreeMap<NodeId, Incarnation>,
}

/// Why bytes are not a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// It does not begin like a state file.
    Magic,
    /// It has not the length it was written with.
    Length { found: u64 },
    /// The checksum does not fit the content.
    Checksum,
    /// The checksum fits and the content still makes no sense.
    Content,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Magic => f.write_str("it does not begin like a state file"),
            Damage::Length { found } => write!(f, "its {found} bytes are not the length it was written with"),
            Damage::Checksum => f.write_str("its checksum does not fit its content"),
            Damage::Content => f.write_str("its fields make no sense"),
        }
    }
}

/// Why a record could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unreadable {
    Damaged(Damage),
    Newer { version: u16 },
}

/// `None` if more peers were seen than a cluster has.
pub(super) fn encode(record: &StateRecord) -> Option<Vec<u8>> {
    if record.seen.len() > SEEN_MAX {
        return None;
    }
    let mut bytes = Vec::with_capacity(128 + 20 * record.seen.len());
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend(record.id.0.to_le_bytes());
    bytes.push(u8::from(record.refused));
    bytes.extend(record.members.to_le_bytes());
    bytes.push(u8::from(record.safety == Safety::Quorum));
    let Record { incarnation, ceiling, followed, vote } = record.member;
    put_incarnation(&mut bytes, incarnation);
    bytes.extend(ceiling.0.to_le_bytes());
    bytes.extend(followed.0.to_le_bytes());
    put_vote(&mut bytes, vote);
    bytes.extend((record.seen.len() as u16).to_le_bytes());
    for (peer, &incarnation) in &record.seen {
        bytes.extend(peer.0.to_le_bytes());
        put_incarnation(&mut bytes, incarnation);
    }
    let length = (bytes.len() + CRC_BYTES) as u32;
    bytes[HEAD_BYTES - 4..HEAD_BYTES].copy_from_slice(&length.to_le_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    Some(bytes)
}

pub(super) fn decode(bytes: &[u8]) -> Result<StateRecord, Unreadable> {
    let damaged = |damage| Err(Unreadable::Damaged(damage));
    let wrong_length = Damage::Length { found: bytes.len() as u64 };
    if !bytes.starts_with(&MAGIC[..bytes.len().min(MAGIC.len())]) {
        return damaged(Damage::Magic);
    }
    let mut head = Fields(bytes.get(MAGIC.len()..).unwrap_or_default());
    let (Some(version), Some(length)) = (head.u16(), head.u32()) else {
        return damaged(wrong_length);
    };
    if length as usize != bytes.len() || bytes.len() < HEAD_BYTES + CRC_BYTES {
        return damaged(wrong_length);
    }
    let (content, crc) = bytes.split_at(bytes.len() - CRC_BYTES);
    if crc32fast::hash(content).to_le_bytes() != crc {
        return damaged(Damage::Checksum);
    }
    if version > VERSION {
        return Err(Unreadable::Newer { version });
    }
    let mut fields = Fields(&content[HEAD_BYTES..]);
    match fields.record() {
        Some(record) if version == VERSION && fields.0.is_empty() => Ok(record),
        _ => damaged(Damage::Content),
    }
}

fn put_incarnation(bytes: &mut Vec<u8>, incarnation: Incarnation) {
    bytes.extend(incarnation.counter.to_le_bytes());
    bytes.extend(incarnation.nonce.to_le_bytes());
}

/// One byte that says how much of it there is, then all fields, zero where there is nothing.
fn put_vote(bytes: &mut Vec<u8>, vote: Option<Vote>) {
    let holder = vote.and_then(|vote| vote.holder);
    bytes.push(u8::from(vote.is_some()) + u8::from(holder.is_some()));
    let Vote { epoch, longest_lease, .. } = vote.unwrap_or(NO_VOTE);
    bytes.extend(epoch.0.to_le_bytes());
    bytes.extend((longest_lease.as_nanos() as u64).to_le_bytes());
    let Holder { id, life } = holder.unwrap_or(NOBODY);
    bytes.extend(id.0.to_le_bytes());
    put_incarnation(bytes, life);
}

const NO_VOTE: Vote = Vote { epoch: Epoch(0), holder: None, longest_lease: Duration::ZERO };
const NOBODY: Holder = Holder { id: NodeId(0), life: Incarnation { counter: 0, nonce: 0 } };

/// Reads integers off the front of what is left.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn record(&mut self) -> Option<StateRecord> {
        let (id, refused) = (NodeId(self.u32()?), self.bool()?);
        let members = self.u64()?;
        let safety = if self.bool()? { Safety::Quorum } else { Safety::Classic };
        let incarnation = self.incarnation()?;
        let (ceiling, followed) = (Epoch(self.u64()?), Epoch(self.u64()?));
        let member = Record { incarnation, ceiling, followed, vote: self.vote()? };
        Some(StateRecord { id, refused, members, safety, member, seen: self.seen()? })
    }

    fn seen(&mut self) -> Option<BTreeMap<NodeId, Incarnation>> {
        let length = usize::from(self.u16()?);
        let seen = (0..length)
            .map(|_| Some((NodeId(self.u32()?), self.incarnation()?)))
            .collect::<Option<BTreeMap<_, _>>>()?;
        (length <= SEEN_MAX && seen.len() == length).then_some(seen)
    }

    /// The outer `None`: no vote was ever written like that.
    #[allow(clippy::option_option)]
    fn vote(&mut self) -> Option<Option<Vote>> {
        let [parts] = self.take()?;
        let (epoch, longest_lease) = (Epoch(self.u64()?), Duration::from_nanos(self.u64()?));
        let holder = Holder { id: NodeId(self.u32()?), life: self.incarnation()? };
        let vote = Vote { epoch, holder: None, longest_lease };
        match parts {
            0 if vote == NO_VOTE && holder == NOBODY => Some(None),
            1 if holder == NOBODY => Some(Some(vote)),
            2 => Some(Some(Vote { holder: Some(holder), ..vote })),
            _ => None,
        }
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn bool(&mut self) -> Option<bool> {
        match self.take()? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn incarnation(&mut self) -> Option<Incarnation> {
        Some(Incarnation { counter: self.u64()?, nonce: self.u64()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> StateRecord {
        let incarnation = Incarnation { counter: 3, nonce: 0x0123_4567_89ab_cdef };
        let holder = Some(Holder { id: NodeId(5), life: incarnation });
        let vote = Vote { epoch: Epoch(77), holder, longest_lease: Duration::from_millis(500) };
        StateRecord {
            id: NodeId(4),
            refused: true,
            members: 0xfeed,
            safety: Safety::Quorum,
            member: Record { incarnation, ceiling: Epoch(128), followed: Epoch(78), vote: Some(vote) },
            seen: BTreeMap::from([(NodeId(2), Incarnation { counter: 9, nonce: 0xabcd }), (NodeId(5), incarnation)]),
        }
    }

    fn empty() -> StateRecord {
        let (member, seen) = (Record::default(), BTreeMap::new());
        StateRecord { id: NodeId(0), refused: false, members: 0, safety: Safety::Classic, member, seen }
    }

    #[test]
    fn every_record_comes_back_as_it_was_written() {
        let mut holderless = full();
        holderless.member.vote = holderless.member.vote.map(|vote| Vote { holder: None, ..vote });
        let everybody =
            |peers| (0..peers).map(|id| (NodeId(id), Incarnation { counter: 1, nonce: u64::from(id) })).collect();
        let largest = StateRecord { seen: everybody(256), ..full() };
        assert!((encode(&largest).unwrap().len() as u64) < FILE_BYTES_MAX);
        for record in [empty(), full(), holderless, largest] {
            assert_eq!(decode(&encode(&record).unwrap()), Ok(record));
        }
        assert_eq!(encode(&StateRecord { seen: everybody(257), ..full() }), None);
    }

    #[test]
    fn the_layout_of_version_1_does_not_change() {
        let bytes = encode(&full()).unwrap();
        let hex = include_str!("record-v1.hex").trim();
        let stored: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        assert_eq!(bytes, stored);
    }

    #[test]
    fn every_flipped_byte_and_every_other_length_is_noticed() {
        let bytes = encode(&full()).unwrap();
        for at in 0..bytes.len() {
            for mask in [0x01, 0x80, 0xff] {
                let mut flipped = bytes.clone();
                flipped[at] ^= mask;
                assert!(matches!(decode(&flipped), Err(Unreadable::Damaged(_))), "byte {at} ^ {mask:#x}");
            }
        }
        for length in 0..bytes.len() {
            assert!(matches!(decode(&bytes[..length]), Err(Unreadable::Damaged(_))), "cut to {length}");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert_eq!(decode(&longer), Err(Unreadable::Damaged(Damage::Length { found: longer.len() as u64 })));
    }

    #[test]
    fn a_newer_version_is_named_whatever_its_fields() {
        let mut bytes = [MAGIC.as_slice(), &9_u16.to_le_bytes(), &21_u32.to_le_bytes(), b"new"].concat();
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        assert_eq!(decode(&bytes), Err(Unreadable::Newer { version: 9 }));
    }
}
