//! Every lock algorithm that a config may name, over real processes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use client::Session;
use locks::catalog::rows;
use testkit::Live;
use types::Token;

use super::{ALL, TTL, session, soon, three};

const SESSIONS: usize = 3;
const CYCLES: usize = 10;

/// What all sessions of a test see of the lock.
#[derive(Default)]
struct Sections {
    inside: AtomicBool,
    tokens: Mutex<Vec<Token>>,
}

async fn cycle(session: Session, sections: Arc<Sections>) {
    for _ in 0..CYCLES {
        let guard = soon(session.lock("a")).await.expect("the lock");
        assert!(!sections.inside.swap(true, Ordering::SeqCst), "two sections at once");
        sections.tokens.lock().unwrap().push(guard.token());
        tokio::task::yield_now().await;
        sections.inside.store(false, Ordering::SeqCst);
        soon(guard.release().into_future()).await.expect("a release");
    }
    session.close().await;
}

async fn contend(live: &Live, sections: &Arc<Sections>) {
    let mut runs = Vec::new();
    for _ in 0..SESSIONS {
        runs.push(tokio::spawn(cycle(session(live, TTL).await, Arc::clone(sections))));
    }
    for run in runs {
        run.await.expect("a session");
    }
}

#[tokio::test]
async fn every_lock_algorithm_excludes_before_and_after_the_death_of_a_member() {
    for row in rows() {
        let lines = "\n[timing]\nlease = \"1s\"\nsuspect_after = \"500ms\"\n[locks]\nmax_ttl = \"10s\"\nalgorithm = ";
        let mut live = Live::start_with(&three(), &format!("{lines}\"{}\"\n", row.name));
        live.agreement_on(3, ALL).await;
        live.voting(ALL).await;
        let sections = Arc::new(Sections::default());
        contend(&live, &sections).await;
        live.kill(1).await;
        contend(&live, &sections).await;
        let tokens = sections.tokens.lock().unwrap().clone();
        assert_eq!(tokens.len(), 2 * SESSIONS * CYCLES, "{}", row.name);
        assert!(tokens.is_sorted_by(|a, b| a < b), "{}: {tokens:?}", row.name);
        println!("{}: {} sections, one after the other", row.name, tokens.len());
    }
}
