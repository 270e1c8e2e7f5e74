//! The handshake as values and rules, without sockets.
//!
//! 1. dialler: its header in clear, and the first message of Noise (see the modules [`hello`](crate::hello) and
//!    [`key_handshake`](crate::key_handshake));
//! 2. acceptor: its header in clear, and the second message. The acceptor is proven;
//!    with certificates these two are flights of TLS, and a third flight of the dialler and a frame with both headers
//!    follow (see the module [`tls`](crate::tls));
//! 3. dialler: its [`DiallerHello`], as the first frame of the session. The dialler is proven;
//! 4. acceptor: its hello, or a refusal ([`Answer`]);
//! 5. a dialling member: that it keeps its dial, or a refusal ([`Reply`]); a client says nothing;
//! 6. acceptor: welcome, or a refusal ([`Verdict`]).
//!
//! The header of the dialler is the prologue of Noise, and the header of the acceptor is the payload of the second
//! message: if a byte of either was changed, there is no session. A refusal travels only inside a session, so only a
//! process that has proved the key refuses with effect. The exceptions are hints in clear, printed and never acted on:
//! an acceptor without a common version answers with its [`Versions`](crate::hello::Versions), an acceptor with another
//! key answers with its header, and version 1, which knows neither, gets a refusal in its own encoding.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;
use types::Access;
pub use types::Incarnation;

use crate::certificate::Holder;
use crate::hello::{AcceptorHello, DiallerHello};
use crate::keyring::Keyring;
use crate::list_fact::{self, KnownList};
use crate::secret::{BY_CERTIFICATE, KeyId, NO_KEY};

/// The id of a member.
pub type PeerId = u32;
/// Named values that must be equal between peers.
pub type Facts = Vec<(String, String)>;

/// A refusal quotes values of both sides, and must still fit into a handshake frame.
const REFUSAL_TEXT_MAX_BYTES: usize = 2 << 10;
/// The fact that is compared only where both sides have it.
const CLUSTER_ID: &str = "cluster-id";
/// The fact that is compared only between members whose lists have one stamp; see [`list_fact`].
const MEMBERS: &str = "members";
/// In place of the id of the dialled process: the dialler asks for that id, and makes no connection.
pub(crate) const ANYBODY: PeerId = 0;

/// Why a handshake was refused. The encoding of `Version` is that of version 1 and must never change.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum RefuseCode {
    /// Another cluster name.
    Cluster,
    /// Another protocol version. Sent only to version 1.
    Version,
    /// A fact differs: algorithm, topology, member list, ...
    Facts,
    /// A missing or wrong secret, or a secret where none is used. Never sent: the key ids in clear tell.
    Secret,
    /// A second process with the same id.
    Duplicate,
    /// The dialled node has another id than the dialler expected.
    WrongNode,
    /// The id is not in the peer list.
    Unknown,
    /// Too many clients.
    Busy,
    /// The pair has a connection already, or is about to: the normal result when two members dial each other at once.
    AlreadyConnected,
    /// A later incarnation of that peer was connected before, or another one with the same counter: its volume was
    /// rolled back or copied. `seen` is the counter of that incarnation.
    Stale { seen: u64 },
    /// The hello could not be read.
    Malformed,
    /// The count of starts is one that no member has: above the ceiling, or far above the last one seen.
    Run,
    /// A certificate that is not accepted, or not that of the one who shows it.
    Certificate,
}

/// A refusal, as it is sent and logged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Error)]
#[error("{text}")]
pub(crate) struct Refusal {
    pub(crate) code: RefuseCode,
    #[serde(deserialize_with = "text_from_wire")]
    pub(crate) text: String,
}

impl Refusal {
    pub(crate) fn new(code: RefuseCode, text: impl Into<String>) -> Self {
        let mut text = text.into();
        truncate(&mut text);
        Self { code, text }
    }
}

fn truncate(text: &mut String) {
    let whole = |end: &usize| text.is_char_boundary(*end);
    let end = (0..=text.len().min(REFUSAL_TEXT_MAX_BYTES)).rev().find(whole);
    text.truncate(end.unwrap_or(0));
}

