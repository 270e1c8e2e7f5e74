//! Limits that are reached: each has its own refusal, and nothing that was granted before is lost by it. A client that asks as fast
//! as it can costs no election.

use client::{Client, LockError, Session};
use locks::wire::{OpenRefusal, Refusal};
use testkit::{Live, PATIENCE, refused};

use super::{ALL, TTL, session, soon, three, waiting};

const SMALL: &str = "\n[timing]\nlease = \"2s\"\nsuspect_after = \"1s\"\n[locks]\nmax_ttl = \"10s\"\nmax_names = 3\n\
                     max_sessions = 4\nmax_waiters = 1\n";

#[tokio::test]
async fn every_limit_has_its_own_refusal_and_nothing_is_lost() {
    let live = Live::start_with(&three(), SMALL);
    let (one, two, three) = (session(&live, TTL).await, session(&live, TTL).await, session(&live, TTL).await);
    let held = (one.lock("a").await.unwrap(), two.slots("s", 2).await.unwrap(), two.lock("c").await.unwrap());
    let refusal = |result: Result<_, LockError>| match result {
        Err(LockError::Refused(why)) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal(one.lock("d").await), Refusal::TooManyNames);
    assert_eq!(refusal(one.slots("s", 3).await), Refusal::OtherMode(locks::wire::Mode::Slots(2)));
    assert_eq!(refusal(one.lock("a").await), Refusal::Again);
    refused(&live.ctl(&["lock", "d", "--", "true"]).await, 1, &["max_names in [locks]"]);
    refused(&live.ctl(&["lock", "s", "--slots", "3", "--", "true"]).await, 1, &["a semaphore with 2 slots"]);
    let waits = tokio::spawn(async move { three.lock("a").await.unwrap().token() });
    waiting(&live, "a", 1).await;
    assert_eq!(refusal(two.lock("a").await), Refusal::TooManyWaiters);
    let last = session(&live, TTL).await;
    let opened = Session::open_within(live.cluster.endpoints(), live.cluster.settings(), TTL, PATIENCE).await;
    assert!(matches!(opened, Err(LockError::NotOpened(OpenRefusal::TooManySessions))), "{opened:?}");
    refused(&live.ctl(&["lock", "a", "--", "true"]).await, 1, &["max_sessions in [locks]"]);
    // The holder of a lock is meant by its token: no other release frees it.
    refused(&live.ctl(&["unlock", "a", "--token", "1"]).await, 1, &["no holder has the lock"]);
    assert!(matches!(last.try_lock("c").await, Err(LockError::Busy)));
    let first = held.0.token();
    held.0.release().await.unwrap();
    assert!(soon(waits).await.unwrap() > first, "the waiter is served");
    held.1.release().await.unwrap();
    held.2.release().await.unwrap();
    soon(last.lock("d")).await.unwrap();
}

#[tokio::test]
async fn a_client_that_asks_for_locks_as_fast_as_it_can_costs_no_election() {
    const REQUESTS: usize = 16_000;
    const TASKS: usize = 16;
    let mut live = Live::alone_with(&three(), super::PATIENT);
    live.agreement(ALL).await;
    live.voting(ALL).await;
    let session = session(&live, TTL).await;
    // The member that wins elections leads: none is due.
    live.agreement_on(3, ALL).await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let session = session.clone();
            tokio::spawn(async move {
                for number in 0..REQUESTS / TASKS {
                    // Free, held by another task, and refused.
                    match session.try_lock(&format!("flood-{}", (task + number) % 12)).await {
                        Ok(guard) => drop(guard),
                        Err(LockError::Busy | LockError::Refused(Refusal::Again)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(3 * PATIENCE, task).await.expect("every request is answered").unwrap();
    }
    for endpoint in live.cluster.endpoints() {
        let status = Client::connect(&endpoint.address, live.cluster.settings()).await.unwrap().status().await.unwrap();
        assert_eq!(status.leader, Some(3), "{}", live.logs());
    }
    // A leader moves its epoch past that of a voter that had bid for itself at the start: no election.
    let log = live.cluster.log_tail(3, usize::MAX);
    let mut changes = log.lines().filter(|line| line.contains("old=\"leader\""));
    assert!(changes.all(|line| line.contains("cause=\"bumped\"")), "{}", live.logs());
}
