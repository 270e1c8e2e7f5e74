//! What operators did is in the ledgers, and a ledger from which something was taken does not pass for a whole one.

use std::fs;

use algorithms::catalog;
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{Live, PATIENCE, Plan, number, stderr, until};

const ALL: &[u32] = &[1, 2, 3];
const RECORD: usize = 128;

fn three() -> Plan {
    Plan { safety: client::Safety::Quorum, preempt: false, ..Plan::new(3, catalog::row(catalog::DEFAULT).unwrap()) }
}

async fn leave(live: &mut Live, id: u32) {
    live.cluster.signal(id, Signal::TERM).unwrap();
    let status = live.cluster.reap(id).await.unwrap();
    assert!(status.success(), "{status}\n{}", live.logs());
    live.observer.forget(id as usize - 1);
}

/// Of all three: a member that has just started may not be asked yet.
async fn audit(live: &Live) -> (Value, String, Option<i32>) {
    let asking = async {
        loop {
            let (audit, code) = live.json(&["audit"]).await;
            if audit["missing"] == json!([]) {
                return (audit["reasons"].to_string(), audit, code);
            }
        }
    };
    let (reasons, audit, code) = tokio::time::timeout(PATIENCE, asking).await.expect("all members answer");
    (audit, reasons, code)
}

fn last(audit: &Value, id: usize) -> (u64, String) {
    let ledger = &audit["ledgers"][id - 1];
    (ledger["last"].as_u64().expect("entries"), ledger["hash"].as_str().expect("a hash").to_owned())
}

/// Every step adds a flaw; all earlier ones stay, over every restart.
#[tokio::test]
async fn a_ledger_that_was_deleted_cut_or_changed_is_named_and_the_audit_is_incomplete() {
    let mut live = Live::start(&three());
    live.agreement(ALL).await;
    live.voting(ALL).await;
    let (whole, reasons, code) = audit(&live).await;
    assert_eq!((&whole["outcome"], code), (&json!("ordered"), Some(0)), "{reasons}");
    assert!(whole["ledgers"].as_array().unwrap().iter().all(|ledger| ledger["whole"] == true), "{whole}");

    // Killed, once the state file knows the end of the ledger; then the ledger is deleted.
    let (entries, hash) = last(&whole, 1);
    let bytes = u128::from_str_radix(&hash, 16).unwrap().to_be_bytes();
    let data = live.cluster.data_directory(1);
    let knows = || fs::read(data.join("state")).unwrap().windows(16).any(|part| part == bytes).then_some(());
    until("the state file knows the ledger", knows).await;
    live.kill(1).await;
    fs::remove_file(data.join("ledger")).unwrap();
    live.cluster.start(1).unwrap();
    live.agreement(ALL).await;
    let (judged, reasons, code) = audit(&live).await;
    assert_eq!((&judged["outcome"], code), (&json!("incomplete"), Some(1)), "{reasons}");
    let deleted = "member 1's ledger was deleted";
    assert!(reasons.contains(deleted) && reasons.contains(&format!("entries 1 to {entries} ")), "{reasons}");
    assert_eq!((&judged["ledgers"][0]["whole"], &judged["ledgers"][1]["whole"]), (&json!(false), &json!(true)));

    // Left in order, so the state file knows every entry; then the last three are cut off.
    leave(&mut live, 2).await;
    let path = live.cluster.data_directory(2).join("ledger");
    let bytes = fs::read(&path).unwrap();
    let entries = bytes.len() / RECORD - 1;
    fs::write(&path, &bytes[..bytes.len() - 3 * RECORD]).unwrap();
    live.cluster.start(2).unwrap();
    live.agreement(ALL).await;
    let (_, reasons, code) = audit(&live).await;
    let cut = format!(
        "member 2's ledger was cut or replaced: it ended at entry {}, its state file knew entry {entries}",
        entries - 3
    );
    assert!(code == Some(1) && reasons.contains(&cut) && reasons.contains(deleted), "{cut}: {reasons}");

    // One changed byte of the second entry, with a checksum that fits.
    leave(&mut live, 3).await;
    let path = live.cluster.data_directory(3).join("ledger");
    let mut bytes = fs::read(&path).unwrap();
    let record = &mut bytes[2 * RECORD..3 * RECORD];
    record[8] ^= 1;
    let crc = crc32fast::hash(&record[..RECORD - 4]).to_le_bytes();
    record[RECORD - 4..].copy_from_slice(&crc);
    fs::write(&path, bytes).unwrap();
    live.cluster.start(3).unwrap();
    live.agreement(ALL).await;
    let (_, reasons, code) = audit(&live).await;
    let changed = "member 3's ledger was changed: entry 2 ";
    let all = [deleted, &cut, changed];
    assert!(code == Some(1) && all.iter().all(|flaw| reasons.contains(flaw)), "{reasons}");
}

