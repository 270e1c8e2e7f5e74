//! `ctl chaos` against real processes: every fault is injected through the real binary and its effect awaited.

use std::os::unix::process::ExitStatusExt;

use algorithms::catalog;
use client::{Chaos, ClientError, FailCode};
use serde_json::Value;
use testkit::{Live, PATIENCE, Plan, done, stdout};

const ALL: &[u32] = &[1, 2, 3, 4, 5];
const REST: &[u32] = &[1, 2, 3, 4];

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

/// Awaits a line in the log of one of these members. Logs are written by a thread of their own, so an event may come before its line.
async fn logged(live: &Live, among: &[u32], line: &str) {
    let found = async {
        while !among.iter().any(|&id| live.cluster.log_tail(id, 100).contains(line)) {
            status(live).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, found).await.is_ok();
    assert!(in_time, "none of {among:?} logged {line:?}\n{}", live.logs());
}

#[tokio::test]
async fn a_leader_cut_from_everybody_leads_itself_until_it_is_healed() {
    let mut live = Live::start(&plan(5));
    let first = live.agreement_on(5, ALL).await;
    let output = live.ctl(&["chaos", "cut", "5", "1,2,3,4", "-o", "json"]).await;
    done(&output);
    let line: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&line["schema"], &line["action"]), (&"conclave.chaos/1".into(), &"cut".into()));
    assert_eq!(line["applied"], serde_json::json!([5, 1, 2, 3, 4]));
    assert_eq!(line["failed"], serde_json::json!([]));

    let second = live.agreement_on(4, REST).await;
    assert!(second > first);
    let split = status(&live).await;
    assert_eq!(split["verdict"], "SPLIT");
    let roles: Vec<&str> = split["members"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["follower", "follower", "follower", "leader", "leader"]);
    let words = faults(&live).await;
    assert_eq!(words[0], ["cut to and from 5"]);
    assert_eq!(words[4], REST.iter().map(|id| format!("cut to and from {id}")).collect::<Vec<_>>());
    let table = stdout(&live.ctl(&["status"]).await);
    assert!(table.contains("FAULTS at 1: cut to and from 5\n"), "{table}");
    // A cut is silence. A closed connection would have been noticed as one.
    logged(&live, &[5], "silent for too long: suspected").await;
    logged(&live, REST, "silent for too long: suspected").await;

    done(&live.ctl(&["chaos", "heal"]).await);
    let (_, third) = live.agreement_that(ALL, |_, epoch| epoch >= second).await;
    assert!(third >= second);
    assert!(faults(&live).await.iter().all(Vec::is_empty));
    assert!(!stdout(&live.ctl(&["status"]).await).contains("FAULTS"));
}

#[tokio::test]
async fn whoever_does_not_hear_is_the_one_who_suspects() {
    // The leader's frames do not arrive, then the follower's.
    for (mute, deaf) in [(2, 1), (1, 2)] {
        let mut live = Live::start(&plan(2));
        live.agreement_on(2, &[1, 2]).await;
        done(&live.ctl(&["chaos", "cut", &mute.to_string(), &deaf.to_string(), "--one-way"]).await);
        let words = faults(&live).await;
        assert_eq!(words[mute as usize - 1], [format!("cut to {deaf}")]);
        assert_eq!(words[deaf as usize - 1], [format!("cut from {mute}")]);
        // Alone on its side, each of the two leads.
        live.agreement_on(1, &[1]).await;
        live.agreement_on(2, &[2]).await;
        logged(&live, &[deaf], "silent for too long: suspected").await;
        if mute == 1 {
            // A follower answers its leader: it goes on hearing one that does not hear it, to the close of the
            // connection. A mute leader is not answered, and so has nothing to hear.
            let heard = live.cluster.log_tail(mute, 100);
            assert!(!heard.contains("suspected"), "{heard}");
        }
        done(&live.ctl(&["chaos", "heal"]).await);
        live.agreement(&[1, 2]).await;
    }
}

#[tokio::test]
async fn a_slow_leader_is_replaced_and_a_healed_one_returns() {
    let mut live = Live::start(&plan(5));
    live.agreement_on(5, ALL).await;
    done(&live.ctl(&["chaos", "delay", "5", "1,2,3,4", "2s"]).await);
    let words = faults(&live).await;
    assert_eq!(words[0], ["delay 2s to and from 5"]);
    assert_eq!(words[4].len(), 4);
    live.agreement_on(4, REST).await;
    done(&live.ctl(&["chaos", "delay", "1", "2", "30ms", "--one-way"]).await);
    let words = faults(&live).await;
    assert_eq!(words[0], ["delay 30ms to 2", "delay 2s to and from 5"]);
    assert_eq!(words[1], ["delay 30ms from 1", "delay 2s to and from 5"]);
    done(&live.ctl(&["chaos", "heal"]).await);
    live.agreement_on(5, ALL).await;
}

#[tokio::test]
async fn a_paused_leader_is_replaced_and_comes_back_by_itself() {
    let mut live = Live::start(&plan(5));
    live.agreement_on(5, ALL).await;
    let output = live.ctl(&["chaos", "pause", "5", "--for", "2s"]).await;
    done(&output);
    assert_eq!(stdout(&output), "5 hangs for 2000 ms\n");
    let output = live.ctl(&["status", "-o", "json"]).await;
    let hung: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&hung["members"][4]["up"], &hung["members"][4]["faults"]), (&false.into(), &Value::Null));
    let second = live.agreement_on(4, REST).await;
    let third = live.agreement_on(5, ALL).await;
    assert!(third > second);
}

#[tokio::test]
async fn a_killed_member_is_gone_and_its_faults_with_it() {
    let mut live = Live::start(&plan(5));
    live.agreement_on(5, ALL).await;
    done(&live.ctl(&["chaos", "cut", "5", "1"]).await);
    done(&live.ctl(&["chaos", "kill", "5"]).await);
    let ended = tokio::time::timeout(PATIENCE, live.cluster.reap(5)).await.expect("it dies").unwrap();
    assert_eq!(ended.signal(), Some(9));
    live.observer.forget(4);
    live.agreement_on(4, REST).await;

    // Only one end knows of the cut now, and that is enough for it.
    live.cluster.start(5).unwrap();
    live.agreement_on(5, &[2, 3, 4, 5]).await;
    let words = faults(&live).await;
    assert_eq!((&words[0], &words[4]), (&vec!["cut to and from 5".to_owned()], &Vec::new()));
    done(&live.ctl(&["chaos", "heal"]).await);
    live.agreement_on(5, ALL).await;
}

/// What `ctl` checks itself, other clients may not.
#[tokio::test]
async fn a_member_refuses_faults_that_make_no_sense() {
    let mut live = Live::start(&plan(2));
    live.agreement_on(2, &[1, 2]).await;
    let address = &live.cluster.endpoints()[0].address;
    let client = client::Client::connect(address, live.cluster.settings()).await.unwrap();
    let way = client::Way::Both;
    for fault in [
        Chaos::Pause { ms: 60_001 },
        Chaos::Pause { ms: u64::MAX },
        Chaos::Delay { peer: 2, way, ms: 60_001 },
        Chaos::Delay { peer: 9, way, ms: 1 },
        Chaos::Cut { peer: 9, way },
        Chaos::Cut { peer: 1, way },
    ] {
        let refused = client.chaos(fault).await;
        let bad = matches!(refused, Err(ClientError::Failed { code: FailCode::BadRequest, .. }));
        assert!(bad, "{fault:?}: {refused:?}");
    }
    assert!(faults(&live).await.iter().all(Vec::is_empty));
}
