//! The locks that this member knows: for each the machine of the present view, the clients of this member that are inside,
//! and those that wait. Local clients queue in front of the one request of the machine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use algorithms::{Mutex, Protocol, View};
use types::{NodeId, Token};

use super::messages::Kept;
use crate::name::LockName;
use crate::wire::{Mode, RequestId, SendNumber, SessionId};

/// A request of a local client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Waiter {
    pub session: SessionId,
    pub request: RequestId,
    pub mode: Mode,
    /// It waits only for the answers of the other members.
    pub is_try: bool,
    /// Of the Acquire, until it is answered, and the beat that covers it.
    pub unanswered: Option<(SendNumber, u64)>,
}

/// Clients of this member that are inside, under one token.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Inside {
    pub token: Token,
    pub mode: Mode,
    /// Readers may be several.
    pub holders: BTreeSet<(SessionId, RequestId)>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Lock<M: Protocol> {
    /// Names the lock in timers of its machine.
    pub number: u32,
    /// `None`: no view, or it is frozen.
    pub machine: Option<M>,
    /// The timers that its machine has set.
    pub timers: BTreeSet<M::Timer>,
    /// The participant that the view began with inside.
    pub begins: Option<NodeId>,
    /// Readers of other participants that were inside when the view began: the machine of this member stands for them.
    pub guests: BTreeSet<NodeId>,
    /// The participant whose machine stands for the readers inside here.
    pub host: Option<NodeId>,
    pub inside: Option<Inside>,
    pub queue: VecDeque<Waiter>,
}

impl<M: Protocol> Lock<M> {
    fn new(number: u32) -> Self {
        Lock {
            number,
            machine: None,
            timers: BTreeSet::new(),
            begins: None,
            guests: BTreeSet::new(),
            host: None,
            inside: None,
            queue: VecDeque::new(),
        }
    }

    /// Forgets the view.
    fn freeze(&mut self) {
        self.machine = None;
        self.timers.clear();
        self.begins = None;
        self.guests.clear();
        self.host = None;
    }

    /// The waiters that enter together: the first, or all readers at the head.
    pub fn take_next(&mut self) -> Vec<Waiter> {
        let readers = self.queue.iter().take_while(|waiter| waiter.mode == Mode::Shared).count();
        let count = readers.max(1).min(self.queue.len());
        self.queue.drain(..count).collect()
    }

    /// Is this request a try that waits?
    pub fn tries(&self, session: SessionId, request: RequestId) -> bool {
        self.queue.iter().any(|waiter| (waiter.session, waiter.request) == (session, request) && waiter.is_try)
    }

    /// Takes a request out of the queue.
    pub fn leave(&mut self, session: SessionId, request: RequestId) -> bool {
        let known = self.queue.len();
        self.queue.retain(|waiter| (waiter.session, waiter.request) != (session, request));
        self.queue.len() < known
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Locks<M: Protocol> {
    known: BTreeMap<LockName, Lock<M>>,
    names: BTreeMap<u32, LockName>,
    last: u32,
}

impl<M: Protocol> Default for Locks<M> {
    fn default() -> Self {
        Locks { known: BTreeMap::new(), names: BTreeMap::new(), last: 0 }
    }
}

impl<M: Mutex> Locks<M> {
    pub fn get(&self, name: &LockName) -> Option<&Lock<M>> {
        self.known.get(name)
    }

    pub fn get_mut(&mut self, name: &LockName) -> Option<&mut Lock<M>> {
        self.known.get_mut(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&LockName, &Lock<M>)> {
        self.known.iter()
    }

    pub fn names(&self) -> Vec<LockName> {
        self.known.keys().cloned().collect()
    }

    pub fn numbered(&self, number: u32) -> Option<&LockName> {
        self.names.get(&number)
    }

    /// The lock of this name, which is new if it is not known; `None` if there is no room for it.
    pub fn entry(&mut self, name: &LockName, room: usize) -> Option<&mut Lock<M>> {
        if !self.known.contains_key(name) {
            if self.known.len() >= room {
                return None;
            }
            self.last = self.last.wrapping_add(1);
            self.names.insert(self.last, name.clone());
            self.known.insert(name.clone(), Lock::new(self.last));
        }
        self.known.get_mut(name)
    }

    /// Stops all machines and forgets the locks that no client of this member holds or waits for. Returns the timers that
    /// the machines had set.
    pub fn freeze(&mut self) -> Vec<(u32, M::Timer)> {
        let timers = |lock: &Lock<M>| lock.timers.iter().map(|&timer| (lock.number, timer)).collect::<Vec<_>>();
        let set = self.known.values().flat_map(timers).collect();
        self.known.values_mut().for_each(Lock::freeze);
        self.known.retain(|_, lock| lock.inside.is_some() || !lock.queue.is_empty());
        let known = &self.known;
        self.names.retain(|_, name| known.contains_key(name));
        if self.known.is_empty() {
            self.last = 0;
        }
        set
    }

    /// What clients of this member hold.
    pub fn held(&self) -> Vec<Kept> {
        let inside = self.known.iter().filter_map(|(name, lock)| Some((name, lock.inside.as_ref()?)));
        inside.map(|(name, inside)| Kept { name: name.clone(), token: inside.token, mode: inside.mode }).collect()
    }
}

/// The participants of a view as machines with such links see them.
pub fn machine_view(topology: types::Topology, all: &View, set: &[NodeId]) -> View {
    let mut members: Vec<_> = all.members().iter().copied().filter(|member| set.contains(&member.id)).collect();
    let unknown = set.iter().filter(|&&id| !all.contains(id)).map(|id| types::Uid::plain(id.0));
    members.extend(unknown);
    match topology {
        types::Topology::Ring => View::ring(members),
        types::Topology::Mesh | types::Topology::Graph => View::mesh(members),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use algorithms::mutex::ricart_agrawala::RicartAgrawala;

    fn waiter(request: u64, mode: Mode) -> Waiter {
        Waiter { session: SessionId(1), request: RequestId(request), mode, is_try: false, unanswered: None }
    }

    fn requests(waiters: &[Waiter]) -> Vec<u64> {
        waiters.iter().map(|waiter| waiter.request.0).collect()
    }

    #[test]
    fn readers_at_the_head_enter_together_and_a_writer_alone() {
        let mut lock: Lock<RicartAgrawala> = Lock::new(1);
        lock.queue = [(1, Mode::Shared), (2, Mode::Shared), (3, Mode::Exclusive), (4, Mode::Shared)]
            .map(|(request, mode)| waiter(request, mode))
            .into();
        assert_eq!(requests(&lock.take_next()), [1, 2]);
        assert_eq!(requests(&lock.take_next()), [3]);
        assert_eq!(requests(&lock.take_next()), [4]);
        assert_eq!(requests(&lock.take_next()), [] as [u64; 0]);
    }

    #[test]
    fn a_freeze_forgets_the_locks_that_are_not_in_use() {
        let mut locks: Locks<RicartAgrawala> = Locks::default();
        let name = |text| LockName::new(text).expect("a name");
        locks.entry(&name("idle"), 2).expect("room");
        locks.entry(&name("wanted"), 2).expect("room").queue.push_back(waiter(1, Mode::Exclusive));
        assert!(locks.entry(&name("third"), 2).is_none(), "no room");
        locks.freeze();
        assert_eq!(locks.names(), [name("wanted")]);
        assert_eq!(locks.numbered(2), Some(&name("wanted")));
        assert_eq!(locks.numbered(1), None);
    }
}
