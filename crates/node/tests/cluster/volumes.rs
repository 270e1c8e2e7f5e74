//! Volumes that were rolled back, copied or lost, and honest restarts at every moment.

use client::{Client, MemberStatus, Safety};
use std::fs;
use std::time::Duration;

use algorithms::{NodeId, catalog};
use node::storage::{RecordKind, StateFile, Store};
use testkit::volume::{copy, record, run, start};
use testkit::{Live, Plan, free_ports_elsewhere, stderr, stdout, until};
use tokio::process::Child;
use types::InstanceId;

const ALL: &[u32] = &[1, 2, 3];

fn three(safety: Safety) -> Plan {
    Plan { safety, ..Plan::new(3, catalog::row(catalog::DEFAULT).unwrap()) }
}

/// Waits until the others have it on disk that they have seen this run of member 1.
async fn on_record(live: &Live, counter: u64) {
    for id in [2, 3] {
        let data = live.cluster.data_directory(id);
        let seen = || record(&data)?.file.volume.seen.get(&NodeId(1)).filter(|run| run.counter == counter).map(|_| ());
        until(&format!("member {id} remembers run {counter} of member 1"), seen).await;
    }
}

/// The status of member 1 when it fits. The process may begin its machines again meanwhile.
async fn status_that(live: &Live, fits: impl Fn(&MemberStatus) -> bool) -> MemberStatus {
    let endpoint = &live.cluster.endpoints()[0].address;
    let asking = async {
        loop {
            if let Ok(client) = Client::connect(endpoint, live.cluster.settings()).await
                && let Ok(status) = client.status().await
                && fits(&status)
            {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(testkit::PATIENCE, asking).await.expect("the status changes")
}

/// What it said until it was killed.
async fn killed(mut process: Child) -> String {
    process.start_kill().unwrap();
    stderr(&process.wait_with_output().await.unwrap())
}

#[tokio::test]
async fn a_copy_is_refused_once_the_original_has_gone_on_and_an_emptied_directory_is_not() {
    for safety in Safety::ALL {
        let mut live = Live::start(&three(safety));
        let (config, original) = (live.cluster.config(), live.cluster.data_directory(1));
        live.agreement(ALL).await;
        until("a past", || record(&original).filter(|record| !record.file.volume.seen.is_empty())).await;
        live.kill(1).await;
        let backup = live.scratch.path().join("backup");
        copy(&original, &backup);
        live.cluster.start(1).unwrap();
        live.agreement(ALL).await;
        on_record(&live, 2).await;
        // Their memory is on disk: they begin anew and still know.
        live.kill_all(ALL).await;
        live.cluster.start(2).unwrap();
        live.cluster.start(3).unwrap();
        let before = live.agreement(&[2, 3]).await;

        // A majority says that it is old: it runs on without a vote, and says what to do.
        // However often it is tried: its runs must not count up to what the others have seen.
        let unbound = live.scratch.path().join("unbound.toml");
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&unbound, text.replacen("[cluster]\n", "[cluster]\nbind_volume = false\n", 1)).unwrap();
        for _ in 0..3 {
            let process = start(&[], &live.cluster, &unbound, 1, &backup);
            until("it is marked", || record(&backup).filter(|it| it.file.volume.refused)).await;
            let status = status_that(&live, |status| status.old_volume).await;
            assert_eq!((status.role, status.incarnation), (client::Role::Learner, 2), "{safety}");
            let explained = stdout(&live.ctl(&["explain"]).await);
            assert!(explained.contains("1 does not vote") && explained.contains("empty its data"), "{explained}");
            let said = killed(process).await;
            for part in ["this volume is old", "Restore the newer volume", "empty the data directory"] {
                assert!(said.contains(part), "{safety}: no {part:?} in {said}");
            }
            assert!(said.contains(&backup.display().to_string()), "{said}");
        }
        let logs = live.logs();
        assert!(logs.contains("Stale") && logs.contains("rolled-back or copied"), "{logs}");
        assert_eq!(live.agreement(&[2, 3]).await, before, "{safety}: the others did not mind");

        live.cluster.start(1).unwrap();
        live.agreement(ALL).await;
        live.kill(1).await;
        fs::remove_dir_all(&original).unwrap();
        fs::create_dir(&original).unwrap();
        live.cluster.start(1).unwrap();
        live.agreement(ALL).await;
        let run = live.client(1).await.status().await.unwrap().incarnation;
        assert!(run > 3, "{safety}: {run} is not above what the others have seen");
        live.cluster.stop().await;
    }
}

#[tokio::test]
async fn a_member_does_not_start_with_the_volume_of_another() {
    for safety in Safety::ALL {
        let mut live = Live::start(&three(safety));
        live.agreement(ALL).await;
        live.kill_all(&[1, 2]).await;
        let (config, of_another) = (live.cluster.config(), live.cluster.data_directory(1));
        let refused = run(&[], &live.cluster, &config, 2, &of_another).await;
        let said = stderr(&refused);
        assert_eq!(refused.status.code(), Some(2), "{safety}: {said}");
        assert!(said.contains("belongs to member 1, and this is member 2") && said.contains("--data-dir"), "{said}");
        live.cluster.start(1).unwrap();
        live.cluster.start(2).unwrap();
        live.agreement(ALL).await;
        live.cluster.stop().await;
    }
}

#[tokio::test]
async fn a_copy_beside_its_running_original_is_refused() {
    let mut live = Live::start(&three(Safety::Quorum));
    live.agreement_on(3, ALL).await;
    let copied = live.scratch.path().join("copy");
    copy(&live.cluster.data_directory(1), &copied);
    // A port of its own: another machine, as far as the others can tell.
    let text = fs::read_to_string(live.cluster.config()).unwrap();
    let address = format!("address = \"{}\"\n", live.cluster.endpoints()[0].address);
    let listen = format!("{address}listen = \"127.0.0.1:{}\"\n", free_ports_elsewhere(1).unwrap()[0]);
    let config = live.scratch.path().join("elsewhere.toml");
    let unbound = text.replacen("[cluster]\n", "[cluster]\nbind_volume = false\n", 1);
    fs::write(&config, unbound.replace(&address, &listen)).unwrap();
    let refused = run(&[], &live.cluster, &config, 1, &copied).await;
    let said = stderr(&refused);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("another process with id 1 is in the cluster"), "{said}");
    live.agreement_on(3, ALL).await;
    let run = live.client(1).await.status().await.unwrap().incarnation;
    assert_eq!(run, 1, "the original still runs");
}

#[tokio::test]
async fn a_rolled_back_volume_that_nobody_has_seen_later_goes_on() {
    let mut live = Live::start(&three(Safety::Quorum));
    let (_, epoch) = live.agreement(ALL).await;
    live.kill_all(ALL).await;
    let (backup, original) = (live.scratch.path().join("backup"), live.cluster.data_directory(1));
    copy(&original, &backup);
    live.cluster.start(1).unwrap();
    until("a run that nobody sees", || record(&original).filter(|record| record.incarnation().counter == 2)).await;
    live.kill(1).await;
    copy(&backup, &original);
    live.cluster.start_all().unwrap();
    live.agreement_that(ALL, |_, later| later > epoch).await;
    assert!(!live.logs().contains("Stale"), "{}", live.logs());
}

#[tokio::test]
async fn honest_restarts_are_never_refused_whenever_the_process_was_killed() {
    for safety in Safety::ALL {
        let mut live = Live::start(&three(safety));
        live.agreement(ALL).await;
        live.kill(1).await;
        for round in 0..40 {
            live.cluster.start(1).unwrap();
            // Not waiting for anything: each round ends at another point of the start.
            tokio::time::sleep(Duration::from_millis(round)).await;
            live.cluster.kill(1).unwrap();
            let ended = live.cluster.reap(1).await.unwrap();
            assert_eq!(ended.code(), None, "{safety}, round {round}: it ended by itself\n{}", live.logs());
        }
        live.cluster.start(1).unwrap();
        live.agreement(ALL).await;
        for id in ALL {
            let log = live.cluster.log_tail(*id, usize::MAX);
            assert!(!log.contains("Stale"), "{safety}: {log}");
        }
        live.cluster.stop().await;
    }
}

#[tokio::test]
async fn sections_of_the_state_file_that_a_member_does_not_know_outlive_its_run() {
    let mut live = Live::start(&three(Safety::Quorum));
    live.agreement(ALL).await;
    live.kill(1).await;
    let data = live.cluster.data_directory(1);
    let (store, file) = Store::open(&data).unwrap();
    let mut file = file.unwrap();
    file.put_record(InstanceId(300), RecordKind::Algorithm, b"of a later version".to_vec());
    store.write(&file).unwrap();
    drop(store);
    live.cluster.start(1).unwrap();
    live.agreement(ALL).await;
    on_record(&live, 2).await;
    let after = record(&data).unwrap();
    assert_eq!(after.incarnation().counter, 2, "the file was written since");
    let kept = |file: &StateFile| file.record(InstanceId(300), RecordKind::Algorithm).cloned();
    assert_eq!(kept(&after.file), kept(&file));
}
