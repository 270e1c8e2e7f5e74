//! The best member of real processes has a slow disk, or is killed every few seconds: it does not keep taking leadership
//! away from a healthy leader.
//!
//! `CONCLAVE_SUCCESSION_SECONDS=120` observes each cluster for that long instead of 14 seconds.

use std::time::Duration;

use algorithms::catalog;
use client::{Cause, LedgerKind, Role, Safety};
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
    let mut live = Live::start(&Plan { safety, ..Plan::new(5, catalog::row(catalog::DEFAULT).unwrap()) });
    live.agreement_on(BEST, ALL).await;
    if safety == Safety::Quorum {
        live.voting(ALL).await;
    }
    live
}

fn observed() -> Duration {
    Duration::from_secs(testkit::number("CONCLAVE_SUCCESSION_SECONDS", 14))
}

/// What the ledgers of all members tell.
#[derive(Clone, Copy, Debug)]
struct Told {
    /// How often a member that did not lead came to lead.
    accessions: usize,
    /// How often a member other than the best one lost its leadership without giving it away: it got no processor.
    starved: usize,
}

async fn told(live: &Live) -> Told {
    let mut told = Told { accessions: 0, starved: 0 };
    for &id in ALL {
        for entry in live.client(id).await.history().await.unwrap().entries {
            let LedgerKind::Became(change) = entry.kind else { continue };
            let led = change.old == Some(Role::Leader);
            let given_away = change.cause == Cause::HandedOver || change.leader() == Some(BEST);
            told.accessions += usize::from(change.leads() && !led);
            told.starved += usize::from(id != BEST && led && !change.leads() && !given_away);
        }
    }
    told
}

/// A member that was starved is replaced, and may take over again later.
async fn judge(live: &mut Live, before: Told, what: &str) {
    live.agreement(ALL).await;
    let after = told(live).await;
    let (changes, starved) = (after.accessions - before.accessions, after.starved - before.starved);
    let said = format!("{what}: the leader changed {changes} times in {:?}, {starved} starved", observed());
    println!("{said}");
    assert!(changes <= MOST + 2 * starved, "{said}\n{}", live.logs());
}

#[tokio::test]
async fn a_best_member_with_a_slow_disk_does_not_keep_changing_the_leader() {
    if !strace::works() {
        return;
    }
    let mut live = five(Safety::Quorum).await;
    let before = told(&live).await;
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
        let before = told(&live).await;
        let end = Instant::now() + observed();
        while Instant::now() < end {
            live.kill(BEST).await;
            live.cluster.start(BEST).unwrap();
            tokio::time::sleep(UP).await;
        }
        judge(&mut live, before, &format!("crash loop, {}", safety.name())).await;
    }
}
