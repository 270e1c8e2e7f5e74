//! Three whole members under the quorum authority: leases, promises, handovers and children around an election.

use algorithms::catalog::{self, Row};
use model::check::{Limits, examine};
use model::members::walk::Phases;
use model::members::{Budget, Members};

use crate::planted::kinds::QuorumMember;

const NOTHING: Budget = Budget::NOTHING;

/// An election in a mesh, one on a ring, and one that runs in no rounds.
const ROWS: [&str; 3] = ["bully", "chang-roberts", "bully-1982"];

#[derive(Clone, Copy)]
struct Case {
    /// Else the first election is over.
    cold: bool,
    budget: Budget,
    limits: Limits,
}

impl Case {
    fn model(self, row: &'static Row) -> Members<QuorumMember> {
        if self.cold { Members::cold(row, 3, self.budget) } else { Members::settled(row, 3, self.budget) }
    }

    fn label(self, row: &Row) -> String {
        format!("quorum members of {} n=3, {}{}", row.name, if self.cold { "cold" } else { "settled" }, self.budget)
    }

    fn check(self) {
        for name in ROWS {
            let row = catalog::row(name).expect("it is in the catalog");
            examine(self.label(row), &self.model(row), self.limits).holds();
        }
    }

    /// Faults first, then health: every walk must end at rest and in agreement.
    fn walk(self, name: &str, seeds: u64) {
        let row = catalog::row(name).expect("it is in the catalog");
        let (model, label) = (self.model(row), self.label(row));
        let walk = |seed| model.walk(seed, Phases { faulty: 60, healing: 4000 });
        let slowest = (0..seeds).map(|seed| walk(seed).unwrap_or_else(|why| panic!("{label}: {why}"))).max();
        println!("{label}: {seeds} walks come to rest, the slowest after {} steps", slowest.unwrap_or(0));
    }
}

#[test]
fn a_cold_start_agrees_and_no_two_leases_run() {
    Case { cold: true, budget: NOTHING, limits: Limits::new(8_000, 3_000) }.check();
}

#[test]
fn a_crash_between_effects_and_a_restart_break_no_promise() {
    let crash = Budget { crashes: 1, elects: 1, ..NOTHING };
    Case { cold: false, budget: crash, limits: Limits::new(15_000, 3_000) }.check();
    let budget = Budget { crashes: 1, restarts: 1, transfers: 1, ..NOTHING };
    Case { cold: false, budget, limits: Limits::new(8_000, 3_000) }.check();
}

#[test]
fn a_slow_write_breaks_no_promise() {
    let budget = Budget { crashes: 1, restarts: 1, slow_writes: 1, step_downs: 1, ..NOTHING };
    Case { cold: false, budget, limits: Limits::new(12_000, 8_000) }.check();
    let budget = Budget { transfers: 1, slow_writes: 2, ..NOTHING };
    Case { cold: false, budget, limits: Limits::new(12_000, 8_000) }.check();
}

#[test]
fn children_stop_before_a_leader_hands_over_or_steps_down() {
    let budget = Budget { transfers: 1, children: 1, ..NOTHING };
    Case { cold: false, budget, limits: Limits::new(4_000, 3_000) }.check();
    let budget = Budget { step_downs: 1, children: 1, ..NOTHING };
    Case { cold: false, budget, limits: Limits::new(12_000, 3_000) }.check();
}

#[test]
fn a_false_suspicion_and_an_early_timer_break_no_promise() {
    let budget = Budget { suspicions: 1, early: 1, ..NOTHING };
    Case { cold: false, budget, limits: Limits::new(4_000, 3_000) }.check();
}

#[test]
fn whatever_happened_quorum_members_come_to_rest() {
    let budget = Budget {
        crashes: 1,
        restarts: 1,
        suspicions: 1,
        early: 1,
        elects: 1,
        slow_writes: 2,
        step_downs: 1,
        transfers: 1,
        children: 1,
        ..NOTHING
    };
    let limits = Limits::new(1, 80);
    let (case, seeds) = (Case { cold: false, budget, limits }, limits.walks as u64);
    for name in ROWS {
        case.walk(name, seeds);
    }
}
