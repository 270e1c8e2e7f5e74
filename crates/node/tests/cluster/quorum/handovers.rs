//! Leaders that give way: by `ctl transfer`, by SIGTERM, and by death under `on_close = "immediate"`.

use client::{Cause, Role};
use rustix::process::Signal;
use serde_json::Value;
use testkit::claims::Pollers;
use testkit::{Change, Live, PATIENCE, Plan, done, refused, stderr, stdout};

use super::{ALL, plan, runs};

/// A busy machine or a slow write is no reason for an election here: the handover itself is looked at.
pub(crate) fn patient(plan: &Plan) -> Live {
    Live::alone_with(plan, PATIENT)
}

const PATIENT: &str = "[timing]\nlease = \"2s\"\nsuspect_after = \"1s\"\n";

#[tokio::test]
async fn a_transfer_brings_whom_the_operator_chose() {
    // Nobody takes back what the operator gave away.
    let mut live = patient(&Plan { preempt: false, ..plan(5) });
    let (mut leader, mut epoch) = live.agreement(ALL).await;
    let pollers = Pollers::start(&live);
    for run in 0..runs() {
        for &to in ALL {
            let output = live.ctl(&["transfer", &to.to_string(), "-o", "json"]).await;
            assert!(output.status.success(), "to {to}, run {run}: {}{}", stderr(&output), live.logs());
            let change: Value = serde_json::from_str(&stdout(&output)).unwrap();
            assert_eq!((&change["was"], &change["leader"]), (&leader.into(), &to.into()), "run {run}");
            let later = change["epoch"].as_u64().unwrap();
            assert!(later > epoch || to == leader, "epoch {later} after {epoch}");
            assert!(live.agreement_on(to, ALL).await >= later);
            (leader, epoch) = (to, later);
        }
    }
    let (answers, claims) = pollers.judge(&live);
    println!("{} transfers: {answers} answers, {claims} claims, no conflict", 5 * runs());
}

#[tokio::test]
async fn a_transfer_to_nobody_is_refused_and_the_leader_stays() {
    // The lines go to the last member.
    let mut live = Live::alone_with(&plan(5), "role = \"witness\"\n");
    let before = live.agreement_on(4, ALL).await;
    refused(&live.ctl(&["transfer", "9"]).await, 1, &["member 4 does not hand over", "9 is no member that may lead"]);
    refused(&live.ctl(&["transfer", "5"]).await, 1, &["member 4 does not hand over", "5 is no member that may lead"]);
    live.kill(1).await;
    refused(&live.ctl(&["transfer", "1"]).await, 1, &["member 4 does not hand over", "no connection to 1"]);
    refused(&live.ctl(&["transfer", "x"]).await, 2, &["'x'"]);
    done(&live.ctl(&["transfer", "4"]).await);
    assert_eq!(live.agreement(&[2, 3, 4, 5]).await, (4, before));
}

/// One that is cut off, and that clients still reach, knows no leader and does not stand against the one that the others
/// know.
#[tokio::test]
async fn leadership_can_be_moved_while_a_member_is_cut_off() {
    let mut live = patient(&Plan { preempt: false, ..plan(5) });
    let (leader, _) = live.agreement(ALL).await;
    let (alone, rest): (u32, Vec<u32>) = if leader == 1 { (2, vec![1, 3, 4, 5]) } else { (1, vec![2, 3, 4, 5]) };
    let to = *rest.iter().find(|&&id| id != leader).unwrap();
    let others: Vec<String> = rest.iter().map(ToString::to_string).collect();
    done(&live.ctl(&["chaos", "cut", &alone.to_string(), &others.join(",")]).await);
    let forgot = live.observer.until(|all| all.view(alone as usize - 1).is_some_and(|view| view.leader.is_none()));
    tokio::time::timeout(PATIENCE, forgot).await.expect("it misses the leader");
    done(&live.ctl(&["transfer", &to.to_string()]).await);
    live.agreement_on(to, &rest).await;
    done(&live.ctl(&["elect"]).await);
    done(&live.ctl(&["step-down"]).await);
    live.agreement_that(&rest, |leader, _| leader != to).await;
}

/// A member and a witness are left.
#[tokio::test]
async fn whoever_is_the_last_that_may_lead_does_not_step_down() {
    let witness = format!("role = \"witness\"\n{PATIENT}");
    let mut live = Live::alone_with(&plan(3), &witness);
    live.agreement_on(2, &[1, 2, 3]).await;
    live.voting(&[1, 2, 3]).await;
    live.kill(1).await;
    while live.client(2).await.status().await.unwrap().peers.iter().any(|peer| peer.id == 1 && peer.connected) {}
    let epoch = live.agreement_on(2, &[2, 3]).await;
    refused(
        &live.ctl(&["step-down"]).await,
        1,
        &["member 2 does not step down", "none of the other members can take over"],
    );
    assert_eq!(live.agreement(&[2, 3]).await, (2, epoch));
}

/// Everything that members report until one leads whom this fits.
async fn events_until(live: &mut Live, fits: impl Fn(&Change) -> bool) -> Vec<Change> {
    let mut events = Vec::new();
    let collect = async {
        loop {
            events.extend(Change::of(&live.observer.next().await.news));
            if events.last().is_some_and(&fits) {
                return;
            }
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, collect).await.is_ok();
    assert!(in_time, "{events:?}\n{}", live.logs());
    events
}

#[tokio::test]
async fn a_leader_that_is_told_to_leave_hands_over_first() {
    for _ in 0..runs() {
        let mut live = patient(&plan(5));
        let before = live.agreement_on(5, ALL).await;
        let pollers = Pollers::start(&live);
        live.cluster.signal(5, Signal::TERM).unwrap();
        let events = events_until(&mut live, |event| event.role == Role::Leader && event.id != 5).await;
        let successor = events.last().unwrap();
        assert_eq!((successor.id, successor.cause), (4, Cause::Elected), "{events:?}");
        assert!(successor.epoch > before, "{events:?}");
        let lost = events.iter().find(|event| event.cause == Cause::LeaderLost);
        assert_eq!(lost, None, "nobody had to notice its end");
        let ended = tokio::time::timeout(PATIENCE, live.cluster.reap(5)).await.expect("it leaves").unwrap();
        assert_eq!(ended.code(), Some(0), "{}", live.logs());
        let log = live.cluster.log_tail(5, 100);
        assert!(log.contains("cause=\"handed-over\""), "{log}");
        live.observer.forget(4);
        assert_eq!(live.agreement(&ALL[..4]).await.0, 4);
        pollers.judge(&live);
    }
}

#[tokio::test]
async fn who_takes_a_closed_connection_for_the_end_of_a_leader_is_right() {
    let mut live = Live::alone(&Plan { on_close: Some("immediate".into()), ..plan(5) });
    let pollers = Pollers::start(&live);
    let mut epoch = 0;
    let kills = 5 * runs();
    for _ in 0..kills {
        let (leader, first) = live.agreement_that(ALL, |_, found| found >= epoch).await;
        live.kill(leader).await;
        let rest: Vec<u32> = ALL.iter().copied().filter(|&id| id != leader).collect();
        let (_, second) = live.agreement_that(&rest, |found, _| found != leader).await;
        assert!(second > first, "epoch {second} after {first}");
        epoch = second;
        live.cluster.start(leader).unwrap();
    }
    live.agreement_that(ALL, |_, found| found >= epoch).await;
    let (answers, claims) = pollers.judge(&live);
    println!("{kills} kills: {answers} answers, {claims} claims, no conflict");
}
