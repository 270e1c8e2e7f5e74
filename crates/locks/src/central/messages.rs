//! What the clerk and the voters of a reign send each other, and the words they use.

use algorithms::{Kind, Message};
use serde::{Deserialize, Serialize};
use types::{Epoch, Incarnation, Token};

use super::table::Entry;
use crate::name::LockName;

/// The most notes in one message, and the most entries in one chunk: with the longest names, a tenth of the largest frame.
pub const BATCH_MAX: usize = 256;

/// One clerk: the epoch, and the start of the leader's process. A voter takes a table and notes only from the clerk that
/// it granted its last epoch to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Term {
    pub epoch: Epoch,
    pub life: Incarnation,
}

/// Names one state of one table: the state after so many notes of this epoch. Two copies with one label are equal, because
/// an epoch has one clerk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Label {
    pub epoch: Epoch,
    pub seq: u64,
}

/// One change of the table.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Note {
    Add(Entry),
    /// The holder with this token, and no other holder of this name.
    Remove {
        name: LockName,
        token: Token,
    },
}

/// Where an entry is in a table: entries are ordered by name, then token.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Place {
    pub name: LockName,
    pub token: Token,
}

/// A part of a table: the entries behind `after`, in order, as many as fit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Chunk {
    pub after: Option<Place>,
    pub entries: Vec<Entry>,
    /// No entries follow.
    pub last: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum CentralMsg {
    /// Of a voter that granted this epoch, behind its grant: the label of its copy; `None` if it has none since its
    /// process started. `life` is the voter's process start.
    Report { epoch: Epoch, life: Incarnation, copy: Option<Label> },
    /// Of the leader: "send me your copy with this label, behind this place". `life`: of the voter that reported it.
    Fetch { term: Term, life: Incarnation, label: Label, after: Option<Place> },
    /// Answers Fetch.
    Fetched { epoch: Epoch, label: Label, chunk: Chunk },
    /// Of the clerk: a part of its table as it is after note `seq`. A first part begins a new shadow table at the voter;
    /// the voter asks for each further part.
    Install { term: Term, seq: u64, chunk: Chunk },
    /// Of a voter: "send me the part of the table behind this place".
    Pull { epoch: Epoch, after: Place },
    /// Of the clerk: "your copy with this label is my table before its first note".
    Adopt { term: Term, label: Label },
    /// Of the clerk: changes of the table. The first has number `first`, the next ones follow without a gap.
    Notes { term: Term, first: u64, notes: Vec<Note> },
    /// Of a voter: its copy has every note of this epoch up to `seq`.
    Ack { epoch: Epoch, seq: u64 },
}

impl Message for CentralMsg {
    const KINDS: &'static [Kind] = &[
        Kind::election("report"),
        Kind::election("fetch"),
        Kind::election("fetched"),
        Kind::election("install"),
        Kind::election("pull"),
        Kind::election("adopt"),
        Kind::election("notes"),
        Kind::election("ack"),
    ];

    fn kind(&self) -> usize {
        match self {
            CentralMsg::Report { .. } => 0,
            CentralMsg::Fetch { .. } => 1,
            CentralMsg::Fetched { .. } => 2,
            CentralMsg::Install { .. } => 3,
            CentralMsg::Pull { .. } => 4,
            CentralMsg::Adopt { .. } => 5,
            CentralMsg::Notes { .. } => 6,
            CentralMsg::Ack { .. } => 7,
        }
    }
}
