//! `ctl history`, `audit` and `explain` against real members: killed, paused, all restarted.

mod support;

use std::fs;
use std::path::Path;
use std::time::Duration;

use algorithms::catalog;
use ctl::cluster::{Plan, Scratch};
use serde_json::Value;
use support::{Live, ctl, stderr, stdout};

const ALL: &[u32] = &[1, 2, 3];

fn three() -> Plan {
    Plan::new(3, catalog::row(catalog::DEFAULT).unwrap())
}

/// The command's object, and its exit code.
async fn json(live: &Live, arguments: &[&str]) -> (Value, Option<i32>) {
    let output = live.ctl(&[arguments, &["-o", "json", "--member-timeout", "5s"]].concat()).await;
    let value = serde_json::from_str(&stdout(&output));
    (value.unwrap_or_else(|error| panic!("{error}: {}{}", stdout(&output), stderr(&output))), output.status.code())
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
    live.kill(3).await;
    let third = live.agreement_on(2, &[1, 2]).await;

    let (history, code) = json(&live, &["history"]).await;
    assert_eq!(code, Some(0));
    assert_eq!(history["missing"], serde_json::json!(["3"]), "the dead member's ledger is missing, and said");
    assert_eq!(reign(&history, 3, second)["claimed"], false, "its followers tell of it");
    assert!(last_before(&history, 2, u64::MAX)["to_latest_ms"].is_null(), "the present reign lasts");

    live.kill_all(&[1, 2]).await;
    live.cluster.start_all().unwrap();
    let (_, fourth) = live.agreement_that(ALL, |leader, epoch| leader == 3 && epoch > third).await;
    let (history, _) = json(&live, &["history"]).await;
    assert_eq!((&history["schema"], &history["missing"]), (&"conclave.history/1".into(), &serde_json::json!([])));
    assert_eq!(history["flaws"], serde_json::json!([]), "killing processes tears nothing");
    for (leader, epoch) in [(3, first), (3, second), (2, third), (3, fourth)] {
        assert_eq!(reign(&history, leader, epoch)["claimed"], true, "epoch {epoch}");
    }
    assert_eq!(last_before(&history, 3, third)["end"], "process-ended");
    assert_eq!(last_before(&history, 2, fourth)["end"], "process-ended");

    // Before both deaths, before the restart.
    let from = reign(&history, 3, first)["from_ms"].to_string();
    let (answer, code) = json(&live, &["history", "--at", &from]).await;
    assert_eq!((&answer["held"], &answer["leader"], &answer["epoch"]), (&"one".into(), &3.into(), &first.into()));
    assert_eq!(code, Some(0), "{answer}");
    let words = stdout(&live.ctl(&["history", "--at", &from]).await);
    assert!(words.contains(&format!("3 in epoch {first}")) && words.contains("uncertainty"), "{words}");
    // Of a killed leader the moment of its claim is known; how long it went on is known to a sign of life.
    let from = reign(&history, 2, third)["from_ms"].to_string();
    let (answer, code) = json(&live, &["history", "--at", &from]).await;
    assert_eq!(code, Some(0), "{answer}");
    assert!(answer["reigns"].as_array().unwrap().iter().any(|reign| reign["leader"] == 2), "{answer}");
    let (answer, code) = json(&live, &["history", "--at", "1970-01-01T00:00:01Z"]).await;
    assert_eq!((&answer["held"], code), (&"unknown".into(), Some(1)));
}

