//! An operator changes the priority of a member while elections run: members know different priorities for a moment.

use algorithms::catalog;
use model::check::{Limits, examine};
use model::members::walk::Phases;
use model::members::{Budget, Members, Subject};

use crate::planted::kinds::{ClassicMember, QuorumMember};

/// Besides what [`Members`] checks always: no epoch has two leaders, whatever members know of priorities.
fn check<P: Subject>(name: &str, n: usize, cold: bool, budget: Budget, limits: Limits) {
    let row = catalog::row(name).expect("it is in the catalog");
    let model: Members<P> = if cold { Members::cold(row, n, budget) } else { Members::settled(row, n, budget) };
    let when = if cold { "cold" } else { "settled" };
    let authority = if P::LEASES { "quorum" } else { "classic" };
    let label = format!("{authority} members of {name} n={n}, {when}{budget}");
    examine(label.clone(), &model, limits).holds();
    let walk = |seed| model.walk(seed, Phases { faulty: 60, healing: 4000 });
    (0..50).for_each(|seed| _ = walk(seed).unwrap_or_else(|why| panic!("{label}: {why}")));
}

fn every_authority(name: &str) {
    let one = Budget { priorities: 1, elects: 1, ..Budget::NOTHING };
    let limits = Limits::new(15_000, 3_000);
    for n in [2, 3] {
        check::<ClassicMember>(name, n, false, one, limits);
        check::<QuorumMember>(name, n, false, one, limits);
    }
    // The first election runs while two members are given other priorities, and one of them may die. Under quorum the first
    // lease is beyond such a bound: there the members have a leader already.
    let more = Budget { priorities: 2, crashes: 1, ..Budget::NOTHING };
    check::<ClassicMember>(name, 3, true, more, limits);
    check::<QuorumMember>(name, 3, false, more, limits);
}

#[test]
fn no_epoch_of_bully_has_two_leaders_while_priorities_change() {
    every_authority("bully");
}

#[test]
fn no_epoch_of_improved_bully_has_two_leaders_while_priorities_change() {
    every_authority("improved-bully");
}

#[test]
fn no_epoch_on_a_ring_has_two_leaders_while_priorities_change() {
    every_authority("chang-roberts");
}
