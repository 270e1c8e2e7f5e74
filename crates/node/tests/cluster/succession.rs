//! The best member of real processes has a slow disk, or is killed again and again: it does not keep taking leadership
//! away from a healthy leader.
//!
//! `CONCLAVE_SUCCESSION_SECONDS=120` observes each cluster for that long instead of 20 seconds.

use std::time::Duration;

use algorithms::catalog;
use client::{LedgerKind, Safety};
use testkit::{Live, Plan, strace, volume};
use tokio::time::Instant;

const ALL: &[u32] = &[1, 2, 3, 4, 5];
const BEST: u32 = 5;
/// Changes of the leader, the loss of the best member at the beginning included.
const MOST: usize = 4;
/// How long the best member runs before it is killed.
const UP: Duration = Duration::from_secs(3);

/// Five members that the best one leads.
async fn five(safety: Safety) -> Live {
    let mut live = Live::alone(&Plan { safety, ..Plan::new(5, catalog::row(catalog::DEFAULT).unwrap()) });
    live.agreement_on(BEST, ALL).await;
    if safety == Safety::Quorum {
        live.voting(ALL).await;
    }
    live
}

fn observed() -> Duration {
    Duration::from_secs(testkit::number("CONCLAVE_SUCCESSION_SECONDS", 20))
}

/// How often a member that did not lead came to lead, by the ledgers of all members.
async fn accessions(live: &Live) -> usize {
    let mut count = 0;
    for &id in ALL {
        let mut led = false;
        for entry in live.client(id).await.history().await.unwrap().entries {
            match entry.kind {
                LedgerKind::Started { .. } => led = false,
                LedgerKind::Became(now) => {
                    count += usize::from(now.leads() && !led);
                    led = now.leads();
                }
                _ => {}
            }
        }
    }
    count
}

async fn judge(live: &mut Live, before: usize, what: &str) {
    live.agreement(ALL).await;
    let changes = accessions(live).await - before;
    println!("{what}: the leader changed {changes} times in {:?}", observed());
    assert!(changes <= MOST, "{what}: the leader changed {changes} times\n{}", live.logs());
}

#[tokio::test]
async fn a_best_member_with_a_slow_disk_does_not_keep_changing_the_leader() {
    if !strace::works() {
        return;
    }
    let mut live = five(Safety::Quorum).await;
    let before = accessions(&live).await;
    live.kill(BEST).await;
    let (config, data) = (live.cluster.config(), live.cluster.data_directory(BEST));
    let slow = strace::inject(&data.join("state.tmp"), &["fsync:delay_enter=900000".to_owned()]);
    let _best = volume::start(&slow, &live.cluster, &config, BEST, &data);
    tokio::time::sleep(observed()).await;
    judge(&mut live, before, "slow disk, quorum").await;
}

#[tokio::test]
async fn a_best_member_that_is_killed_again_and_again_does_not_keep_changing_the_leader() {
    for safety in [Safety::Quorum, Safety::Classic] {
        let mut live = five(safety).await;
        let before = accessions(&live).await;
        let end = Instant::now() + observed();
        while Instant::now() < end {
            live.kill(BEST).await;
            live.cluster.start(BEST).unwrap();
            tokio::time::sleep(UP).await;
        }
        judge(&mut live, before, &format!("crash loop, {}", safety.name())).await;
    }
}
