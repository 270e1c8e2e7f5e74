//! `[hooks] on_change` of real members.

use std::fs;
use std::path::Path;

use algorithms::catalog;
use rustix::process::Signal;
use testkit::{Live, Plan, Scratch, until};

/// A cluster of two whose hooks write to `changes` in the directory, a line each.
fn two_with_hook(hook: &str) -> Live {
    let scratch = Scratch::new("hooks").unwrap();
    let plan = Plan::new(2, catalog::row(catalog::DEFAULT).unwrap());
    let hook = hook.replace("FILE", &scratch.path().join("changes").display().to_string());
    Live::start_in(&plan, scratch, &format!("\n[hooks]\non_change = '''{hook}'''\n"))
}

/// Waits until the hooks of a member have written a line that fits, and gives all of that member's.
async fn written(directory: &Path, id: u32, fits: impl Fn(&str) -> bool) -> Vec<String> {
    let own = format!("{id} ");
    let look = || {
        let text = fs::read_to_string(directory.join("changes")).unwrap_or_default();
        let lines: Vec<String> = text.lines().filter_map(|line| Some(line.strip_prefix(&own)?.to_owned())).collect();
        lines.iter().any(|line| fits(line)).then_some(lines)
    };
    until(&format!("a line of the hooks of member {id}"), look).await
}

const TELL: &str = "echo $CONCLAVE_ID $CONCLAVE_OLD_ROLE $CONCLAVE_NEW_ROLE leader=$CONCLAVE_LEADER \
                    token=$CONCLAVE_TOKEN epoch=$CONCLAVE_EPOCH >> FILE";

#[tokio::test]
async fn every_change_of_role_is_told_in_order_down_to_the_orderly_end() {
    let mut live = two_with_hook(TELL);
    let epoch = live.agreement_on(2, &[1, 2]).await;
    let leads = format!("leader leader=2 token={} epoch={epoch}", epoch << 28);
    let lines = written(live.scratch.path(), 2, |line| line.ends_with(&leads)).await;
    assert!(lines[0].starts_with("none "), "{lines:?}");
    written(live.scratch.path(), 1, |line| line.ends_with(&format!("follower leader=2 token= epoch={epoch}"))).await;
    live.cluster.signal(2, Signal::TERM).unwrap();
    assert_eq!(live.cluster.reap(2).await.unwrap().code(), Some(0));
    // It waited for its hooks.
    let text = fs::read_to_string(live.scratch.path().join("changes")).unwrap();
    let own: Vec<Vec<&str>> =
        text.lines().filter(|line| line.starts_with("2 ")).map(|line| line.split(' ').collect()).collect();
    assert!(own.windows(2).all(|pair| pair[0][2] == pair[1][1]), "each begins where the last one ended: {own:?}");
    assert_eq!(own.last().unwrap()[2], "down", "{own:?}");
    written(live.scratch.path(), 1, |line| line.contains(" leader leader=1")).await;
}

#[tokio::test]
async fn a_hanging_hook_delays_nothing_and_its_output_is_logged() {
    let mut live = two_with_hook("echo some words from $CONCLAVE_ID; exec sleep 10");
    live.agreement_on(2, &[1, 2]).await;
    live.kill(2).await;
    live.agreement_on(1, &[1]).await;
    let said = || live.cluster.log_tail(1, 1000).contains("some words from 1").then_some(());
    until("the output of the hook in the log", said).await;
}