/// The text is logged and shown on terminals, and any process that listens on the port may send it: its length is
/// bounded, and control characters, which could rewrite a terminal, are replaced.
fn text_from_wire<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let mut text: String = text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect();
    truncate(&mut text);
    Ok(text)
}

/// One side's own values.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) cluster: String,
    pub(crate) id: PeerId,
    pub(crate) incarnation: Incarnation,
    pub(crate) facts: Facts,
    pub(crate) cluster_id: KnownId,
    pub(crate) list: KnownList,
    pub(crate) keyring: Keyring,
}

/// The id of the cluster, once this process knows it. It may become known while the process runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownId(Arc<OnceLock<String>>);

impl KnownId {
    pub(crate) fn set(&self, id: String) {
        let _ = self.0.set(id);
    }
}

/// The acceptor's answer to a hello.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Refused(Refusal),
    Hello(AcceptorHello),
}

/// A dialling member's answer to the acceptor's hello.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Refused(Refusal),
    /// The dialler keeps its dial; see [`mod@crate::admit`].
    Commit,
}

/// The acceptor's final answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Verdict {
    Refused(Refusal),
    /// `floor` is the acceptor's number of dials of the dialler so far; see [`mod@crate::admit`].
    Welcome {
        floor: u64,
    },
}

impl Identity {
    /// The acceptor's checks before it answers a hello.
    pub(crate) fn check_hello(&self, hello: &DiallerHello, known: impl Fn(PeerId) -> bool) -> Result<(), Refusal> {
        check_cluster(&self.cluster, &hello.cluster)?;
        let Some(peer) = &hello.peer else { return Ok(()) };
        let own_dial = peer.id == self.id && peer.incarnation == self.incarnation;
        if peer.id == self.id && !own_dial {
            let text = format!(
                "n{} is this node, incarnation {}; a second process with that id runs as incarnation {}",
                self.id, self.incarnation, peer.incarnation
            );
            return Err(Refusal::new(RefuseCode::Duplicate, text));
        }
        if peer.id == ANYBODY {
            return Err(Refusal::new(RefuseCode::Malformed, "no member has the id 0"));
        }
        if peer.to == ANYBODY && own_dial {
            return Ok(());
        }
        if peer.to != self.id && peer.to != ANYBODY {
            let text = format!("n{} dialled n{}, but this address belongs to n{}", peer.id, peer.to, self.id);
            return Err(Refusal::new(RefuseCode::WrongNode, text));
        }
        if own_dial || !known(peer.id) {
            let text = format!("n{} is not in the peer list of n{}", peer.id, self.id);
            return Err(Refusal::new(RefuseCode::Unknown, text));
        }
        self.check_facts(peer.id, &peer.facts)
    }

    /// The dialling peer's checks of the acceptor's hello.
    pub(crate) fn check_acceptor(&self, acceptor: &AcceptorHello, expected: PeerId) -> Result<(), Refusal> {
        check_cluster(&self.cluster, &acceptor.cluster)?;
        if expected != ANYBODY && acceptor.id != expected {
            let text = format!("n{} dialled n{expected}, but n{} answered", self.id, acceptor.id);
            return Err(Refusal::new(RefuseCode::WrongNode, text));
        }
        self.check_facts(acceptor.id, &acceptor.facts)
    }

    /// What this side tells a peer: the facts, and the id of the cluster and the member list if they are known.
    pub(crate) fn told_facts(&self) -> Facts {
        let mut facts = self.facts.clone();
        facts.extend(self.cluster_id.0.get().map(|id| (CLUSTER_ID.to_owned(), id.clone())));
        facts.extend(self.list.value().map(|list| (MEMBERS.to_owned(), list)));
        facts
    }

