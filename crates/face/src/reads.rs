//! What the routes show of the whole cluster. Every document is made for one request at a time and kept for a moment: any
//! number of readers costs the members no more than a few questions a second.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use client::{ClientError, Gathered, Members, Observer, explain, json};
use hyper::StatusCode;
use hyper::body::Bytes;
use tokio::sync::Mutex as AsyncMutex;

use crate::answer::{Answer, JSON, Problem, to_json, whole};
use crate::routes::What;

/// How long the leader is searched for.
const LEADER_PATIENCE: Duration = Duration::from_secs(2);
/// The page is not held back for longer by members that do not answer: it asks again by itself.
const AT_ONCE: Duration = Duration::from_millis(300);

/// Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct Reads(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The members as far as they are known; another list is learnt by asking.
    members: Mutex<Members>,
    shelves: [Shelf; 5],
}

/// The document of one route. The lock is held while it is made, so others wait for it instead of asking again.
#[derive(Debug)]
struct Shelf {
    what: What,
    fresh: Duration,
    document: AsyncMutex<Option<(Instant, Bytes)>>,
}

impl Reads {
    pub(crate) fn new(members: Members) -> Self {
        let shelf = |what, ms| Shelf { what, fresh: Duration::from_millis(ms), document: AsyncMutex::default() };
        let shelves = [
            shelf(What::Status, 100),
            shelf(What::Locks, 200),
            shelf(What::History, 500),
            shelf(What::Audit, 500),
            shelf(What::Explain, 500),
        ];
        Reads(Arc::new(Inner { members: Mutex::new(members), shelves }))
    }

    pub(crate) async fn answer(&self, what: What) -> Result<Answer, Problem> {
        if what == What::Algorithms {
            return Ok(crate::answer::json(&json::catalog()));
        }
        let Some(shelf) = self.0.shelves.iter().find(|shelf| shelf.what == what) else {
            return Err(Problem::new(StatusCode::NOT_FOUND, "nothing to show"));
        };
        Ok(whole(StatusCode::OK, JSON, self.document(shelf).await?))
    }

    /// A document that can be had at once.
    pub(crate) async fn at_once(&self, what: What) -> Option<Bytes> {
        let shelf = self.0.shelves.iter().find(|shelf| shelf.what == what)?;
        tokio::time::timeout(AT_ONCE, self.document(shelf)).await.ok()?.ok()
    }

    async fn document(&self, shelf: &Shelf) -> Result<Bytes, Problem> {
        let mut document = shelf.document.lock().await;
        let fresh = document.as_ref().filter(|(made, _)| made.elapsed() < shelf.fresh).map(|(_, bytes)| bytes.clone());
        if let Some(bytes) = fresh {
            return Ok(bytes);
        }
        let bytes = self.make(shelf.what).await?;
        Ok(document.insert((Instant::now(), bytes)).1.clone())
    }

    async fn make(&self, what: What) -> Result<Bytes, Problem> {
        match what {
            What::Status => self.status().await,
            What::Locks => self.locks().await,
            what => self.ledgers(what).await,
        }
    }

    async fn status(&self) -> Result<Bytes, Problem> {
        let mut members = self.members();
        let answers = members.ask_listed().await;
        let document = to_json(&members.status(&answers));
        self.learn(members);
        document
    }

    async fn ledgers(&self, what: What) -> Result<Bytes, Problem> {
        let gathered = Gathered::from(&self.listed().await).await.map_err(|_| unreachable())?;
        let ledgers = &gathered.ledgers;
        match what {
            What::History => to_json(&json::History::new(&client::history::reigns(ledgers), ledgers)),
            What::Audit => {
                let audit = gathered.audit();
                to_json(&json::Audit::new(&audit, gathered.safety(), ledgers))
            }
            _ => to_json(&json::Explain::new(&explain(&gathered.evidence()), ledgers)),
        }
    }

    async fn locks(&self) -> Result<Bytes, Problem> {
        let members = self.listed().await;
        match members.locks(None, LEADER_PATIENCE).await {
            Ok(locks) => to_json(&locks),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Follows everything that members announce.
    pub(crate) async fn observer(&self) -> Observer {
        self.listed().await.observer_of_everything()
    }

    pub(crate) fn members(&self) -> Members {
        self.0.members.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The members of the present list.
    pub(crate) async fn listed(&self) -> Members {
        let mut members = self.members();
        members.ask_listed().await;
        self.learn(members.clone());
        members
    }

    fn learn(&self, members: Members) {
        *self.0.members.lock().unwrap_or_else(PoisonError::into_inner) = members;
    }
}

fn unreachable() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "no member answers")
}

/// A request to a member failed.
pub(crate) fn failed(error: &ClientError) -> Problem {
    use client::FailCode;
    let code = match error {
        ClientError::Failed { code: FailCode::NoLeader, .. } | ClientError::Timeout => StatusCode::SERVICE_UNAVAILABLE,
        ClientError::Failed { code: FailCode::Refused, .. } => StatusCode::FORBIDDEN,
        ClientError::Failed { .. } => StatusCode::CONFLICT,
        _ => StatusCode::BAD_GATEWAY,
    };
    let detail = match error {
        ClientError::Timeout => "no leader answers".to_owned(),
        error => error.to_string(),
    };
    Problem::new(code, detail)
}
