//! `ctl history` and `ctl audit` on the data directories of a cluster that is down.

use algorithms::catalog;
use serde_json::Value;
use testkit::{Live, PATIENCE, Plan, ctl, done, stderr, stdout};

const ALL: &[u32] = &[1, 2, 3, 4, 5];

fn plan(safety: &str) -> Plan {
    Plan { safety: safety.parse().unwrap(), ..Plan::new(5, catalog::row(catalog::DEFAULT).unwrap()) }
}

fn reigns(history: &Value) -> Vec<Value> {
    history["reigns"].as_array().expect("reigns").clone()
}

/// What the running members tell, all of them: on a busy machine one may answer too late.
async fn running(live: &Live) -> Vec<Value> {
    let asking = async {
        loop {
            let (history, _) = live.json(&["history"]).await;
            if history["missing"] == serde_json::json!([]) {
                return reigns(&history);
            }
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("all members answer")
}

/// Without the latest end of a process that recorded none: that is when somebody looked, at most two seconds later.
fn certain(reigns: &[Value]) -> Vec<Value> {
    let known = |reign: &Value| {
        let mut known = reign.clone();
        if known["end"] == "process-ended" {
            known["to_latest_ms"] = Value::Null;
        }
        known
    };
    reigns.iter().map(known).collect()
}

/// The arguments that name the data directories of these members.
fn directories(live: &Live, ids: &[u32]) -> Vec<String> {
    let named = ids.iter().map(|&id| live.cluster.data_directory(id).display().to_string());
    std::iter::once("--data-dir".to_owned()).chain(named).collect()
}

async fn offline(live: &Live, command: &str, ids: &[u32]) -> (Value, Option<i32>) {
    let config = live.cluster.config();
    let mut words = vec!["--config", config.to_str().unwrap(), "-o", "json", command];
    let directories = directories(live, ids);
    words.extend(directories.iter().map(String::as_str));
    let output = ctl(&words).await;
    let document = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    (document, output.status.code())
}

#[tokio::test]
async fn stopped_directories_tell_what_the_running_cluster_tells() {
    for safety in ["classic", "quorum"] {
        let mut live = Live::start(&plan(safety));
        live.agreement_on(5, ALL).await;
        done(&live.ctl(&["step-down"]).await);
        live.agreement_that(ALL, |leader, _| leader != 5).await;
        let before = running(&live).await;
        live.cluster.stop().await;
        let (history, code) = offline(&live, "history", ALL).await;
        assert_eq!((code, &history["missing"]), (Some(0), &serde_json::json!([])), "{history:#}");
        let stopped = reigns(&history);
        for (running, after) in before.iter().zip(&stopped) {
            for key in ["leader", "epoch", "from_ms"] {
                assert_eq!(running[key], after[key], "{safety}: {before:#?} and then {stopped:#?}");
            }
        }
        assert!(stopped.len() >= before.len() && stopped.iter().all(|reign| reign["to_latest_ms"].is_u64()));
        let (audit, code) = offline(&live, "audit", ALL).await;
        assert_eq!((code, &audit["safety"]), (Some(0), &safety.into()), "{audit:#}");

        let last = stopped.iter().filter_map(|reign| reign["epoch"].as_u64()).max();
        live.cluster.start_all().unwrap();
        live.agreement_that(ALL, |_, epoch| Some(epoch) > last).await;
        let again = running(&live).await;
        assert_eq!(certain(&again[..stopped.len()]), certain(&stopped), "{safety}");
    }
}

/// A killed leader recorded no end: it counts as alive no longer than its process was.
#[tokio::test]
async fn a_killed_leader_does_not_lead_for_ever_in_its_directory() {
    let mut live = Live::start(&plan("classic"));
    live.agreement_on(5, ALL).await;
    live.json(&["history"]).await;
    live.kill(5).await;
    live.agreement_on(4, &[1, 2, 3, 4]).await;
    live.json(&["history"]).await;
    live.cluster.stop().await;
    let (history, _) = offline(&live, "history", ALL).await;
    let killed = reigns(&history).into_iter().find(|reign| reign["leader"] == 5).expect("the reign of 5");
    assert_eq!(killed["end"], "process-ended", "{history:#}");
    let (audit, code) = offline(&live, "audit", ALL).await;
    assert_ne!(code, Some(7), "{audit:#}");
    let (history, _) = offline(&live, "history", &[1, 2]).await;
    assert_eq!(history["missing"], serde_json::json!(["3", "4", "5"]), "{history:#}");
}
