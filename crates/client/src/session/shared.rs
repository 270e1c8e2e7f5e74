//! What the handles of a session and its task share: results of requests, the right to act, and who attends.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use locks::wire::{RequestId, SessionId, Unavailable};
use tokio::sync::mpsc;
use types::Token;

use super::actor::Order;
use super::error::{LockError, LostReason};
use crate::connection::ClientError;

#[derive(Debug)]
pub(super) struct State {
    pub(super) id: SessionId,
    /// The last request; numbers rise.
    pub(super) last_request: RequestId,
    /// Opened at least once.
    pub(super) opened: bool,
    /// The time to live that the last clerk granted.
    pub(super) ttl: Option<Duration>,
    /// The session may act until then, since boot.
    pub(super) until: Duration,
    /// No request can be made any more.
    pub(super) ended: Option<LockError>,
    /// Requests that were decided and whose future has not been polled since.
    pub(super) decided: BTreeMap<RequestId, Result<Token, LockError>>,
    /// Locks that were lost and whose guard exists.
    pub(super) lost: BTreeMap<RequestId, LostReason>,
    /// Why there is no clerk, as the last member said.
    pub(super) unavailable: Option<Unavailable>,
    /// Why there is no connection.
    pub(super) unreachable: Option<ClientError>,
    attendance: Attendance,
}

/// Who polls the session. A keep-alive goes out only when a future of the session was polled after the keep-alive was due: a
/// program that hangs does not keep its locks.
#[derive(Debug, Default)]
struct Attendance {
    /// By the number of the future. All of them are woken for every change, so a list is enough.
    wakers: Vec<(u64, Waker)>,
    next: u64,
    /// A keep-alive waits for somebody to poll.
    due: bool,
    /// Keep-alives wait for nobody.
    in_background: bool,
}

#[derive(Debug)]
pub(super) struct Shared(Mutex<State>);

impl Shared {
    pub(super) fn new(id: SessionId) -> Self {
        Shared(Mutex::new(State {
            id,
            last_request: RequestId(0),
            opened: false,
            ttl: None,
            until: Duration::ZERO,
            ended: None,
            decided: BTreeMap::new(),
            lost: BTreeMap::new(),
            unavailable: None,
            unreachable: None,
            attendance: Attendance::default(),
        }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes everybody who looks at it.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        // A waker of a task only puts it into the line of its runtime, so it may be called with the state locked.
        state.attendance.wakers.iter().for_each(|(_, waker)| waker.wake_by_ref());
        result
    }

    /// A keep-alive is due. True if it may be sent at once; else [`Order::Attended`] follows when somebody polls.
    pub(super) fn keep_alive_due(&self) -> bool {
        self.change(|state| {
            state.attendance.due = !state.attendance.in_background;
            state.attendance.in_background
        })
    }

    pub(super) fn keep_alive_in_background(&self) {
        self.change(|state| state.attendance.in_background = true);
    }
}

/// Waits until the state says so, and attends the session while it is polled.
pub(super) struct Attend<'a, F> {
    shared: &'a Shared,
    orders: &'a mpsc::UnboundedSender<Order>,
    key: Option<u64>,
    look: F,
}

impl<'a, F> Attend<'a, F> {
    pub(super) fn new(shared: &'a Shared, orders: &'a mpsc::UnboundedSender<Order>, look: F) -> Self {
        Attend { shared, orders, key: None, look }
    }
}

impl<T, F: FnMut(&mut State) -> Option<T> + Unpin> Future for Attend<'_, F> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        let mut state = this.shared.lock();
        if std::mem::take(&mut state.attendance.due) {
            let _ = this.orders.send(Order::Attended);
        }
        if let Some(found) = (this.look)(&mut state) {
            return Poll::Ready(found);
        }
        let attendance = &mut state.attendance;
        let known = this.key.and_then(|key| attendance.wakers.iter_mut().find(|(number, _)| *number == key));
        if let Some((_, waker)) = known {
            waker.clone_from(cx.waker());
        } else {
            attendance.next += 1;
            this.key = Some(attendance.next);
            attendance.wakers.push((attendance.next, cx.waker().clone()));
        }
        Poll::Pending
    }
}

impl<F> Drop for Attend<'_, F> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.shared.lock().attendance.wakers.retain(|(number, _)| *number != key);
        }
    }
}
