//! Orders that last: a held leader, a member that rests, a paused cluster.

use algorithms::catalog;
use serde_json::Value;
use testkit::{Live, Plan, done, refused, stdout};

const ALL: &[u32] = &[1, 2, 3];

/// Leases that a busy machine does not miss.
const PATIENT: &str = "[timing]\nlease = \"1s\"\nsuspect_after = \"800ms\"\n";

fn live() -> Live {
    let plan = Plan { safety: "quorum".parse().unwrap(), ..Plan::new(3, catalog::row(catalog::DEFAULT).unwrap()) };
    Live::start_with(&plan, PATIENT)
}

async fn status(live: &Live) -> Value {
    live.json(&["status"]).await.0
}

fn orders(history: &Value) -> Vec<&str> {
    history["orders"].as_array().unwrap().iter().filter_map(|order| order["order"].as_str()).collect()
}

#[tokio::test]
async fn a_held_leader_and_a_resting_member() {
    let mut live = live();
    live.agreement_on(3, ALL).await;
    done(&live.ctl(&["transfer", "1", "--hold"]).await);
    live.agreement_on(1, ALL).await;
    let held = status(&live).await;
    assert_eq!((&held["members"][0]["held"], &held["members"][2]["held"]), (&true.into(), &false.into()), "{held}");
    assert!(stdout(&live.ctl(&["explain"]).await).contains("1 is held"));
    done(&live.ctl(&["elect"]).await);
    live.agreement_on(3, ALL).await;
    refused(&live.ctl(&["step-down", "--for", "200h"]).await, 2, &["1ms to 168h"]);
    done(&live.ctl(&["step-down", "--for", "10m"]).await);
    live.agreement_on(2, ALL).await;
    assert!(status(&live).await["members"][2]["rests_until_ms"].is_u64());
    let text = stdout(&live.ctl(&["status"]).await);
    assert!(text.contains("3 does not stand until"), "{text}");
    live.kill(2).await;
    live.agreement_on(1, &[1, 3]).await;
    let history = live.json(&["history"]).await.0;
    assert_eq!(orders(&history), ["transfer to 1 --hold", "elect", "step-down --for 10m"], "{history}");
}

#[tokio::test]
async fn a_paused_cluster_keeps_its_leader_and_elects_when_it_is_resumed() {
    let mut live = live();
    live.agreement_on(3, ALL).await;
    let paused = live.json(&["pause"]).await.0;
    assert_eq!(paused["keeps"], 3, "{paused}");
    assert_eq!(paused["members"], serde_json::json!(ALL), "{paused}");
    let paused = |text: &str| text.contains("PAUSED: no elections") && text.contains("AGREED: 3 leads");
    live.ctl_until(&["status"], paused).await;
    live.ctl_until(&["explain"], |text| text.contains("The cluster is PAUSED: only 3 stands")).await;
    refused(&live.ctl(&["step-down"]).await, 1, &["the cluster is paused"]);
    live.kill(3).await;
    let nobody = live.statuses_that(&[1, 2], |all| all.iter().all(|status| status.leader.is_none())).await;
    assert!(nobody.iter().all(|status| status.maintenance.paused));
    refused(&live.ctl(&["elect"]).await, 1, &["the cluster is paused"]);
    // All members keep the pause over a restart, and the leader that they had may come back.
    live.kill_all(&[1, 2]).await;
    for &id in ALL {
        live.cluster.start(id).unwrap();
    }
    live.agreement_on(3, ALL).await;
    assert_eq!(status(&live).await["paused"], true);
    live.kill(3).await;
    live.statuses_that(&[1, 2], |all| all.iter().all(|status| status.leader.is_none())).await;
    let resumed = live.json(&["resume"]).await.0;
    assert_eq!(resumed["paused"], false, "{resumed}");
    live.agreement_on(2, &[1, 2]).await;
    let history = live.json(&["history"]).await.0;
    assert!(orders(&history).contains(&"resume"), "{history}");
}
