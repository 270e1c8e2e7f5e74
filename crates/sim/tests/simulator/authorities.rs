//! What the core promises to whatever joins it: an authority of another kind, and an election whose decisions have terms
//! and whose record must survive, run through the fault seeds without an edit in `member`.

mod outside_lease;
mod voting;

use std::env;

use algorithms::catalog::{self, Row};
use algorithms::election::bully::Bully;
use member::{Classic, Member, Quorum};
use outside_lease::OutsideLease;
use sim::{FaultOptions, FaultReport, Subject, run_subject};
use voting::{FORGETFUL, Voting};

fn row() -> &'static Row {
    catalog::row(catalog::DEFAULT).expect("the default is in the catalog")
}

fn seeds(default: u64) -> u64 {
    env::var("CONCLAVE_FAULT_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn broken<S: Subject>(seeds: u64, options: &FaultOptions) -> Option<FaultReport> {
    (1..=seeds).map(|seed| run_subject::<S>(row(), seed, options)).find(|report| !report.ok())
}

fn holds<S: Subject>(options: &FaultOptions) {
    if let Some(report) = broken::<S>(seeds(30), options) {
        panic!("{report}");
    }
}

#[test]
fn an_authority_of_another_kind_passes_the_fault_seeds_and_is_small() {
    holds::<Member<Bully, OutsideLease>>(&FaultOptions::default());
    let source = include_str!("authorities/outside_lease.rs");
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    let lines = source.lines().filter(is_code).count();
    assert!(lines <= 150, "{lines} lines");
}

/// Whoever gathers a majority leads: a better member does not take over.
const NO_PREEMPTION: FaultOptions = FaultOptions {
    safety: sim::Safety::Classic,
    preempt: false,
    nodes: None,
    drift: 1.0,
    changes: false,
    slewed_leases: false,
    trace_lines: 30,
};

#[test]
fn terms_of_an_algorithm_are_the_epochs_of_classic_leaders() {
    holds::<Member<Voting<false>, Classic>>(&NO_PREEMPTION);
}

#[test]
fn under_quorum_an_algorithm_with_terms_proposes_like_the_others() {
    holds::<Member<Voting<true>, Quorum>>(&NO_PREEMPTION);
}

#[test]
fn a_record_that_is_dropped_at_a_restart_elects_two_leaders_of_one_term() {
    FORGETFUL.set(true);
    let report = broken::<Member<Voting<false>, Classic>>(seeds(300), &NO_PREEMPTION);
    FORGETFUL.set(false);
    let report = report.expect("a broken seed");
    assert!(report.violations.iter().any(|violation| violation.invariant == "E1"), "{report}");
}
