//! Clocks that NTP bends, and clocks that run apart: members whose clocks `CONCLAVE_TEST_CLOCK` bends, or `slew.c` from
//! outside.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use algorithms::catalog;
use client::{Role, Safety};
use testkit::claims::Pollers;
use testkit::{Live, Plan, done, root, stderr, stdout};

const THREE: &[u32] = &[1, 2, 3];
/// 8 % of it are longer than an election.
const LONG_LEASE: &str = "\n[timing]\nlease = \"3s\"\n";
const BEND: &str = "CONCLAVE_TEST_CLOCK";

/// In millionths: chrony's limit, unless configured otherwise.
const SLOWEST: i32 = -83_000;

/// Three members that do not run yet; the clock of the last one, the best, is to be bent.
fn prepared(lines: &str) -> Live {
    let row = catalog::row(catalog::DEFAULT).unwrap();
    let plan = Plan { safety: Safety::Quorum, chaos: true, ..Plan::new(3, row) };
    Live::prepared(&plan, lines)
}

/// NTP slows the leader's clock as far as it may. If leases were measured with that clock, this leader would still claim
/// when its successor does.
#[tokio::test]
async fn a_leader_whose_clock_ntp_slows_never_claims_after_its_successor() {
    let mut live = prepared(LONG_LEASE);
    live.cluster.set_variable(3, BEND, &format!("slew:{SLOWEST}")).unwrap();
    slowed_leader_is_cut_off(live, "CONCLAVE_TEST_CLOCK bends").await;
}

/// The same without the process knowing: nothing in its code bends a clock, and the code that measured leases by the slewed
/// clock failed just so.
#[tokio::test]
async fn a_leader_whose_clock_is_slowed_from_outside_never_claims_after_its_successor() {
    let mut live = prepared(LONG_LEASE);
    let Some(library) = outside_bend(live.scratch.path()) else { return };
    live.cluster.set_variable(3, "LD_PRELOAD", library.to_str().unwrap()).unwrap();
    live.cluster.set_variable(3, "SLEW_PPM", &SLOWEST.to_string()).unwrap();
    slowed_leader_is_cut_off(live, "CLOCK_BOOTTIME runs at 0.91").await;
}

async fn slowed_leader_is_cut_off(mut live: Live, log: &str) {
    live.cluster.start_all().unwrap();
    let first = live.agreement_on(3, THREE).await;
    assert!(live.cluster.log_tail(3, 100).contains(log), "{}", live.logs());
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

/// `slew.c` as a library that a process is started with. `None`, with a message, where clocks cannot be bent that way; under
/// `CI=true` a failure.
fn outside_bend(directory: &Path) -> Option<PathBuf> {
    let skipped = |why: &str| {
        let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!ci, "{why}");
        eprintln!("SKIPPED: {why}");
        None
    };
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return skipped("slew.c bends the clocks of x86-64 Linux only");
    }
    let (source, library) = (root().join("crates/node/tests/cluster/slew.c"), directory.join("slew.so"));
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).output();
    match compiled {
        Err(error) => return skipped(&format!("there is no C compiler (cc): {error}")),
        Ok(output) => assert!(output.status.success(), "{}", stderr(&output)),
    }
    // Kernels may seal the vDSO, and filters of system calls may forbid further ones.
    let tried = Command::new("true").env("LD_PRELOAD", &library).env("SLEW_PPM", SLOWEST.to_string()).output().unwrap();
    if !tried.status.success() {
        return skipped(&format!("clocks cannot be bent from outside: {}", stderr(&tried)));
    }
    Some(library)
}

/// Within `max_drift`, but beyond half of it.
#[tokio::test]
async fn status_warns_of_a_clock_that_runs_apart_and_only_of_that_one() {
    let mut live = prepared("");
    live.cluster.set_variable(3, BEND, "drift:8000").unwrap();
    live.cluster.start_all().unwrap();
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
