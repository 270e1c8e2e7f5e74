//! The requests that wait, first come first served, a queue for every lock that somebody waits for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use types::{Epoch, Token};

use super::table::Holder;
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
    /// It is in the table as the heir, and the first in the line.
    pub heir: Option<Heir>,
}

/// What is in the table of the request that gets the lock next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Heir {
    pub token: Token,
    /// The note that says so; 0 in the table that the office began with.
    pub noted: u64,
}

impl Waiter {
    /// The heir in the table that an office begins with. Its ticket is older than all that this clerk knows.
    pub(super) fn taken_over(token: Token, entry: &Holder) -> Self {
        let &Holder { session, request, mode, .. } = entry;
        let (ticket, waited, heir) = (Ticket::default(), Duration::ZERO, Some(Heir { token, noted: 0 }));
        Waiter { session, request, mode, ticket, waited, heir }
    }

    fn goes_before(&self, other: &Waiter) -> bool {
        let order = |waiter: &Waiter| {
            let heir = waiter.heir.map_or(Token(u64::MAX), |heir| heir.token);
            (heir, waiter.ticket, Reverse(waiter.waited), waiter.session)
        };
        order(self) < order(other)
    }
}

/// No queue is empty.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Queues {
    lines: BTreeMap<LockName, VecDeque<Waiter>>,
    waiters: usize,
    heirs: usize,
}

impl Queues {
    /// The requests that wait, for any lock.
    pub fn waiters(&self) -> usize {
        self.waiters
    }

    /// Those of them that are heirs.
    pub fn heirs(&self) -> usize {
        self.heirs
    }

    pub fn of(&self, name: &LockName) -> impl Iterator<Item = &Waiter> {
        self.lines.get(name).into_iter().flatten()
    }

    pub fn len(&self, name: &LockName) -> usize {
        self.lines.get(name).map_or(0, VecDeque::len)
    }

    pub fn has(&self, name: &LockName) -> bool {
        self.lines.contains_key(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &LockName> {
        self.lines.keys()
    }

    /// In order, from this one on.
    pub fn names_from(&self, from: Option<&LockName>) -> impl Iterator<Item = &LockName> {
        use std::ops::Bound::{Included, Unbounded};
        self.lines.range((from.map_or(Unbounded, Included), Unbounded)).map(|(name, _)| name)
    }

    pub fn first(&self, name: &LockName) -> Option<&Waiter> {
        self.lines.get(name)?.front()
    }

    pub fn get(&self, name: &LockName, at: usize) -> Option<&Waiter> {
        self.lines.get(name)?.get(at)
    }

    /// How many wait before this request; `None` if it does not wait.
    pub fn position(&self, name: &LockName, session: SessionId, request: RequestId) -> Option<usize> {
        self.lines.get(name)?.iter().position(|waiter| (waiter.session, waiter.request) == (session, request))
    }

    /// Returns how many wait before it.
    pub(super) fn join(&mut self, name: &LockName, waiter: Waiter) -> usize {
        self.waiters += 1;
        self.heirs += usize::from(waiter.heir.is_some());
        let queue = self.lines.entry(name.clone()).or_default();
        let behind = queue.iter().rev().take_while(|other| waiter.goes_before(other)).count();
        let at = queue.len() - behind;
        queue.insert(at, waiter);
        at
    }

    pub(super) fn leave(&mut self, name: &LockName, session: SessionId, request: RequestId) -> Option<Waiter> {
        let at = self.position(name, session, request)?;
        let queue = self.lines.get_mut(name)?;
        let waiter = queue.remove(at)?;
        if queue.is_empty() {
            self.lines.remove(name);
        }
        self.waiters -= 1;
        self.heirs -= usize::from(waiter.heir.is_some());
        Some(waiter)
    }

    /// The first in the line, which is no heir yet, is one from now on.
    pub(super) fn make_heir(&mut self, name: &LockName, heir: Heir) {
        if let Some(first) = self.lines.get_mut(name).and_then(VecDeque::front_mut) {
            first.heir = Some(heir);
            self.heirs += 1;
        }
    }

    /// Those that this clerk has noted are heirs no more. Returns what they were.
    pub(super) fn forget_heirs(&mut self) -> Vec<(LockName, Token)> {
        let noted = |heir: &mut Heir| heir.noted > 0;
        let heirs = self.lines.iter_mut().filter_map(|(name, queue)| {
            let heir = queue.front_mut()?.heir.take_if(noted)?;
            Some((name.clone(), heir.token))
        });
        let heirs: Vec<(LockName, Token)> = heirs.collect();
        self.heirs -= heirs.len();
        heirs
    }

    /// Of a request that comes to this clerk first: behind all that wait.
    pub(super) fn next_ticket(&self, name: &LockName, epoch: Epoch) -> Ticket {
        let last = self.lines.get(name).and_then(VecDeque::back).map(|last| last.ticket);
        let number = last.filter(|last| last.epoch == epoch).map_or(0, |last| last.number);
        Ticket { epoch, number: number.saturating_add(1) }
    }
}
