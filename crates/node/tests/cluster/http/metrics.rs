//! `/metrics`, and the files that use its names.

use std::collections::BTreeSet;

use member::Safety;
use testkit::{Live, root};

use super::{plan, until};

/// The value of a metric without labels.
pub(crate) fn value(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.split(' ').next() == Some(name));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// Words of a text that are names of metrics, without the suffixes that Prometheus adds to a histogram.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = words.filter(|word| word.starts_with("conclave_"));
    let bare = |word: &str| {
        ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word).to_owned()
    };
    ours.map(bare).collect()
}

#[tokio::test]
async fn a_member_measures_its_leadership_its_peers_and_its_disk() {
    let plan = plan(3, Safety::Quorum);
    let ports = plan.http_ports.clone();
    let mut live = Live::start(&plan);
    let (leader, epoch) = live.agreement(&[1, 2, 3]).await;
    live.voting(&[1, 2, 3]).await;
    live.connected(&[1, 2, 3]).await;
    let port = ports[leader as usize - 1];
    let text = until(port, "/metrics", |answer| value(&answer.body, "conclave_is_leader") > 0.0).await;
    assert_eq!(text.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = text.body;
    assert_eq!(value(&text, "conclave_has_leader"), 1.0);
    assert_eq!(value(&text, "conclave_epoch"), epoch as f64);
    assert_eq!(value(&text, "conclave_fencing_token"), (epoch << 28) as f64);
    assert!(value(&text, "conclave_lease_seconds_left") > 0.0);
    assert!(value(&text, "conclave_election_duration_seconds_count") >= 1.0);
    assert!(value(&text, "conclave_fsync_seconds_count") >= 1.0);
    assert_eq!(value(&text, "conclave_event_loop_up"), 1.0);
    let peers = text.lines().filter(|line| line.starts_with("conclave_peer_up{") && line.ends_with(" 1.0"));
    assert_eq!(peers.count(), 2, "{text}");
    assert!(text.contains("conclave_messages_total{kind=\"heartbeat\",direction=\"sent\"}"), "{text}");
    let other = ports[leader as usize % 3];
    let follower = until(other, "/metrics", |answer| value(&answer.body, "conclave_epoch") == epoch as f64).await.body;
    for (name, expected) in [
        ("conclave_is_leader", 0.0),
        ("conclave_has_leader", 1.0),
        ("conclave_fencing_token", 0.0),
        ("conclave_lease_seconds_left", 0.0),
    ] {
        assert_eq!(value(&follower, name), expected, "{name} of a follower");
    }
    let before = value(&follower, "conclave_leader_changes_total");
    live.kill(leader).await;
    let survivors: Vec<u32> = [1, 2, 3].into_iter().filter(|&id| id != leader).collect();
    live.agreement(&survivors).await;
    until(other, "/metrics", |answer| value(&answer.body, "conclave_leader_changes_total") > before).await;
}

#[tokio::test]
async fn every_metric_is_described_once_with_its_type() {
    let plan = plan(1, Safety::Quorum);
    let mut live = Live::start(&plan);
    live.agreement(&[1]).await;
    let text =
        until(plan.http_ports[0], "/metrics", |answer| value(&answer.body, "conclave_is_leader") > 0.0).await.body;
    let known: BTreeSet<String> = face::METRIC_NAMES.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let mut described = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        let (_, written, _) = face::METRIC_NAMES.iter().find(|(known, ..)| *known == name).expect(line);
        assert_eq!(kind, written.as_str().replace("info", "gauge"), "{name}");
        assert!(described.insert(name.to_owned()), "{line} twice");
        assert!(text.contains(&format!("# HELP {name} ")), "{name}");
    }
    let missing: Vec<&String> = known.difference(&described).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_page_the_alerts_and_the_dashboard_use_names_that_exist() {
    let known: BTreeSet<String> = face::METRIC_NAMES.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    for path in ["config/alerts.yml", "config/grafana-dashboard.json"] {
        let used = names(&read(path));
        assert!(!used.is_empty(), "{path}");
        let unknown: Vec<&String> = used.difference(&known).collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?}");
    }
    let page = read("docs/metrics.md");
    for (name, kind, help) in face::METRIC_NAMES {
        let kind = kind.as_str().replace("info", "gauge");
        let row = format!("| `{name}` | {kind} | {help} |");
        assert!(page.contains(&row), "docs/metrics.md needs the line\n{row}");
    }
    let rows = page.lines().filter(|line| line.starts_with("| `conclave_")).count();
    assert_eq!(rows, known.len(), "docs/metrics.md has rows of metrics that do not exist");
    serde_json::from_str::<serde_json::Value>(&read("config/grafana-dashboard.json")).expect("JSON");
}
