//! The first words of each side: the header in clear, and the values behind it, which only the session carries.
//!
//! The first frame of each side begins with its [`Header`]: `magic (8) | lowest version (2) | highest version (2) |
//! access (1) | key id (4)`, integers in big-endian order. This layout never changes, so that every later version can
//! read the versions; everything behind it belongs to a version. Nothing else ever stands in clear.
//!
//! Version 1 had no range: `magic (8) | version (2) | body`. Its number is in the place of the lowest version, so each
//! side recognises the other. Version 2 had a longer key id behind the same range. Version 3 has the same
//! hello as this one; its members did not tell their priorities in heartbeats. Version 4 has the same hello and the same
//! messages; its members know no heirs of locks.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use types::Access;

use crate::codec::{self, CodecError};
use crate::handshake::{Facts, Incarnation, PeerId};
use crate::secret::KeyId;

/// The versions that this build speaks. Messages have no names of fields in them: any change of what members or clients send is
/// a new version.
///
/// Neighbours work together, so that members can be upgraded one after the other. A version may add fields at the end of the
/// messages of elections and of a reply, kinds of messages, requests and announcements, and keeps the lower end of its range:
/// a process that hears of a higher end leaves out the fields and skips the kinds that it does not know, and answers that it
/// does not know a request. All else (the hello, facts, what a message means) is a new lower end.
pub const SPOKEN: Versions = Versions { min: 4, max: 5 };
/// The first version whose members know heirs of locks. A member of version 4 would take an heir for a holder: it is sent no
/// table that has one.
pub const WITH_HEIRS: u16 = 5;
/// What a test calls the next version.
const NEXT: Versions = Versions { min: 4, max: 6 };
/// The first version, which had another layout.
pub(crate) const FIRST: Versions = Versions { min: 1, max: 1 };

const MAGIC: [u8; 8] = *b"conclave";
const RANGE_BYTES: usize = MAGIC.len() + 4;
pub(crate) const HEADER_BYTES: usize = RANGE_BYTES + 1 + size_of::<KeyId>();

const CLUSTER_MAX_BYTES: usize = 256;
const FACTS_MAX: usize = 64;
const FACT_NAME_MAX_BYTES: usize = 64;
const FACT_VALUE_MAX_BYTES: usize = 1 << 10;

/// A range of protocol versions, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Versions {
    pub min: u16,
    pub max: u16,
}

impl Versions {
    /// The highest version in both ranges.
    pub(crate) fn highest_common(self, other: Versions) -> Option<u16> {
        let highest = self.max.min(other.max);
        (highest >= self.min && highest >= other.min).then_some(highest)
    }

    /// The header up to the versions, and the whole answer to a dialler without a common version.
    pub(crate) fn to_bytes(self) -> [u8; RANGE_BYTES] {
        let mut bytes = [0; RANGE_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&self.min.to_be_bytes());
        bytes[10..].copy_from_slice(&self.max.to_be_bytes());
        bytes
    }

    /// Reads an answer that consists of the versions only.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let range: &[u8; RANGE_BYTES] = bytes.try_into().ok()?;
        let [magic @ .., a, b, c, d] = range;
        (magic == &MAGIC).then_some(Versions { min: u16::from_be_bytes([*a, *b]), max: u16::from_be_bytes([*c, *d]) })
    }
}

/// Does this process play the next version, for a test? Never in an optimised build.
pub fn is_next_for_a_test() -> bool {
    static NEXT: OnceLock<bool> = OnceLock::new();
    cfg!(debug_assertions) && *NEXT.get_or_init(|| std::env::var_os("CONCLAVE_TEST_NEXT_VERSION").is_some())
}

pub(crate) fn spoken() -> Versions {
    if is_next_for_a_test() { NEXT } else { SPOKEN }
}

/// Is this a version that this process does not know? What a header says is believed once it is bound to a session.
pub(crate) fn is_newer(version: u16) -> bool {
    version > spoken().max
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "protocol version {}", self.min)
        } else {
            write!(f, "protocol versions {} to {}", self.min, self.max)
        }
    }
}

/// What stands in clear. It proves nothing by itself; both sides' headers are bound to the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) versions: Versions,
    /// `Member`: a connection between members. The others: a client with this access.
    pub(crate) access: Access,
    /// The key of connections with this access.
    pub(crate) key_id: KeyId,
}

/// Why a header was not understood.
#[derive(Debug, Error)]
pub(crate) enum HelloError {
    /// Not this protocol at all; nothing is answered.
    #[error("not a conclave connection")]
    Foreign,
    /// The far side speaks version 1.
    #[error("the dialler speaks {FIRST}, this member speaks {SPOKEN}: use the same release on both sides")]
    First,
    #[error("the dialler speaks {0}, this member speaks {SPOKEN}: use the same release on both sides")]
    NoCommonVersion(Versions),
    /// The versions are cut off.
    #[error("a hello without a range of protocol versions")]
    NoVersions,
    #[error("unreadable hello: {0}")]
    Malformed(String),
}

