//! `ctl history`, `audit` and `explain` against real members.

use std::fs;

use algorithms::catalog;
use testkit::{Live, Plan, Scratch, ctl, stderr, stdout};

const ALL: &[u32] = &[1, 2, 3];

fn three() -> Plan {
    Plan::new(3, catalog::row(catalog::DEFAULT).unwrap())
}

#[tokio::test]
async fn explain_names_the_leader_its_cause_and_who_is_unreachable() {
    let mut live = Live::start(&three());
    let epoch = live.agreement_on(3, ALL).await;
    live.connected(ALL).await;
    let words = stdout(&live.ctl(&["explain"]).await);
    assert!(words.starts_with(&format!("3 leads in epoch {epoch} since ")), "{words}");
    assert_eq!(words.lines().count(), 1, "nothing is wrong: {words}");
    live.kill(3).await;
    let epoch = live.agreement_on(2, &[1, 2]).await;
    let (explained, code) = live.json(&["explain"]).await;
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
    ::ctl::cluster::write_secret(&wrong, "another secret that is long enough").unwrap();
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
    let page = fs::read_to_string(testkit::root().join("docs/history.md")).expect("docs/history.md");
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
