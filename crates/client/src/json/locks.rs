//! Locks: `conclave.locks/1`.

use locks::wire::Mode;
use serde::Serialize;

use crate::wire::{HolderStatus, LockPage, LockStatus};

/// All locks that are held or waited for: by the word of the leader and, under a lock algorithm in views, of the others, each of
/// which knows its own clients.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Locks {
    schema: &'static str,
    /// The leader.
    pub member: u32,
    pub epoch: u64,
    /// In views: members that did not answer. The locks of their clients are missing here.
    pub silent: Vec<u32>,
    pub locks: Vec<Lock>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Lock {
    pub name: String,
    /// `exclusive`, `shared` or `slots`.
    pub mode: &'static str,
    /// Of a semaphore.
    pub slots: Option<u32>,
    pub holders: Vec<Holder>,
    /// The sessions that wait, in the order in which they will be served.
    pub waiters: Vec<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Holder {
    pub session: String,
    /// A decimal string: a token exceeds the integers of JSON.
    pub token: String,
    pub ttl_ms: u64,
    pub left_ms: Option<u64>,
    pub held_ms: Option<u64>,
}

impl Locks {
    pub fn new(member: u32, page: LockPage) -> Self {
        let locks = page.locks.into_iter().map(Lock::from).collect();
        Locks { schema: "conclave.locks/1", member, epoch: page.epoch, silent: Vec::new(), locks }
    }

    /// Adds what another member knows. The order between waiters of two members is not known.
    pub fn add(&mut self, page: LockPage) {
        for lock in page.locks.into_iter().map(Lock::from) {
            match self.locks.binary_search_by(|known| known.name.cmp(&lock.name)) {
                Ok(at) => {
                    self.locks[at].holders.extend(lock.holders);
                    self.locks[at].waiters.extend(lock.waiters);
                }
                Err(at) => self.locks.insert(at, lock),
            }
        }
    }
}

impl From<LockStatus> for Lock {
    fn from(lock: LockStatus) -> Self {
        let (mode, slots) = match lock.mode {
            Mode::Exclusive => ("exclusive", None),
            Mode::Shared => ("shared", None),
            Mode::Slots(slots) => ("slots", Some(slots)),
        };
        Lock {
            name: lock.name.to_string(),
            mode,
            slots,
            holders: lock.holders.into_iter().map(Holder::from).collect(),
            waiters: lock.waiters.iter().map(ToString::to_string).collect(),
        }
    }
}

impl From<HolderStatus> for Holder {
    fn from(holder: HolderStatus) -> Self {
        let HolderStatus { session, token, ttl_ms, left_ms, held_ms } = holder;
        Holder { session: session.to_string(), token: token.to_string(), ttl_ms, left_ms, held_ms }
    }
}
