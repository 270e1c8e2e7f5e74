//! Whole members of every election of the catalog: cold starts, crashes between effects, restarts, false suspicions.

use algorithms::catalog::{self, Row, Visitor};
use algorithms::{Election, Rounds};
use member::Member;
use model::check::{Limits, Report, examine};
use model::members::{Budget, Members};

#[derive(Clone, Copy)]
struct Case {
    n: usize,
    cold: bool,
    budget: Budget,
    limits: Limits,
}

impl Visitor for Case {
    type Output = Option<Report>;

    fn election<E: Election>(self, row: &'static Row) -> Option<Report> {
        let Case { n, cold, budget, limits } = self;
        let model = if cold {
            Members::<Member<E>>::cold(row, n, budget)
        } else {
            Members::<Member<E>>::settled(row, n, budget)
        };
        let label = format!("members of {} n={n}, {}, {budget:?}", row.name, if cold { "cold" } else { "settled" });
        Some(examine(label, &model, limits))
    }

    /// Members run no synchronous algorithm before there is a synchroniser.
    fn rounds<R: Rounds>(self, row: &'static Row) -> Option<Report> {
        println!("members of {}: skipped, no synchroniser", row.name);
        None
    }
}

const NOTHING: Budget = Budget { crashes: 0, restarts: 0, suspicions: 0, early: 0, elects: 0, beats: 0 };

fn check(n: usize, cold: bool, budget: Budget, limits: Limits) {
    let mut failed = Vec::new();
    for row in catalog::ROWS {
        let report = catalog::dispatch(row, Case { n, cold, budget, limits });
        if let Some(report) = report {
            if !report.broken.is_empty() || !report.unseen.is_empty() {
                println!("{:?} {:?}", report.broken.keys(), report.unseen);
                failed.push(report);
            }
        }
    }
    if let Some(report) = failed.into_iter().next() {
        report.holds();
    }
}

#[test]
fn two_settled_faults() {
    check(
        2,
        false,
        Budget { crashes: 1, restarts: 1, suspicions: 1, early: 1, ..NOTHING },
        Limits::new(200_000, 20_000),
    );
}

#[test]
fn three_settled_elects() {
    check(3, false, Budget { elects: 2, ..NOTHING }, Limits::new(200_000, 20_000));
}

#[test]
fn three_cold() {
    check(3, true, NOTHING, Limits::new(200_000, 20_000));
}

#[test]
fn three_settled_faults() {
    check(
        3,
        false,
        Budget { crashes: 1, restarts: 1, suspicions: 1, elects: 1, early: 1, beats: 1 },
        Limits::new(200_000, 20_000),
    );
}

#[test]
fn four_settled_faults() {
    check(
        4,
        false,
        Budget { crashes: 2, restarts: 1, suspicions: 1, elects: 1, early: 1, beats: 1 },
        Limits::new(40_000, 20_000),
    );
}
