//! The announcements of a member, in one shape from the event loop to every subscriber: watchers, ledger, log, hooks,
//! JSON.

use serde::{Deserialize, Serialize};
use types::{Cause, InstanceId, NodeId, Role, Stamp, Standing};

use crate::order::Ordered;

/// One event at one member.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Announcement {
    pub member: u32,
    /// The machine of the process at which it happened.
    pub instance: InstanceId,
    /// Counts from 1 in every process start, without gaps. The first answer to a new watcher, which reports the present
    /// standing, has the number of the last announcement before it.
    pub sequence: u64,
    /// Milliseconds since the Unix epoch, by the member's clock.
    pub wall_ms: u64,
    /// Nanoseconds since the machine started, sleep included, by a clock that NTP disciplines: CLOCK_BOOTTIME.
    pub boot_ns: u64,
    pub what: Happened,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Happened {
    /// The process started. Its earlier standing has ended.
    Started { incarnation: u64 },
    /// The member changed its standing; the first one of every stream is the present standing.
    Became(Transition),
    /// The member has found the leader of an election that it took part in.
    Elected(ElectionCost),
    /// This voter granted the epoch to the holder, under the member list with this stamp.
    Granted { epoch: u64, holder: u32, list: Stamp },
    /// This voter's promise to the holder ended: it expired or was released.
    PromiseEnded { epoch: u64, holder: u32 },
    /// The connection to a peer came up or went down.
    Link { peer: u32, up: bool },
    /// The injected faults that are in force now, as text.
    Faults(Vec<String>),
    /// The member leaves the cluster in order; the last announcement.
    Leaving,
    /// This member carried out a request of an operator.
    Ordered(Ordered),
    /// This member has a newer member list on its disk.
    Adopted { list: Stamp, voters: Vec<u32> },
    /// At the leader: a majority of the voters of this list has it on disk.
    InForce { list: Stamp, voters: Vec<u32> },
    /// An operator declared all other voters lost (`node --force-voters`): a new cluster begins with this list. Announced
    /// once, by the first process start after it.
    Forced { list: Stamp, voters: Vec<u32> },
}

impl Happened {
    /// The name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Happened::Started { .. } => "started",
            Happened::Became(_) => "became",
            Happened::Elected(_) => "elected",
            Happened::Granted { .. } => "granted",
            Happened::PromiseEnded { .. } => "promise-ended",
            Happened::Link { .. } => "link",
            Happened::Faults(_) => "faults",
            Happened::Leaving => "leaving",
            Happened::Ordered(_) => "ordered",
            Happened::Adopted { .. } => "adopted",
            Happened::InForce { .. } => "in-force",
            Happened::Forced { .. } => "forced",
        }
    }
}

/// A change of a member's standing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Transition {
    /// The role before; `None` if nothing was announced before in this process start.
    pub old: Option<Role>,
    pub now: Standing,
    pub cause: Cause,
    /// When the lease of a leader ends, on the clock of `boot_ns`; `None` for a leadership without a lease.
    pub lease_until_ns: Option<u64>,
}

impl Transition {
    pub fn leads(&self) -> bool {
        self.now.role == Role::Leader
    }

    pub fn leader(&self) -> Option<u32> {
        self.now.leader.map(|NodeId(leader)| leader)
    }
}

impl Announcement {
    /// The change of standing, if it is one.
    pub fn transition(&self) -> Option<&Transition> {
        match &self.what {
            Happened::Became(transition) => Some(transition),
            _ => None,
        }
    }
}

/// The cost of one election for one member so far.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ElectionCost {
    /// Names the election: equal at all members that took part in it.
    pub election: ElectionName,
    /// The participants, in the order of the member list.
    pub participants: Vec<u32>,
    /// Did this member start it itself, alone or together with other members?
    pub initiator: bool,
    /// The messages that this member has sent for it.
    pub sent: Vec<KindCount>,
}

/// Identifies an election of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum ElectionName {
    /// Its number, the member that opened it, and the counter of that member's process start.
    Round { attempt: u64, initiator: u32, incarnation: u64 },
    /// For an algorithm that numbers its own attempts: the epoch of the leader it found, 0 while there is none.
    Epoch(u64),
}

impl Default for ElectionName {
    fn default() -> Self {
        ElectionName::Epoch(0)
    }
}

/// The number of messages of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KindCount {
    pub kind: String,
    /// Announces a result that is already decided: theory counts it separately.
    pub announcement: bool,
    pub count: u64,
}
