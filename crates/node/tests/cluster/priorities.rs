//! Priorities of real members: an operator's order, and the command of `[priority]`.

use std::fs;

use algorithms::catalog;
use client::{PriorityBy, Safety};
use testkit::{Live, Plan, Scratch, done, refused, until};

const ALL: &[u32] = &[1, 2, 3];

fn plan(algorithm: &str, safety: Safety) -> Plan {
    Plan { safety, ..Plan::new(3, catalog::row(algorithm).unwrap()) }
}

async fn order(live: &Live, member: u32, value: &str) {
    done(&live.ctl(&["priority", &member.to_string(), value, "--member-timeout", "5s", "--timeout", "20s"]).await);
}

/// A raised member takes over by preemption, is the best one after a restart of all, and gives way again.
async fn raised_and_lowered(plan: Plan) {
    let mut live = Live::start(&plan);
    live.agreement_on(3, ALL).await;
    order(&live, 1, "7").await;
    live.agreement_on(1, ALL).await;
    live.kill_all(ALL).await;
    live.cluster.start_all().unwrap();
    live.agreement_on(1, ALL).await;
    let (status, _) = live.json(&["status"]).await;
    let own = |at: usize| (&status["members"][at]["priority"], &status["members"][at]["priority_by"]);
    assert_eq!((own(0), own(1)), ((&7.into(), &"operator".into()), (&0.into(), &"list".into())));
    order(&live, 2, "4294967295").await;
    live.agreement_on(2, ALL).await;
    order(&live, 1, "default").await;
    order(&live, 2, "default").await;
    // The leader keeps the priority with which it was elected until the next election.
    done(&live.ctl(&["elect", "--timeout", "20s"]).await);
    live.agreement_on(3, ALL).await;
    let (history, _) = live.json(&["history"]).await;
    let orders = history["orders"].as_array().unwrap().iter();
    let told: Vec<_> =
        orders.map(|order| (order["member"].as_u64().unwrap(), order["order"].as_str().unwrap())).collect();
    let orders = [(1, "priority 7"), (2, "priority 4294967295"), (1, "priority default"), (2, "priority default")];
    assert_eq!(told[..4], orders);
}

#[tokio::test]
async fn an_operator_raises_and_lowers_members_of_a_classic_mesh() {
    raised_and_lowered(plan("bully", Safety::Classic)).await;
}

#[tokio::test]
async fn an_operator_raises_and_lowers_members_of_a_ring_under_quorum() {
    raised_and_lowered(plan("chang-roberts", Safety::Quorum)).await;
}

#[tokio::test]
async fn a_patient_member_leads_after_the_next_election() {
    let mut live = Live::start(&Plan { preempt: false, ..plan("bully", Safety::Quorum) });
    let before = live.agreement_on(3, ALL).await;
    live.voting(ALL).await;
    order(&live, 1, "7").await;
    let statuses = live.statuses_that(&[1], |all| all[0].priority == 7).await;
    assert_eq!((statuses[0].leader, statuses[0].epoch), (Some(3), before), "the leader stays");
    live.kill(3).await;
    live.agreement_on(1, &[1, 2]).await;
}

#[tokio::test]
async fn what_is_no_priority_is_refused() {
    let mut live = Live::start(&plan("time-slice", Safety::Classic));
    live.agreement_on(1, ALL).await;
    let why = ["member 2 keeps its priority", "time-slice counts with plain ids"];
    refused(&live.ctl(&["priority", "2", "7", "--member-timeout", "5s"]).await, 1, &why);
    refused(&live.ctl(&["priority", "2", "4294967296"]).await, 2, &["0 to 4294967295"]);
    refused(&live.ctl(&["priority", "9", "7"]).await, 2, &["no member 9"]);
    let (status, _) = live.json(&["status"]).await;
    assert_eq!(status["members"][1]["priority"], 0);
}

/// Three members whose priority is the text of a file of their own; no file: the command fails.
fn reading_files(safety: Safety) -> Live {
    let scratch = Scratch::new("priority").unwrap();
    let file = scratch.path().join("priority-of-$CONCLAVE_ID").display().to_string();
    let table = format!("\n[priority]\ncommand = '''. {file}'''\ninterval = \"200ms\"\ntimeout = \"100ms\"\n");
    Live::start_in(&plan("bully", safety), scratch, &table)
}

fn script(live: &Live, id: u32, text: &str) {
    let (path, new) = (live.scratch.path().join(format!("priority-of-{id}")), live.scratch.path().join("new"));
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}

fn warnings(live: &Live, id: u32) -> usize {
    live.cluster.log_tail(id, 10_000).lines().filter(|line| line.contains("the command of [priority]")).count()
}

#[tokio::test]
async fn the_number_of_a_command_counts_and_the_last_good_one_stays() {
    let mut live = reading_files(Safety::Classic);
    live.agreement_on(3, ALL).await;
    script(&live, 1, "echo 5");
    live.agreement_on(1, ALL).await;
    let of = async |live: &Live, value, by| {
        live.statuses_that(&[1], |all| (all[0].priority, all[0].priority_by) == (value, by)).await;
    };
    of(&live, 5, PriorityBy::Command).await;
    // Without a file until now: a warning, and that it works again.
    until("the first warning and its end", || (warnings(&live, 1) == 2).then_some(())).await;
    let mark = format!("a priority that hangs, of {}", std::process::id());
    let hangs = format!("echo ran >> {0}; export CONCLAVE_TEST_MARK='{mark}'; sleep 1000", ran(&live));
    for (text, why) in [
        (&*format!("echo ran >> {}; exit 3", ran(&live)), "fails"),
        (&*format!("echo ran >> {}; echo lots", ran(&live)), "prints"),
        (&*hangs, "is killed"),
    ] {
        let (before, warned) = (runs(&live), warnings(&live, 1));
        script(&live, 1, text);
        until(&format!("several runs that end so: {why}"), || (runs(&live) > before + 3).then_some(())).await;
        assert_eq!(warnings(&live, 1), warned + 1, "one warning: {}", live.cluster.log_tail(1, 30));
        assert!(live.cluster.log_tail(1, 10_000).contains(why), "{}", live.cluster.log_tail(1, 30));
        of(&live, 5, PriorityBy::Command).await;
        script(&live, 1, "echo 5");
        until("that it prints a number again", || (warnings(&live, 1) == warned + 2).then_some(())).await;
    }
    until("the end of all that hung", || testkit::lead::marked(&mark).is_empty().then_some(())).await;
    // An order counts before the command, and ends with the word `default`.
    order(&live, 1, "2").await;
    of(&live, 2, PriorityBy::Operator).await;
    order(&live, 1, "default").await;
    of(&live, 5, PriorityBy::Command).await;
    assert_eq!(live.agreement(ALL).await.0, 1);
}

fn ran(live: &Live) -> String {
    live.scratch.path().join("ran").display().to_string()
}

fn runs(live: &Live) -> usize {
    fs::read_to_string(ran(live)).unwrap_or_default().lines().count()
}
