//! The handshake as values and rules, without sockets.
//!
//! Four frames: the dialler's [`Hello`], the acceptor's [`Answer::Challenge`], the dialler's [`Reply::Proof`], the
//! acceptor's [`Verdict::Welcome`]. Each proof is an HMAC over a label for its direction and the bytes of both hellos,
//! nonces included, so a proof fits one direction of one connection only. Either side may refuse instead of its next
//! frame, and says why.
//!
//! Magic and version stand in front of the encoded hello so that every later version can still be told apart; the
//! encoding of a refusal must never change for the same reason.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::codec::{self, CodecError};
use crate::secret::Secret;

/// The id of a member.
pub type PeerId = u32;
/// Named values that must be equal between peers.
pub type Facts = Vec<(String, String)>;

const MAGIC: [u8; 8] = *b"conclave";
const VERSION: u16 = 1;
const PREAMBLE_BYTES: usize = MAGIC.len() + 2;
/// A refusal quotes values of both sides, and must still fit into a handshake frame.
const REFUSAL_TEXT_MAX_BYTES: usize = 2 << 10;
const DIALLER_LABEL: &[u8] = b"conclave 1 dialler";
const ACCEPTOR_LABEL: &[u8] = b"conclave 1 acceptor";

/// One incarnation of a member, that is one start of its process: a counter its storage increments at every start, and a random number for when storage is lost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Incarnation {
    pub counter: u64,
    pub nonce: u64,
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:016x}", self.counter, self.nonce)
    }
}

/// Why a handshake was refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum RefuseCode {
    /// Another cluster name.
    Cluster,
    /// Another protocol version.
    Version,
    /// A fact differs: algorithm, topology, member list, ...
    Facts,
    /// No secret, a wrong one, or one where none is used.
    Secret,
    /// A second process with the same id.
    Duplicate,
    /// The dialled node has another id than the dialler believed.
    WrongNode,
    /// The id is not in the peer list.
    Unknown,
    /// Too many clients.
    Busy,
    /// The pair has a connection already, or is about to: the normal end of two members dialling each other at once.
    AlreadyConnected,
    /// A later incarnation of that peer was connected before, or another one with the same counter: its volume was rolled back
    /// or copied. `seen` is the counter of that incarnation.
    Stale { seen: u64 },
}

/// A refusal as it travels and as it is logged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Error)]
#[error("{text}")]
pub(crate) struct Refusal {
    pub(crate) code: RefuseCode,
    pub(crate) text: String,
}

impl Refusal {
    pub(crate) fn new(code: RefuseCode, text: impl Into<String>) -> Self {
        let mut text = text.into();
        let whole = |end: &usize| text.is_char_boundary(*end);
        let end = (0..=text.len().min(REFUSAL_TEXT_MAX_BYTES)).rev().find(whole);
        text.truncate(end.unwrap_or(0));
        Self { code, text }
    }
}

/// What one side knows about itself.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) cluster: String,
    pub(crate) id: PeerId,
    pub(crate) incarnation: Incarnation,
    pub(crate) facts: Facts,
    pub(crate) secret: Option<Secret>,
}

/// The dialler's first frame.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) cluster: String,
    pub(crate) nonce: [u8; 32],
    pub(crate) role: Role,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    Peer(PeerRole),
    Client,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct PeerRole {
    pub(crate) id: PeerId,
    /// The id the dialler believes it dials.
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

/// The acceptor's answer to a hello. The acceptor's hello stays encoded: proofs cover bytes, not values.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Refused(Refusal),
    Challenge { hello: Vec<u8>, proof: Vec<u8> },
}

/// The dialler's answer to a challenge.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Refused(Refusal),
    Proof(Vec<u8>),
}

/// The acceptor's last word.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Verdict {
    Refused(Refusal),
    /// `floor` is the acceptor's number of dials of the dialler so far; see [`mod@crate::admit`].
    Welcome {
        floor: u64,
    },
}

/// Why a hello was not understood.
#[derive(Debug, Error)]
pub(crate) enum HelloError {
    /// Not this protocol at all; nothing is answered.
    #[error("not a conclave connection")]
    Magic,
    #[error(transparent)]
    Refused(Refusal),
    #[error(transparent)]
    Codec(#[from] CodecError),
}

impl Hello {
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, CodecError> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.extend_from_slice(&codec::to_vec(self)?);
        Ok(bytes)
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, HelloError> {
        let Some((preamble, body)) = bytes.split_first_chunk::<PREAMBLE_BYTES>() else {
            return Err(HelloError::Magic);
        };
        if preamble[..MAGIC.len()] != MAGIC {
            return Err(HelloError::Magic);
        }
        let version = u16::from_be_bytes([preamble[MAGIC.len()], preamble[MAGIC.len() + 1]]);
        if version != VERSION {
            let text = format!("protocol version: this node speaks {VERSION}, the dialler speaks {version}");
            return Err(HelloError::Refused(Refusal::new(RefuseCode::Version, text)));
        }
        Ok(codec::decode(body)?)
    }
}

impl Identity {
    /// What an acceptor checks before it answers a hello.
    pub(crate) fn check_hello(&self, hello: &Hello, known: impl Fn(PeerId) -> bool) -> Result<(), Refusal> {
        self.check_cluster(&hello.cluster)?;
        let Role::Peer(peer) = &hello.role else { return Ok(()) };
        let own_dial = peer.id == self.id && peer.incarnation == self.incarnation;
        if peer.id == self.id && !own_dial {
            let text = format!(
                "n{} is this node, incarnation {}; a second process with that id runs as incarnation {}",
                self.id, self.incarnation, peer.incarnation
            );
            return Err(Refusal::new(RefuseCode::Duplicate, text));
        }
        if peer.to != self.id {
            let text = format!("n{} dialled n{}, but this address belongs to n{}", peer.id, peer.to, self.id);
            return Err(Refusal::new(RefuseCode::WrongNode, text));
        }
        if own_dial || !known(peer.id) {
            let text = format!("n{} is not in the peer list of n{}", peer.id, self.id);
            return Err(Refusal::new(RefuseCode::Unknown, text));
        }
        self.check_facts(peer.id, &peer.facts)
    }

