//! Every algorithm of the catalog as whole members, through seeded faults, under both kinds of safety.
//!
//! `CONCLAVE_FAULT_SEEDS` says how many seeds each row is run with.

use std::env;

use algorithms::catalog::{self, Row};
use member::Safety;
use sim::{FaultKind, FaultOptions, run_many};

/// Runs a row and panics with the story of the first broken seed.
fn keeps_its_promises(row: &'static Row, options: &FaultOptions, seeds: u64) {
    let report = run_many(row, 1..seeds + 1, options, |_| {});
    println!(
        "{} under {}: {} seeds, {} events, {} kills, {} reigns, slowest settle {} ms",
        row.name,
        options.safety.name(),
        report.runs,
        report.events,
        report.kills,
        report.reigns,
        report.slowest_settle_ms
    );
    if let Some(broken) = report.broken.first() {
        panic!("{} of {seeds} seeds are broken\n{broken}", report.broken_count);
    }
    assert!(report.reigns >= report.runs, "{}: hardly anybody ever led", row.name);
}

fn seeds(default: u64) -> u64 {
    env::var("CONCLAVE_FAULT_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn every_row_keeps_its_promises_under_classic_safety() {
    let options = FaultOptions::default();
    for row in catalog::ROWS {
        keeps_its_promises(row, &options, seeds(50));
    }
}

#[test]
fn every_row_keeps_its_promises_under_quorum_safety() {
    let options = FaultOptions { safety: Safety::Quorum, ..FaultOptions::default() };
    for row in catalog::ROWS {
        keeps_its_promises(row, &options, seeds(100));
    }
}

#[test]
fn a_quorum_that_leaves_a_healthy_leader_alone_keeps_its_promises_too() {
    let options = FaultOptions { safety: Safety::Quorum, preempt: false, ..FaultOptions::default() };
    for row in catalog::ROWS.iter().filter(|row| row.can_wait) {
        keeps_its_promises(row, &options, seeds(60));
    }
}

#[test]
fn clocks_that_err_more_than_the_leases_allow_for_are_found_out() {
    let row = catalog::row(catalog::DEFAULT).expect("the default is in the catalog");
    let options = FaultOptions { safety: Safety::Quorum, drift: 12.0, ..FaultOptions::default() };
    let report = run_many(row, 1..301, &options, |_| {});
    let overlaps = |name: &str| report.broken.iter().flat_map(|run| &run.violations).any(|v| v.invariant == name);
    assert!(overlaps("E3"), "{} broken", report.broken_count);
}

/// NTP bends clocks in the runs of all other tests too, where members measure leases with a clock that it cannot bend.
#[test]
fn leases_measured_with_a_clock_that_ntp_bends_are_found_out() {
    let row = catalog::row(catalog::DEFAULT).expect("the default is in the catalog");
    let options = FaultOptions { safety: Safety::Quorum, ..FaultOptions::default() };
    let seeds = 1..401;
    let planted = run_many(row, seeds.clone(), &FaultOptions { slewed_leases: true, ..options.clone() }, |_| {});
    let broken = planted.broken.iter().find(|run| run.violations.iter().any(|violation| violation.invariant == "E3"));
    let broken = broken.unwrap_or_else(|| panic!("{} broken, none by E3", planted.broken_count));
    assert!(broken.kinds.contains(&FaultKind::Slew), "{broken}");
    let right = sim::run_faults(row, broken.seed, &options);
    assert!(right.ok(), "{right}");
}
