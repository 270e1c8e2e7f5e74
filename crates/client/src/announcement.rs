//! What happens at a member, in one shape from the event loop to every subscriber: watchers, ledger, log, hooks, JSON.

use serde::{Deserialize, Serialize};
use types::{Cause, InstanceId, NodeId, Role, Standing};

/// One thing that happened at one member.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Announcement {
    pub member: u32,
    /// Which machine of the process it happened to.
    pub instance: InstanceId,
    /// Counts from 1 in every process start, without holes. An answer to a new watcher, which tells how things are, has
    /// the number of the last announcement before it.
    pub sequence: u64,
    /// Milliseconds since the Unix epoch, by the member's clock.
    pub wall_ms: u64,
    /// Nanoseconds since the machine started, sleep included.
    pub boot_ns: u64,
    pub what: Happened,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Happened {
    /// The process started. Whatever the member was before, it was no more.
    Started { incarnation: u64 },
    /// The member changed its standing; or, first on every stream, how it stands now.
    Became(Transition),
    /// The member has found the leader of an election that it took part in.
    Elected(ElectionCost),
    /// This voter granted the epoch to the holder.
    Granted { epoch: u64, holder: u32 },
    /// This voter's promise to the holder ended: it expired or was released.
    PromiseEnded { epoch: u64, holder: u32 },
    /// The connection to a peer came up or went down.
    Link { peer: u32, up: bool },
    /// The faults that were injected on purpose and are in force now, in words.
    Faults(Vec<String>),
    /// The member leaves the cluster in order, as the last thing it does.
    Leaving,
}

impl Happened {
    /// The word for it in JSON.
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
        }
    }
}

/// A change of a member's standing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Transition {
    /// The role before; `None`: nothing was announced before in this process start.
    pub old: Option<Role>,
    pub now: Standing,
    pub cause: Cause,
    /// When the lease of a leader ends, on the clock of `boot_ns`, where leadership has one.
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

/// What one election has cost one member so far.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ElectionCost {
    /// Names the election: equal at all members that took part in it.
    pub election: ElectionName,
    /// Who takes part, in the order of the member list.
    pub participants: Vec<u32>,
    /// Did this member start it by its own will, alone or with others?
    pub initiator: bool,
    /// The messages that this member has sent for it.
    pub sent: Vec<KindCount>,
}

/// Which election of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum ElectionName {
    /// Its number, the member that opened it, and the counter of that member's process start.
    Round { attempt: u64, initiator: u32, incarnation: u64 },
    /// Of an algorithm that numbers its own attempts: the epoch of the leader it found, 0 while there is none.
    Epoch(u64),
}

impl Default for ElectionName {
    fn default() -> Self {
        ElectionName::Epoch(0)
    }
}

/// How many messages of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KindCount {
    pub kind: String,
    /// Tells a result that is already decided: theory counts it apart.
    pub announcement: bool,
    pub count: u64,
}
