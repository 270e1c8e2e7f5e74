//! The config of members that run is read again: `ctl reload`, SIGHUP.

use std::fs;

use algorithms::catalog;
use client::{PriorityBy, Safety};
use rustix::process::Signal;
use serde_json::Value;
use testkit::http::{ask, with_faces};
use testkit::{Live, Plan, done, stdout, until};

const ALL: &[u32] = &[1, 2, 3];

fn plan(safety: Safety) -> Plan {
    Plan { safety, ..Plan::new(3, catalog::row(catalog::DEFAULT).unwrap()) }
}

fn edit(live: &Live, from: &str, to: &str) {
    let text = fs::read_to_string(live.cluster.config()).unwrap();
    assert!(text.contains(from), "{from:?} in {text}");
    fs::write(live.cluster.config(), text.replacen(from, to, 1)).unwrap();
}

/// The outcome of a key at a member, and the note.
fn outcome(report: &Value, id: usize, key: &str) -> (String, String) {
    let keys = report["members"][id - 1]["keys"].as_array().unwrap();
    let found = keys.iter().find(|found| found["key"] == key).unwrap_or_else(|| panic!("no {key}: {report}"));
    (found["outcome"].as_str().unwrap().to_owned(), found["note"].as_str().unwrap_or_default().to_owned())
}

/// Everything that may change does, without a lost connection or a restart; the rest is told.
#[tokio::test]
async fn a_classic_cluster_takes_what_may_change_and_says_what_needs_a_restart() {
    let plan = with_faces(plan(Safety::Classic));
    let mut live = Live::start_with(&plan, "\n[hooks]\non_change = \"true\"\n\n[log]\nlevel = \"info\"\n");
    live.agreement_on(3, ALL).await;
    live.connected(ALL).await;
    let token = "another token for HTTP";
    fs::write(live.scratch.path().join("http.token"), token).unwrap();
    let knocks = async || {
        let headers = format!("Authorization: Bearer {token}\r\n");
        ask(plan.http_ports[0], "GET", "/v1/algorithms", &headers, "").await.code
    };
    assert_eq!(knocks().await, 401);
    let hook = live.scratch.path().join("hook");
    edit(
        &live,
        "on_change = \"true\"",
        &format!("on_change = \"echo $CONCLAVE_ID $CONCLAVE_LEADER >> {}\"", hook.display()),
    );
    edit(&live, "level = \"info\"", "level = \"debug\"");
    edit(&live, "[[peers]]", "[timing]\nheartbeat = \"20ms\"\nstart_grace = \"1s\"\n\n[[peers]]");
    edit(&live, "id = 1\n", "id = 1\npriority = 9\n");
    let (report, code) = live.json(&["reload"]).await;
    assert_eq!(code, Some(0), "{report}");
    for id in 1..=3 {
        for key in ["HTTP tokens", "hooks.on_change", "log.level", "timing.heartbeat", "peers.1.priority"] {
            assert_eq!(outcome(&report, id, key), ("changed".into(), String::new()), "{key}");
        }
        assert_eq!(outcome(&report, id, "timing.start_grace").0, "needs-restart");
    }
    assert_eq!(knocks().await, 200);
    // The priority decides: member 1 takes over, and the new hook tells.
    live.agreement_on(1, ALL).await;
    let told = || fs::read_to_string(&hook).ok().filter(|text| text.contains("2 1")).map(drop);
    until("the new hook of member 2", told).await;
    let status = live.client(1).await.status().await.unwrap();
    assert_eq!((status.priority, status.priority_by), (9, PriorityBy::List));
    let history = live.ctl(&["history"]).await;
    assert!(stdout(&history).contains("reload"), "{}", stdout(&history));
    // A second time only what needs a restart differs.
    let (again, _) = live.json(&["reload"]).await;
    let keys: Vec<&Value> = again["members"][0]["keys"].as_array().unwrap().iter().map(|key| &key["key"]).collect();
    assert_eq!(keys, ["timing.start_grace"]);
    // A member that moves is followed without a restart of the others: its address is no fact to refuse it for.
    moves(&mut live).await;
}

