//! Clusters that begin, and voters that lost their disks.

use std::fs;
use std::time::Duration;

use serde_json::Value;
use testkit::{Live, PATIENCE, done, node_binary, refused, stdout};
use tokio::process::{Child, Command};

use super::{ALL, events_within, plan, runs};

/// Everything is there, nobody runs.
fn prepared(nodes: u32) -> Live {
    Live::alone_prepared(&plan(nodes), "")
}

/// A member with one more word of the operator, logging where it always does.
pub(crate) fn start_with(live: &Live, id: u32, word: &str) -> Child {
    let data = live.cluster.data_directory(id);
    let log = fs::OpenOptions::new().create(true).append(true).open(data.join("log")).unwrap();
    let mut command = Command::new(node_binary());
    command.arg("--config").arg(live.cluster.config()).args(["--id", &id.to_string()]).arg("--data-dir").arg(data);
    command.arg(word).stderr(log).kill_on_drop(true).spawn().unwrap()
}

pub(crate) async fn exits_with(child: &mut Child, code: i32) {
    let status = tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends").unwrap();
    assert_eq!(status.code(), Some(code));
}

#[tokio::test]
async fn a_new_cluster_waits_for_its_last_voter() {
    let mut live = prepared(5);
    for id in 1..5 {
        live.cluster.start(id).unwrap();
    }
    refused(&live.ctl(&["leader", "--wait", "3s"]).await, 5, &["no leader"]);
    refused(&live.ctl(&["leader"]).await, 4, &["no leader"]);
    let status = live.ctl(&["status", "-o", "json"]).await;
    assert_eq!(status.status.code(), Some(4));
    let status: Value = serde_json::from_str(&stdout(&status)).unwrap();
    assert_eq!((&status["verdict"], &status["epoch"]), (&"ELECTING".into(), &0.into()), "{status}");
    let why = stdout(&live.ctl(&["explain"]).await);
    assert!(why.contains("cannot vote yet") && why.contains("--bootstrap"), "{why}");
    live.cluster.start(5).unwrap();
    live.agreement(ALL).await;
}

#[tokio::test]
async fn a_new_cluster_begins_without_all_voters_on_the_word_of_the_operator() {
    let mut live = prepared(5);
    let mut bootstrapped: Vec<Child> = [1, 2, 3].map(|id| start_with(&live, id, "--bootstrap")).into();
    let first = live.agreement_on(3, &[1, 2, 3]).await;
    // Who comes later has a disk without a vote, and hears of it.
    live.cluster.start(4).unwrap();
    live.cluster.start(5).unwrap();
    let (_, second) = live.agreement_that(ALL, |leader, _| leader == 5).await;
    assert!(second > first);
    // The word is for a new cluster.
    bootstrapped[0].kill().await.unwrap();
    exits_with(&mut start_with(&live, 1, "--bootstrap"), 2).await;
    let log = live.cluster.log_tail(1, 1);
    assert!(log.contains("--bootstrap is for a member without votes on disk"), "{log}");
}

fn lose_disk(live: &Live, id: u32) {
    let data = live.cluster.data_directory(id);
    fs::remove_dir_all(&data).unwrap();
    fs::create_dir(&data).unwrap();
}

#[tokio::test]
async fn a_voter_that_lost_its_disk_comes_back_under_the_same_leader() {
    let mut live = Live::alone(&plan(5));
    let before = live.agreement_on(5, ALL).await;
    live.voting(ALL).await;
    live.kill(1).await;
    lose_disk(&live, 1);
    live.cluster.start(1).unwrap();
    let window = Duration::from_secs(if runs() > 1 { 20 } else { 3 });
    let events = events_within(&mut live, window).await;
    let (leader, after) = live.agreement(ALL).await;
    let changes = events.iter().filter(|event| event.id != 1 && event.leader != Some(5)).count();
    println!("a lost disk: epoch {before}, then {after}; events {events:?}");
    assert_eq!((leader, changes), (5, 0), "{events:?}\n{}", live.logs());
    // It does vote: the majority hangs on it now.
    live.kill_all(&[2, 3]).await;
    assert_eq!(live.agreement_on(5, &[1, 4, 5]).await, after);
    done(&live.ctl(&["elect"]).await);
    live.agreement_that(&[1, 4, 5], |leader, epoch| leader == 5 && epoch > after).await;
}

/// Two of three are a majority, but one of them cannot know what it granted: the third must be heard first.
#[tokio::test]
async fn a_voter_that_lost_its_disk_makes_no_majority_before_it_has_read() {
    let mut live = Live::alone(&plan(3));
    let before = live.agreement_on(3, &[1, 2, 3]).await;
    live.voting(&[1, 2, 3]).await;
    live.kill_all(&[1, 2]).await;
    lose_disk(&live, 1);
    let alone = live.observer.until(|all| all.view(2).is_some_and(|view| !view.leads));
    tokio::time::timeout(PATIENCE, alone).await.expect("the lease ends");
    live.cluster.start(1).unwrap();
    refused(&live.ctl(&["leader", "--wait", "4s"]).await, 5, &["no leader"]);
    live.cluster.start(2).unwrap();
    let (_, after) = live.agreement(&[1, 2, 3]).await;
    assert!(after > before, "epoch {after} after {before}");
}
