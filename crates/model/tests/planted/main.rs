//! The checkers are checked: planted bugs, each of which must be found.

mod elections;
mod forgetful;
mod reigns;
mod usurpers;

use algorithms::catalog::{self, Row, Visitor};
use algorithms::{Election, Rounds, Topology, Wins};
use elections::{NoLatchMesh, NoLatchRing, OwnIdLast, SecondMessageWrong};
use forgetful::Forgetful;
use model::bare::properties::{AGREEMENT, BEST_WINS, FINAL, ONCE};
use model::bare::{Bare, Timers};
use model::check::{Limits, Report, examine};
use model::members::properties::EPOCHS_GROW;
use model::members::{Budget, Members};

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

struct Amnesia;

impl Visitor for Amnesia {
    type Output = Report;

    fn election<E: Election>(self, row: &'static Row) -> Report {
        let budget = Budget { crashes: 1, restarts: 1, ..Budget::default() };
        let model = Members::<Forgetful<E>>::settled(row, 2, budget);
        examine(format!("members of {} that write nothing down", row.name), &model, LIMITS)
    }

    fn rounds<R: Rounds>(self, _: &'static Row) -> Report {
        unreachable!("the default algorithm is no synchronous one")
    }
}

#[test]
fn a_member_that_writes_nothing_down_goes_back() {
    let default = catalog::row(catalog::DEFAULT).expect("the default is in the catalog");
    catalog::dispatch(default, Amnesia).breaks(EPOCHS_GROW);
}
