//! Every election of the catalog, in every interleaving of every cyclic order, for every set of initiators and every
//! time of their starts.

use std::ops::ControlFlow;

use algorithms::catalog::{self, AnyElection, Elects, Row, Visitor};
use algorithms::{Election, Rounds, Topology, Wins};
use model::bare::{Bare, Timers};
use model::check::{Limits, Report, examine};
use model::synchronous::Synchronous;

#[derive(Clone, Copy)]
struct Case {
    n: usize,
    wins: Wins,
    timers: Timers,
    crashes: u8,
}

const HEALTHY: Case = Case { n: 2, wins: Wins::Highest, timers: Timers::WhenQuiet, crashes: 0 };

impl Case {
    /// `None`: the case says nothing about this row.
    fn examine(self, row: &'static Row) -> Option<Report> {
        match catalog::dispatch(row, self) {
            ControlFlow::Break(report) => report,
            ControlFlow::Continue(()) => self.examine_election(row),
        }
    }

    fn examine_election(self, row: &'static Row) -> Option<Report> {
        let Case { n, wins, timers, crashes } = self;
        let features = row.algorithm.features();
        // Only timers can be early, and an algorithm that is never done begins anew for ever.
        if timers != Timers::WhenQuiet && (row.topology != Topology::Mesh || row.needs_all || features.continuous) {
            return None;
        }
        let mut model = Bare::<AnyElection>::new(row, n, wins);
        (model.timers, model.crashes) = (timers, crashes);
        if row.elects == Elects::Majority {
            model.max_term = 2;
        }
        let large = features.continuous || row.needs_all || row.elects == Elects::Anyone;
        if n > 3 && (large || row.topology == Topology::Graph) {
            model.max_starts = 1;
        }
        let chance =
            if row.elects == Elects::Anyone { format!(", {} messages", model.max_sent) } else { String::new() };
        let starts = if model.max_starts < n { ", one start" } else { "" };
        let label = format!("{} n={n}, {wins:?} wins, {timers:?}, {crashes} crashes{chance}{starts}", row.name);
        let search = match crashes {
            0 if row.topology == Topology::Graph && n > 3 => 120_000,
            0 if row.elects == Elects::Majority && n > 2 => 80_000,
            0 if row.elects == Elects::Anyone && n > 3 => 200_000,
            0 if !is_talkative(row, n) => 3_000_000,
            0 => 80_000,
            _ => 250_000,
        };
        Some(examine(label, &model, Limits::new(search, 15_000)))
    }
}

/// Breaks with what the case says about an algorithm of rounds; all other machines are one type.
impl Visitor for Case {
    type Output = ControlFlow<Option<Report>>;

    fn election<E: Election>(self, _: &'static Row) -> Self::Output {
        ControlFlow::Continue(())
    }

    fn rounds<R: Rounds>(self, row: &'static Row) -> Self::Output {
        // In a synchronous model there is nothing that a timer or a crash between two effects could meet.
        if self.crashes > 0 || self.timers != Timers::WhenQuiet || self.wins != HEALTHY.wins {
            return ControlFlow::Break(None);
        }
        let model = Synchronous::<R>::new(row, self.n, self.n as u64);
        let label = format!("{} n={}, synchronous", row.name, self.n);
        ControlFlow::Break(Some(examine(label, &model, Limits::new(1_500_000, 15_000))))
    }
}

/// Where chance decides, or every node asks every other one, four nodes are too many to see everything; so are all 38
/// connected graphs of four nodes, and three nodes that may share votes out.
fn must_be_complete(row: &Row, n: usize) -> bool {
    let most = if row.elects == Elects::Majority { 2 } else { 3 };
    !is_talkative(row, n)
        && (n <= most || !matches!(row.elects, Elects::Anyone | Elects::Majority) && row.topology != Topology::Graph)
}

/// So many messages are under way at once that their orders cannot all be visited.
fn is_talkative(row: &Row, n: usize) -> bool {
    row.topology == Topology::Mesh && (row.bounds)(n).best > 20.0
}

#[test]
fn every_election_has_one_winner_that_all_follow() {
    for row in catalog::ROWS {
        for n in 2..=4 {
            let report = Case { n, ..HEALTHY }.examine(row).expect("every row can be healthy");
            report.holds();
            assert!(report.complete || !must_be_complete(row, n), "{}: not complete", report.label);
        }
    }
}

#[test]
fn the_lowest_wins_as_well_as_the_highest() {
    for row in catalog::ROWS {
        for n in 2..=3 {
            if let Some(report) = (Case { n, wins: Wins::Lowest, ..HEALTHY }.examine(row)) {
                report.holds();
                assert!(report.complete || !must_be_complete(row, n), "{}: not complete", report.label);
            }
        }
    }
}

#[test]
fn a_crash_between_any_two_effects_never_makes_two_leaders() {
    for row in catalog::ROWS {
        for n in 2..=3 {
            if let Some(report) = (Case { n, crashes: 1, ..HEALTHY }.examine(row)) {
                report.holds();
            }
        }
    }
}

#[test]
fn without_any_bound_on_delays_a_mesh_has_two_winners_on_the_way_but_ends_with_the_best() {
    let mut seen = 0;
    for row in catalog::ROWS.iter().filter(|row| row.elects == Elects::Best) {
        for n in 2..=3 {
            if let Some(report) = (Case { n, timers: Timers::Anytime(2), ..HEALTHY }.examine(row)) {
                report.holds().is_complete();
                seen += 1;
            }
        }
    }
    assert!(seen > 0, "no row has timers");
}
