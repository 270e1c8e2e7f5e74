//! Why there is no lock, or no lock any more.

use std::fmt;
use std::time::Duration;

use locks::NameError;
use locks::wire::{Mode, OpenRefusal, Refusal, Unavailable};
use thiserror::Error;
use types::format_duration;

use crate::connection::ClientError;

/// Why a lock was not granted.
#[derive(Clone, Debug, Error)]
pub enum LockError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("another session holds the lock")]
    Busy,
    #[error("the lock was not granted in time")]
    TimedOut,
    #[error("{}", refusal(.0))]
    Refused(Refusal),
    #[error("{}", open_refusal(.0))]
    NotOpened(OpenRefusal),
    #[error("{}", unavailable(.0))]
    Unavailable(Unavailable),
    #[error("the session is over: {0}")]
    SessionLost(LostReason),
    #[error("two of the locks have the name {0:?}: a session has a lock once")]
    Twice(String),
    #[error(transparent)]
    Client(ClientError),
}

/// Why a lock is held no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostReason {
    /// No member confirmed the session in time: the right to act has ended.
    Lapsed,
    /// The clerk has given the session up: it heard nothing of it for its time to live.
    Expired,
    /// An operator released it, or the clerk did not know of it.
    Taken,
    /// The session was closed by this program.
    Closed,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LostReason::Lapsed => "no member confirmed it in time",
            LostReason::Expired => "the members heard nothing of it for its time to live",
            LostReason::Taken => "an operator took it (`ctl unlock`), or the members did not know of it",
            LostReason::Closed => "this program closed the session",
        })
    }
}

/// A refusal in words, with what to do.
pub fn refusal(why: &Refusal) -> String {
    match why {
        Refusal::Busy => "another session holds the lock".into(),
        Refusal::TimedOut => "the lock was not granted in time".into(),
        Refusal::OtherMode(mode) => {
            format!("the lock is held or waited for as {}: all requests for one lock must be of one kind", kind(*mode))
        }
        Refusal::Again => "this session holds the lock or waits for it already: locks are not re-entrant".into(),
        Refusal::NoSlots => "a semaphore has at least one slot".into(),
        Refusal::TooManyNames => "the members hold as many locks as they may: max_names in [locks]".into(),
        Refusal::TooManyWaiters => "as many requests as may wait for this lock: max_waiters in [locks]".into(),
        Refusal::TooManyRequests => "this session holds or waits for as many locks as one session may".into(),
        Refusal::NotHeld => "this session does not hold the lock with this token".into(),
        Refusal::ModeUnsupported => "the lock algorithm of this cluster has exclusive locks only".into(),
        Refusal::Withdrawn => "the request was withdrawn".into(),
        Refusal::TableFull => "the members hold as many requests as they may".into(),
    }
}

fn kind(mode: Mode) -> String {
    match mode {
        Mode::Exclusive => "an exclusive lock".into(),
        Mode::Shared => "a lock of readers and writers".into(),
        Mode::Slots(slots) => format!("a semaphore with {slots} slots"),
    }
}

fn open_refusal(why: &OpenRefusal) -> String {
    match why {
        OpenRefusal::TtlTooShort { min } => {
            format!("the time to live of a session is at least {}", format_duration(*min))
        }
        OpenRefusal::TtlTooLong { max } => {
            format!("the time to live of a session is at most {} (max_ttl in [locks])", format_duration(*max))
        }
        OpenRefusal::TooManySessions => "there are as many sessions as there may be: max_sessions in [locks]".into(),
    }
}

fn unavailable(why: &Unavailable) -> String {
    match why {
        Unavailable::NotTheClerk { leader: Some(leader) } => format!("member {leader} leads and was not reached"),
        Unavailable::NotTheClerk { leader: None } => "no member leads".into(),
        Unavailable::TakingOffice => "the leader is learning from the voters which locks are held".into(),
        Unavailable::WaitingForTtl { left } => format!(
            "too few voters remember which locks were held (all were restarted): every lock that may be held must expire \
             first, which takes another {}",
            format_duration(Duration::from_millis(left.as_millis() as u64))
        ),
        Unavailable::ClassicSafety => {
            "the config has safety = \"classic\", under which two leaders may grant one lock: write safety = \"quorum\""
                .into()
        }
        Unavailable::WaitsFor(members) => {
            let members: Vec<String> = members.iter().map(ToString::to_string).collect();
            format!("the lock algorithm waits for the members {}", members.join(", "))
        }
    }
}