/// Member 3 gets another port: the others reload, it alone is restarted.
async fn moves(live: &mut Live) {
    let old = live.cluster.endpoints()[2].address.clone();
    let port = testkit::free_ports_elsewhere(1).unwrap()[0];
    edit(live, &old, &format!("127.0.0.1:{port}"));
    let report = live.json(&["reload", "1", "2"]).await.0;
    assert_eq!(outcome(&report, 1, "peers.3.address").0, "changed");
    live.kill(3).await;
    live.cluster.start(3).unwrap();
    live.connected(&[1, 2]).await;
}

#[tokio::test]
async fn a_config_with_a_problem_changes_nothing_and_a_quorum_cluster_keeps_its_own_list() {
    let mut live = Live::start(&plan(Safety::Quorum));
    let epoch = live.agreement_on(3, ALL).await;
    live.voting(ALL).await;
    let good = fs::read_to_string(live.cluster.config()).unwrap();
    edit(&live, "[[peers]]", "[timing]\nheartbeat = \"1ms\"\nsuspect_after = \"1ms\"\n\n[[peers]]");
    let output = live.ctl(&["reload", "--member-timeout", "5s"]).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = stdout(&output);
    assert!(
        said.contains("1: nothing changed: ") && said.contains("suspect_after (1ms) is less than two heartbeats"),
        "{said}"
    );
    live.cluster.signal(1, Signal::HUP).unwrap();
    until("the refusal is logged", || live.cluster.log_tail(1, 5).contains("stay in force").then_some(())).await;
    fs::write(live.cluster.config(), &good).unwrap();
    edit(&live, "id = 2\n", "id = 2\npriority = 5\n");
    edit(&live, "[[peers]]", "[timing]\nlease = \"700ms\"\nheartbeat = \"40ms\"\n\n[[peers]]");
    let (report, code) = live.json(&["reload"]).await;
    assert_eq!(code, Some(0), "{report}");
    let (refused, note) = outcome(&report, 1, "peers.2.priority");
    assert!(refused == "refused" && note.contains("`ctl priority 2 5`"), "{report}");
    assert_eq!(outcome(&report, 1, "timing.lease").0, "needs-restart");
    // Checked together with the lease, so it waits for the restart as well.
    assert_eq!(outcome(&report, 1, "timing.heartbeat").0, "needs-restart");
    fs::write(live.cluster.config(), good).unwrap();
    let output = live.ctl(&["reload", "--member-timeout", "5s"]).await;
    done(&output);
    assert_eq!(stdout(&output), "1: nothing differs\n2: nothing differs\n3: nothing differs\n");
    assert_eq!(live.agreement_on(3, ALL).await, epoch, "no election");
}

/// Where a difference matters, both values are named, in the log and by `ctl explain`.
#[tokio::test]
async fn members_that_refuse_each_other_say_which_value_differs() {
    let mut live = Live::prepared(&plan(Safety::Quorum), "");
    for id in [1, 2] {
        live.cluster.start(id).unwrap();
    }
    // They have read their config.
    live.statuses_that(&[1, 2], |_| true).await;
    edit(&live, "[[peers]]", "[timing]\nlease = \"700ms\"\n\n[[peers]]");
    live.cluster.start(3).unwrap();
    let told = |explanation: &Value| explanation.to_string().replace('\\', "").contains("has \"700ms\"");
    let asked = async {
        loop {
            let (explanation, _) = live.json(&["explain"]).await;
            if told(&explanation) {
                return explanation;
            }
        }
    };
    let explanation = tokio::time::timeout(testkit::PATIENCE, asked).await.expect("a refusal that is explained");
    let sentences = explanation["sentences"].to_string().replace('\\', "");
    assert!(sentences.contains("refuse each other: lease: n"), "{sentences}");
    let logged = || {
        let log = live.cluster.log_tail(3, 50).replace('\\', "");
        (log.contains("n3 has \"700ms\"") && log.contains("has \"500ms\"")).then_some(())
    };
    until("both values in the log", logged).await;
}
