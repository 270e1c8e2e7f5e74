//! `ctl lead` under quorum: what runs for a leader is gone before anything runs for the next one.

use std::path::Path;

use rustix::process::Signal;
use testkit::lead::{Lead, STUBBORN};
use testkit::{Live, PATIENCE, Plan};

use super::handovers::patient;
use super::{plan, runs};

const THREE: &[u32] = &[1, 2, 3];
const REST: &[u32] = &[1, 2];

/// The process is gone at once, what it left behind is not: voters wait for the lease.
#[tokio::test]
async fn a_killed_leader_with_children_is_not_followed_before_they_are_gone() {
    for run in 0..runs() {
        let mut live = Live::alone(&Plan { on_close: Some("immediate".into()), ..plan(3) });
        let before = live.agreement_on(3, THREE).await;
        live.voting(THREE).await;
        let mut lead = Lead::start(&live, 3, STUBBORN);
        lead.up().await;
        live.kill(3).await;
        let (_, after) = live.agreement(REST).await;
        assert_eq!(lead.processes(), [], "run {run}: they overlap the next reign");
        assert!(after > before);
        lead.gone().await;
        assert_eq!(lead.exit().await.code(), Some(6));
    }
}

/// Both append their tokens to one file for as long as they live, so the order of its lines is the order of events.
#[tokio::test]
async fn the_children_of_a_paused_leader_are_gone_before_those_of_the_next_start() {
    for run in 0..runs() {
        // With a short lease and a busy machine a guard that hears nothing in time stops the command, as it must.
        let mut live = patient(&plan(3));
        live.agreement_on(3, THREE).await;
        let file = live.scratch.path().join("tokens");
        let script = writer(&file);
        let mut old = Lead::start(&live, 3, &script);
        let mut new = Lead::start(&live, 2, &script);
        let first = token(&live, &mut old).await;
        live.cluster.pause(3).unwrap();
        let second = token(&live, &mut new).await;
        assert_eq!(old.processes(), [], "run {run}: they overlap the next reign");
        assert!(second > first, "token {second} after {first}");
        live.cluster.resume(3).unwrap();
        old.gone().await;
        assert_eq!(old.exit().await.code(), Some(6));
        let text = std::fs::read_to_string(&file).unwrap();
        let tokens: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert!(tokens.is_sorted(), "run {run}: a token after a larger one: {tokens:?}");
        assert!(tokens.contains(&first) && tokens.contains(&second));
    }
}

/// The guard is left, and gives the command its grace: the member knows of it until then.
#[tokio::test]
async fn a_leader_whose_ctl_was_killed_hands_over_when_the_guard_is_done() {
    for on_close in ["wait-lease", "immediate"] {
        for run in 0..runs() {
            let mut live = Live::alone(&Plan { on_close: Some(on_close.into()), ..plan(3) });
            live.agreement_on(3, THREE).await;
            let mut lead = Lead::start(&live, 3, STUBBORN);
            lead.up().await;
            lead.signal(Signal::KILL);
            // Where a busy machine has cost it its lease there is nothing to step down from.
            live.ctl(&["step-down"]).await;
            live.agreement_that(THREE, |leader, _| leader != 3).await;
            assert_eq!(lead.processes(), [], "{on_close}, run {run}: they overlap the next reign");
        }
    }
}

/// Its heir does not answer, so it goes on leading for a while, and somebody attaches just then.
#[tokio::test]
async fn whoever_attaches_to_a_leader_that_gives_way_is_waited_for_too() {
    for run in 0..runs() {
        let timing = "[timing]\nlease = \"4s\"\nsuspect_after = \"3s\"\nanswer_timeout = \"500ms\"\n";
        let mut live = Live::alone_with(&plan(3), timing);
        live.agreement_on(3, THREE).await;
        live.cluster.pause(2).unwrap();
        live.client(3).await.step_down(None).await.unwrap();
        let mut lead = Lead::start(&live, 3, STUBBORN);
        live.agreement_on(1, &[1, 3]).await;
        assert_eq!(lead.processes(), [], "run {run}: they overlap the next reign");
        live.cluster.resume(2).unwrap();
        lead.signal(Signal::TERM);
        lead.exit().await;
    }
}

/// What the command says first.
async fn token(live: &Live, lead: &mut Lead) -> u64 {
    let said = tokio::time::timeout(PATIENCE / 2, lead.next()).await;
    let Ok(Some(token)) = said else { panic!("no command runs: {said:?}\n{}", live.logs()) };
    token.parse().unwrap()
}

/// Ignores what asks it to stop, writes its token all the time, and says it once.
fn writer(file: &Path) -> String {
    format!(
        "trap '' TERM INT HUP QUIT
         echo $CONCLAVE_TOKEN >>'{file}'; echo $CONCLAVE_TOKEN >&3
         while :; do echo $CONCLAVE_TOKEN >>'{file}'; sleep 0.002; done",
        file = file.display()
    )
}
