//! The requests that wait, first come first served, a queue for every lock that somebody waits for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use types::Epoch;

use crate::name::LockName;
use crate::wire::{Mode, RequestId, SessionId, Ticket};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Waiter {
    pub session: SessionId,
    pub request: RequestId,
    pub mode: Mode,
    /// The line is in the order of the tickets.
    pub ticket: Ticket,
    /// Of requests with one ticket, which no clerk has told them: for how long each waited at an earlier clerk.
    pub waited: Duration,
}

impl Waiter {
    fn goes_before(&self, other: &Waiter) -> bool {
        let order = |waiter: &Waiter| (waiter.ticket, Reverse(waiter.waited), waiter.session);
        order(self) < order(other)
    }
}

/// No queue is empty.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Queues {
    queues: BTreeMap<LockName, VecDeque<Waiter>>,
    waiters: usize,
}

impl Queues {
    /// The requests that wait, for any lock.
    pub fn waiters(&self) -> usize {
        self.waiters
    }

    pub fn of(&self, name: &LockName) -> impl Iterator<Item = &Waiter> {
        self.queues.get(name).into_iter().flatten()
    }

    pub fn len(&self, name: &LockName) -> usize {
        self.queues.get(name).map_or(0, VecDeque::len)
    }

    pub fn has(&self, name: &LockName) -> bool {
        self.queues.contains_key(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &LockName> {
        self.queues.keys()
    }

    /// In order, from this one on.
    pub fn names_from(&self, from: Option<&LockName>) -> impl Iterator<Item = &LockName> {
        use std::ops::Bound::{Included, Unbounded};
        self.queues.range((from.map_or(Unbounded, Included), Unbounded)).map(|(name, _)| name)
    }

    pub fn first(&self, name: &LockName) -> Option<&Waiter> {
        self.queues.get(name)?.front()
    }

    pub fn get(&self, name: &LockName, at: usize) -> Option<&Waiter> {
        self.queues.get(name)?.get(at)
    }

    /// How many wait before this request; `None` if it does not wait.
    pub fn position(&self, name: &LockName, session: SessionId, request: RequestId) -> Option<usize> {
        self.queues.get(name)?.iter().position(|waiter| (waiter.session, waiter.request) == (session, request))
    }

    /// Returns how many wait before it.
    pub(super) fn join(&mut self, name: &LockName, waiter: Waiter) -> usize {
        self.waiters += 1;
        let queue = self.queues.entry(name.clone()).or_default();
        let behind = queue.iter().rev().take_while(|other| waiter.goes_before(other)).count();
        let at = queue.len() - behind;
        queue.insert(at, waiter);
        at
    }

    pub(super) fn leave(&mut self, name: &LockName, session: SessionId, request: RequestId) -> Option<Waiter> {
        let at = self.position(name, session, request)?;
        let queue = self.queues.get_mut(name)?;
        let waiter = queue.remove(at)?;
        if queue.is_empty() {
            self.queues.remove(name);
        }
        self.waiters -= 1;
        Some(waiter)
    }

    /// Of a request that comes to this clerk first: behind all that wait.
    pub(super) fn next_ticket(&self, name: &LockName, epoch: Epoch) -> Ticket {
        let last = self.queues.get(name).and_then(VecDeque::back).map(|last| last.ticket);
        let number = last.filter(|last| last.epoch == epoch).map_or(0, |last| last.number);
        Ticket { epoch, number: number.saturating_add(1) }
    }
}
