//! Quorum reigns of real processes: pauses, cuts, handovers, deaths, children, and what the disks say at a start.
//! `CONCLAVE_QUORUM_RUNS=34` repeats the faults and lengthens the times of observation; `CONCLAVE_QUORUM_SEED` chooses
//! other moments for them.

mod children;
mod handovers;
mod lists;
mod roles;
mod starts;

use std::time::Duration;

use algorithms::catalog;
use client::{Role, Safety};
use sim::Rng;
use testkit::claims::Pollers;
use testkit::{Change, Live, PATIENCE, Plan, done};

const ALL: &[u32] = &[1, 2, 3, 4, 5];
/// The default of the config.
const LEASE: Duration = Duration::from_millis(500);

fn plan(nodes: u32) -> Plan {
    let row = catalog::row(catalog::DEFAULT).unwrap();
    Plan { safety: Safety::Quorum, chaos: true, ..Plan::new(nodes, row) }
}

fn runs() -> u64 {
    testkit::number("CONCLAVE_QUORUM_RUNS", 1)
}

fn seed() -> u64 {
    testkit::number("CONCLAVE_QUORUM_SEED", 1)
}

/// Every event of the members in such a time.
async fn events_within(live: &mut Live, time: Duration) -> Vec<Change> {
    let mut events = Vec::new();
    let collect = async {
        loop {
            events.extend(Change::of(&live.observer.next().await.news));
        }
    };
    let ended: Result<(), _> = tokio::time::timeout(time, collect).await;
    assert!(ended.is_err());
    events
}

/// Below the lease and well above it. A question is put to the sleeper when its successor is known: it must not find a
/// leader when it wakes up.
#[tokio::test]
async fn a_leader_that_sleeps_never_claims_after_its_successor() {
    let mut live = Live::alone(&plan(5));
    let mut random = Rng::new(seed());
    let (_, mut epoch) = live.agreement(ALL).await;
    let mut pollers = Pollers::start(&live);
    let mut replaced = 0;
    let pauses = 6 * runs();
    for pause in 0..pauses {
        let (leader, _) = live.agreement_that(ALL, |_, found| found >= epoch).await;
        let spare = live.client(leader).await;
        tokio::time::sleep(Duration::from_millis(random.below(LEASE.as_millis() as u64))).await;
        live.cluster.pause(leader).unwrap();
        if pause % 2 == 0 {
            tokio::time::sleep(LEASE * 9 / 10).await;
        } else {
            let rest: Vec<u32> = ALL.iter().copied().filter(|&id| id != leader).collect();
            let (_, later) = live.agreement_that(&rest, |found, _| found != leader).await;
            assert!(later > epoch, "epoch {later} after {epoch}");
            pollers.heard(later).await;
            (epoch, replaced) = (later, replaced + 1);
            tokio::time::sleep(LEASE).await;
        }
        pollers.ask_once(spare);
        tokio::task::yield_now().await;
        live.cluster.resume(leader).unwrap();
    }
    live.agreement_that(ALL, |_, found| found >= epoch).await;
    let (answers, claims) = pollers.judge(&live);
    assert!(claims > 0);
    println!("{pauses} pauses, {replaced} of them with a successor: {answers} answers, {claims} claims, no conflict");
}

#[tokio::test]
async fn a_leader_on_the_smaller_side_stops_before_the_larger_side_has_one() {
    let mut live = Live::alone(&plan(5));
    let first = live.agreement_on(5, ALL).await;
    let pollers = Pollers::start(&live);
    done(&live.ctl(&["chaos", "cut", "4,5", "1,2,3"]).await);
    let second = live.agreement_on(3, &[1, 2, 3]).await;
    assert!(second > first, "epoch {second} after {first}");
    // Its lease was over before anybody could follow it, so this is true now, not soon.
    for id in [4, 5] {
        let status = live.client(id).await.status().await.unwrap();
        assert_ne!(status.role, Role::Leader, "{id} claims on the smaller side");
    }
    assert_eq!(live.leader().await, "3\n", "who knows nobody does not disagree");
    done(&live.ctl(&["chaos", "heal"]).await);
    let (_, third) = live.agreement_that(ALL, |_, epoch| epoch >= second).await;
    assert!(third >= second);
    pollers.judge(&live);
}

/// The leader and the next best do not reach each other, and both reach the others.
#[tokio::test]
async fn a_bridge_is_no_reason_to_change_the_leader() {
    let mut live = Live::alone(&plan(5));
    let before = live.agreement_on(5, ALL).await;
    done(&live.ctl(&["chaos", "cut", "5", "4"]).await);
    let lost = live.observer.until(|all| all.view(3).is_some_and(|view| view.leader.is_none()));
    tokio::time::timeout(PATIENCE, lost).await.expect("4 misses the leader");
    // It hears of the leader through the others.
    let settled = live.agreement_on(5, ALL).await;
    let window = Duration::from_secs(if runs() > 1 { 60 } else { 5 });
    let events = events_within(&mut live, window).await;
    let changes = events.iter().filter(|event| event.leader != Some(5)).count();
    println!("a bridge: epoch {before} to {settled}, then {} events in {window:?}: {events:?}", events.len());
    assert_eq!(changes, 0, "{events:?}\n{}", live.logs());
    let (leader, after) = live.agreement(ALL).await;
    assert_eq!(leader, 5);
    assert!(after >= settled);
    done(&live.ctl(&["chaos", "heal"]).await);
    assert_eq!(live.agreement(ALL).await.0, 5);
}

#[tokio::test]
async fn a_member_that_was_cut_off_comes_back_under_the_same_leader() {
    let mut live = Live::alone(&plan(5));
    let before = live.agreement_on(5, ALL).await;
    // The next best would be the first to try.
    done(&live.ctl(&["chaos", "cut", "4", "1,2,3,5"]).await);
    let window = Duration::from_secs(if runs() > 1 { 60 } else { 3 });
    let mut events = events_within(&mut live, window).await;
    let alone = live.client(4).await.status().await.unwrap();
    assert_eq!((alone.role, alone.leader), (Role::Candidate, None));
    done(&live.ctl(&["chaos", "heal"]).await);
    let after = live.agreement_on(5, ALL).await;
    events.extend(events_within(&mut live, 4 * LEASE).await);
    assert_eq!(live.agreement(ALL).await.0, 5);
    let changes = events.iter().filter(|event| event.id != 4 && event.leader != Some(5)).count();
    println!("cut off for {window:?}: epoch {before}, then {after}; events {events:?}");
    assert_eq!(changes, 0, "{events:?}\n{}", live.logs());
}
