//! Locks over real processes: members are killed, restarted and lost, clients hang and die.

mod limits;
mod lock_algorithms;
mod names;
mod register;

use std::time::Duration;

use algorithms::catalog;
use client::{LeaderClient, LockError, LostReason, MemberStatus, Right, Safety, Session};
use locks::LockName;
use locks::wire::{Mode, SessionId};
use testkit::{Live, PATIENCE, Plan, done, number};
use types::since_boot;

const ALL: &[u32] = &[1, 2, 3];
const FIVE: &[u32] = &[1, 2, 3, 4, 5];
const TTL: Duration = Duration::from_secs(10);

fn three() -> Plan {
    members(3)
}

fn five() -> Plan {
    members(5)
}

fn members(count: u32) -> Plan {
    Plan { safety: Safety::Quorum, ..Plan::new(count, catalog::row(catalog::DEFAULT).unwrap()) }
}

/// A lease that a busy machine does not miss. If two members stand in the first election, the winner waits for max_ttl.
const PATIENT: &str = "\n[timing]\nlease = \"2s\"\nsuspect_after = \"1s\"\n[locks]\nmax_ttl = \"10s\"\n";

async fn session(live: &Live, ttl: Duration) -> Session {
    let opened = Session::open_within(live.cluster.endpoints(), live.cluster.settings(), ttl, PATIENCE).await;
    opened.unwrap_or_else(|error| panic!("{error}\n{}", live.logs()))
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("in time")
}

/// By new answers of all members: what the observer of a test heard may be old.
async fn leader_now(live: &Live) -> (u32, u64) {
    let agree =
        |all: &[MemberStatus]| all.iter().all(|status| status.leader.is_some() && status.leader == all[0].leader);
    let status = live.statuses_that(ALL, agree).await.swap_remove(0);
    (status.leader.expect("a leader"), status.epoch)
}

/// Waits until so many sessions wait for the lock.
async fn waiting(live: &Live, name: &str, waiters: usize) {
    let mut cluster = LeaderClient::new(live.cluster.endpoints(), live.cluster.settings());
    waiting_at(&mut cluster, name, waiters).await;
}

