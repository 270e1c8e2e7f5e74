//! What the ledgers of members tell after they were killed, paused, damaged, all restarted.

use std::fs;
use std::time::Duration;

use algorithms::catalog;
use client::{Announcement, Happened, InstanceId};
use node::ledger::Ledger;
use rustix::process::Signal;
use serde_json::Value;
use testkit::lead::send;
use testkit::{Live, PATIENCE, Plan, stderr, stdout, strace, volume};
use types::Stamp;

const ALL: &[u32] = &[1, 2, 3];

fn three() -> Plan {
    Plan::new(3, catalog::row(catalog::DEFAULT).unwrap())
}

/// The reign of an epoch that a leader had.
fn reign(history: &Value, leader: u32, epoch: u64) -> &Value {
    let reigns = history["reigns"].as_array().expect("reigns");
    let found = reigns.iter().find(|reign| reign["leader"] == leader && reign["epoch"] == epoch);
    found.unwrap_or_else(|| panic!("no reign of {leader} in epoch {epoch}: {history:#}"))
}

/// The last reign of a leader before an epoch. Members may need several epochs to settle.
fn last_before(history: &Value, leader: u32, epoch: u64) -> &Value {
    let reigns = history["reigns"].as_array().expect("reigns");
    let found = reigns.iter().rfind(|reign| reign["leader"] == leader && reign["epoch"].as_u64() < Some(epoch));
    found.unwrap_or_else(|| panic!("no reign of {leader} before epoch {epoch}: {history:#}"))
}

#[tokio::test]
async fn reigns_are_told_over_a_killed_leader_and_a_full_restart() {
    let mut live = Live::start(&three());
    let first = live.agreement_on(3, ALL).await;
    // The same leader in a later epoch: the first reign ends in order.
    let elected = live.ctl(&["elect"]).await;
    assert_eq!(elected.status.code(), Some(0), "{}", stderr(&elected));
    let (_, second) = live.agreement_that(ALL, |leader, epoch| leader == 3 && epoch > first).await;
    // A ledger is written in the background; it answers after it has written what came before.
    live.json(&["history"]).await;
    live.kill(3).await;
    let third = live.agreement_on(2, &[1, 2]).await;

    let (history, code) = live.json(&["history"]).await;
    assert_eq!(code, Some(0));
    assert_eq!(history["missing"], serde_json::json!(["3"]), "the dead member's ledger is missing, and said");
    assert_eq!(reign(&history, 3, second)["claimed"], false, "its followers tell of it");
    let present = last_before(&history, 2, u64::MAX);
    assert!(present["to_latest_ms"].is_null(), "the present reign lasts");
    let present = present["epoch"].as_u64().unwrap();

    live.kill_all(&[1, 2]).await;
    live.cluster.start_all().unwrap();
    let (_, fourth) = live.agreement_that(ALL, |leader, epoch| leader == 3 && epoch > third).await;
    let (history, _) = live.json(&["history"]).await;
    assert_eq!((&history["schema"], &history["missing"]), (&"conclave.history/1".into(), &serde_json::json!([])));
    assert_eq!(history["flaws"], serde_json::json!([]), "killing processes tears nothing");
    for (leader, epoch) in [(3, first), (3, second), (2, third), (3, fourth)] {
        assert_eq!(reign(&history, leader, epoch)["claimed"], true, "epoch {epoch}");
    }
    assert_eq!(last_before(&history, 3, third)["end"], "process-ended");
    // Not its last one before the fourth: while all start anew it may lead for a moment.
    assert_eq!(reign(&history, 2, present)["end"], "process-ended");

    // Before both deaths, before the restart.
    let from = reign(&history, 3, first)["from_ms"].to_string();
    let (answer, code) = live.json(&["history", "--at", &from]).await;
    assert_eq!((&answer["held"], &answer["leader"], &answer["epoch"]), (&"one".into(), &3.into(), &first.into()));
    assert_eq!(code, Some(0), "{answer}");
    let words = stdout(&live.ctl(&["history", "--at", &from]).await);
    assert!(words.contains(&format!("3 in epoch {first}")) && words.contains("uncertainty"), "{words}");
    // Of a killed leader the moment of its claim is known; how long it went on is known to a sign of life.
    let from = reign(&history, 2, third)["from_ms"].to_string();
    let (answer, code) = live.json(&["history", "--at", &from]).await;
    assert_eq!(code, Some(0), "{answer}");
    assert!(answer["reigns"].as_array().unwrap().iter().any(|reign| reign["leader"] == 2), "{answer}");
    let (answer, code) = live.json(&["history", "--at", "1970-01-01T00:00:01Z"]).await;
    assert_eq!((&answer["held"], code), (&"unknown".into(), Some(1)));
}

#[tokio::test]
async fn the_audit_is_incomplete_without_a_ledger_or_with_a_damaged_one_and_ordered_with_all() {
    let mut live = Live::start(&three());
    live.agreement_on(3, ALL).await;
    live.kill(3).await;
    live.agreement_on(2, &[1, 2]).await;
    let (audit, code) = live.json(&["audit"]).await;
    assert_eq!((&audit["outcome"], code), (&"incomplete".into(), Some(1)));
    assert!(audit["reasons"][0].as_str().unwrap().contains("member 3 is missing"), "{audit}");

    live.cluster.start(3).unwrap();
    live.agreement_on(3, ALL).await;
    let (audit, code) = live.json(&["audit"]).await;
    assert_eq!((&audit["outcome"], &audit["safety"], code), (&"ordered".into(), &"classic".into(), Some(0)), "{audit}");
    let words = stdout(&live.ctl(&["audit"]).await);
    assert!(words.contains("ORDERED") && words.contains("guarantee one leader per connected component"), "{words}");

    live.kill(1).await;
    let path = live.cluster.data_directory(1).join("ledger");
    let mut bytes = fs::read(&path).unwrap();
    // Inside the first entry.
    bytes[130] ^= 1;
    fs::write(&path, bytes).unwrap();
    live.cluster.start(1).unwrap();
    live.agreement_on(3, ALL).await;
    let (audit, code) = live.json(&["audit"]).await;
    assert_eq!((&audit["outcome"], code), (&"incomplete".into(), Some(1)));
    assert!(audit["reasons"].to_string().contains("member 1: 1 records are damaged"), "{audit}");
}