#[tokio::test]
async fn the_audit_is_incomplete_without_a_ledger_or_with_a_damaged_one_and_ordered_with_all() {
    let mut live = Live::start(&three());
    live.agreement_on(3, ALL).await;
    live.kill(3).await;
    live.agreement_on(2, &[1, 2]).await;
    let (audit, code) = json(&live, &["audit"]).await;
    assert_eq!((&audit["outcome"], code), (&"incomplete".into(), Some(1)));
    assert!(audit["reasons"][0].as_str().unwrap().contains("member 3 is missing"), "{audit}");

    live.cluster.start(3).unwrap();
    live.agreement_on(3, ALL).await;
    let (audit, code) = json(&live, &["audit"]).await;
    assert_eq!((&audit["outcome"], &audit["safety"], code), (&"ordered".into(), &"classic".into(), Some(0)), "{audit}");
    let words = stdout(&live.ctl(&["audit"]).await);
    assert!(words.contains("ORDERED") && words.contains("promise one leader per connected component"), "{words}");

    live.kill(1).await;
    let path = live.cluster.data_directory(1).join("ledger");
    let mut bytes = fs::read(&path).unwrap();
    // Inside the first entry.
    bytes[130] ^= 1;
    fs::write(&path, bytes).unwrap();
    live.cluster.start(1).unwrap();
    live.agreement_on(3, ALL).await;
    let (audit, code) = json(&live, &["audit"]).await;
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
    let (audit, code) = json(&live, &["audit"]).await;
    assert_eq!((&audit["outcome"], code), (&"overlap".into(), Some(7)), "{audit}");
    let finding = &audit["findings"][0];
    assert!(finding["what"].as_str().unwrap().contains("both led for"), "{audit}");
    let members: Vec<u64> =
        finding["entries"].as_array().unwrap().iter().filter_map(|e| e["member"].as_u64()).collect();
    assert_eq!(members, [2, 3], "{audit}");
}

#[tokio::test]
async fn explain_names_the_leader_its_cause_and_who_is_unreachable() {
    let mut live = Live::start(&three());
    let epoch = live.agreement_on(3, ALL).await;
    let words = stdout(&live.ctl(&["explain"]).await);
    assert!(words.starts_with(&format!("3 leads in epoch {epoch} since ")), "{words}");
    assert_eq!(words.lines().count(), 1, "nothing is wrong: {words}");
    live.kill(3).await;
    let epoch = live.agreement_on(2, &[1, 2]).await;
    let (explained, code) = json(&live, &["explain"]).await;
    assert_eq!((&explained["leader"], &explained["epoch"], code), (&2.into(), &epoch.into(), Some(0)));
    assert_eq!((&explained["cause"], &explained["unreachable"][0]["id"]), (&"elected".into(), &3.into()));
    assert_eq!(explained["broken_links"], serde_json::json!([]), "a dead member is no broken link");
}

#[tokio::test]
async fn the_secret_is_asked_for_and_nobody_reachable_exits_3() {
    let mut live = Live::start(&three());
    live.agreement_on(3, ALL).await;
    let other = Scratch::new("live").unwrap();
    let wrong = other.path().join("wrong");
    fs::write(&wrong, "another secret that is long enough").unwrap();
    for command in ["history", "audit", "explain"] {
        let output = live.ctl(&["--secret-file", wrong.to_str().unwrap(), command]).await;
        assert_eq!(output.status.code(), Some(8), "{command}: {}", stderr(&output));
    }
    live.kill_all(ALL).await;
    for command in ["history", "audit", "explain"] {
        let output = live.ctl(&[command]).await;
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(3), ""), "{command}");
    }
}

#[tokio::test]
async fn the_examples_of_the_page_run() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/history.md");
    let page = fs::read_to_string(page).expect("docs/history.md");
    let mut live = Live::start(&three());
    live.agreement_on(3, ALL).await;
    let config = live.cluster.config();
    let mut run = 0;
    for line in page.lines().filter_map(|line| line.strip_prefix("ctl ")) {
        let (command, comment) = line.split_once('#').unwrap_or((line, ""));
        let words: Vec<&str> = command.split_whitespace().collect();
        let output = ctl(&[&["--config", config.to_str().unwrap()], words.as_slice()].concat()).await;
        let expected = comment.rsplit_once("exit ").map_or(0, |(_, code)| code.trim().parse().expect("a code"));
        assert_eq!(output.status.code(), Some(expected), "{line}: {}{}", stdout(&output), stderr(&output));
        run += 1;
    }
    assert!(run >= 5, "the page shows too little");
}
