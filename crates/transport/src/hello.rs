//! The first frame of each side: its clear part, and the values behind it.
//!
//! A dialler's hello is `magic (8) | lowest version (2) | highest version (2) | role (1) | key id (8) | body`, integers
//! in big-endian order. This layout never changes, so that every later version can read the versions; only the body
//! depends on the version. The acceptor's hello is `chosen version (2) | body`.
//!
//! Version 1 had no range: `magic (8) | version (2) | body`. Its number is in the place of the lowest version, so each
//! side recognises the other. No later version offers version 1.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::codec::{self, CodecError};
use crate::handshake::{Facts, Incarnation, PeerId};

/// The versions that this build speaks.
pub(crate) const SPOKEN: Versions = Versions { min: 2, max: 2 };
/// The first version, which had another layout.
pub(crate) const FIRST: Versions = Versions { min: 1, max: 1 };

const MAGIC: [u8; 8] = *b"conclave";
const RANGE_BYTES: usize = MAGIC.len() + 4;
const MEMBER: u8 = 0;
const CLIENT: u8 = 1;

const CLUSTER_MAX_BYTES: usize = 256;
const FACTS_MAX: usize = 64;
const FACT_NAME_MAX_BYTES: usize = 64;
const FACT_VALUE_MAX_BYTES: usize = 1 << 10;

/// Identifies the secret of a side without revealing it; zeros mean no secret.
pub(crate) type KeyId = [u8; 8];
pub(crate) const NO_KEY: KeyId = [0; 8];

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

    /// The clear part up to the versions: the beginning of a hello, and the whole answer to a dialler without a common
    /// version.
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

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "protocol version {}", self.min)
        } else {
            write!(f, "protocol versions {} to {}", self.min, self.max)
        }
    }
}

/// The dialler's first frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hello {
    pub(crate) key_id: KeyId,
    pub(crate) cluster: String,
    pub(crate) nonce: [u8; 32],
    pub(crate) role: Role,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Peer(PeerRole),
    Client,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct PeerRole {
    pub(crate) id: PeerId,
    /// The id that the dialler expects at this address.
    pub(crate) to: PeerId,
    pub(crate) incarnation: Incarnation,
    /// Counts this process's dials of this peer; see [`mod@crate::admit`].
    pub(crate) attempt: u64,
    pub(crate) facts: Facts,
}

/// The acceptor's half of the transcript.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct AcceptorHello {
    pub(crate) cluster: String,
    pub(crate) id: PeerId,
    pub(crate) incarnation: Incarnation,
    pub(crate) facts: Facts,
    pub(crate) nonce: [u8; 32],
}

/// Why a hello was not understood.
#[derive(Debug, Error)]
pub(crate) enum HelloError {
    /// Not this protocol at all; nothing is answered.
    #[error("not a conclave connection")]
    Foreign,
    /// The dialler speaks version 1 and understands a refusal only.
    #[error("the dialler speaks {FIRST}, this member speaks {SPOKEN}: use the same release on both sides")]
    First,
    /// The dialler is answered with the versions of this member.
    #[error("the dialler speaks {0}, this member speaks {SPOKEN}: use the same release on both sides")]
    NoCommonVersion(Versions),
    /// The versions are cut off; the dialler is answered with the versions of this member.
    #[error("a hello without a range of protocol versions")]
    NoVersions,
    #[error("unreadable hello: {0}")]
    Malformed(String),
}

impl Hello {
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, CodecError> {
        let mut bytes = SPOKEN.to_bytes().to_vec();
        bytes.push(if self.role == Role::Client { CLIENT } else { MEMBER });
        bytes.extend_from_slice(&self.key_id);
        let body = match &self.role {
            Role::Peer(peer) => codec::to_vec(&(&self.cluster, self.nonce, peer))?,
            Role::Client => codec::to_vec(&(&self.cluster, self.nonce))?,
        };
        bytes.extend_from_slice(&body);
        Ok(bytes)
    }

    /// The version to speak with this dialler, and its hello.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<(u16, Self), HelloError> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(HelloError::Foreign)?;
        if rest.starts_with(&FIRST.min.to_be_bytes()) {
            return Err(HelloError::First);
        }
        let (range, rest) = bytes.split_first_chunk::<RANGE_BYTES>().ok_or(HelloError::NoVersions)?;
        let theirs = Versions::from_bytes(range).ok_or(HelloError::NoVersions)?;
        let version = SPOKEN.highest_common(theirs).ok_or(HelloError::NoCommonVersion(theirs))?;
        let cut_off = || HelloError::Malformed("it ends inside its clear part".to_owned());
        let (&[role], rest) = rest.split_first_chunk::<1>().ok_or_else(cut_off)?;
        let (&key_id, body) = rest.split_first_chunk::<8>().ok_or_else(cut_off)?;
        let hello = match role {
            MEMBER => {
                let (cluster, nonce, peer): (String, [u8; 32], PeerRole) = codec::decode(body)?;
                check_facts_size(&peer.facts)?;
                Hello { key_id, cluster, nonce, role: Role::Peer(peer) }
            }
            CLIENT => {
                let (cluster, nonce) = codec::decode(body)?;
                Hello { key_id, cluster, nonce, role: Role::Client }
            }
            other => return Err(HelloError::Malformed(format!("role {other} is neither member nor client"))),
        };
        check_cluster_size(&hello.cluster)?;
        Ok((version, hello))
    }
}

impl AcceptorHello {
    pub(crate) fn to_bytes(&self, chosen: u16) -> Result<Vec<u8>, CodecError> {
        let mut bytes = chosen.to_be_bytes().to_vec();
        bytes.extend_from_slice(&codec::to_vec(self)?);
        Ok(bytes)
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, HelloError> {
        let cut_off = || HelloError::Malformed("it has no version".to_owned());
        let (chosen, body) = bytes.split_first_chunk::<2>().ok_or_else(cut_off)?;
        let chosen = u16::from_be_bytes(*chosen);
        if !(SPOKEN.min..=SPOKEN.max).contains(&chosen) {
            return Err(HelloError::Malformed(format!("it chose version {chosen}, which was not offered")));
        }
        let hello: AcceptorHello = codec::decode(body)?;
        check_cluster_size(&hello.cluster)?;
        check_facts_size(&hello.facts)?;
        Ok(hello)
    }
}

/// A cluster name from the wire is compared, logged and quoted, so its size is bounded.
fn check_cluster_size(cluster: &str) -> Result<(), HelloError> {
    if cluster.len() > CLUSTER_MAX_BYTES {
        let text = format!("a cluster name of {} bytes; at most {CLUSTER_MAX_BYTES} are taken", cluster.len());
        return Err(HelloError::Malformed(text));
    }
    Ok(())
}

/// Facts are bounded before they are compared. A duplicate name would have two values to compare.
pub(crate) fn check_facts_size(facts: &Facts) -> Result<(), HelloError> {
    let malformed = |text: String| Err(HelloError::Malformed(text));
    if facts.len() > FACTS_MAX {
        return malformed(format!("{} facts; at most {FACTS_MAX} are taken", facts.len()));
    }
    for (at, (name, value)) in facts.iter().enumerate() {
        if name.len() > FACT_NAME_MAX_BYTES || value.len() > FACT_VALUE_MAX_BYTES {
            return malformed(format!("fact {at} has {} bytes", name.len() + value.len()));
        }
        if facts[..at].iter().any(|(earlier, _)| earlier == name) {
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
