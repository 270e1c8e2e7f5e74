//! Name resolution by few threads, however many dials wait for it: the system's resolver blocks its thread, for many seconds
//! where a name server does not answer, and a dial gives up earlier and is repeated.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// So many lookups run at the same time.
const THREADS_MAX: usize = 8;
/// A dial may use what a lookup for an earlier dial has found, if it is not older.
const FRESH: Duration = Duration::from_secs(5);
/// Names that are being looked up, or wait for it.
const NAMES_MAX: usize = 1024;

static OF_PROCESS: LazyLock<Resolver> = LazyLock::new(|| Resolver::new(|name| Ok(name.to_socket_addrs()?.collect())));

/// The addresses of `host:port`.
pub(crate) async fn resolve(name: &str) -> io::Result<Vec<SocketAddr>> {
    OF_PROCESS.resolve(name).await
}

type Found = Result<Vec<SocketAddr>, String>;
type Ask = fn(&str) -> io::Result<Vec<SocketAddr>>;

#[derive(Clone)]
struct Resolver(Arc<Inner>);

struct Inner {
    ask: Ask,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// One lookup of a name, for all dials of it.
    lookups: HashMap<String, Lookup>,
    waiting: VecDeque<String>,
    threads: usize,
}

struct Lookup {
    found: watch::Sender<Option<Found>>,
    ended: Option<Instant>,
}

impl Resolver {
    fn new(ask: Ask) -> Self {
        Self(Arc::new(Inner { ask, state: Mutex::default() }))
    }

    async fn resolve(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        let mut found = self.look_up(name)?;
        let found = found.wait_for(Option::is_some).await;
        let found = found.map_err(|_| io::Error::other("no lookup"))?.clone();
        // The next dial looks it up again.
        let mut state = self.state();
        if state.lookups.get(name).is_some_and(|lookup| lookup.ended.is_some()) {
            state.lookups.remove(name);
        }
        found.unwrap_or_else(|| Ok(Vec::new())).map_err(io::Error::other)
    }

    /// Joins the lookup of this name, or begins one.
    fn look_up(&self, name: &str) -> io::Result<watch::Receiver<Option<Found>>> {
        let mut state = self.state();
        state.lookups.retain(|_, lookup| lookup.ended.is_none_or(|ended| ended.elapsed() < FRESH));
        if let Some(lookup) = state.lookups.get(name) {
            return Ok(lookup.found.subscribe());
        }
        if state.lookups.len() >= NAMES_MAX {
            return Err(io::Error::other("too many names wait to be resolved"));
        }
        let (found, receiver) = watch::channel(None);
        state.lookups.insert(name.to_owned(), Lookup { found, ended: None });
        state.waiting.push_back(name.to_owned());
        if state.threads < THREADS_MAX {
            let resolver = self.clone();
            match thread::Builder::new().name("resolve".into()).spawn(move || resolver.work()) {
                Ok(_) => state.threads += 1,
                // Another thread does it later.
                Err(_) if state.threads > 0 => {}
                Err(error) => {
                    state.lookups.remove(name);
                    state.waiting.clear();
                    return Err(error);
                }
            }
        }
        Ok(receiver)
    }

    /// A thread ends when no name waits.
    fn work(&self) {
        while let Some(name) = self.next() {
            let found = (self.0.ask)(&name).map_err(|error| error.to_string());
            if let Some(lookup) = self.state().lookups.get_mut(&name) {
                lookup.ended = Some(Instant::now());
                lookup.found.send_replace(Some(found));
            }
        }
    }

    fn next(&self) -> Option<String> {
        let mut state = self.state();
        let next = state.waiting.pop_front();
        if next.is_none() {
            state.threads -= 1;
        }
        next
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::timeout;

    use super::*;

    /// Held by a test while lookups must not end.
    static BLOCKED: Mutex<()> = Mutex::new(());
    static ASKED: AtomicUsize = AtomicUsize::new(0);

    fn ask(name: &str) -> io::Result<Vec<SocketAddr>> {
        ASKED.fetch_add(1, Ordering::SeqCst);
        drop(BLOCKED.lock());
        match name {
            "unknown:1" => Err(io::Error::other("no such name")),
            _ => Ok(vec![SocketAddr::from(([127, 0, 0, 1], 1))]),
        }
    }

    #[tokio::test]
    #[expect(clippy::await_holding_lock, reason = "only the threads of lookups wait for it, and they shall")]
    async fn dials_that_give_up_leave_few_threads_behind_and_the_next_dial_gets_what_was_found() {
        let resolver = Resolver::new(ask);
        let blocked = BLOCKED.lock().unwrap();
        let names: Vec<String> = (0..3 * THREADS_MAX).map(|k| format!("n{k}:1")).collect();
        for _ in 0..5 {
            for name in &names {
                assert!(timeout(Duration::from_millis(1), resolver.resolve(name)).await.is_err());
            }
        }
        assert_eq!(resolver.state().threads, THREADS_MAX);
        assert!(ASKED.load(Ordering::SeqCst) <= THREADS_MAX);
        drop(blocked);
        for name in &names {
            assert_eq!(resolver.resolve(name).await.unwrap().len(), 1);
        }
        assert_eq!(ASKED.load(Ordering::SeqCst), names.len(), "one lookup of each name");
        assert_eq!(resolver.resolve("unknown:1").await.unwrap_err().to_string(), "no such name");
        assert!(resolver.state().lookups.is_empty());
    }
}