#[tokio::test]
async fn killed_processes_leave_whole_ledgers() {
    let mut live = Live::start(&three());
    live.agreement(ALL).await;
    live.voting(ALL).await;
    for round in 0..number("CONCLAVE_LEDGER_KILLS", 6) {
        let (leader, _) = live.agreement(ALL).await;
        if round % 2 == 0 {
            // In the middle of the transitions that this begins.
            let other = ALL.iter().find(|id| **id != leader).unwrap().to_string();
            let asked = live.ctl(&["transfer", &other]).await;
            assert!(matches!(asked.status.code(), Some(0 | 1 | 4)), "{}", stderr(&asked));
        }
        if round % 3 == 2 {
            live.kill_all(ALL).await;
            live.cluster.start_all().unwrap();
        } else {
            live.kill(leader).await;
            live.cluster.start(leader).unwrap();
        }
    }
    live.agreement(ALL).await;
    let (audit, reasons, _) = audit(&live).await;
    assert!(audit["ledgers"].as_array().unwrap().iter().all(|ledger| ledger["whole"] == true), "{reasons}");
}

#[tokio::test]
async fn orders_are_in_the_ledger_of_the_member_that_carried_them_out() {
    let mut live = Live::start(&Plan { chaos: true, ..three() });
    let (first, _) = live.agreement(ALL).await;
    live.voting(ALL).await;
    let to = ALL.iter().copied().find(|id| *id != first).unwrap();
    let third = ALL.iter().copied().find(|id| *id != first && *id != to).unwrap();
    let done = async |live: &Live, words: &[&str]| {
        let output = live.ctl(words).await;
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", stderr(&output));
    };
    done(&live, &["transfer", &to.to_string(), "--as", "ada\u{7}@desk"]).await;
    live.agreement_on(to, ALL).await;
    done(&live, &["elect"]).await;
    live.agreement_on(to, ALL).await;
    // Answered and recorded before it dies.
    done(&live, &["chaos", "kill", &third.to_string(), "--as", "ada"]).await;
    live.cluster.reap(third).await.unwrap();
    live.observer.forget(third as usize - 1);
    live.cluster.start(third).unwrap();
    // Asked over new connections: an event of the killed process may still be on its way.
    live.statuses_that(ALL, |all| all.iter().all(|status| status.leader.is_some())).await;
    let refused = live.ctl(&["transfer", "77", "--as", "ada"]).await;
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));

    let (history, _) = live.json(&["history"]).await;
    let orders = history["orders"].as_array().unwrap();
    let told: Vec<_> = orders.iter().map(|o| (o["member"].as_u64(), o["order"].as_str().unwrap())).collect();
    let transfer = format!("transfer to {to}");
    let expected =
        [(Some(first.into()), transfer.as_str()), (Some(to.into()), "elect"), (Some(third.into()), "chaos kill")];
    assert_eq!(told, expected, "an order that was not carried out is in no ledger: {history}\n{}", live.logs());
    let names: Vec<_> = orders.iter().map(|order| order["name"].as_str().unwrap()).collect();
    assert_eq!((names[0], names[2]), ("ada?@desk", "ada"));
    assert!(names[1].contains('@'), "by default the user and the host: {names:?}");
    for order in orders {
        let from: std::net::SocketAddr = order["from"].as_str().unwrap().parse().unwrap();
        assert!(from.ip().is_loopback() && from.port() > 0, "{order}");
        assert!(["operator", "member"].contains(&order["access"].as_str().unwrap()), "{order}");
    }
    let table = testkit::stdout(&live.ctl(&["history"]).await);
    assert!(table.contains("ORDERED AT") && table.contains("chaos kill") && table.contains("ada?@desk"), "{table}");
}