/// Returns them in the order in which they will be served.
async fn waiting_at(cluster: &mut LeaderClient, name: &str, waiters: usize) -> Vec<SessionId> {
    let name = LockName::new(name).unwrap();
    soon(async {
        loop {
            let page = cluster.ask_leader(|client| {
                let name = name.clone();
                async move { client.locks(Some(name)).await }
            });
            let now = page.await.unwrap().locks.pop().map_or(Vec::new(), |lock| lock.waiters);
            if now.len() == waiters {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

#[tokio::test]
async fn a_lock_has_one_holder_passes_on_in_order_and_its_tokens_rise() {
    let live = Live::start_with(&three(), PATIENT);
    let first = session(&live, TTL).await;
    let guard = first.lock("a").await.unwrap();
    assert!(guard.remaining() > Duration::ZERO && guard.remaining() < TTL);
    let mut waiters = Vec::new();
    for number in 0..4 {
        let other = session(&live, TTL).await;
        assert!(matches!(other.try_lock("a").await, Err(LockError::Busy)));
        waiters.push(tokio::spawn(async move {
            let guard = other.lock("a").await.unwrap();
            (number, guard.token(), guard.release().durable().await)
        }));
        waiting(&live, "a", number + 1).await;
    }
    let mut last = guard.token();
    guard.release().await.unwrap();
    for (expected, waiter) in waiters.into_iter().enumerate() {
        let (number, token, released) = soon(waiter).await.unwrap();
        released.unwrap();
        assert_eq!(number, expected, "in the order of the requests");
        assert!(token > last, "{token} after {last}");
        last = token;
    }
}

#[tokio::test]
async fn readers_share_and_a_semaphore_has_its_slots() {
    let live = Live::start_with(&three(), PATIENT);
    let (one, two, three) = (session(&live, TTL).await, session(&live, TTL).await, session(&live, TTL).await);
    let (reads, also) = (one.shared("r").await.unwrap(), two.shared("r").await.unwrap());
    assert!(matches!(three.try_lock("r").await, Err(LockError::Busy)), "a writer waits for the readers");
    drop((reads, also));
    soon(three.lock("r")).await.unwrap();
    let slots = (one.slots("s", 2).await.unwrap(), two.slots("s", 2).await.unwrap());
    let busy = three.acquire(&LockName::new("s").unwrap(), Mode::Slots(2), client::Wait::No).await;
    assert!(matches!(busy, Err(LockError::Busy)), "{busy:?}");
    let other_size = three.slots("s", 3).await;
    assert!(matches!(other_size, Err(LockError::Refused(_))), "{other_size:?}");
    slots.0.release().await.unwrap();
    slots.1.release().await.unwrap();
    soon(three.slots("s", 3)).await.unwrap();
}

#[tokio::test]
async fn several_locks_are_taken_in_one_order_and_a_dropped_request_is_withdrawn() {
    let live = Live::start_with(&three(), PATIENT);
    let (one, two) = (session(&live, TTL).await, session(&live, TTL).await);
    let guards = one.lock_many(&["b", "a"]).await.unwrap();
    assert_eq!(guards.iter().map(|guard| guard.name().to_owned()).collect::<Vec<_>>(), ["a", "b"]);
    assert!(matches!(one.lock_many(&["c", "c"]).await, Err(LockError::Twice(_))));
    {
        let mut pending = Box::pin(two.lock("a"));
        let none = tokio::time::timeout(Duration::from_millis(50), &mut pending).await;
        assert!(none.is_err(), "held by the other session");
        waiting(&live, "a", 1).await;
    }
    waiting(&live, "a", 0).await;
    let late = two.lock_timeout("a", Duration::from_millis(50)).await;
    assert!(matches!(late, Err(LockError::TimedOut)), "{late:?}");
}

/// A session that nobody polls is silent: its lock passes on, and what it does later counts for nothing.
#[tokio::test]
async fn a_program_that_hangs_loses_its_lock_and_its_late_release_frees_nothing() {
    let live = Live::start_with(&three(), PATIENT);
    let (hung, next, third) =
        (session(&live, Duration::from_millis(500)).await, session(&live, TTL).await, session(&live, TTL).await);
    let mut held = hung.lock("a").await.unwrap();
    // Nothing polls `hung` while this waits.
    let guard = soon(next.lock("a")).await.unwrap();
    assert!(guard.token() > held.token());
    assert_eq!(held.remaining(), Duration::ZERO, "the client knows before the clerk gives the lock on");
    assert!(matches!(held.changed().await, Right::Lost(LostReason::Lapsed | LostReason::Expired)));
    let _ = soon(held.release().into_future()).await;
    assert!(matches!(third.try_lock("a").await, Err(LockError::Busy)), "the next holder still has it");
    // The session that was lost begins anew by itself.
    assert!(matches!(hung.try_lock("a").await, Err(LockError::Busy)));
    drop(guard);
    soon(hung.lock("a")).await.unwrap();
}

#[tokio::test]
async fn keep_alives_in_the_background_hold_a_lock_that_nobody_polls() {
    let live = Live::start_with(&three(), PATIENT);
    let ttl = Duration::from_millis(600);
    let (hung, other) = (session(&live, ttl).await, session(&live, TTL).await);
    hung.keep_alive_in_background();
    let held = hung.lock("a").await.unwrap();
    let refused = other.lock_timeout("a", 3 * ttl).await;
    assert!(matches!(refused, Err(LockError::TimedOut)), "{refused:?}");
    assert!(held.remaining() > Duration::ZERO);
}

/// The waiters queue again at the next leader, in their order. All of them dial it at once.
#[tokio::test]
async fn a_killed_leader_loses_no_waiter_and_not_their_order() {
    let waiters = number("CONCLAVE_LOCK_WAITERS", 100) as usize;
    let mut live = Live::alone_with(&three(), PATIENT);
    // A voter that has not granted the reign has no copy of the table.
    live.agreement(ALL).await;
    live.voting(ALL).await;
    let holder = session(&live, TTL).await;
    // Until all of them wait.
    holder.keep_alive_in_background();
    let guard = holder.lock("a").await.unwrap();
    let mut cluster = LeaderClient::new(live.cluster.endpoints(), live.cluster.settings());
    let (served, mut order) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..waiters {
        let (waiter, served) = (session(&live, TTL).await, served.clone());
        tokio::spawn(async move {
            let id = waiter.id();
            let granted = waiter.lock("a").await;
            served.send((id, granted.as_ref().map(client::LockGuard::token).map_err(Clone::clone))).unwrap();
            granted.unwrap().release().await.unwrap();
        });
    }
    let line = waiting_at(&mut cluster, "a", waiters).await;
    let (leader, epoch) = leader_now(&live).await;
    live.kill(leader).await;
    let rest: Vec<u32> = ALL.iter().copied().filter(|&id| id != leader).collect();
    let elected = live.agreement_that(&rest, |_, later| later > epoch);
    guard.protect(elected).await.expect("the holder keeps it");
    let mut last = guard.token();
    guard.release().await.unwrap();
    for (at, expected) in line.iter().enumerate() {
        let (id, granted) = soon(order.recv()).await.expect("a waiter is lost");
        let token = granted.unwrap_or_else(|error| panic!("waiter {at}: {error}\n{}", live.logs()));
        assert_eq!(id, *expected, "waiter {at} of {waiters}\n{}", live.logs());
        assert!(token > last, "{token} after {last}");
        last = token;
    }
}

/// No voter remembers anything: every lock that may be held must expire first.
#[tokio::test]
async fn after_all_members_were_killed_nothing_is_granted_before_the_largest_ttl_has_passed() {
    let max_ttl = Duration::from_secs(3);
    let mut live = Live::alone_with(&three(), "\n[locks]\nmax_ttl = \"3s\"\n");
    let before = session(&live, Duration::from_secs(2)).await;
    let token = before.lock("a").await.unwrap().token();
    drop(before);
    live.kill_all(ALL).await;
    let restarted = since_boot();
    live.cluster.start_all().unwrap();
    let after = session(&live, Duration::from_secs(2)).await;
    let guard = soon(after.lock("b")).await.unwrap();
    let waited = since_boot().saturating_sub(restarted);
    assert!(waited >= max_ttl, "granted after {waited:?}");
    assert!(guard.token() > token, "{} after {token}", guard.token());
}

/// Its process hangs while clients wait for the end of the time to live. It does not close their connections.
#[tokio::test]
async fn a_session_leaves_a_leader_that_hangs_before_it_serves() {
    let mut live = Live::alone_with(&three(), "\n[locks]\nmax_ttl = \"6s\"\n");
    live.agreement(ALL).await;
    live.kill_all(ALL).await;
    live.cluster.start_all().unwrap();
    let (leader, _) = leader_now(&live).await;
    let mut endpoints = live.cluster.endpoints();
    endpoints.sort_by_key(|endpoint| endpoint.id != Some(leader));
    let opening = Session::open_within(endpoints, live.cluster.settings(), Duration::from_secs(2), 2 * PATIENCE);
    let mut opening = Box::pin(opening);
    // Long enough to be told to wait, too short to be served.
    let served = tokio::time::timeout(Duration::from_millis(500), &mut opening).await;
    live.cluster.pause(leader).unwrap();
    if served.is_err() {
        opening.await.unwrap_or_else(|error| panic!("{error}\n{}", live.logs()));
    }
    live.cluster.resume(leader).unwrap();
}

#[tokio::test]
async fn voters_are_changed_while_locks_are_held_and_nothing_is_lost() {
    let mut live = Live::alone_with(&three(), PATIENT);
    live.agreement(ALL).await;
    live.voting(ALL).await;
    let holder = session(&live, TTL).await;
    let guard = holder.lock("a").await.unwrap();
    let change = async {
        // Leadership may move while it is asked: another voter, then.
        loop {
            let (leader, _) = live.agreement(ALL).await;
            let follower = ALL.iter().copied().find(|&id| id != leader).unwrap().to_string();
            let removed = live.ctl(&["member", "remove", &follower, "--yes", "--timeout", "10s"]).await;
            if removed.status.success() {
                return;
            }
        }
    };
    soon(guard.protect(change)).await.expect("still held");
    let other = session(&live, TTL).await;
    assert!(matches!(other.try_lock("a").await, Err(LockError::Busy)));
}

#[tokio::test]
async fn an_operator_takes_a_lock_and_the_ledger_has_it() {
    let mut live = Live::start_with(&three(), PATIENT);
    live.agreement(ALL).await;
    let (holder, next) = (session(&live, TTL).await, session(&live, TTL).await);
    let mut guard = holder.lock("a").await.unwrap();
    let waits = tokio::spawn(async move { next.lock("a").await.unwrap().token() });
    waiting(&live, "a", 1).await;
    let token = guard.token().to_string();
    let wrong = live.ctl(&["unlock", "a", "--token", "7"]).await;
    testkit::refused(&wrong, 1, &["no holder has the lock \"a\" with the token 7"]);
    done(&live.ctl(&["unlock", "a", "--token", &token]).await);
    assert!(soon(waits).await.unwrap() > guard.token());
    let lost = soon(async {
        loop {
            if let Right::Lost(why) = guard.changed().await {
                return why;
            }
        }
    });
    assert_eq!(lost.await, LostReason::Taken);
    let (history, _) = live.json(&["history"]).await;
    let orders = history["orders"].as_array().unwrap();
    assert!(orders.iter().any(|order| order["order"] == format!("unlock --token {token}")), "{history}");
}
