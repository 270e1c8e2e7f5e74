//! A lock that is held.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use locks::LockName;
use locks::wire::RequestId;
use tokio::sync::oneshot;
use types::{Token, since_boot};

use super::actor::Order;
use super::error::{LockError, LostReason};
use super::{Held, Session, right};

/// A lock that this program holds, as long as [`LockGuard::remaining`] is not zero. Dropping it releases the lock.
#[derive(Debug)]
pub struct LockGuard {
    /// `None` once it is released.
    held: Option<Held>,
    /// The right that [`LockGuard::changed`] told last.
    told: Duration,
}

/// The right to act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// Until this moment since boot.
    Until(Duration),
    Lost(LostReason),
}

impl LockGuard {
    pub(super) fn new(session: Session, name: LockName, request: RequestId, token: Token) -> Self {
        LockGuard { held: Some(Held { session, name, request, token }), told: Duration::ZERO }
    }

    fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    pub fn name(&self) -> &str {
        self.held().map_or("", |held| held.name.as_str())
    }

    /// Grows with every grant of the lock: the resource that the lock protects refuses work with a smaller one.
    pub fn token(&self) -> Token {
        self.held().map_or(Token(0), |held| held.token)
    }

    /// How long this program may still act without another word from the members; zero once the lock is lost.
    pub fn remaining(&self) -> Duration {
        self.until().saturating_sub(since_boot())
    }

    /// The moment since boot ([`types::since_boot`]) at which the right to act ends; zero once the lock is lost.
    pub fn until(&self) -> Duration {
        self.held().and_then(|held| held.session.right(held.request).ok()).unwrap_or_default()
    }

    /// Returns when the lock is lost, and keeps it alive while it is polled. Cancel-safe.
    pub async fn lost(&self) -> LostReason {
        let mut known = Duration::ZERO;
        loop {
            match self.next_right(known).await {
                Right::Until(until) => known = until,
                Right::Lost(why) => return why,
            }
        }
    }

    /// The right to act: at once the first time, then when it was prolonged or has ended. Keeps the lock alive while it is
    /// polled. Cancel-safe.
    pub async fn changed(&mut self) -> Right {
        let right = self.next_right(self.told).await;
        if let Right::Until(until) = right {
            self.told = until;
        }
        right
    }

    async fn next_right(&self, known: Duration) -> Right {
        let Some(held) = self.held() else { return Right::Lost(LostReason::Closed) };
        let request = held.request;
        let changed = held.session.attend(move |state| match right(state, request) {
            Err(why) => Some(Right::Lost(why)),
            Ok(until) => (until > known).then_some(Right::Until(until)),
        });
        let until = known.max(self.until());
        // Whatever the task of the session does, the right ends by the clock.
        match tokio::time::timeout(until.saturating_sub(since_boot()), changed).await {
            Ok(right) => right,
            Err(_) => held.session.right(request).map_or_else(Right::Lost, Right::Until),
        }
    }

    /// Does some work while the lock is kept alive; the reason if the lock was lost before the work ended, which is dropped
    /// then.
    pub async fn protect<T>(&self, work: impl Future<Output = T>) -> Result<T, LostReason> {
        tokio::select! {
            biased;
            why = self.lost() => Err(why),
            done = work => Ok(done),
        }
    }

    /// Gives the lock back. Awaiting it waits until the clerk has it; dropping it does not.
    pub fn release(mut self) -> Release {
        Release { held: self.held.take(), durable: false }
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            held.give_back(false, None);
        }
    }
}

impl Held {
    fn give_back(&self, durable: bool, answer: Option<oneshot::Sender<()>>) {
        let _ = self.session.inner.orders.send(Order::Release { request: self.request, durable, answer });
    }
}

/// A lock that is being given back.
#[derive(Debug)]
pub struct Release {
    held: Option<Held>,
    durable: bool,
}

impl Release {
    /// Waits until a majority of the voters knows it: then even the next leader does.
    #[must_use = "a release is awaited"]
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self
    }
}

impl IntoFuture for Release {
    type Output = Result<(), LockError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(mut self) -> Self::IntoFuture {
        let held = self.held.take();
        let durable = self.durable;
        Box::pin(async move {
            let Some(held) = held else { return Ok(()) };
            let (answer, mut told) = oneshot::channel();
            held.give_back(durable, Some(answer));
            let answered = held.session.attend(move |state| match (told.try_recv(), &state.ended) {
                (Ok(()), _) => Some(Ok(())),
                (Err(oneshot::error::TryRecvError::Closed), Some(error)) => Some(Err(error.clone())),
                (Err(oneshot::error::TryRecvError::Closed), None) => {
                    Some(Err(LockError::SessionLost(LostReason::Closed)))
                }
                (Err(oneshot::error::TryRecvError::Empty), _) => None,
            });
            answered.await
        })
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            held.give_back(self.durable, None);
        }
    }
}
