//! The checkers are checked: planted bugs, each of which must be found.

mod elections;
pub(crate) mod kinds;
mod list_bugs;
mod list_cases;
mod member_bugs;
mod member_cases;
pub(crate) mod raft_bugs;
mod reign_bugs;
mod reign_cases;
mod term_election;
mod write_bugs;

use algorithms::catalog::{self, Row};
use algorithms::{Election, Topology, Wins};
use elections::{NoLatchMesh, NoLatchRing, OwnIdLast, SecondMessageWrong};
use kinds::{TermBug, Terms};
use member_bugs::DropsRecord;
use model::bare::properties::{AGREEMENT, BEST_WINS, FINAL, ONCE, ONE_PER_TERM};
use model::bare::{Bare, Timers};
use model::check::{Limits, Report, examine};

const LIMITS: Limits = Limits { search: 300_000, walks: 0, depth: 0 };

/// Any row that is of the topology and elects the best: the copies take its place.
fn row(topology: Topology) -> &'static Row {
    catalog::ROWS.iter().find(|row| row.topology == topology).expect("the catalog has all topologies it names")
}

fn ring<E: Election>(label: &str, n: usize) -> Report {
    examine(label, &Bare::<E>::new(row(Topology::Ring), n, Wins::Highest), LIMITS)
}

#[test]
fn a_late_start_without_a_latch_elects_twice() {
    let report = ring::<NoLatchRing>("ring without a latch", 2);
    println!("{}", report.breaks(ONCE).lines().filter(|line| line.starts_with("Step")).collect::<Vec<_>>().join("\n"));
}

#[test]
fn forwarding_before_the_own_id_leaves_lists_incomplete() {
    ring::<OwnIdLast>("own id last", 3).breaks(AGREEMENT);
}

#[test]
fn the_initial_value_test_needs_the_better_of_the_two_ids() {
    ring::<SecondMessageWrong>("second message wrong", 4).breaks(BEST_WINS);
}

#[test]
fn without_a_latch_a_late_coordinator_stays_for_ever() {
    let mut model = Bare::<NoLatchMesh>::new(row(Topology::Mesh), 3, Wins::Highest);
    model.timers = Timers::Anytime(2);
    examine("mesh without a latch", &model, LIMITS).breaks(FINAL);
}

#[test]
fn a_record_of_an_election_survives_a_restart() {
    let mut model = Bare::<Terms>::new(row(Topology::Mesh), 3, Wins::Highest);
    (model.crashes, model.restarts, model.max_starts) = (1, 1, 2);
    let limits = Limits { search: 3_000_000, ..LIMITS };
    examine("one vote per term", &model, limits).holds().is_complete();
    model.mistake = TermBug::from(DropsRecord).mistake();
    examine("one vote per term, forgotten at a restart", &model, LIMITS).breaks(ONE_PER_TERM);
}
