//! The ready connections: one waker each, so that the cost of a turn depends on the ready connections and not on all.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

#[derive(Debug, Default)]
pub(crate) struct ReadySet(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    keys: Vec<u64>,
    owner: Option<Waker>,
}

/// The waker of one connection. Its key is in the set at most once however often it is woken.
#[derive(Debug)]
pub(crate) struct ReadyWaker {
    key: u64,
    woken: AtomicBool,
    set: Arc<ReadySet>,
}

impl ReadySet {
    pub(crate) fn waker(self: &Arc<Self>, key: u64) -> Arc<ReadyWaker> {
        Arc::new(ReadyWaker { key, woken: AtomicBool::new(false), set: Arc::clone(self) })
    }

    /// Sets the task that is woken when a connection becomes ready.
    pub(crate) fn watch(&self, owner: &Waker) {
        let mut state = self.state();
        if !state.owner.as_ref().is_some_and(|known| known.will_wake(owner)) {
            state.owner = Some(owner.clone());
        }
    }

    /// Moves the keys of ready connections to the end of `turn`.
    pub(crate) fn take(&self, turn: &mut VecDeque<u64>) {
        turn.extend(self.state().keys.drain(..));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadyWaker {
    /// Puts the connection into the set.
    pub(crate) fn notify(&self) {
        if self.woken.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut state = self.set.state();
        state.keys.push(self.key);
        let owner = state.owner.clone();
        drop(state);
        if let Some(owner) = owner {
            owner.wake();
        }
    }

    /// Must be called before the connection is read, so that a wake during the read is not lost.
    pub(crate) fn rearm(&self) {
        self.woken.store(false, Ordering::Release);
    }
}

impl Wake for ReadyWaker {
    fn wake(self: Arc<Self>) {
        self.notify();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.notify();
    }
}
