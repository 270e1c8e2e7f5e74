//! Many runs over many sizes: measured cost beside theory.

use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use algorithms::Topology;
use algorithms::catalog::Row;
use algorithms::theory::{Bounds, bounds_of_graph};
use serde::Serialize;

use crate::experiment::{Experiment, Report, likely_of};
use crate::order::Order;
use crate::plot::{Series, plot};

#[derive(Clone, Debug)]
pub struct SweepOptions {
    pub rows: Vec<&'static Row>,
    pub sizes: Vec<usize>,
    pub order: Order,
    pub trials: u64,
    pub seed: u64,
    /// A size whose trials would send more messages than this is skipped and reported.
    pub budget: f64,
}

impl SweepOptions {
    /// Powers of two up to `largest`, ten trials each.
    pub fn new(rows: Vec<&'static Row>, largest: usize) -> Self {
        let sizes = (1..32).map(|bits| 1_usize << bits).take_while(|&size| size <= largest).collect();
        SweepOptions { rows, sizes, order: Order::Random, trials: 10, seed: 1, budget: 2e7 }
    }
}

/// One row of the table: an algorithm at a size.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SweepRow {
    pub algorithm: &'static str,
    pub nodes: usize,
    pub trials: u64,
    pub election_min: u64,
    pub election_mean: f64,
    pub election_max: u64,
    pub announcement_mean: f64,
    pub rounds_mean: f64,
    pub theory_best: f64,
    pub theory_mean: Option<f64>,
    pub theory_worst: Option<f64>,
    pub violations: usize,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct SweepReport {
    pub rows: Vec<SweepRow>,
    /// The runs that were skipped, and why.
    pub skipped: Vec<String>,
    pub violations: Vec<String>,
}

