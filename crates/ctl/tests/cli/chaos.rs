//! `ctl chaos`: what it refuses, what it says of members that do not do as they are told, and its page.

use algorithms::catalog;
use serde_json::Value;
use testkit::{Live, Plan, ctl, done, stderr, stdout};

const ALL: &[u32] = &[1, 2, 3, 4, 5];

fn plan(nodes: u32) -> Plan {
    let row = catalog::row(catalog::DEFAULT).expect("the default row");
    Plan { chaos: true, ..Plan::new(nodes, row) }
}

async fn status(live: &Live) -> Value {
    serde_json::from_str(&stdout(&live.ctl(&["status", "-o", "json"]).await)).unwrap()
}

/// The faults of every member, in words.
async fn faults(live: &Live) -> Vec<Vec<String>> {
    let status = status(live).await;
    let words = |member: &Value| serde_json::from_value(member["faults"].clone()).unwrap_or_default();
    status["members"].as_array().unwrap().iter().map(words).collect()
}

#[tokio::test]
async fn without_chaos_in_the_config_every_fault_is_refused_and_nothing_happens() {
    let mut live = Live::start(&Plan { chaos: false, ..plan(3) });
    let before = live.agreement_on(3, &[1, 2, 3]).await;
    let faults: &[&[&str]] =
        &[&["cut", "1", "2"], &["delay", "1", "2", "50ms"], &["heal"], &["pause", "3"], &["kill", "3"]];
    for fault in faults {
        let output = live.ctl(&[&["chaos"], *fault].concat()).await;
        assert_eq!(output.status.code(), Some(8), "{fault:?}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains("chaos is off") && said.contains("chaos = true"), "{fault:?}: {said}");
        assert_eq!(stdout(&output), "", "nothing was done");
    }
    assert_eq!(live.agreement(&[1, 2, 3]).await, (3, before));
    assert!(self::faults(&live).await.iter().all(Vec::is_empty));
}

#[tokio::test]
async fn a_fault_that_one_end_cannot_take_is_not_left_at_the_other() {
    let mut live = Live::start(&plan(3));
    live.agreement_on(3, &[1, 2, 3]).await;
    live.kill(3).await;
    for arguments in [["chaos", "cut", "1", "3"], ["chaos", "cut", "3", "1"]] {
        let output = live.ctl(&arguments).await;
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains("nothing was injected") && said.contains("member 3"), "{said}");
    }
    let output = live.ctl(&["chaos", "cut", "1", "9"]).await;
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(faults(&live).await.iter().all(Vec::is_empty));
    // A member that does not run has nothing to heal.
    let output = live.ctl(&["chaos", "heal"]).await;
    done(&output);
    assert!(stderr(&output).contains("member 3"), "{}", stderr(&output));
    // One that hangs may have.
    live.agreement_on(2, &[1, 2]).await;
    live.cluster.pause(2).unwrap();
    let output = live.ctl(&["chaos", "heal"]).await;
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(stdout(&output), "healed: 1\n");
    assert!(stderr(&output).contains("2 at "), "{}", stderr(&output));
    live.cluster.resume(2).unwrap();
}

#[tokio::test]
async fn a_half_that_is_refused_after_the_other_was_taken_is_said() {
    let mut live = Live::start(&plan(3));
    live.agreement_on(3, &[1, 2, 3]).await;
    // Member 2 comes back with another idea of chaos.
    live.kill(2).await;
    let config = std::fs::read_to_string(live.cluster.config()).unwrap();
    std::fs::write(live.cluster.config(), config.replace("chaos = true", "chaos = false")).unwrap();
    live.cluster.start(2).unwrap();
    live.agreement_on(3, &[1, 2, 3]).await;
    let output = live.ctl(&["chaos", "cut", "1", "2", "-o", "json"]).await;
    assert_eq!(output.status.code(), Some(8), "{}", stderr(&output));
    assert!(stderr(&output).contains("only 1 applied it"), "{}", stderr(&output));
    let line: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&line["applied"], &line["failed"][0]["id"]), (&serde_json::json!([1]), &2.into()));
    assert_eq!(faults(&live).await[0], ["cut to and from 2"]);
}

#[tokio::test]
async fn members_are_found_by_bare_addresses_too() {
    let mut live = Live::start(&plan(3));
    live.agreement_on(3, &[1, 2, 3]).await;
    // Another name for the same place, so that the config does not say whose it is.
    let named = live.cluster.endpoints().into_iter().map(|e| e.address.replace("127.0.0.1", "localhost"));
    let endpoints = named.collect::<Vec<_>>().join(",");
    done(&live.ctl(&["--endpoints", &endpoints, "chaos", "cut", "1", "2"]).await);
    assert_eq!(faults(&live).await, [vec!["cut to and from 2"], vec!["cut to and from 1"], vec![]]);
    let output = live.ctl(&["--endpoints", &endpoints, "chaos", "kill", "7"]).await;
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[tokio::test]
async fn the_page_about_chaos_can_be_typed_from_top_to_bottom() {
    let page = std::fs::read_to_string(testkit::root().join("docs/chaos.md")).expect("the page");
    let examples: Vec<Vec<&str>> = page
        .lines()
        .filter_map(|line| line.strip_prefix("ctl "))
        .map(|line| line.split('#').next().unwrap_or_default().split_whitespace().collect())
        .collect();
    let kinds = ["cut", "heal", "delay", "pause", "kill"];
    assert!(kinds.iter().all(|kind| examples.iter().any(|words| words.contains(kind))), "{examples:?}");
    let mut live = Live::start(&plan(5));
    live.agreement_on(5, ALL).await;
    for words in examples {
        let output = live.ctl(&words).await;
        // A status in the middle of a fault may say that members disagree.
        let fine = output.status.success() || words[0] == "status" && output.status.code() == Some(4);
        assert!(fine, "{words:?}: {}{}", stdout(&output), stderr(&output));
        if words.contains(&"heal") {
            live.agreement(ALL).await;
        }
    }
    live.observer.forget(3);
    live.agreement_on(5, &[1, 2, 3, 5]).await;
}

#[tokio::test]
async fn chaos_asks_for_the_secret() {
    let mut live = Live::start(&plan(2));
    live.agreement_on(2, &[1, 2]).await;
    let wrong = live.scratch.path().join("wrong");
    ::ctl::cluster::write_secret(&wrong, "another secret that is long enough").unwrap();
    let config = live.cluster.config();
    let (config, wrong) = (config.to_str().unwrap(), wrong.to_str().unwrap());
    for fault in [&["heal"][..], &["kill", "2"], &["cut", "1", "2"]] {
        let output = ctl(&[&["--config", config, "--secret-file", wrong, "chaos"], fault].concat()).await;
        assert_eq!(output.status.code(), Some(8), "{fault:?}: {}", stderr(&output));
    }
    live.agreement_on(2, &[1, 2]).await;
}
