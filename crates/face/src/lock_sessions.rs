//! Locks for programs that speak HTTP alone. The face holds the session for its client, and no longer than the client is
//! heard of: a session that no request names for its time to live is closed, and its locks are released.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use client::{LockError, LockGuard, Session, Wait};
use hyper::StatusCode;
use locks::LockName;
use locks::wire::Mode;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::answer::{Answer, Problem, json};
use crate::reads::{Reads, failed};
use crate::request::{Whole, bad, parse};
use crate::routes::What;

const SESSIONS_MAX: usize = 256;
const TTL_MS: u64 = 10_000;
const TTL_MS_MIN: u64 = 1_000;
const TTL_MS_MAX: u64 = 300_000;
/// A request waits no longer: connections are limited.
const WAIT_MS_MAX: u64 = 30_000;
const OPEN_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Open {
    ttl_ms: Option<Whole>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeepAlive {
    session: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Acquire {
    session: String,
    name: String,
    #[serde(default)]
    wait_ms: Whole,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Release {
    session: String,
    name: Option<String>,
}

/// `conclave.lock-session/1`
#[derive(Serialize)]
struct Shown {
    schema: &'static str,
    session: String,
    ttl_ms: u64,
    locks: Vec<HeldLock>,
}

#[derive(Serialize)]
struct HeldLock {
    name: String,
    /// A decimal string: a token exceeds the integers of JSON.
    token: String,
    /// How long the client may act, counted from the moment at which it sent this request; 0: the lock is lost.
    valid_ms: u64,
}

#[derive(Debug, Default)]
pub(crate) struct LockSessions(Sessions);

/// One session and its locks.
#[derive(Debug)]
struct Kept {
    session: Session,
    ttl: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    guards: BTreeMap<String, LockGuard>,
    /// The session ends then, unless a request names it before.
    deadline: Instant,
    /// Requests under way that name it.
    busy: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LockSessions {
    pub(crate) async fn carry_out(&self, what: What, body: &[u8], reads: &Reads) -> Result<Answer, Problem> {
        match what {
            What::LockOpen => self.open(parse(body)?, reads).await,
            What::LockKeepAlive => {
                let KeepAlive { session } = parse(body)?;
                let kept = self.find(&session)?;
                let _busy = Busy::begin(&kept);
                Ok(json(&kept.shown(session)))
            }
            What::LockAcquire => self.acquire(parse(body)?).await,
            _ => self.release(parse(body)?).await,
        }
    }

    async fn open(&self, Open { ttl_ms }: Open, reads: &Reads) -> Result<Answer, Problem> {
        let ttl_ms = ttl_ms.map_or(TTL_MS, |Whole(ms)| ms);
        if !(TTL_MS_MIN..=TTL_MS_MAX).contains(&ttl_ms) {
            return Err(bad(format!("ttl_ms is from {TTL_MS_MIN} to {TTL_MS_MAX}")));
        }
        if lock(&self.0).len() >= SESSIONS_MAX {
            let detail = format!("this member keeps {SESSIONS_MAX} sessions already: ask another one");
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail));
        }
        let members = reads.listed().await;
        let ttl = Duration::from_millis(ttl_ms);
        let opened = Session::open_within(members.endpoints, &members.settings, ttl, OPEN_PATIENCE).await;
        let session = opened.map_err(|error| refused(&error))?;
        // The deadline below decides how long, not this thread.
        session.keep_alive_in_background();
        let (id, ttl) = (session.id().to_string(), session.ttl());
        let state = State { guards: BTreeMap::new(), deadline: Instant::now() + ttl, busy: 0 };
        let kept = Arc::new(Kept { session, ttl, state: Mutex::new(state) });
        lock(&self.0).insert(id.clone(), Arc::clone(&kept));
        tokio::spawn(end_when_silent(Arc::clone(&self.0), id.clone(), Arc::clone(&kept)));
        Ok(json(&kept.shown(id)))
    }

    fn find(&self, session: &str) -> Result<Arc<Kept>, Problem> {
        let known = lock(&self.0).get(session).cloned();
        let detail = "this member keeps no such session: it has ended, and its locks with it";
        known.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, detail))
    }

    async fn acquire(&self, Acquire { session, name, wait_ms: Whole(wait_ms) }: Acquire) -> Result<Answer, Problem> {
        let kept = self.find(&session)?;
        let name = LockName::new(&name).map_err(|error| bad(error.to_string()))?;
        if wait_ms > WAIT_MS_MAX {
            return Err(bad(format!("wait_ms is at most {WAIT_MS_MAX}: ask again")));
        }
        let _busy = Busy::begin(&kept);
        // A lock that was lost may be taken again.
        lock(&kept.state).guards.retain(|_, guard| !guard.remaining().is_zero());
        let wait = if wait_ms == 0 { Wait::No } else { Wait::AtMost(Duration::from_millis(wait_ms)) };
        let guard = kept.session.acquire(&name, Mode::Exclusive, wait).await.map_err(|error| refused(&error))?;
        lock(&kept.state).guards.insert(name.to_string(), guard);
        Ok(json(&kept.shown(session)))
    }

    async fn release(&self, Release { session, name }: Release) -> Result<Answer, Problem> {
        let kept = self.find(&session)?;
        let _busy = Busy::begin(&kept);
        let Some(name) = name else {
            lock(&self.0).remove(&session);
            kept.end().await;
            return Ok(json(&kept.shown(session)));
        };
        let guard = lock(&kept.state).guards.remove(&name);
        let not_held = || Problem::new(StatusCode::CONFLICT, "this session does not hold the lock");
        let released = tokio::time::timeout(OPEN_PATIENCE, guard.ok_or_else(not_held)?.release().into_future()).await;
        match released {
            Ok(Ok(())) => Ok(json(&kept.shown(session))),
            Ok(Err(error)) => Err(refused(&error)),
            Err(_) => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "no leader has confirmed the release yet")),
        }
    }
}

