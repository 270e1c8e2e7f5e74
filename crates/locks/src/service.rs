//! What the daemon tells the lock service of its member, and what the service asks of the daemon. Every lock algorithm
//! behind `[locks]` has this interface: the clerk of a reign, and the algorithms that run in views.

use std::time::Duration;

use types::{Epoch, Incarnation, NodeId, Token};

use crate::name::LockName;
use crate::wire::{Mode, SessionId, ToClerk, ToClient};

/// One stream of one client's connection; the daemon numbers them, and never uses a number twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId(pub u64);

/// What the operator chose.
#[derive(Clone, PartialEq, Debug)]
pub struct LockSettings {
    /// The largest time to live that a session may ask for. The largest that was ever configured counts for
    /// [`ServiceCommand::OfficeBegan`].
    pub max_ttl: Duration,
    pub min_ttl: Duration,
    pub max_drift_ppm: u32,
    pub margin: Duration,
    /// How long a Remove may wait for the next Add.
    pub heartbeat: Duration,
    /// Zero: every voter gets every note when the turn ends. Else only as many voters do as a majority needs, those that
    /// acknowledged last, and the others so long after at the latest: under load they get the notes of many turns at once. A
    /// grant is later by no more than this where one of the first voters does not answer.
    pub spread: Duration,
    /// How long waiters of an earlier clerk may take to queue again in their old order.
    pub requeue_window: Duration,
    /// While they still come, the window is longer by a quarter, so many times at most. The first quarter is its own last one.
    pub requeue_longer: u32,
    /// Does the end of a bare session's connection end its locks (`on_close = "immediate"`)?
    pub close_ends_bare: bool,
    /// Is a lock that was released kept ready for the same session?
    pub reserves: bool,
    pub limits: Limits,
    /// This process start. Not chosen by the operator: the daemon sets it.
    pub incarnation: Incarnation,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Names held or waited for.
    pub names: usize,
    pub sessions: usize,
    /// Waiters of one lock.
    pub waiters: usize,
    /// Locks held or waited for by one session: it names them all in one frame when it reattaches.
    pub requests_per_session: usize,
    /// Requests that hold a lock or wait for one, of all sessions.
    pub requests: usize,
    /// Notes that the clerk keeps for voters that missed some; a voter that missed more gets the whole table.
    pub notes_kept: usize,
    /// Tokens of one epoch.
    pub tokens: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            names: 100_000,
            sessions: 10_000,
            waiters: 1_000,
            requests_per_session: 3_000,
            requests: 200_000,
            notes_kept: 4_096,
            tokens: Token::COUNT_MAX,
        }
    }
}

impl Default for LockSettings {
    fn default() -> Self {
        LockSettings {
            max_ttl: Duration::from_mins(1),
            min_ttl: Duration::from_millis(100),
            max_drift_ppm: 10_000,
            margin: Duration::from_millis(5),
            heartbeat: Duration::from_millis(50),
            spread: Duration::ZERO,
            requeue_window: Duration::from_millis(100),
            requeue_longer: 0,
            close_ends_bare: false,
            reserves: true,
            limits: Limits::default(),
            incarnation: Incarnation::default(),
        }
    }
}

/// The process that a voter has granted an epoch to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Grantee {
    pub id: NodeId,
    pub incarnation: Incarnation,
}

/// What the daemon tells the service. Facts of the reign come in the order of the reign's effects: a grant behind the
/// answer that gave it.
///
/// The daemon owes one thing more. A clerk whose lease has ended by the clock must not end a session any more, neither
/// because its timer is due nor because its connection closed: the next clerk may have answered that session. So once the
/// lease has ended, [`ServiceCommand::OfficeEnded`] comes before every other command and before every timer of the service,
/// also after a pause of the process, when all of them are due at once.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ServiceCommand {
    /// This member leads in this epoch now. `first`: no voter has ever granted an epoch before this reign, so nothing can
    /// be held. `wait`: the largest `max_ttl` that was ever configured.
    OfficeBegan { epoch: Epoch, first: bool, wait: Duration },
    /// This member leads no more.
    OfficeEnded,
    /// This voter granted the epoch to this process.
    Granted { epoch: Epoch, to: Grantee },
    /// The voters of the list in force, whose majority gives a lease: told before an office begins, and whenever another
    /// list comes into force at this leader. This member may be one of them.
    Voters(Vec<NodeId>),
    /// The member that leads as far as this member knows: streams are told where to go.
    Leader(Option<NodeId>),
    /// Does the build of this member, whose connection is new, know heirs of locks? It does if nothing is said of it. Told before
    /// the connection is.
    KnowsHeirs { peer: NodeId, knows: bool },
    /// A client opened a stream.
    StreamOpened(StreamId),
    /// `leased`: does this member's lease still run, read from the clock after the message was read?
    Message { from: StreamId, message: ToClerk, leased: bool },
    /// The stream or its connection is gone.
    StreamClosed(StreamId),
    /// An operator takes a lock from its holder.
    Unlock { name: LockName, token: Token },
    /// The clock was read just now, and this member's lease still runs. Locks in views acknowledge the beats that they read
    /// before. Sent in every turn of the loop in which the service owes something, in front of [`ServiceCommand::TurnEnds`],
    /// while the lease runs.
    LeaseHolds,
    /// The daemon has handled everything that was there to be read. What the service collected since the last turn goes to
    /// the voters and to the clerk now, one message each. Sent in every turn of the loop in which the service owes
    /// something.
    TurnEnds,
}

/// What the service asks of the daemon, in order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ServiceEvent {
    Tell {
        to: StreamId,
        message: ToClient,
    },
    /// Answers [`ServiceCommand::Unlock`].
    Unlocked {
        name: LockName,
        token: Token,
        done: bool,
    },
    /// The tokens of this epoch are used up: the leader opens its next epoch.
    NextEpoch,
    /// At the clerk: may the voters be changed? Announced when that changes; false at the start. True once a majority of
    /// the present voters has a copy of the table as it was at some moment since they came into force; false from the next
    /// change of the voters on, and when the office begins or ends.
    VotersMayChange(bool),
}

/// One lock, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockView {
    pub name: LockName,
    pub mode: Mode,
    pub holders: Vec<HolderView>,
    /// In the order in which they will be served.
    pub waiters: Vec<SessionId>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HolderView {
    pub session: SessionId,
    pub token: Token,
    pub ttl: Duration,
}
