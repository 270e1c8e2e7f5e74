//! The vocabulary of a member: what travels, what is stored, what is announced.

use algorithms::{Epoch, Incarnation, Kind, Message, NodeId, Uid};
use serde::{Deserialize, Serialize};

use crate::reign::{self, Holder, Slot, Vote};

/// A set of configured members, by their position in the member list. A cluster has at most 256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct NodeSet([u64; 4]);

impl NodeSet {
    pub const MAX: usize = 256;

    pub fn insert(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    pub fn remove(&mut self, at: usize) {
        self.0[at / 64] &= !(1 << (at % 64));
    }

    pub fn contains(&self, at: usize) -> bool {
        at < Self::MAX && self.0[at / 64] & (1 << (at % 64)) != 0
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..Self::MAX).filter(|&at| self.contains(at))
    }
}

impl FromIterator<usize> for NodeSet {
    fn from_iter<I: IntoIterator<Item = usize>>(positions: I) -> Self {
        let mut set = NodeSet::default();
        positions.into_iter().for_each(|at| set.insert(at));
        set
    }
}

/// Numbers an election attempt. Ordered: a newer round replaces an older one at every member it reaches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Round {
    pub attempt: Epoch,
    pub initiator: NodeId,
    /// Which life of the initiator: a restarted one never repeats a round.
    pub life: u64,
}

/// "This uid leads in this epoch." Where two meet, the later epoch is believed; no two members claim the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Claim {
    pub epoch: Epoch,
    pub uid: Uid,
}

/// A heartbeat. It tells whom its sender follows, so that nobody stays ignorant for long.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Beat {
    /// The sender follows no claim below this attempt; under quorum, the largest attempt it has seen.
    pub floor: Epoch,
    pub leader: Option<Claim>,
    /// Under quorum: has the sender heard that from the leader itself? Hearsay is not passed on.
    pub firsthand: bool,
    /// May the sender be elected? False after it stepped down, and for a voter that has not settled yet.
    pub stands: bool,
    /// Wants a beat back.
    pub ask: bool,
    /// Which life of the sender: tells a wrong suspicion from a restart.
    pub life: u64,
}

/// What members send each other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Envelope<L, M> {
    Beat(Beat),
    /// An algorithm's message, in the round it belongs to. `link` is the receiver's name of the link.
    Round {
        round: Round,
        view: NodeSet,
        link: L,
        hops: u16,
        message: M,
    },
    /// "Your round is over: this one replaces it."
    Join {
        round: Round,
        view: NodeSet,
    },
    /// A message of an algorithm that numbers its own attempts.
    Plain {
        link: L,
        hops: u16,
        message: M,
    },
    /// Between candidates, leader and voters of a quorum reign.
    Reign(reign::Msg),
}

impl<L: algorithms::Link, M: Message> Message for Envelope<L, M> {
    const KINDS: &'static [Kind] =
        &[Kind::election("beat"), Kind::election("join"), Kind::election("algorithm"), Kind::election("reign")];

    fn kind(&self) -> usize {
        match self {
            Envelope::Beat(_) => 0,
            Envelope::Join { .. } => 1,
            Envelope::Round { .. } | Envelope::Plain { .. } => 2,
            Envelope::Reign(_) => 3,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer<T> {
    /// Send heartbeats.
    Beat,
    /// This peer has been silent for too long.
    Silence(NodeId),
    /// The round in progress takes too long.
    Watchdog,
    /// The first election waits for all members until now.
    Grace,
    /// A better member has waited long enough to take over.
    Preempt,
    /// A member that stepped down may stand again.
    Abstain,
    /// A leader that wants to step down has waited long enough for its successor.
    Handover,
    /// Winners that never came to reign may stand again.
    Forgive,
    Reign(reign::Clock),
    Inner(T),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Command {
    /// The operator wants an election now.
    Elect,
    /// Resign; not to stand until another leads, then for a while.
    StepDown,
    /// Hand over to this member.
    Transfer(NodeId),
    /// The far side closed the connection of this life of this member.
    Closed(NodeId, Incarnation),
    /// Does a child or hook act on this member's leadership?
    Attached(bool),
}

/// Everything a member keeps on disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    pub incarnation: Incarnation,
    /// Every epoch below this one may have been used; a restart begins here.
    pub ceiling: Epoch,
    /// The largest epoch of a quorum reign that was followed.
    pub followed: Epoch,
    /// What was granted in a quorum reign; `None` if that is not known.
    pub vote: Option<Vote>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Leader,
    Follower,
    /// Knows no leader.
    Candidate,
    Witness,
    Learner,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Role::Leader => "leader",
            Role::Follower => "follower",
            Role::Candidate => "candidate",
            Role::Witness => "witness",
            Role::Learner => "learner",
        }
    }
}

/// Where a member stands after a transition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Standing {
    pub role: Role,
    pub leader: Option<NodeId>,
    /// The leader's epoch; without a leader the smallest epoch the next one may have.
    pub epoch: Epoch,
}

/// Why a member changed its standing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    Started,
    /// Won an election.
    Elected,
    /// Another member won the election this one took part in.
    OtherElected,
    /// Heard of the leader from a heartbeat.
    Heard,
    /// The leader's connection closed or it fell silent.
    LeaderLost,
    /// The leader resigned.
    LeaderResigned,
    /// Resigned itself.
    SteppedDown,
    /// A restarted member was ahead: the leader moved its epoch past it.
    Bumped,
    /// The algorithm halted to reorganise.
    Halted,
    /// The lease ended without a majority for the next one.
    LeaseEnded,
    /// Handed over to another member.
    HandedOver,
}

impl Cause {
    pub fn name(self) -> &'static str {
        match self {
            Cause::Started => "started",
            Cause::Elected => "elected",
            Cause::OtherElected => "other-elected",
            Cause::Heard => "heard",
            Cause::LeaderLost => "leader-lost",
            Cause::LeaderResigned => "leader-resigned",
            Cause::SteppedDown => "stepped-down",
            Cause::Bumped => "bumped",
            Cause::Halted => "halted",
            Cause::LeaseEnded => "lease-ended",
            Cause::HandedOver => "handed-over",
        }
    }
}

/// What a member announces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Event {
    Became {
        now: Standing,
        cause: Cause,
    },
    /// Drop the connection to this peer and dial it anew.
    Suspects(NodeId),
    /// Somebody is to take over: whatever acts on this member's leadership must stop first, and its end be told.
    StopChildren,
    /// This member may claim to lead until this lease timer is due, and not a moment longer. `bare`: a majority thinks
    /// that nobody but its own process acts on that.
    Lease {
        until: Slot,
        bare: bool,
    },
    /// Promised this epoch to that member.
    Granted {
        epoch: Epoch,
        holder: Holder,
    },
    /// That promise is over.
    PromiseEnded {
        epoch: Epoch,
        holder: Holder,
    },
}
