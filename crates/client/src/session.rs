//! Locks for programs: a session that holds locks, and follows the clerk from member to member.

mod actor;
mod error;
mod guard;
mod machine;
mod route;
mod shared;
mod stream;
mod timer;

use std::sync::Arc;
use std::time::Duration;

use locks::LockName;
use locks::wire::{Mode, RequestId, SessionId};
use tokio::sync::mpsc;
use transport::ClientSettings;
use types::{Token, since_boot};

use self::actor::{Actor, Order, Plan};
use self::shared::{Attend, Shared, State};
use crate::connection::ClientError;
use crate::endpoint::Endpoint;

pub use self::error::{LockError, LostReason, refusal as refusal_in_words};
pub use self::guard::{LockGuard, Release, Right};

/// How long a request waits for its lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// The lock is free now, or the request fails.
    No,
    AtMost(Duration),
    ForEver,
}

impl Wait {
    fn limit(self) -> Option<Duration> {
        match self {
            Wait::No => Some(Duration::ZERO),
            Wait::AtMost(wait) => Some(wait),
            Wait::ForEver => None,
        }
    }
}

/// One session of this program with the lock service of a cluster. Clones are the same session.
///
/// A lock stays with the session while the members hear of it at least once in its time to live. Keep-alives go out **only while
/// a future of the session is polled** ([`Session::lock`], [`LockGuard::lost`], [`LockGuard::protect`], ...): a program that
/// hangs loses its locks, and another one can go on. [`Session::keep_alive_in_background`] is the opposite, by name.
///
/// The right to act counts from the moment at which the last confirmed message was *sent*, on a clock that runs while the machine
/// sleeps; [`LockGuard::remaining`] tells how much is left. No check in the program can be in time for certain, so send
/// [`LockGuard::token`] to the resource, and let it refuse smaller tokens ([`Fence`](crate::Fence)).
///
/// ```
/// # use testkit::{Live, Plan};
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # runtime.block_on(async {
/// # let row = algorithms::catalog::row(algorithms::catalog::DEFAULT).unwrap();
/// # let plan = Plan { safety: client::Safety::Quorum, ..Plan::new(3, row) };
/// # let mut live = Live::start(&plan);
/// # let (endpoints, settings) = (live.cluster.endpoints(), live.cluster.settings().clone());
/// use std::time::Duration;
/// use client::{LockError, Session};
///
/// // Endpoints and settings come from `ClusterFile::read`, or are written by hand.
/// let session = Session::open(endpoints.clone(), &settings, Duration::from_secs(10)).await?;
/// let guard = session.lock("backup").await?;
/// println!("token {}, {:?} left", guard.token(), guard.remaining());
///
/// // Another session does not get it meanwhile.
/// let other = Session::open(endpoints, &settings, Duration::from_secs(10)).await?;
/// assert!(matches!(other.try_lock("backup").await, Err(LockError::Busy)));
///
/// // Does the work, and keeps the lock alive while the work is polled.
/// let written = guard.protect(async { 42 }).await;
/// assert_eq!(written.ok(), Some(42));
///
/// // Dropping the guard would release it too; this waits until a majority of the voters knows it.
/// let first = guard.token();
/// guard.release().durable().await?;
/// assert!(other.lock("backup").await?.token() > first);
/// # Ok::<(), LockError>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Session {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    shared: Arc<Shared>,
    orders: mpsc::UnboundedSender<Order>,
    ttl: Duration,
    /// A request that does not wait, or waits for some time only, gives up so long after its time: no clerk answers.
    grace: Duration,
}

impl Session {
    /// Opens a session; waits until a clerk knows it. No time limit: put one around it, or use [`Session::open_within`]. Must
    /// be called inside a tokio runtime.
    pub async fn open(endpoints: Vec<Endpoint>, settings: &ClientSettings, ttl: Duration) -> Result<Self, LockError> {
        Session::begin(endpoints, settings, ttl, true)?.opened().await
    }