    /// What a dialling peer checks before it answers a challenge.
    pub(crate) fn check_acceptor(&self, acceptor: &AcceptorHello, expected: PeerId) -> Result<(), Refusal> {
        self.check_cluster(&acceptor.cluster)?;
        if acceptor.id != expected {
            let text = format!("n{} dialled n{expected}, but n{} answered", self.id, acceptor.id);
            return Err(Refusal::new(RefuseCode::WrongNode, text));
        }
        self.check_facts(acceptor.id, &acceptor.facts)
    }

    fn check_cluster(&self, theirs: &str) -> Result<(), Refusal> {
        check_cluster(&self.cluster, theirs)
    }

    fn check_facts(&self, peer: PeerId, theirs: &Facts) -> Result<(), Refusal> {
        let value = |facts: &Facts, name: &str| facts.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        let show = |value: Option<String>| value.map_or("nothing".to_owned(), |value| format!("{value:?}"));
        let extra = theirs.iter().filter(|(name, _)| value(&self.facts, name).is_none());
        let differences: Vec<String> = self
            .facts
            .iter()
            .chain(extra)
            .map(|(name, _)| (name, value(&self.facts, name), value(theirs, name)))
            .filter(|(_, ours, theirs)| ours != theirs)
            .map(|(name, ours, theirs)| {
                let name = name.escape_debug();
                format!("{name}: n{} has {}, n{peer} has {}", self.id, show(ours), show(theirs))
            })
            .collect();
        if differences.is_empty() {
            return Ok(());
        }
        Err(Refusal::new(RefuseCode::Facts, differences.join("; ")))
    }
}

pub(crate) fn check_cluster(ours: &str, theirs: &str) -> Result<(), Refusal> {
    if ours == theirs {
        return Ok(());
    }
    let text = format!("cluster name: this side is in {ours:?}, the other side in {theirs:?}");
    Err(Refusal::new(RefuseCode::Cluster, text))
}

/// The bytes both proofs of one connection cover.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transcript<'a> {
    pub(crate) dialler: &'a [u8],
    pub(crate) acceptor: &'a [u8],
}

impl Transcript<'_> {
    /// Empty without a secret.
    pub(crate) fn dialler_proof(&self, secret: Option<&Secret>) -> Vec<u8> {
        self.proof(secret, DIALLER_LABEL)
    }

    pub(crate) fn acceptor_proof(&self, secret: Option<&Secret>) -> Vec<u8> {
        self.proof(secret, ACCEPTOR_LABEL)
    }

    pub(crate) fn check_dialler(&self, secret: Option<&Secret>, proof: &[u8]) -> Result<(), Refusal> {
        self.check(secret, DIALLER_LABEL, proof)
    }

    pub(crate) fn check_acceptor(&self, secret: Option<&Secret>, proof: &[u8]) -> Result<(), Refusal> {
        // A dialler without a secret still answers, with an empty proof: the acceptor then tells it what is missing,
        // and both sides log the same text.
        if secret.is_none() {
            return Ok(());
        }
        self.check(secret, ACCEPTOR_LABEL, proof)
    }

    fn proof(&self, secret: Option<&Secret>, label: &[u8]) -> Vec<u8> {
        secret.map_or_else(Vec::new, |secret| secret.proof(&[label, self.dialler, self.acceptor]))
    }

    fn check(&self, secret: Option<&Secret>, label: &[u8], proof: &[u8]) -> Result<(), Refusal> {
        let text = match (secret, proof.is_empty()) {
            (None, true) => return Ok(()),
            (Some(secret), false) if secret.verifies(&[label, self.dialler, self.acceptor], proof) => return Ok(()),
            (Some(_), false) => "wrong secret",
            (Some(_), true) if label == DIALLER_LABEL => "this cluster requires a secret; pass its secret file",
            (Some(_), true) => "the node that answered has no secret, but this side was given one",
            (None, false) => "this cluster uses no secret, but the other side was given one",
        };
        Err(Refusal::new(RefuseCode::Secret, text))
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