/// Runs everything within the budget on all cores; `progress` gets (done, all) from any thread.
pub fn sweep(options: &SweepOptions, progress: impl Fn(usize, usize) + Sync) -> SweepReport {
    let mut report = SweepReport::default();
    let mut cells: Vec<(&'static Row, usize)> = Vec::new();
    for row in &options.rows {
        for &size in &options.sizes {
            match refusal(row, size, options) {
                Some(why) => report.skipped.push(format!("{} at {size} nodes: {why}", row.name)),
                None => cells.push((row, size)),
            }
        }
    }
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let found = Mutex::new(Vec::new());
    let work = || {
        while let Some(&(row, size)) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
            let reports: Vec<Report> = (0..options.trials).filter_map(|trial| run(row, size, trial, options)).collect();
            found.lock().expect("no thread panics").push((row, size, reports));
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, cells.len());
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut found = found.into_inner().expect("no thread panics");
    // In the order of the request, not in the order of finishing.
    let place = |row: &Row| options.rows.iter().position(|known| known.name == row.name);
    found.sort_by_key(|(row, size, _)| (place(row), *size));
    for (row, size, reports) in found.iter().filter(|cell| !cell.2.is_empty()) {
        report.rows.push(summarise(row, *size, reports));
        report.violations.extend(reports.iter().flat_map(|run| {
            run.violations.iter().map(|how| format!("{} at {size} nodes, seed {}: {how}", row.name, run.seed))
        }));
    }
    report
}

fn experiment(row: &'static Row, size: usize, trial: u64, options: &SweepOptions) -> Experiment {
    let seed = options.seed + trial;
    Experiment { seed, ..Experiment::new(row, options.order.ids(size, seed)) }
}

/// Of the graph that a sweep uses, where it uses one.
fn bounds(row: &'static Row, size: usize) -> Bounds {
    if row.topology != Topology::Graph {
        return (row.bounds)(size);
    }
    let first = Experiment::new(row, Order::Increasing.ids(size, 0));
    bounds_of_graph(&first.setup().view).unwrap_or_else(|| (row.bounds)(size))
}

fn run(row: &'static Row, size: usize, trial: u64, options: &SweepOptions) -> Option<Report> {
    experiment(row, size, trial, options).run().ok()
}

/// Why a cell is left out.
fn refusal(row: &'static Row, size: usize, options: &SweepOptions) -> Option<String> {
    let bounds = bounds(row, size);
    let mean = bounds.mean.filter(|_| options.order == Order::Random);
    let cost = likely_of(&Bounds { mean, ..bounds }, row, size) * options.trials as f64;
    if cost > options.budget {
        return Some(format!("about {cost:.1e} messages, the budget is {:.1e}", options.budget));
    }
    let first = experiment(row, size, 0, options);
    first.fits(&first.setup()).err()
}

fn summarise(row: &'static Row, nodes: usize, reports: &[Report]) -> SweepRow {
    let count = reports.len() as f64;
    let mean = |of: &dyn Fn(&Report) -> u64| reports.iter().map(of).sum::<u64>() as f64 / count;
    let election = || reports.iter().map(|report| report.messages.election);
    let bounds = bounds(row, nodes);
    SweepRow {
        algorithm: row.name,
        nodes,
        trials: reports.len() as u64,
        election_min: election().min().unwrap_or(0),
        election_mean: mean(&|report| report.messages.election),
        election_max: election().max().unwrap_or(0),
        announcement_mean: mean(&|report| report.messages.announcement),
        rounds_mean: mean(&|report| report.rounds.unwrap_or(0)),
        theory_best: bounds.best,
        theory_mean: bounds.mean,
        theory_worst: Some(bounds.worst).filter(|worst| worst.is_finite()),
        violations: reports.iter().map(|report| report.violations.len()).sum(),
    }
}

impl SweepReport {
    pub fn csv(&self) -> String {
        let mut csv = String::from(
            "algorithm,nodes,trials,election_min,election_mean,election_max,announcement_mean,rounds_mean,\
             theory_best,theory_mean,theory_worst\n",
        );
        let maybe = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
        for row in &self.rows {
            let _ = writeln!(
                csv,
                "{},{},{},{},{:.3},{},{:.3},{:.3},{:.3},{},{}",
                row.algorithm,
                row.nodes,
                row.trials,
                row.election_min,
                row.election_mean,
                row.election_max,
                row.announcement_mean,
                row.rounds_mean,
                row.theory_best,
                maybe(row.theory_mean),
                maybe(row.theory_worst)
            );
        }
        csv
    }

    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain values")
    }

    /// Theory is the mean where there is one, else the worst case.
    pub fn svg(&self, title: &str) -> String {
        let mut series: Vec<Series> = Vec::new();
        for row in &self.rows {
            if series.last().is_none_or(|last| last.name != row.algorithm) {
                series.push(Series { name: row.algorithm.into(), ..Series::default() });
            }
            let last = series.last_mut().expect("just pushed");
            last.measured.push((row.nodes as f64, row.election_mean));
            last.theory.extend(row.theory_mean.or(row.theory_worst).map(|value| (row.nodes as f64, value)));
        }
        let skipped = self.skipped.iter().map(|skipped| format!("left out: {skipped}"));
        plot(title, &series, &self.divisors().into_iter().chain(skipped).collect::<Vec<_>>())
    }

    /// What "measured over theory" divides by.
    pub fn divisors(&self) -> Vec<String> {
        let names = |wanted: fn(&SweepRow) -> bool| {
            let mut names: Vec<&str> = self.rows.iter().filter(|row| wanted(row)).map(|row| row.algorithm).collect();
            names.dedup();
            names.join(", ")
        };
        let kinds = [
            ("theory is the mean over all orders", names(|row| row.theory_mean.is_some())),
            ("theory is the worst case", names(|row| row.theory_mean.is_none() && row.theory_worst.is_some())),
            ("theory has neither a mean nor a worst case", names(|row| row.theory_mean.or(row.theory_worst).is_none())),
        ];
        kinds
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| format!("{what}: {names}"))
            .collect()
    }
}
