//! `ctl leader`, `status` and `bench` over real members.

use std::path::Path;

use algorithms::Topology;
use algorithms::catalog::{self, Row};
use serde_json::Value;
use testkit::{Live, Plan, Scratch, ctl, stderr, stdout};

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
async fn a_bench_tells_what_its_slowest_trial_waited_for() {
    for safety in ["classic", "quorum"] {
        let output = ctl(&["bench", "failover", "-n", "3", "--trials", "2", "--safety", safety, "-o", "json"]).await;
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stderr(&output).contains("1/2"), "progress without a terminal: {}", stderr(&output));
        let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let samples: Vec<f64> = document["samples_ms"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        assert_eq!(samples.len(), 2, "{document}");
        assert!(document["discarded"].is_u64(), "{document}");
        let samples_of = |times: &str| -> Vec<f64> {
            document[times]["samples"].as_array().unwrap().iter().filter_map(Value::as_f64).collect()
        };
        let (noticed, announced, eof) = (samples_of("noticed_ms"), samples_of("announced_ms"), samples_of("eof_ms"));
        assert!(noticed.len() == 2 && noticed.iter().zip(&announced).all(|(first, last)| first <= last), "{document}");
        assert_eq!(eof.len(), 2, "{document}");
        let median = document["eof_median_ms"].as_f64().unwrap();
        assert!((median - f64::midpoint(eof[0], eof[1])).abs() < 1e-9, "{document}");
        let slowest = &document["slowest"];
        assert_eq!(slowest["ms"].as_f64(), samples.iter().copied().reduce(f64::max), "{document}");
        assert!([1, 2].map(Value::from).contains(&slowest["last_member"]), "{document}");
        let parts = slowest["parts"].as_array().unwrap();
        assert!(parts.iter().any(|part| part["what"] == "the winner 2 led"), "{document}");
        assert_eq!(parts.last().unwrap()["after_ms"], slowest["ms"], "{document}");
        assert!(!slowest["waited_for"].as_str().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_bench_of_a_topology_has_all_its_algorithms_in_one_table() {
    let mesh: Vec<&str> =
        catalog::ROWS.iter().filter(|row| row.topology == Topology::Mesh).map(|row| row.name).collect();
    let output = ctl(&["bench", "failover", "--algorithm", "all-mesh", "-n", "3", "--trials", "1", "-o", "json"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let documents: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let named: Vec<&str> = documents.iter().filter_map(|document| document["algorithm"].as_str()).collect();
    assert_eq!(named, mesh);
    for document in &documents {
        assert_eq!(document["samples_ms"].as_array().map(Vec::len), Some(1), "{document}");
        assert_eq!(document["messages"].as_array().map(Vec::len), Some(1), "{document}");
    }
    let refused = ctl(&["bench", "failover", "--algorithm", "all-mesh", "--topology", "ring"]).await;
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--algorithm all-ring"), "{}", stderr(&refused));
}

#[tokio::test]
async fn status_shows_the_list_of_active_members_where_the_algorithm_keeps_one() {
    let row = catalog::row("le-lann").unwrap();
    let mut live = Live::start(&Plan::new(3, row));
    live.agreement_on(3, &[1, 2, 3]).await;
    let (status, _) = live.json(&["status"]).await;
    for member in status["members"].as_array().unwrap() {
        assert_eq!(member["active_list"], serde_json::json!([1, 2, 3]), "{member}");
    }
    let text = stdout(&live.ctl(&["status", "--member-timeout", "5s"]).await);
    assert!(text.contains("active list of 1, 2, 3: 1, 2, 3"), "{text}");
    live.kill(3).await;
    live.agreement_on(2, &[1, 2]).await;
    live.statuses_that(&[1, 2], |all| all.iter().all(|status| status.active_list == Some(vec![1, 2]))).await;
}

#[tokio::test]
async fn a_bench_of_idle_members_reads_the_counters_of_all_their_threads() {
    let output = ctl(&["bench", "idle", "-n", "3", "--seconds", "1", "-o", "json"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let members = document["members"].as_array().unwrap();
    let roles: Vec<&str> = members.iter().filter_map(|member| member["role"].as_str()).collect();
    assert_eq!(roles, ["follower", "follower", "leader"], "{document}");
    for member in members {
        // A member hears heartbeats, and its ledger and disk have a thread each.
        assert!(member["wakeups_per_s"].as_f64().unwrap() > 1.0, "{document}");
        assert!(member["threads"].as_u64().unwrap() >= 3, "{document}");
        assert!(member["rss_kib"].as_u64().unwrap() > 0, "{document}");
        assert!(member["cpu_percent"].as_f64().unwrap() > 0.0, "{document}");
    }
}

/// The kernel closes them when the last thread that holds them has ended, and peers wait for that.
#[tokio::test]
async fn no_thread_of_a_member_beside_its_event_loop_holds_a_connection() {
    let mut live = Live::start(&five());
    live.agreement_on(5, ALL).await;
    let process = live.cluster.pid(5).unwrap().to_string();
    let table = std::fs::read_to_string(format!("/proc/{process}/net/tcp")).unwrap();
    let connections: Vec<&str> = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(9)).collect();
    let held = |thread: &Path| {
        let files = std::fs::read_dir(thread.join("fd")).unwrap().flatten();
        let files = files.filter_map(|file| std::fs::read_link(file.path()).ok()?.into_os_string().into_string().ok());
        files.filter(|file| connections.iter().any(|inode| *file == format!("socket:[{inode}]"))).count()
    };
    for thread in std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten() {
        let name = std::fs::read_to_string(thread.path().join("comm")).unwrap();
        if thread.file_name().to_str() == Some(&process) {
            assert!(held(&thread.path()) >= 5, "the event loop has a listener and four peers");
        } else {
            assert_eq!(held(&thread.path()), 0, "thread {name}");
        }
    }
}

#[tokio::test]
async fn status_shows_what_elections_cost_beside_theory() {
    let row = ring_row();
    let mut live = Live::start(&Plan::new(5, row));
    live.agreement_on(5, ALL).await;
    let mut costs = Vec::new();
    for _ in 0..2 {
        let output = live.ctl(&["status", "-o", "json"]).await;
        let status: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let theory = (row.bounds)(5);
        assert_eq!(status["theory"]["best"].as_f64(), Some(theory.best), "{status}");
        assert_eq!(status["theory"]["mean"].as_f64(), theory.mean, "{status}");
        assert_eq!(status["theory"]["worst"].as_f64(), Some(theory.worst), "{status}");
        let election = &status["election"];
        assert_eq!((&election["complete"], &election["participants"]), (&true.into(), &ALL.into()), "{status}");
        costs.push(status["election_messages"].as_u64().unwrap());
        assert_eq!(live.ctl(&["elect"]).await.status.code(), Some(0));
    }
    assert!(costs[0] as f64 >= (row.bounds)(5).best, "{costs:?}");
    assert!(costs[1] > costs[0], "an election costs messages: {costs:?}");
    let text = stdout(&live.ctl(&["status"]).await);
    assert!(text.contains("last election of 1, 2, 3, 4, 5") && text.contains("theory for this case: "), "{text}");
}

#[tokio::test]
async fn the_secret_is_asked_for() {
    let mut live = Live::start(&five());
    live.agreement_on(5, ALL).await;
    let other = Scratch::new("live").unwrap();
    let wrong = other.path().join("wrong");
    ::ctl::cluster::write_secret(&wrong, "another secret that is long enough").unwrap();
    let output = live.ctl(&["--secret-file", wrong.to_str().unwrap(), "leader"]).await;
    assert_eq!(output.status.code(), Some(8), "wrong secret: {}", stderr(&output));

    let config = std::fs::read_to_string(live.cluster.config()).unwrap();
    let bare = other.path().join("bare.toml");
    std::fs::write(&bare, config.replace("secret_file", "# secret_file")).unwrap();
    for command in ["leader", "status", "elect", "step-down", "watch"] {
        let output = ctl(&["--config", bare.to_str().unwrap(), command]).await;
        assert_eq!(output.status.code(), Some(8), "{command} without a secret: {}", stderr(&output));
    }
    assert_eq!(live.leader().await, "5\n");
}

#[tokio::test]
async fn members_that_disagree_are_told_apart() {
    let mut small = Live::start(&Plan::new(2, default_row()));
    // The same name and secret, so that both answer.
    let scratch = Scratch::new("live").unwrap();
    std::fs::copy(small.scratch.path().join("secret"), scratch.path().join("secret")).unwrap();
    let mut large = Live::start_in(&Plan::new(3, default_row()), scratch, "");
    small.agreement_on(2, &[1, 2]).await;
    large.agreement_on(3, &[1, 2, 3]).await;
    let both = [small.cluster.endpoints(), large.cluster.endpoints()].concat();
    let both: Vec<String> = both.into_iter().map(|endpoint| endpoint.address).collect();
    let both = both.join(",");
    let output = small.ctl(&["--endpoints", &both, "leader"]).await;
    assert_eq!(output.status.code(), Some(4), "{}", stdout(&output));
    assert!(stderr(&output).contains("disagree"), "{}", stderr(&output));
    let output = small.ctl(&["--endpoints", &both, "status"]).await;
    assert_eq!(output.status.code(), Some(4));
    assert!(stdout(&output).contains("SPLIT"), "{}", stdout(&output));
    let output = small.ctl(&["--endpoints", &both, "leader", "--wait", "200ms"]).await;
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
}

#[tokio::test]
async fn waiting_for_a_leader_ends_when_there_is_one() {
    let mut live = Live::start(&five());
    let output = live.ctl(&["leader", "--wait", "15s"]).await;
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("5\n", Some(0)), "{}", stderr(&output));
    live.agreement_on(5, ALL).await;
}