impl Kept {
    fn shown(&self, session: String) -> Shown {
        let state = lock(&self.state);
        // The face keeps the session for its time to live from now on, and the members no longer than they said.
        let valid = |guard: &LockGuard| guard.remaining().min(self.ttl).as_millis() as u64;
        let held = |(name, guard): (&String, &LockGuard)| HeldLock {
            name: name.clone(),
            token: guard.token().to_string(),
            valid_ms: valid(guard),
        };
        let locks = state.guards.iter().map(held).collect();
        Shown { schema: "conclave.lock-session/1", session, ttl_ms: self.ttl.as_millis() as u64, locks }
    }

    /// When to look again; `None` if the session is over, which is taken out of the table then.
    fn still_named(&self, all: &Sessions, id: &str) -> Option<Instant> {
        let mut sessions = lock(all);
        let (state, now) = (lock(&self.state), Instant::now());
        if state.busy > 0 {
            return sessions.contains_key(id).then_some(now + self.ttl);
        }
        if state.deadline <= now {
            sessions.remove(id);
            return None;
        }
        sessions.contains_key(id).then_some(state.deadline)
    }

    async fn end(&self) {
        lock(&self.state).guards.clear();
        self.session.close().await;
    }
}

/// A request that names the session; its end prolongs the session too.
struct Busy<'k>(&'k Kept);

impl<'k> Busy<'k> {
    fn begin(kept: &'k Kept) -> Self {
        let mut state = lock(&kept.state);
        state.busy += 1;
        state.deadline = Instant::now() + kept.ttl;
        Busy(kept)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.busy -= 1;
        state.deadline = Instant::now() + self.0.ttl;
    }
}

type Sessions = Arc<Mutex<BTreeMap<String, Arc<Kept>>>>;

async fn end_when_silent(all: Sessions, id: String, kept: Arc<Kept>) {
    while let Some(next) = kept.still_named(&all, &id) {
        tokio::time::sleep_until(next).await;
    }
    kept.end().await;
}

fn refused(error: &LockError) -> Problem {
    let code = match error {
        LockError::Client(error) => return failed(error),
        LockError::Name(_) => StatusCode::BAD_REQUEST,
        LockError::Unavailable(_) | LockError::NotOpened(_) => StatusCode::SERVICE_UNAVAILABLE,
        LockError::SessionLost(_) => StatusCode::NOT_FOUND,
        _ => StatusCode::CONFLICT,
    };
    Problem::new(code, error.to_string())
}