impl Header {
    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..RANGE_BYTES].copy_from_slice(&self.versions.to_bytes());
        bytes[RANGE_BYTES] = access_byte(self.access);
        bytes[RANGE_BYTES + 1..].copy_from_slice(&self.key_id);
        bytes
    }

    /// The header, and what follows it. A header without a common version is an error.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<(Self, &[u8]), HelloError> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(HelloError::Foreign)?;
        if rest.starts_with(&FIRST.min.to_be_bytes()) {
            return Err(HelloError::First);
        }
        let (range, rest) = bytes.split_first_chunk::<RANGE_BYTES>().ok_or(HelloError::NoVersions)?;
        let versions = Versions::from_bytes(range).ok_or(HelloError::NoVersions)?;
        spoken().highest_common(versions).ok_or(HelloError::NoCommonVersion(versions))?;
        let cut_off = || HelloError::Malformed("it ends inside its header".to_owned());
        let (&[byte], rest) = rest.split_first_chunk::<1>().ok_or_else(cut_off)?;
        let (&key_id, rest) = rest.split_first_chunk().ok_or_else(cut_off)?;
        let access = Access::ALL.into_iter().find(|access| access_byte(*access) == byte);
        let access =
            access.ok_or_else(|| HelloError::Malformed(format!("{byte} is neither a member nor a client's access")))?;
        Ok((Header { versions, access, key_id }, rest))
    }
}

fn access_byte(access: Access) -> u8 {
    match access {
        Access::Member => 0,
        Access::Reader => 1,
        Access::Operator => 2,
    }
}

/// The dialler's first frame in the session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct DiallerHello {
    pub(crate) cluster: String,
    /// Members only.
    pub(crate) peer: Option<PeerHello>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct PeerHello {
    pub(crate) id: PeerId,
    /// The id that the dialler expects at this address.
    pub(crate) to: PeerId,
    pub(crate) incarnation: Incarnation,
    /// Counts this process's dials of this peer; see [`mod@crate::admit`].
    pub(crate) attempt: u64,
    pub(crate) facts: Facts,
}

/// The acceptor's first frame in the session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct AcceptorHello {
    pub(crate) cluster: String,
    pub(crate) id: PeerId,
    pub(crate) incarnation: Incarnation,
    pub(crate) facts: Facts,
}

impl DiallerHello {
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, CodecError> {
        codec::to_vec(self)
    }

    /// Reads the hello that belongs to a connection with this access.
    pub(crate) fn from_bytes(bytes: &[u8], access: Access) -> Result<Self, HelloError> {
        let hello: DiallerHello = codec::decode(bytes)?;
        check_cluster_size(&hello.cluster)?;
        match &hello.peer {
            Some(peer) if access == Access::Member => check_facts_size(&peer.facts)?,
            None if access != Access::Member => {}
            _ => return Err(HelloError::Malformed(format!("it is not the hello of a {access}"))),
        }
        Ok(hello)
    }
}

impl AcceptorHello {
    /// Values from the wire are bounded before they are compared, logged or quoted.
    pub(crate) fn check_size(&self) -> Result<(), HelloError> {
        check_cluster_size(&self.cluster)?;
        check_facts_size(&self.facts)
    }
}

fn check_cluster_size(cluster: &str) -> Result<(), HelloError> {
    if cluster.len() > CLUSTER_MAX_BYTES {
        let text = format!("a cluster name of {} bytes; at most {CLUSTER_MAX_BYTES} are taken", cluster.len());
        return Err(HelloError::Malformed(text));
    }
    Ok(())
}

/// A duplicate name would have two values to compare.
fn check_facts_size(facts: &Facts) -> Result<(), HelloError> {
    let malformed = |text: String| Err(HelloError::Malformed(text));
    if facts.len() > FACTS_MAX {
        return malformed(format!("{} facts; at most {FACTS_MAX} are taken", facts.len()));
    }
    let mut names = BTreeSet::new();
    for (at, (name, value)) in facts.iter().enumerate() {
        if name.len() > FACT_NAME_MAX_BYTES || value.len() > FACT_VALUE_MAX_BYTES {
            return malformed(format!("fact {at} has {} bytes", name.len() + value.len()));
        }
        if !names.insert(name) {
            return malformed(format!("the fact {name:?} is listed twice"));
        }
    }
    Ok(())
}

impl From<CodecError> for HelloError {
    fn from(error: CodecError) -> Self {
        Self::Malformed(error.to_string())
    }
}

#[cfg(test)]
#[path = "hello_tests.rs"]
mod tests;
