//! Which cluster, machine and directory a volume belongs to.

use std::fs;
use std::path::{Path, PathBuf};

use algorithms::catalog;
use client::Safety;
use node::records::{self, AuthorityRecord};
use testkit::volume::{copy, record, run, start_with};
use testkit::{Live, Plan, free_ports_elsewhere, stderr, stdout, until};
use types::InstanceId;

const ALL: &[u32] = &[1, 2, 3];

fn three() -> Plan {
    Plan { safety: Safety::Quorum, ..Plan::new(3, catalog::row(catalog::DEFAULT).unwrap()) }
}

/// The id that the voters have agreed on, once it is on this disk.
async fn agreed(data: &Path) -> types::ClusterId {
    let id = || record(data)?.quorum().cluster.filter(|mark| mark.agreed).map(|mark| mark.id);
    until("the id of the cluster is on disk", id).await
}

fn empty(data: &Path) {
    fs::remove_dir_all(data).unwrap();
    fs::create_dir(data).unwrap();
}

#[tokio::test]
async fn all_voters_agree_on_one_id_and_keep_it_over_restarts_and_lost_disks() {
    let mut live = Live::start(&three());
    live.agreement(ALL).await;
    let id = agreed(&live.cluster.data_directory(1)).await;
    for other in [2, 3] {
        assert_eq!(agreed(&live.cluster.data_directory(other)).await, id);
    }
    live.kill(1).await;
    empty(&live.cluster.data_directory(1));
    live.cluster.start(1).unwrap();
    live.agreement(ALL).await;
    assert_eq!(agreed(&live.cluster.data_directory(1)).await, id);
    let (status, _) = live.json(&["status"]).await;
    assert_eq!(status["members"][0]["cluster_id"], id.to_string(), "{status}");
    let epoch = status["epoch"].as_u64().unwrap();
    assert!(epoch > 1 << 30, "a new cluster begins at the time of day: {epoch}");
}

/// All data directories but that of one member are emptied. That member returns when the others are a new cluster.
#[tokio::test]
async fn a_forgotten_volume_of_an_earlier_cluster_ends_nobody() {
    let mut live = Live::start(&three());
    let data = ALL.iter().map(|&id| live.cluster.data_directory(id)).collect::<Vec<_>>();
    live.agreement(ALL).await;
    let old = agreed(&data[2]).await;
    live.kill_all(&[1, 2]).await;
    live.cluster.start(1).unwrap();
    live.cluster.start(2).unwrap();
    live.agreement(ALL).await;
    let seen = || record(&data[2]).filter(|it| it.file.volume.seen.values().all(|run| run.counter == 2)).map(|_| ());
    until("the third has seen their second runs", seen).await;
    live.kill_all(ALL).await;
    empty(&data[0]);
    empty(&data[1]);
    let config = live.cluster.config();
    let new = [1, 2].map(|id| start_with(&[], &live.cluster, &config, id, &data[id as usize - 1], &["--bootstrap"]));
    live.agreement(&[1, 2]).await;
    let id = agreed(&data[0]).await;
    assert_eq!(agreed(&data[1]).await, id);
    assert_ne!(id, old);

    live.cluster.start(3).unwrap();
    let refusal = || {
        let log = live.cluster.log_tail(3, usize::MAX);
        (log.contains("cluster-id") && log.contains(&id.to_string()) && log.contains(&old.to_string())).then_some(())
    };
    until("both ids are named", refusal).await;
    live.agreement(&[1, 2]).await;
    for data in &data {
        assert!(!record(data).unwrap().file.volume.refused, "{}", data.display());
    }
    let explained = live.ctl(&["explain"]).await;
    assert!(stdout(&explained).contains("different clusters"), "{}", stdout(&explained));
    drop(new);
}

#[tokio::test]
async fn a_copied_volume_does_not_start_and_one_that_was_moved_does() {
    let mut live = Live::start(&three());
    live.agreement(ALL).await;
    let (config, original) = (live.cluster.config(), live.cluster.data_directory(1));
    live.kill(1).await;
    if record(&original).unwrap().file.volume.binding.is_none() {
        eprintln!("SKIPPED: this machine has no /etc/machine-id");
        assert!(std::env::var("CI").is_err(), "volumes are bound on machines with an id");
        return;
    }
    let copied = live.scratch.path().join("copied");
    copy(&original, &copied);
    let before = fs::read(copied.join("state")).unwrap();
    for _ in 0..2 {
        let refused = run(&[], &live.cluster, &config, 1, &copied).await;
        let said = stderr(&refused);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        for part in ["another directory", "node --moved", "empty the directory", &copied.display().to_string()] {
            assert!(said.contains(part), "no {part:?} in {said}");
        }
    }
    assert_eq!(fs::read(copied.join("state")).unwrap(), before, "nothing was changed");

    // Renamed: the same directory, and no copy.
    let renamed = live.scratch.path().join("renamed");
    fs::rename(&original, &renamed).unwrap();
    let process = start_with(&[], &live.cluster, &config, 1, &renamed, &[]);
    live.agreement(ALL).await;
    end(process).await;

    // Moved to another place by a copy: the operator says so once.
    let moved = live.scratch.path().join("moved");
    copy(&renamed, &moved);
    let process = start_with(&[], &live.cluster, &config, 1, &moved, &["--moved"]);
    live.agreement(ALL).await;
    end(process).await;
    let process = start_with(&[], &live.cluster, &config, 1, &moved, &[]);
    live.agreement(ALL).await;
    end(process).await;
}

