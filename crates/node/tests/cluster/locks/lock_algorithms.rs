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

/// Every member knows the locks of its own clients.
#[tokio::test]
async fn in_views_the_locks_of_all_members_are_listed_and_can_be_taken() {
    let lines = "\n[timing]\nlease = \"2s\"\nsuspect_after = \"1s\"\n[locks]\nalgorithm = \"ricart-agrawala\"\n";
    let mut live = Live::start_with(&three(), lines);
    live.agreement_on(3, ALL).await;
    live.voting(ALL).await;
    let (endpoints, settings) = (live.cluster.endpoints(), live.cluster.settings().clone());
    let mut held = Vec::new();
    for (endpoint, name) in endpoints.into_iter().zip(["x", "y", "z"]) {
        let session = Session::open_within(vec![endpoint], &settings, TTL, testkit::PATIENCE).await.unwrap();
        session.keep_alive_in_background();
        held.push(soon(session.lock(name)).await.unwrap());
    }
    let (locks, _) = live.json(&["locks"]).await;
    let names: Vec<&str> = locks["locks"].as_array().unwrap().iter().filter_map(|lock| lock["name"].as_str()).collect();
    assert_eq!((names, locks["silent"].as_array().unwrap().len()), (vec!["x", "y", "z"], 0), "{locks}");
    let token = held[0].token().to_string();
    testkit::refused(&live.ctl(&["unlock", "x", "--token", "7"]).await, 1, &["no holder has the lock"]);
    testkit::done(&live.ctl(&["unlock", "x", "--token", &token]).await);
    live.kill(2).await;
    let listed = live.ctl(&["locks"]).await;
    assert!(testkit::stderr(&listed).contains("not listed, because they do not answer: 2"), "{listed:?}");
}