#[tokio::test]
async fn a_paused_leader_overlaps_with_its_successor_and_the_audit_says_so() {
    let mut live = Live::start(&Plan { preempt: false, ..three() });
    live.agreement_on(3, ALL).await;
    live.cluster.pause(3).unwrap();
    let second = live.agreement_on(2, &[1, 2]).await;
    // Both claim it for as long as the pause lasts: longer than any handover.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    live.cluster.resume(3).unwrap();
    // One of the two gives way, or goes on in a later epoch.
    live.agreement_that(ALL, |leader, epoch| leader == 2 || epoch > second).await;
    let (audit, code) = live.json(&["audit"]).await;
    assert_eq!((&audit["outcome"], code), (&"overlap".into(), Some(7)), "{audit}");
    let finding = &audit["findings"][0];
    assert!(finding["what"].as_str().unwrap().contains("both led for"), "{audit}");
    let members: Vec<u64> =
        finding["entries"].as_array().unwrap().iter().filter_map(|e| e["member"].as_u64()).collect();
    assert_eq!(members, [2, 3], "{audit}");
}

/// So many grants in the ledger of a member that does not run.
fn write_ledger(live: &Live, id: u32, grants: u64) {
    let epochs: Vec<u64> = (1..=grants).collect();
    // No more than its queue holds at once: the end of a ledger waits until all is written.
    for some in epochs.chunks(2000) {
        let ledger: Ledger<u32> = Ledger::open(&live.cluster.data_directory(id), None);
        let mut writer = ledger.writer();
        for &epoch in some {
            let (instance, what) = (InstanceId::ELECTION, Happened::Granted { epoch, holder: 3, list: Stamp::FIRST });
            writer.write(&Announcement { member: id, instance, sequence: 1, wall_ms: 1, boot_ns: 1, what });
        }
        drop(writer);
    }
}

#[tokio::test]
async fn a_ledger_of_three_pages_is_read_once_and_whole() {
    let mut live = Live::start(&three());
    live.agreement_on(3, ALL).await;
    live.kill(1).await;
    write_ledger(&live, 1, 2500);
    live.cluster.start(1).unwrap();
    live.agreement(ALL).await;
    let client = live.client(1).await;
    let page = tokio::time::timeout(PATIENCE, client.history()).await.expect("it ends").unwrap();
    let sequences: Vec<u64> = page.entries.iter().map(|entry| entry.sequence).collect();
    assert_eq!(sequences, (1..=sequences.len() as u64).collect::<Vec<_>>());
    assert!(sequences.len() > 2500, "{}", sequences.len());
}

/// Below a member that runs alone: its first entries fill the segment, so the ledger goes on in a new one.
#[tokio::test]
async fn entries_are_on_the_disk_before_the_next_ones_and_a_new_segment_before_its_name() {
    if !strace::works() {
        return;
    }
    let mut live = Live::start(&Plan { nodes: 1, ..three() });
    live.agreement_on(1, &[1]).await;
    live.kill(1).await;
    let data = live.cluster.data_directory(1);
    fs::remove_file(data.join("ledger")).unwrap();
    write_ledger(&live, 1, 8190);
    let recorded = live.scratch.path().join("calls");
    let mut member = volume::start(&strace::record(&recorded), &live.cluster, &live.cluster.config(), 1, &data);
    live.agreement_on(1, &[1]).await;
    // All that it has to tell is written before it answers.
    live.client(1).await.history().await.unwrap();
    send(volume::below(&member), Signal::TERM);
    tokio::time::timeout(PATIENCE, member.wait()).await.expect("it leaves").unwrap();
    let calls = strace::calls(&recorded, &data);
    let moves = strace::find(&calls, 0, "rename", "ledger").unwrap_or_else(|| panic!("no new segment: {calls:?}"));
    let synced = strace::find(&calls, 0, "fdatasync", "ledger.new").unwrap_or(usize::MAX);
    assert!(synced < moves, "a new segment gets its name before it is whole: {calls:?}");
    // Another thread syncs the same directory for the state file.
    let of_thread = calls[moves..].iter().filter(|call| call.thread == calls[moves].thread);
    let next: Vec<_> = of_thread.map(|call| (call.name.as_str(), call.file.as_str())).take(4).collect();
    let expected = [("rename", "ledger"), ("rename", "ledger.new"), ("fsync", ""), ("write", "ledger")];
    assert_eq!(next, expected, "its name is on the disk before anything is written to it");
    let of_ledger: Vec<&str> =
        calls.iter().filter(|call| call.file == "ledger").map(|call| call.name.as_str()).collect();
    let writes = of_ledger.iter().filter(|name| **name == "write").count();
    assert!(writes > 1, "{calls:?}");
    assert_ne!(of_ledger.last(), Some(&"write"), "{calls:?}");
    for pair in of_ledger.windows(2) {
        assert!(pair[0] != "write" || pair[1] == "fdatasync", "a write without a sync: {of_ledger:?}");
    }
}
