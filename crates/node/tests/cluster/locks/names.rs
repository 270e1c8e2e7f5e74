//! Many locks at a time: what they cost in memory, and how long a new leader takes to take them over.
//! `CONCLAVE_LOCK_NAMES=100000` is the long form.

use std::time::{Duration, Instant};

use client::{LockGuard, Session};
use testkit::{Live, PATIENCE, number, resident_kib};

use super::{ALL, leader_now, session, three};

/// Locks of one session.
const EACH: u64 = 1_000;
/// Requests of one session on their way at a time.
const TASKS: u64 = 16;
/// Longer than anything here takes, so that no lock expires.
const TTL: Duration = Duration::from_mins(1);

async fn hold(session: Session, from: u64, count: u64) -> Vec<LockGuard> {
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let session = session.clone();
            tokio::spawn(async move {
                let mut guards = Vec::new();
                for number in (from..from + count).skip(task as usize).step_by(TASKS as usize) {
                    guards.push(session.lock(&format!("name-{number}")).await.expect("a free lock"));
                }
                guards
            })
        })
        .collect();
    let mut guards = Vec::new();
    for task in tasks {
        guards.extend(task.await.expect("a task"));
    }
    guards
}

#[tokio::test]
async fn many_names_are_held_over_the_death_of_the_leader() {
    let names = number("CONCLAVE_LOCK_NAMES", 2_000);
    let limit = format!("\n[timing]\nlease = \"2s\"\nsuspect_after = \"1s\"\n[locks]\nmax_names = {}\n", names + 1);
    let mut live = Live::alone_with(&three(), &limit);
    live.agreement(ALL).await;
    live.voting(ALL).await;
    let mut sessions = Vec::new();
    for _ in 0..names.div_ceil(EACH) {
        let session = session(&live, TTL).await;
        session.keep_alive_in_background();
        sessions.push(session);
    }
    let resident = |live: &Live| ALL.iter().map(|&id| resident_kib(live.cluster.pid(id).unwrap())).collect::<Vec<_>>();
    let (before, began) = (resident(&live), Instant::now());
    let mut guards = Vec::new();
    for (at, session) in (0..).zip(&sessions) {
        let from = at * EACH;
        guards.extend(hold(session.clone(), from, EACH.min(names - from)).await);
    }
    println!("{} locks are held after {:?}", guards.len(), began.elapsed());
    let (leader, epoch) = leader_now(&live).await;
    for (id, (before, after)) in ALL.iter().zip(before.into_iter().zip(resident(&live))) {
        let role = if *id == leader { "leader" } else { "follower" };
        let each = after.saturating_sub(before) * 1024 / names;
        println!("member {id}, {role}: {before} KiB before, {after} KiB after, {each} bytes a lock");
    }
    live.kill(leader).await;
    let killed = Instant::now();
    let rest: Vec<u32> = ALL.iter().copied().filter(|&id| id != leader).collect();
    live.agreement_that(&rest, |_, later| later > epoch).await;
    let elected = killed.elapsed();
    let granted = sessions[0].lock_timeout("another", 3 * PATIENCE).await;
    let granted = granted.unwrap_or_else(|error| panic!("{error}\n{}", live.logs()));
    println!("after the kill: a leader after {elected:?}, the first grant after {:?}", killed.elapsed());
    let held: u64 = count(&live).await;
    assert_eq!(held, names + 1, "every lock, and the one that was taken after the kill");
    println!("all {held} locks are listed {:?} after the kill", killed.elapsed());
    assert!(guards.iter().all(|guard| guard.remaining() > Duration::ZERO), "every holder may act");
    assert!(guards.iter().all(|guard| guard.token() < granted.token()));
}

/// What the leader lists.
async fn count(live: &Live) -> u64 {
    let mut cluster = client::LeaderClient::new(live.cluster.endpoints(), live.cluster.settings());
    let page = cluster.ask_leader(|client| async move { client.locks(None).await });
    let page = tokio::time::timeout(3 * PATIENCE, page).await.expect("in time").unwrap();
    page.locks.iter().filter(|lock| !lock.holders.is_empty()).count() as u64
}