    fn check_facts(&self, peer: PeerId, theirs: &Facts) -> Result<(), Refusal> {
        let ours = self.told_facts();
        let (our_values, their_values) = (by_name(&ours), by_name(theirs));
        let show = |value: Option<&&str>| value.map_or("nothing".to_owned(), |value| format!("{value:?}"));
        let extra = theirs.iter().filter(|(name, _)| !our_values.contains_key(name.as_str()));
        let differences: Vec<String> = ours
            .iter()
            .chain(extra)
            .map(|(name, _)| (name, our_values.get(name.as_str()), their_values.get(name.as_str())))
            .filter(|(name, ours, theirs)| ours != theirs && is_compared(name, *ours, *theirs))
            .flat_map(|(name, ours, theirs)| {
                let entries = match (ours, theirs) {
                    (Some(ours), Some(theirs)) if name == MEMBERS => list_fact::differences(ours, theirs),
                    _ => Vec::new(),
                };
                if entries.is_empty() { vec![(String::new(), show(ours), show(theirs))] } else { entries }
                    .into_iter()
                    .map(|(entry, ours, theirs)| {
                        let name = [name.escape_debug().to_string(), entry].join(" ");
                        format!("{}: n{} has {ours}, n{peer} has {theirs}", name.trim_end(), self.id)
                    })
                    .collect::<Vec<_>>()
            })
            .collect();
        if differences.is_empty() {
            return Ok(());
        }
        Err(Refusal::new(RefuseCode::Facts, differences.join("; ")))
    }
}

/// A member that does not know the id yet may be of any cluster. A member list that was changed is told to the members
/// that have an older one; two lists with one stamp cannot both be right.
fn is_compared(name: &str, ours: Option<&&str>, theirs: Option<&&str>) -> bool {
    let (Some(ours), Some(theirs)) = (ours, theirs) else { return name != CLUSTER_ID && name != MEMBERS };
    name != MEMBERS || list_fact::same_stamp(ours, theirs)
}

fn by_name(facts: &Facts) -> BTreeMap<&str, &str> {
    facts.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// What to tell a dialler whose key id the acceptor does not have. Equal key ids prove nothing: they are sent in clear.
pub(crate) fn check_key_id(diallers: KeyId, acceptors: KeyId) -> Result<(), Refusal> {
    let text = match (diallers, acceptors) {
        _ if diallers == acceptors => return Ok(()),
        (_, BY_CERTIFICATE) => "this cluster uses certificates; pass its config with [tls], or a certificate",
        (BY_CERTIFICATE, _) => "this cluster uses no certificates, but the dialler was given one: its config has [tls]",
        (_, NO_KEY) => "this cluster uses no secret, but the dialler was given one",
        (NO_KEY, _) => "this cluster requires a secret; pass its secret file",
        _ => "wrong secret",
    };
    Err(Refusal::new(RefuseCode::Secret, text))
}

/// Does the certificate of the dialler allow what its header and its hello claim?
pub(crate) fn check_dialler(holder: Option<Holder>, claimed: Access, id: Option<PeerId>) -> Result<(), Refusal> {
    let Some(holder) = holder else { return Ok(()) };
    let text = match (holder, id) {
        (Holder::Member(own), Some(id)) if own != id => format!("n{id} is claimed with the certificate of n{own}"),
        _ if holder.access() < claimed => format!("a connection as {claimed} with the certificate of {holder}"),
        _ => return Ok(()),
    };
    Err(Refusal::new(RefuseCode::Certificate, text))
}

/// Is the certificate of the acceptor that of the member that it says it is?
pub(crate) fn check_acceptors_holder(holder: Option<Holder>, id: PeerId) -> Result<(), Refusal> {
    match holder {
        Some(holder) if holder != Holder::Member(id) => {
            let text = format!("n{id} answers with the certificate of {holder}");
            Err(Refusal::new(RefuseCode::Certificate, text))
        }
        _ => Ok(()),
    }
}

pub(crate) fn check_cluster(ours: &str, theirs: &str) -> Result<(), Refusal> {
    if ours == theirs {
        return Ok(());
    }
    let text = format!("cluster name: this side is in {ours:?}, the other side in {theirs:?}");
    Err(Refusal::new(RefuseCode::Cluster, text))
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
