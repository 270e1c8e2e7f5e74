//! Every election of the catalog, in every interleaving of every cyclic order, whoever starts and whenever.

use algorithms::catalog::{self, Elects, Row, Visitor};
use algorithms::{Election, Life, Rounds, Topology, Wins};
use model::bare::{Bare, Timers};
use model::check::{Limits, Report, examine};

#[derive(Clone, Copy)]
struct Case {
    n: usize,
    wins: Wins,
    timers: Timers,
    crashes: u8,
    limits: Limits,
}

impl Visitor for Case {
    /// `None`: the case says nothing about this row.
    type Output = Option<Report>;

    fn election<E: Election>(self, row: &'static Row) -> Option<Report> {
        let Case { n, wins, timers, crashes, limits } = self;
        if timers != Timers::WhenQuiet && (row.topology != Topology::Mesh || E::LIFE != Life::PerRound) {
            return None;
        }
        let mut model = Bare::<E>::new(row, n, wins);
        (model.timers, model.crashes) = (timers, crashes);
        if n > 3 && (E::LIFE == Life::Continuous || row.elects == Elects::Anyone) {
            model.max_starts = 1;
        }
        let label = format!("{} n={n} {wins:?} wins, timers {timers:?}, crashes {crashes}", row.name);
        Some(examine(label, &model, limits))
    }

    fn rounds<R: Rounds>(self, _: &'static Row) -> Option<Report> {
        None
    }
}

const QUIET: Case = Case {
    n: 2,
    wins: Wins::Highest,
    timers: Timers::WhenQuiet,
    crashes: 0,
    limits: Limits { search: 4_000_000, walks: 50_000, depth: 400 },
};

#[test]
fn every_election_has_one_winner_whom_all_follow() {
    for row in catalog::ROWS {
        for n in 2..=4 {
            for wins in [Wins::Highest, Wins::Lowest] {
                if let Some(report) = catalog::dispatch(row, Case { n, wins, ..QUIET }) {
                    report.holds();
                }
            }
        }
    }
}

#[test]
fn a_crash_between_any_two_effects_never_makes_two_leaders() {
    for row in catalog::ROWS {
        for n in 2..=3 {
            if let Some(report) = catalog::dispatch(row, Case { n, crashes: 1, ..QUIET }) {
                report.holds();
            }
        }
    }
}

#[test]
fn without_any_bound_on_delays_a_mesh_still_ends_with_the_best() {
    let mut seen = 0;
    for row in catalog::ROWS.iter().filter(|row| row.elects == Elects::Best) {
        for n in 2..=4 {
            if let Some(report) = catalog::dispatch(row, Case { n, timers: Timers::Anytime(2), ..QUIET }) {
                report.holds();
                seen += 1;
            }
        }
    }
    assert!(seen > 0);
}
