//! What a client's session and the clerk say to each other. One session uses one stream of one connection at a time; the
//! session outlives connections and clerks.
//!
//! Compatibility: variants are numbered by position on the wire, so new ones go to the end.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use types::{Epoch, NodeId, Token};

use crate::name::LockName;

/// 128 random bits of the client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct SessionId(pub u128);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Names one request of a session. Rises; a finished one is never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// Numbers the messages of a session that extend it ([`ToClerk::Open`], [`ToClerk::Acquire`], [`ToClerk::KeepAlive`]).
/// The client keeps the time at which it sent each; an answer names the number, and the client's right to act counts
/// from that time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct SendNumber(pub u64);

/// How often the session has opened: a message of an older connection counts no more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct AttachNumber(pub u64);

/// The place of a waiting request in the line for its lock: smaller tickets are served first. The clerk at which it first queued
/// gives it, and it keeps it at later clerks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Ticket {
    /// Of that clerk.
    pub epoch: Epoch,
    pub number: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Mode {
    Exclusive,
    /// Readers share; a waiting writer stops later readers.
    Shared,
    /// A semaphore with this many slots; all requests of one lock name the same number.
    Slots(u32),
}

/// A lock that a session holds, as the client knows it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Held {
    pub request: RequestId,
    pub name: LockName,
    pub token: Token,
    pub mode: Mode,
}

/// A lock that a session waits for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Wanted {
    pub request: RequestId,
    pub name: LockName,
    pub mode: Mode,
    /// How long it still waits; `None`: for ever.
    pub wait: Option<Duration>,
    /// `None`: it has heard of none. Waiters queue again in the order of their tickets when a new clerk takes office.
    pub ticket: Option<Ticket>,
    /// How long ago it was first asked for: the order of those without a ticket, as well as clocks and messages on their way tell.
    pub waited: Duration,
}

/// Of a client, inside a stream that it opened for its session.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum ToClerk {
    /// Opens the session, or attaches it to this clerk over this connection.
    Open {
        session: SessionId,
        number: SendNumber,
        /// The clerk's epoch, from [`ToClient::Clerk`].
        epoch: Epoch,
        attach: AttachNumber,
        /// Fixed by the first Open of a session.
        ttl: Duration,
        /// No child process depends on the locks of this session: they end with its connection where the config says
        /// `on_close = "immediate"`.
        bare: bool,
        holds: Vec<Held>,
        wants: Vec<Wanted>,
    },
    KeepAlive {
        number: SendNumber,
    },
    /// `wait`: zero is a try, `None` waits for ever.
    Acquire {
        number: SendNumber,
        request: RequestId,
        name: LockName,
        mode: Mode,
        wait: Option<Duration>,
    },
    /// Gives up a request that was not granted; if it was granted meanwhile, releases it. Answered by
    /// [`Refusal::Withdrawn`] in either case.
    Withdraw {
        request: RequestId,
    },
    /// `durable`: answered when a majority has noted it.
    Release {
        request: RequestId,
        token: Token,
        durable: bool,
    },
    /// Ends the session: all its locks are released, all its requests withdrawn. Answered by [`ToClient::SessionLost`].
    Close,
}

/// Of a member, to the stream of one session.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum ToClient {
    /// This member serves as the clerk of this epoch: the client opens its session. Sent when the stream begins, and when an
    /// office begins, also if the same member was the clerk before.
    Clerk {
        epoch: Epoch,
    },
    /// This member serves no locks now.
    Unavailable {
        why: Unavailable,
        retry_after: Duration,
    },
    /// Answers an Open.
    Opened {
        number: SendNumber,
        epoch: Epoch,
        attach: AttachNumber,
        ttl: Duration,
        /// The bound of clock drift, in millionths.
        max_drift_ppm: u32,
        /// Subtracted from every right to act.
        margin: Duration,
        /// Locks that the client named as held and does not hold.
        lost: Vec<RequestId>,
    },
    /// Answers a KeepAlive.
    Kept {
        number: SendNumber,
    },
    /// The request waits behind others. Answers an Acquire that is not granted at once.
    Queued {
        number: SendNumber,
        request: RequestId,
        /// How many are before it.
        ahead: u32,
        ticket: Ticket,
    },
    /// `number`: of the Acquire or Open that asked for it, if that was answered by nothing else yet.
    Granted {
        number: Option<SendNumber>,
        request: RequestId,
        token: Token,
    },
    Released {
        request: RequestId,
    },
    /// The request ends without a lock.
    Refused {
        request: RequestId,
        why: Refusal,
    },
    /// A lock that was held is held no more: an operator released it.
    Lost {
        request: RequestId,
    },
    /// The clerk does not know the session, or it has expired: everything that it held is lost.
    SessionLost,
    /// The session could not be opened.
    NotOpened {
        why: OpenRefusal,
    },
}

/// Why a member serves no locks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Unavailable {
    /// Another member leads, or no member does as far as this member knows.
    NotTheClerk { leader: Option<NodeId> },
    /// This member leads and learns what is held; nothing is granted before.
    TakingOffice,
    /// Too few voters have kept a copy of the table: every lock that may be held must expire first.
    WaitingForTtl { left: Duration },
    /// The config has `safety = "classic"`, where locks of a clerk are not safe.
    ClassicSafety,
    /// `[locks]` of the config names another algorithm, which waits for these members.
    WaitsFor(Vec<NodeId>),
}

/// Why a request ended without a lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Refusal {
    /// A try met a holder.
    Busy,
    TimedOut,
    /// The lock is held or waited for with another kind of request, or another number of slots.
    OtherMode(Mode),
    /// The session holds this lock or waits for it already.
    Again,
    /// No slots.
    NoSlots,
    /// Too many names are held or waited for.
    TooManyNames,
    /// Too many requests wait for this lock.
    TooManyWaiters,
    /// Too many requests of this session.
    TooManyRequests,
    /// The session does not hold this lock with this token.
    NotHeld,
    /// The algorithm of `[locks]` knows exclusive locks only.
    ModeUnsupported,
    /// Withdrawn by the client.
    Withdrawn,
    /// Too many requests of all sessions together.
    TableFull,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum OpenRefusal {
    /// A ttl of 0, or below what can be kept alive.
    TtlTooShort {
        min: Duration,
    },
    TtlTooLong {
        max: Duration,
    },
    TooManySessions,
}
