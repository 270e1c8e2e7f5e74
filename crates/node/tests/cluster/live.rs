//! Real processes: elected, killed, paused, restarted and asked through the real binary.

use algorithms::Topology;
use algorithms::catalog::{self, Row};
use serde_json::Value;
use testkit::{Live, Plan, stderr, stdout};

const ALL: &[u32] = &[1, 2, 3, 4, 5];

fn default_row() -> &'static Row {
    catalog::row(catalog::DEFAULT).unwrap()
}

fn five() -> Plan {
    Plan::new(5, default_row())
}

fn ring_row() -> &'static Row {
    Plan::choose(None, Some(Topology::Ring)).unwrap()
}

#[tokio::test]
async fn the_next_best_follows_a_killed_leader_which_takes_over_again_when_it_returns() {
    for row in [default_row(), ring_row()] {
        let mut live = Live::start(&Plan::new(5, row));
        let first = live.agreement_on(5, ALL).await;
        assert_eq!(live.leader().await, "5\n");
        live.kill(5).await;
        let second = live.agreement_on(4, &ALL[..4]).await;
        assert!(second > first, "{}: epoch {second} after {first}", row.name);
        assert_eq!(live.leader().await, "4\n");
        live.cluster.start(5).unwrap();
        let third = live.agreement_on(5, ALL).await;
        assert!(third > second, "{}: epoch {third} after {second}", row.name);
        assert_eq!(live.leader().await, "5\n");
        live.cluster.stop().await;
    }
}

#[tokio::test]
async fn the_last_survivor_leads() {
    let mut live = Live::start(&five());
    live.agreement_on(5, ALL).await;
    for id in [5, 4, 3, 2] {
        live.cluster.kill(id).unwrap();
    }
    for id in [5, 4, 3, 2] {
        live.cluster.reap(id).await.unwrap();
    }
    live.agreement_on(1, &[1]).await;
    assert_eq!(live.leader().await, "1\n");
    let status = live.ctl(&["status", "-o", "json"]).await;
    assert_eq!(status.status.code(), Some(0), "{}", stderr(&status));
    let status: Value = serde_json::from_str(&stdout(&status)).unwrap();
    assert_eq!((&status["verdict"], &status["leader"]), (&"AGREED".into(), &1.into()));
    let roles: Vec<&str> = status["members"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["leader", "down", "down", "down", "down"]);
}

#[tokio::test]
async fn without_preemption_a_returning_better_member_follows() {
    let mut live = Live::start(&Plan { preempt: false, ..five() });
    live.agreement_on(5, ALL).await;
    live.kill(5).await;
    let epoch = live.agreement_on(4, &ALL[..4]).await;
    live.cluster.start(5).unwrap();
    // A restarted member may be ahead in epochs, so the leader's may grow; the leader stays.
    let (leader, _) = live.agreement_that(ALL, |_, found| found >= epoch).await;
    assert_eq!(leader, 4, "{}", live.logs());
    assert_eq!(live.leader().await, "4\n");
}

#[tokio::test]
async fn a_paused_leader_is_replaced_and_on_its_return_one_leader_remains() {
    let mut live = Live::start(&five());
    live.agreement_on(5, ALL).await;
    live.cluster.pause(5).unwrap();
    live.agreement_on(4, &ALL[..4]).await;
    assert_eq!(live.leader().await, "4\n", "a member that does not answer is no disagreement");
    live.cluster.resume(5).unwrap();
    live.agreement_on(5, ALL).await;
    assert_eq!(live.leader().await, "5\n");
}

#[tokio::test]
async fn nine_members_that_start_in_the_same_moment_agree() {
    for row in [default_row(), ring_row()] {
        let mut live = Live::start(&Plan::new(9, row));
        live.agreement_on(9, &[1, 2, 3, 4, 5, 6, 7, 8, 9]).await;
    }
}

#[tokio::test]
async fn elect_begins_a_new_epoch_and_step_down_brings_the_next_best() {
    let mut live = Live::start(&five());
    let before = live.agreement_on(5, ALL).await;
    let output = live.ctl(&["elect", "-o", "json"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let change: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&change["leader"], &change["was"]), (&5.into(), &5.into()));
    assert!(change["epoch"].as_u64().unwrap() > before);

    let output = live.ctl(&["step-down", "-o", "json"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let change: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&change["leader"], &change["was"]), (&4.into(), &5.into()));
    assert_eq!(live.leader().await, "4\n");
}

/// Other elections have no way to name the next leader without a quorum.
#[tokio::test]
async fn raft_hands_leadership_over_under_classic_safety() {
    let mut live = Live::start(&Plan::new(3, catalog::row("raft").unwrap()));
    let all = &ALL[..3];
    let (first, epoch) = live.agreement(all).await;
    let to = if first == 1 { 2 } else { 1 };
    let transferred = live.ctl(&["transfer", &to.to_string()]).await;
    assert_eq!(transferred.status.code(), Some(0), "{}", stderr(&transferred));
    let (_, epoch) = live.agreement_that(all, |leader, later| leader == to && later > epoch).await;
    let stepped = live.ctl(&["step-down"]).await;
    assert_eq!(stepped.status.code(), Some(0), "{}", stderr(&stepped));
    live.agreement_that(all, |leader, later| leader != to && later > epoch).await;
}
