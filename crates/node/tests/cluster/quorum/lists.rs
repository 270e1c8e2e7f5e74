//! Members whose configs disagree: with the others, or with their own disks.

use std::fs;

use client::{Role, Safety};
use testkit::{Live, PATIENCE, Plan};
use tokio::process::Child;

use super::plan;
use super::starts::{exits_with, start_with};

const THREE: &[u32] = &[1, 2, 3];
const ACCEPT: &str = "--accept-members";
const LEASE: &str = "[timing]\nlease = \"700ms\"\n\n[[peers]]\nid = 1\n";

/// Members that run have read theirs.
fn edit(live: &Live, from: &str, to: &str) {
    let config = live.cluster.config();
    let text = fs::read_to_string(&config).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(&config, text.replacen(from, to, 1)).unwrap();
}

/// It ends by itself with 2, and the last it says has all of this.
async fn refuses_to_start(live: &mut Live, id: u32, says: &[&str]) {
    live.cluster.start(id).unwrap();
    let ended = tokio::time::timeout(PATIENCE, live.cluster.reap(id)).await.expect("it ends").unwrap();
    let log = live.cluster.log_tail(id, 1);
    assert_eq!(ended.code(), Some(2), "{log}");
    for text in says {
        assert!(log.contains(text), "{text:?} is not said: {log}");
    }
}

/// Awaits lines in the logs: they are written by threads of their own.
async fn logged(live: &Live, id: u32, says: &[&str]) {
    let found = async {
        let fits = |line: &str| says.iter().all(|text| line.contains(text));
        while !live.cluster.log_tail(id, 100).lines().any(fits) {
            live.leader().await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, found).await.is_ok();
    assert!(in_time, "{id} never logged {says:?}\n{}", live.logs());
}

#[tokio::test]
async fn another_lease_or_list_than_on_disk_ends_the_start_and_than_the_others_the_handshake() {
    let another_list = "[[peers]]\nid = 4\naddress = \"127.0.0.1:4\"\n\n[[peers]]\nid = 1\n";
    let witness = "[[peers]]\nid = 1\nrole = \"witness\"\n";
    let lease = ["not what the votes on disk were given under", "Undo", ACCEPT];
    let list = ["the member list of the config is not the one on disk", "Undo", "`ctl member`"];
    for (change, said, fact) in
        [(LEASE, lease, "lease: "), (another_list, list, "members 4: "), (witness, list, "members 1: ")]
    {
        let mut live = Live::alone(&plan(3));
        let before = live.agreement_on(3, THREE).await;
        live.kill(1).await;
        edit(&live, "[[peers]]\nid = 1\n", change);
        refuses_to_start(&mut live, 1, &said).await;
        if change != LEASE {
            // That word is for the lease and the drift.
            exits_with(&mut start_with(&live, 1, ACCEPT), 2).await;
        }
        // Its disk was not touched by that; without one it gets as far as the others.
        fs::remove_file(live.cluster.data_directory(1).join("state")).unwrap();
        live.cluster.start(1).unwrap();
        logged(&live, 1, &["refused", fact, "n1 has", "n2 has"]).await;
        logged(&live, 2, &["refused", fact, "n1 has", "n2 has"]).await;
        let alone = live.client(1).await.status().await.unwrap();
        assert_eq!((alone.role, alone.leader), (if change == witness { Role::Witness } else { Role::Candidate }, None));
        assert_eq!(live.agreement(&[2, 3]).await, (3, before), "the others did not care");
    }
}

#[tokio::test]
async fn all_stopped_changed_and_accepted_they_go_on_in_later_epochs() {
    let mut live = Live::alone(&plan(3));
    let before = live.agreement_on(3, THREE).await;
    live.kill_all(THREE).await;
    edit(&live, "[[peers]]\nid = 1\n", LEASE);
    let mut accepted: Vec<Child> = THREE.iter().map(|&id| start_with(&live, id, ACCEPT)).collect();
    let (_, between) = live.agreement_that(THREE, |leader, epoch| leader == 3 && epoch > before).await;
    for (child, at) in accepted.iter_mut().zip(0..) {
        child.kill().await.unwrap();
        live.observer.forget(at);
    }
    // Once is enough: the disk knows now.
    live.cluster.start_all().unwrap();
    live.agreement_that(THREE, |leader, epoch| leader == 3 && epoch > between).await;
}

#[tokio::test]
async fn another_kind_of_safety_than_on_disk_ends_the_start() {
    for (was, is) in [(Safety::Quorum, Safety::Classic), (Safety::Classic, Safety::Quorum)] {
        let mut live = Live::alone(&Plan { safety: was, ..plan(3) });
        live.agreement_on(3, THREE).await;
        live.kill_all(THREE).await;
        edit(&live, &format!("safety = \"{was}\""), &format!("safety = \"{is}\""));
        let state = live.cluster.data_directory(1).join("state");
        let before = fs::read(&state).unwrap();
        let said =
            [format!("written with safety = \"{was}\""), format!("says \"{is}\""), "new data directories".into()];
        refuses_to_start(&mut live, 1, &said.each_ref().map(String::as_str)).await;
        exits_with(&mut start_with(&live, 1, ACCEPT), 2).await;
        assert_eq!(fs::read(&state).unwrap(), before, "nothing was changed");
    }
}