    /// As [`Session::open`], with the reason why it could not be opened if it takes too long.
    pub async fn open_within(
        endpoints: Vec<Endpoint>,
        settings: &ClientSettings,
        ttl: Duration,
        patience: Duration,
    ) -> Result<Self, LockError> {
        Session::begin(endpoints, settings, ttl, true)?.opened_within(patience).await
    }

    /// A session whose locks child processes depend on: the end of its connection alone does not end its locks, whatever
    /// `on_close` of the config says.
    pub async fn open_for_children(
        endpoints: Vec<Endpoint>,
        settings: &ClientSettings,
        ttl: Duration,
        patience: Duration,
    ) -> Result<Self, LockError> {
        Session::begin(endpoints, settings, ttl, false)?.opened_within(patience).await
    }

    fn begin(
        endpoints: Vec<Endpoint>,
        settings: &ClientSettings,
        ttl: Duration,
        bare: bool,
    ) -> Result<Self, LockError> {
        let id = SessionId(random()?);
        let shared = Arc::new(Shared::new(id));
        let (orders, received) = mpsc::unbounded_channel();
        let plan = Plan { endpoints, settings: settings.clone(), id, ttl, bare };
        tokio::spawn(Actor::new(plan, Arc::clone(&shared), received).run());
        let grace = settings.deadline + GIVE_UP;
        Ok(Session { inner: Arc::new(Inner { shared, orders, ttl, grace }) })
    }

    async fn opened(self) -> Result<Self, LockError> {
        let opened = self.attend(|state| match &state.ended {
            Some(error) => Some(Err(error.clone())),
            None => state.opened.then_some(Ok(())),
        });
        opened.await.map(|()| self)
    }

    async fn opened_within(self, patience: Duration) -> Result<Self, LockError> {
        let shared = Arc::clone(&self.inner.shared);
        tokio::time::timeout(patience, self.opened()).await.unwrap_or_else(|_| Err(no_clerk(&shared.lock())))
    }

    /// The number that members know this session by. A session that is lost gets another one with its next request.
    pub fn id(&self) -> SessionId {
        self.inner.shared.lock().id
    }

    /// The time to live that the last clerk granted, which may be shorter than the one asked for.
    pub fn ttl(&self) -> Duration {
        self.inner.shared.lock().ttl.unwrap_or(self.inner.ttl)
    }

    /// Takes an exclusive lock, however long that takes. Dropping the future withdraws the request.
    pub async fn lock(&self, name: &str) -> Result<LockGuard, LockError> {
        self.acquire(&LockName::new(name)?, Mode::Exclusive, Wait::ForEver).await
    }

    /// Takes the lock if it is free; [`LockError::Busy`] if not.
    pub async fn try_lock(&self, name: &str) -> Result<LockGuard, LockError> {
        self.acquire(&LockName::new(name)?, Mode::Exclusive, Wait::No).await
    }

    /// Takes the lock within this time; [`LockError::TimedOut`] if it is not granted.
    pub async fn lock_timeout(&self, name: &str, wait: Duration) -> Result<LockGuard, LockError> {
        self.acquire(&LockName::new(name)?, Mode::Exclusive, Wait::AtMost(wait)).await
    }

    /// Takes the lock as one of several readers. A waiting writer stops later readers.
    pub async fn shared(&self, name: &str) -> Result<LockGuard, LockError> {
        self.acquire(&LockName::new(name)?, Mode::Shared, Wait::ForEver).await
    }

    /// Takes one of so many slots of a semaphore. Every request for it must name the same number.
    pub async fn slots(&self, name: &str, slots: u32) -> Result<LockGuard, LockError> {
        self.acquire(&LockName::new(name)?, Mode::Slots(slots), Wait::ForEver).await
    }

