//! Every algorithm of the catalog as whole members, through seeded faults, under both kinds of safety.
//!
//! `CONCLAVE_FAULT_SEEDS` says how many seeds each row is run with.

use std::env;

use algorithms::Topology;
use algorithms::catalog::{self, Row};
use member::Safety;
use sim::{FaultKind, FaultOptions, FaultReport, run_many};

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
        keeps_its_promises(row, &options, seeds(5));
    }
}

/// Components of a graph elect on their own and meet again: no later election hides a disagreement.
#[test]
fn a_classic_graph_that_leaves_a_healthy_leader_alone_keeps_its_promises_too() {
    let options = FaultOptions { preempt: false, ..FaultOptions::default() };
    for row in catalog::ROWS.iter().filter(|row| row.topology == Topology::Graph) {
        keeps_its_promises(row, &options, seeds(4));
    }
}

#[test]
fn every_row_keeps_its_promises_under_quorum_safety() {
    let options = FaultOptions { safety: Safety::Quorum, ..FaultOptions::default() };
    for row in catalog::ROWS {
        keeps_its_promises(row, &options, seeds(6));
    }
}

#[test]
fn a_quorum_that_leaves_a_healthy_leader_alone_keeps_its_promises_too() {
    let options = FaultOptions { safety: Safety::Quorum, preempt: false, ..FaultOptions::default() };
    for row in catalog::ROWS.iter().filter(|row| row.can_wait) {
        keeps_its_promises(row, &options, seeds(4));
    }
}

/// The first of these seeds that breaks the invariant.
fn first_broken(
    invariant: &str,
    row: &'static Row,
    mut seeds: std::ops::Range<u64>,
    options: &FaultOptions,
) -> Option<FaultReport> {
    let breaks = |report: &FaultReport| report.violations.iter().any(|violation| violation.invariant == invariant);
    seeds.find_map(|seed| Some(sim::run_faults(row, seed, options)).filter(breaks))
}

#[test]
fn clocks_that_err_more_than_the_leases_allow_for_are_found_out() {
    let row = catalog::row(catalog::DEFAULT).expect("the default is in the catalog");
    let options = FaultOptions { safety: Safety::Quorum, drift: 12.0, ..FaultOptions::default() };
    assert!(first_broken("E3", row, 1..301, &options).is_some(), "no seed breaks E3");
}

/// Members are removed, made learners and added again at random moments, beside all other faults.
#[test]
fn lists_of_members_change_under_faults() {
    let options = FaultOptions { safety: Safety::Quorum, changes: true, ..FaultOptions::default() };
    for name in [catalog::DEFAULT, "chang-roberts"] {
        let row = catalog::row(name).expect("it is in the catalog");
        let mut lists = 0;
        let seeds = seeds(5);
        for seed in 1..=seeds {
            let report = sim::run_faults(row, seed, &options);
            assert!(report.ok(), "{report}");
            lists += report.stats.lists;
        }
        println!("{name}: {lists} lists came into force");
        assert!(lists > 4 * seeds, "{name}: hardly any list ever changed");
    }
}

/// NTP bends clocks in the runs of all other tests too, where members measure leases with a clock that it cannot bend.
#[test]
fn leases_measured_with_a_clock_that_ntp_bends_are_found_out() {
    let row = catalog::row(catalog::DEFAULT).expect("the default is in the catalog");
    let options = FaultOptions { safety: Safety::Quorum, ..FaultOptions::default() };
    let planted = FaultOptions { slewed_leases: true, ..options.clone() };
    let broken = first_broken("E3", row, 1..401, &planted).expect("a seed that breaks E3");
    assert!(broken.kinds.contains(&FaultKind::Slew), "{broken}");
    let right = sim::run_faults(row, broken.seed, &options);
    assert!(right.ok(), "{right}");
}
