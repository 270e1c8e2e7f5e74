//! Clocks that NTP bends, and clocks that run apart: members whose clocks `CONCLAVE_TEST_CLOCK` bends.

use std::time::Duration;

use algorithms::catalog;
use client::{Role, Safety};
use testkit::claims::Pollers;
use testkit::{Live, Plan, done, stdout};

const THREE: &[u32] = &[1, 2, 3];
/// 8 % of it are longer than an election.
const LONG_LEASE: &str = "\n[timing]\nlease = \"3s\"\n";
const BEND: &str = "CONCLAVE_TEST_CLOCK";

/// Three members, of which the last one, the best, has this clock.
fn bent(clock: &str, lines: &str) -> Live {
    let row = catalog::row(catalog::DEFAULT).unwrap();
    let plan = Plan { safety: Safety::Quorum, chaos: true, ..Plan::new(3, row) };
    let mut live = Live::prepared(&plan, lines);
    live.cluster.set_variable(3, BEND, clock).unwrap();
    live.cluster.start_all().unwrap();
    live
}

/// NTP slows the leader's clock as far as it may. If leases were measured with that clock, this leader would still claim
/// when its successor does.
#[tokio::test]
async fn a_leader_whose_clock_ntp_slows_never_claims_after_its_successor() {
    let mut live = bent("slew:-83000", LONG_LEASE);
    let first = live.agreement_on(3, THREE).await;
    assert!(live.cluster.log_tail(3, 100).contains("CONCLAVE_TEST_CLOCK bends"), "{}", live.logs());
    let pollers = Pollers::start(&live);
    done(&live.ctl(&["chaos", "cut", "3", "1,2"]).await);
    let (_, second) = live.agreement_that(&[1, 2], |leader, _| leader != 3).await;
    assert!(second > first, "epoch {second} after {first}");
    pollers.heard(second).await;
    let status = live.client(3).await.status().await.unwrap();
    assert_ne!(status.role, Role::Leader, "the slowed leader claims after its successor");
    done(&live.ctl(&["chaos", "heal"]).await);
    live.agreement_that(THREE, |_, epoch| epoch >= second).await;
    let (answers, claims) = pollers.judge(&live);
    assert!(claims > 0);
    println!("{answers} answers, {claims} claims, no conflict");
}

/// Within `max_drift`, but beyond half of it.
#[tokio::test]
async fn status_warns_of_a_clock_that_runs_apart_and_only_of_that_one() {
    let mut live = bent("drift:8000", "");
    live.agreement_on(3, THREE).await;
    let measured = async {
        loop {
            let (status, _) = live.json(&["status"]).await;
            let ppm = |n: usize| status["members"][n]["drift_ppm"].as_i64();
            if let (Some(one), Some(two), Some(three)) = (ppm(0), ppm(1), ppm(2)) {
                return [one, two, three];
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let measured = tokio::time::timeout(Duration::from_secs(90), measured).await.expect("clocks are measured");
    println!("measured: {measured:?}");
    for (found, expected) in measured.into_iter().zip([-7937, -7937, 8000]) {
        assert!(found.abs_diff(expected) < 2500, "{measured:?}");
    }
    let shown = stdout(&live.ctl(&["status"]).await);
    let warnings: Vec<&str> = shown.lines().filter(|line| line.starts_with("CLOCKS apart")).collect();
    assert_eq!(warnings.len(), 2, "{shown}");
    assert!(warnings.iter().all(|line| line.contains("leases allow for 10000 (max_drift)")), "{shown}");
    assert!(!warnings.iter().any(|line| line.contains("of 1") && line.contains("of 2")), "{shown}");
}