    /// Takes several exclusive locks, in the order of their names, so that two programs that take the same locks never wait for
    /// each other. The guards are in that order too.
    pub async fn lock_many(&self, names: &[&str]) -> Result<Vec<LockGuard>, LockError> {
        let mut sorted = names.iter().map(|name| LockName::new(name)).collect::<Result<Vec<_>, _>>()?;
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(LockError::Twice(pair[0].to_string()));
        }
        let mut guards = Vec::with_capacity(sorted.len());
        for name in &sorted {
            guards.push(self.acquire(name, Mode::Exclusive, Wait::ForEver).await?);
        }
        Ok(guards)
    }

    /// Takes a lock of any kind.
    pub async fn acquire(&self, name: &LockName, mode: Mode, wait: Wait) -> Result<LockGuard, LockError> {
        let request = self.ask(name, mode, wait)?;
        // Withdraws the request if this future is dropped.
        let mut pending = Pending { session: self, request, decided: false };
        let decided = self.attend(|state| match (state.decided.remove(&request), &state.ended) {
            (Some(decided), _) => Some(decided),
            (None, Some(error)) => Some(Err(error.clone())),
            (None, None) => None,
        });
        let decided = match wait.limit() {
            None => decided.await,
            Some(limit) => {
                // The clerk decides; without one this program does.
                let patience = tokio::time::timeout(limit + self.inner.grace, decided);
                patience.await.unwrap_or_else(|_| Err(no_clerk(&self.inner.shared.lock())))
            }
        };
        let token = decided?;
        pending.decided = true;
        Ok(LockGuard::new(self.clone(), name.clone(), request, token))
    }

    /// Numbers a request and hands it to the task, under one lock: numbers arrive in their order.
    fn ask(&self, name: &LockName, mode: Mode, wait: Wait) -> Result<RequestId, LockError> {
        let mut state = self.inner.shared.lock();
        state.last_request.0 += 1;
        let request = state.last_request;
        // The task begins another session if this one is lost.
        let over = state.ended.take_if(|ended| matches!(ended, LockError::SessionLost(_) | LockError::NotOpened(_)));
        let order = Order::Acquire { request, name: name.clone(), mode, wait: wait.limit() };
        match self.inner.orders.send(order) {
            Ok(()) => Ok(request),
            Err(_) => Err(over.unwrap_or(LockError::SessionLost(LostReason::Closed))),
        }
    }

    /// Sends keep-alives although no future of the session is polled: a program that hangs keeps its locks.
    pub fn keep_alive_in_background(&self) {
        self.inner.shared.keep_alive_in_background();
        let _ = self.inner.orders.send(Order::Attended);
    }

    /// Releases all locks of this session and ends it; returns when that is on its way to the clerk. Dropping the last handle
    /// of a session does the same in the background.
    pub async fn close(&self) {
        let (answer, told) = tokio::sync::oneshot::channel();
        if self.inner.orders.send(Order::Close { answer }).is_ok() {
            let _ = told.await;
        }
    }

    fn attend<T, F: FnMut(&mut State) -> Option<T> + Unpin>(&self, look: F) -> Attend<'_, F> {
        Attend::new(&self.inner.shared, &self.inner.orders, look)
    }

    /// The right to act, or why there is none.
    fn right(&self, request: RequestId) -> Result<Duration, LostReason> {
        right(&self.inner.shared.lock(), request)
    }
}

/// Without a clerk, a request with a time limit ends so long after it.
const GIVE_UP: Duration = Duration::from_secs(1);

fn right(state: &State, request: RequestId) -> Result<Duration, LostReason> {
    if let Some(why) = state.lost.get(&request) {
        return Err(*why);
    }
    if since_boot() >= state.until {
        return Err(LostReason::Lapsed);
    }
    Ok(state.until)
}

fn no_clerk(state: &State) -> LockError {
    match (&state.unavailable, &state.unreachable) {
        (Some(why), _) => LockError::Unavailable(why.clone()),
        (None, Some(error)) => LockError::Client(error.clone()),
        (None, None) => LockError::Client(ClientError::Timeout),
    }
}

fn random() -> Result<u128, LockError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| LockError::Client(ClientError::Unexpected))?;
    Ok(u128::from_le_bytes(bytes))
}

/// A request whose future exists.
struct Pending<'a> {
    session: &'a Session,
    request: RequestId,
    decided: bool,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.decided {
            let _ = self.session.inner.orders.send(Order::Withdraw(self.request));
        }
    }
}

/// A granted lock; see [`LockGuard`].
#[derive(Debug)]
struct Held {
    session: Session,
    name: LockName,
    request: RequestId,
    token: Token,
}
