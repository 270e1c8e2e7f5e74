//! Each broken rule of a member shows in what it announces.

use algorithms::Topology;
use algorithms::election::bully::Bully;
use member::{Classic, Member, Quorum};
use model::check::{Limits, examine};
use model::members::properties::{
    CHILDREN_FIRST, EPOCHS_GROW, FITTING_CAUSE, ONE_AT_A_TIME, ONE_CLAIMANT, WITHIN_LEASE,
};
use model::members::{Budget, Members, Subject};

use super::member_bugs::{DropsAlgorithmRecord, EndsPromises, LeadsOn, LeavesChildren, NoDisk, WrongCause};
use super::row;
use super::term_election::TermElection;
use super::wrapper::Planted;

const LIMITS: Limits = Limits { search: 300_000, walks: 0, depth: 0 };
const NOTHING: Budget = Budget::NOTHING;

type Voting = Member<Bully, Quorum>;

/// Must break this property, whatever else it breaks.
fn breaks<P: Subject>(label: &str, n: usize, budget: Budget, property: &'static str) {
    let model = Members::<P>::settled(row(Topology::Mesh), n, budget).only(property);
    let report = examine(format!("members, {label}"), &model, LIMITS);
    let steps: Vec<&str> = report.breaks(property).lines().take_while(|line| !line.starts_with("leads to")).collect();
    println!("  in {} steps:\n  {}", steps.len(), steps.join("\n  "));
}

const RESTART: Budget = Budget { crashes: 1, restarts: 1, ..NOTHING };

#[test]
fn a_member_that_writes_nothing_down_goes_back() {
    breaks::<Planted<Member<Bully, Classic>, NoDisk>>("nothing is written", 2, RESTART, EPOCHS_GROW);
    breaks::<Planted<Voting, NoDisk>>("nothing is written, quorum", 3, RESTART, EPOCHS_GROW);
}

#[test]
fn the_record_of_an_algorithm_is_a_part_of_the_record_of_its_member() {
    type Terms = Member<TermElection, Classic>;
    let budget = Budget { elects: 2, ..RESTART };
    let model = Members::<Terms>::settled(row(Topology::Mesh), 3, budget);
    examine("members, one vote per term", &model, Limits { walks: 30_000, depth: 400, ..LIMITS }).holds();
    let model = Members::<Planted<Terms, DropsAlgorithmRecord>>::settled(row(Topology::Mesh), 3, budget);
    let limits = Limits { search: 4_000_000, ..LIMITS };
    examine("members, votes forgotten at a restart", &model.only(ONE_CLAIMANT), limits).breaks(ONE_CLAIMANT);
}

#[test]
fn children_stop_before_leadership_is_given_away() {
    let budget = Budget { step_downs: 1, children: 1, ..NOTHING };
    breaks::<Planted<Member<Bully, Classic>, LeavesChildren>>("leaves children", 2, budget, CHILDREN_FIRST);
    breaks::<Planted<Voting, LeavesChildren>>("leaves children, quorum", 3, budget, CHILDREN_FIRST);
    let budget = Budget { transfers: 1, children: 1, ..NOTHING };
    breaks::<Planted<Voting, LeavesChildren>>("leaves children at a transfer", 3, budget, CHILDREN_FIRST);
}

#[test]
fn a_voter_keeps_its_promise_to_a_leader_that_crashed() {
    breaks::<Planted<Voting, EndsPromises>>("ends promises", 3, Budget { crashes: 1, ..NOTHING }, ONE_AT_A_TIME);
}

#[test]
fn a_leader_notices_that_its_lease_ends() {
    breaks::<Planted<Voting, LeadsOn>>("leads on", 3, Budget { early: 1, ..NOTHING }, WITHIN_LEASE);
}

#[test]
fn a_loss_names_its_cause() {
    breaks::<Planted<Voting, WrongCause>>("wrong cause", 3, Budget { early: 1, ..NOTHING }, FITTING_CAUSE);
    let budget = Budget { step_downs: 1, ..NOTHING };
    breaks::<Planted<Member<Bully, Classic>, WrongCause>>("wrong cause, classic", 2, budget, FITTING_CAUSE);
}