/// The config of one side of a broken network: nothing answers at the addresses of these members.
fn without(live: &Live, name: &str, gone: &[u32]) -> PathBuf {
    let mut text = fs::read_to_string(live.cluster.config()).unwrap();
    for (&id, port) in gone.iter().zip(free_ports_elsewhere(gone.len() as u32).unwrap()) {
        let address = &live.cluster.endpoints()[id as usize - 1].address;
        text = text.replace(&format!("{address:?}"), &format!("\"127.0.0.1:{port}\""));
    }
    let config = live.cluster.config().with_file_name(name);
    fs::write(&config, text).unwrap();
    config
}

/// Members 1, 2 and 3 on one side of a broken network; 4, 5 and a copy of 3's volume on the other: each side would have a
/// majority of five.
#[tokio::test]
async fn a_copied_volume_on_the_other_side_of_a_partition_makes_no_second_leader() {
    const FIVE: &[u32] = &[1, 2, 3, 4, 5];
    let mut live = Live::start(&Plan { nodes: 5, ..three() });
    live.agreement(FIVE).await;
    live.voting(FIVE).await;
    live.kill_all(FIVE).await;
    let data = FIVE.iter().map(|&id| live.cluster.data_directory(id)).collect::<Vec<_>>();
    if record(&data[2]).unwrap().file.volume.binding.is_none() {
        eprintln!("SKIPPED: this machine has no /etc/machine-id");
        assert!(std::env::var("CI").is_err(), "volumes are bound on machines with an id");
        return;
    }
    let copied = live.scratch.path().join("copied");
    copy(&data[2], &copied);
    let (left, right) = (without(&live, "left.toml", &[4, 5]), without(&live, "right.toml", &[1, 2, 3]));
    let start = |config: &Path, id: u32| start_with(&[], &live.cluster, config, id, &data[id as usize - 1], &[]);
    let _sides = [start(&left, 1), start(&left, 2), start(&left, 3), start(&right, 4), start(&right, 5)];
    let refused = run(&[], &live.cluster, &right, 3, &copied).await;
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    live.agreement_on(3, &[1, 2, 3]).await;
    for id in [4, 5] {
        let status = live.client(id).await.status().await.unwrap();
        assert_eq!((status.leader, status.role), (None, client::Role::Candidate), "{status:?}");
    }
}

/// A member whose numbers are far above those of its leader: the others lost them, or it was lied to.
#[tokio::test]
async fn a_member_far_ahead_of_its_leader_is_followed_by_its_leader_in_leaps() {
    const AHEAD: u64 = 3 << 20;
    for safety in Safety::ALL {
        let mut live = Live::start(&Plan { safety, ..three() });
        live.agreement_on(3, ALL).await;
        if safety == Safety::Quorum {
            live.voting(ALL).await;
        }
        let before = live.agreement_on(3, ALL).await;
        live.kill(1).await;
        let (store, file) = records::open(&live.cluster.data_directory(1)).unwrap();
        let mut file = file.unwrap();
        let mut authority = records::authority(&file, InstanceId::ELECTION).unwrap();
        match &mut authority {
            AuthorityRecord::Classic(record) => record.reserved_until += AHEAD,
            AuthorityRecord::Quorum(record) => {
                let vote = record.vote.as_mut().unwrap();
                (vote.epoch.0, vote.holder) = (vote.epoch.0 + AHEAD, None);
            }
        }
        records::put_authority(&mut file, InstanceId::ELECTION, authority.encode());
        store.write(&file).unwrap();
        drop(store);
        live.cluster.start(1).unwrap();
        live.agreement_that(ALL, |_, epoch| epoch > before + AHEAD).await;
        // It votes: with the leader alone it is a majority.
        live.kill(2).await;
        let (_, after) = live.agreement(&[1, 3]).await;
        assert!(after > before + AHEAD, "{safety}: epoch {after} after {before}");
        live.cluster.stop().await;
    }
}

async fn end(mut process: tokio::process::Child) {
    process.kill().await.unwrap();
}
