//! Each broken rule of a member shows in what it announces.

use algorithms::Topology;
use model::check::{Limits, examine};
use model::members::properties::{
    CHILDREN_FIRST, EPOCHS_GROW, FITTING_CAUSE, ONE_AT_A_TIME, ONE_CLAIMANT, WITHIN_LEASE,
};
use model::members::{Budget, Members, Subject};

use super::kinds::{ClassicBug, ClassicMember, QuorumBug, QuorumMember, TermMember, TermMemberBug};
use super::member_bugs::{DropsAlgorithmRecord, EndsPromises, LeadsOn, LeavesChildren, NoDisk, WrongCause};
use super::row;

const LIMITS: Limits = Limits { search: 300_000, walks: 0, depth: 0 };
const NOTHING: Budget = Budget::NOTHING;

fn classic(label: &str, bug: impl Into<ClassicBug>, budget: Budget, property: &'static str) {
    let budget = Budget { mistake: bug.into().mistake(), ..budget };
    breaks(label, Members::<ClassicMember>::settled(row(Topology::Mesh), 2, budget), property);
}

fn quorum(label: &str, bug: impl Into<QuorumBug>, budget: Budget, property: &'static str) {
    let budget = Budget { mistake: bug.into().mistake(), ..budget };
    breaks(label, Members::<QuorumMember>::settled(row(Topology::Mesh), 3, budget), property);
}

/// Must break this property, whatever else it breaks.
fn breaks<P: Subject>(label: &str, model: Members<P>, property: &'static str) {
    let report = examine(format!("members, {label}"), &model.only(property), LIMITS);
    let steps: Vec<&str> = report.breaks(property).lines().take_while(|line| !line.starts_with("leads to")).collect();
    println!("  in {} steps:\n  {}", steps.len(), steps.join("\n  "));
}

const RESTART: Budget = Budget { crashes: 1, restarts: 1, ..NOTHING };

#[test]
fn a_member_that_writes_nothing_down_goes_back() {
    classic("nothing is written", NoDisk, RESTART, EPOCHS_GROW);
    quorum("nothing is written, quorum", NoDisk, RESTART, EPOCHS_GROW);
}

#[test]
fn the_record_of_an_algorithm_is_a_part_of_the_record_of_its_member() {
    let budget = Budget { elects: 2, ..RESTART };
    let model = Members::<TermMember>::settled(row(Topology::Mesh), 3, budget);
    examine("members, one vote per term", &model, Limits { walks: 30_000, depth: 400, ..LIMITS }).holds();
    let budget = Budget { mistake: TermMemberBug::from(DropsAlgorithmRecord).mistake(), ..budget };
    let model = Members::<TermMember>::settled(row(Topology::Mesh), 3, budget);
    let limits = Limits { search: 4_000_000, ..LIMITS };
    examine("members, votes forgotten at a restart", &model.only(ONE_CLAIMANT), limits).breaks(ONE_CLAIMANT);
}

#[test]
fn children_stop_before_leadership_is_given_away() {
    let budget = Budget { step_downs: 1, children: 1, ..NOTHING };
    classic("leaves children", LeavesChildren, budget, CHILDREN_FIRST);
    quorum("leaves children, quorum", LeavesChildren, budget, CHILDREN_FIRST);
    let budget = Budget { transfers: 1, children: 1, ..NOTHING };
    quorum("leaves children at a transfer", LeavesChildren, budget, CHILDREN_FIRST);
}

#[test]
fn a_voter_keeps_its_promise_to_a_leader_that_crashed() {
    quorum("ends promises", EndsPromises, Budget { crashes: 1, ..NOTHING }, ONE_AT_A_TIME);
}

#[test]
fn a_leader_notices_that_its_lease_ends() {
    quorum("leads on", LeadsOn, Budget { early: 1, ..NOTHING }, WITHIN_LEASE);
}

#[test]
fn a_loss_names_its_cause() {
    quorum("wrong cause", WrongCause, Budget { early: 1, ..NOTHING }, FITTING_CAUSE);
    let budget = Budget { step_downs: 1, ..NOTHING };
    classic("wrong cause, classic", WrongCause, budget, FITTING_CAUSE);
}
