//! Whole members of every election of the catalog, each its own authority: cold starts, crashes between effects,
//! restarts, false suspicions, slow writes.

use algorithms::catalog::{self, Row};
use model::check::{Limits, examine};
use model::members::walk::Phases;
use model::members::{Budget, Members};

use crate::planted::kinds::ClassicMember;

#[derive(Clone, Copy)]
struct Case {
    n: usize,
    /// Else the first election is over.
    cold: bool,
    budget: Budget,
    limits: Limits,
}

const NOTHING: Budget = Budget::NOTHING;

impl Case {
    fn model(self, row: &'static Row) -> Members<ClassicMember> {
        let Case { n, cold, budget, .. } = self;
        if cold { Members::cold(row, n, budget) } else { Members::settled(row, n, budget) }
    }

    fn label(self, row: &Row) -> String {
        let Case { n, cold, budget, .. } = self;
        format!("members of {} n={n}, {}{budget}", row.name, if cold { "cold" } else { "settled" })
    }

    fn check(self) {
        for row in catalog::ROWS {
            examine(self.label(row), &self.model(row), self.limits).holds();
        }
    }

    /// Faults first, then health: every walk must end at rest and in agreement.
    fn walk(self, row: &'static Row) {
        let (model, label, seeds) = (self.model(row), self.label(row), self.limits.walks as u64);
        let walk = |seed| model.walk(seed, Phases { faulty: 60, healing: 2000 });
        let slowest = (0..seeds).map(|seed| walk(seed).unwrap_or_else(|why| panic!("{label}: {why}"))).max();
        println!("{label}: {seeds} walks come to rest, the slowest after {} steps", slowest.unwrap_or(0));
    }
}

#[test]
fn a_cold_start_agrees_and_no_epoch_has_two_leaders() {
    Case { n: 2, cold: true, budget: NOTHING, limits: Limits::new(50_000, 2_000) }.check();
    Case { n: 3, cold: true, budget: NOTHING, limits: Limits::new(25_000, 2_000) }.check();
}

#[test]
fn elections_wished_for_at_the_same_time_give_no_epoch_two_leaders() {
    let budget = Budget { elects: 2, ..NOTHING };
    Case { n: 3, cold: false, budget, limits: Limits::new(25_000, 2_000) }.check();
}

#[test]
fn two_members_survive_a_crash_between_effects_and_a_restart_during_a_cold_start() {
    let budget = Budget { crashes: 1, restarts: 1, ..NOTHING };
    Case { n: 2, cold: true, budget, limits: Limits::new(12_000, 1_500) }.check();
}

#[test]
fn two_members_survive_a_crash_a_restart_a_false_suspicion_and_an_early_timer() {
    let budget = Budget { crashes: 1, restarts: 1, suspicions: 1, early: 1, ..NOTHING };
    Case { n: 2, cold: false, budget, limits: Limits::new(4_000, 1_500) }.check();
}

#[test]
fn three_members_survive_two_crashes_and_a_restart() {
    let budget = Budget { crashes: 2, restarts: 1, ..NOTHING };
    Case { n: 3, cold: false, budget, limits: Limits::new(4_000, 1_500) }.check();
}

/// The first write of a process is slow: it goes on, and nothing is heard of it until the record is on the disk.
#[test]
fn two_members_survive_a_slow_write_and_a_crash_while_it_is_in_flight() {
    let budget = Budget { crashes: 2, restarts: 2, slow_writes: 1, ..NOTHING };
    Case { n: 2, cold: false, budget, limits: Limits::new(4_000, 1_500) }.check();
}

#[test]
fn a_leader_steps_down_when_its_child_has_stopped() {
    let budget = Budget { step_downs: 1, children: 1, ..NOTHING };
    Case { n: 3, cold: false, budget, limits: Limits::new(8_000, 1_500) }.check();
}

#[test]
fn three_and_four_members_survive_everything_at_once() {
    let budget = Budget { crashes: 1, restarts: 1, suspicions: 1, early: 1, elects: 1, beats: 1, ..NOTHING };
    Case { n: 3, cold: false, budget, limits: Limits::new(2_500, 1_500) }.check();
    Case { n: 4, cold: false, budget, limits: Limits::new(1_500, 1_500) }.check();
}

#[test]
fn whatever_happened_members_come_to_rest() {
    let faults = Budget {
        crashes: 2,
        restarts: 2,
        suspicions: 1,
        early: 1,
        elects: 1,
        beats: 1,
        slow_writes: 2,
        step_downs: 1,
        children: 1,
        ..NOTHING
    };
    let limits = Limits::new(1, 25);
    for row in catalog::ROWS {
        for (n, cold, budget) in [(3, true, NOTHING), (3, false, faults), (4, false, faults)] {
            Case { n, cold, budget, limits }.walk(row);
        }
    }
}
