//! Which connections have something to do: one waker each, so that a turn costs what is ready and not what exists.

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
pub(crate) struct Bell {
    key: u64,
    rung: AtomicBool,
    set: Arc<ReadySet>,
}

impl ReadySet {
    pub(crate) fn bell(self: &Arc<Self>, key: u64) -> Arc<Bell> {
        Arc::new(Bell { key, rung: AtomicBool::new(false), set: Arc::clone(self) })
    }

    /// Who is woken when a bell rings.
    pub(crate) fn watch(&self, owner: &Waker) {
        let mut state = self.state();
        if !state.owner.as_ref().is_some_and(|known| known.will_wake(owner)) {
            state.owner = Some(owner.clone());
        }
    }

    /// Moves the keys that rang to the end of `turn`.
    pub(crate) fn take(&self, turn: &mut VecDeque<u64>) {
        turn.extend(self.state().keys.drain(..));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bell {
    pub(crate) fn ring(&self) {
        if self.rung.swap(true, Ordering::AcqRel) {
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

    /// Must precede the look at the connection, so that a ring during the look is not lost.
    pub(crate) fn answer(&self) {
        self.rung.store(false, Ordering::Release);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}
