//! `ctl sim sweep`: all algorithms over sizes, beside theory.

use std::io::IsTerminal;
use std::path::PathBuf;

use algorithms::catalog::{self, Row};
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use sim::{Order, SweepOptions, SweepReport, SweepRow};

use super::picture::write;
use super::ring::orders;
use crate::failure::{Exit, Failure};
use crate::output::{Output, Table};

const ALL: &str = "all";

/// Run many elections over sizes and compare their cost with theory
///
/// Sizes are powers of two. An algorithm whose runs would exceed the budget is left out, and the output names it.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl sim sweep
  ctl sim sweep --largest 65536 --order bit-reversal --svg sweep.svg --csv sweep.csv
  ctl sim sweep --trials 100 -o json")]
pub(crate) struct Args {
    /// The election algorithms, or all of them
    #[arg(long, value_name = "NAME,...|all", value_delimiter = ',', value_parser = names(), hide_possible_values = true, default_value = ALL)]
    algorithm: Vec<String>,
    /// The largest size
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(2..=16_777_216))]
    largest: u32,
    /// The order of the ids, clockwise
    #[arg(long, value_parser = orders(), default_value = "random")]
    order: Order,
    /// The number of runs per size
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    trials: u64,
    /// Determines everything that is random
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// The largest number of messages of one algorithm at one size
    #[arg(long, value_name = "MESSAGES", default_value_t = 20_000_000)]
    budget: u64,
    /// Also write a table for spreadsheets
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Also write a plot: log-log, and measured over theory
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(Serialize)]
struct Line<'a> {
    schema: &'static str,
    #[serde(flatten)]
    row: &'a SweepRow,
}

pub(crate) fn run(args: &Args, output: Output) -> Result<(), Failure> {
    let wanted = |row: &&'static Row| args.algorithm.iter().any(|name| name == ALL || name == row.name);
    let rows: Vec<&'static Row> = catalog::ROWS.iter().filter(wanted).collect();
    let options = SweepOptions {
        order: args.order,
        trials: args.trials,
        seed: args.seed,
        budget: args.budget as f64,
        ..SweepOptions::new(rows, args.largest as usize)
    };
    let report = sim::sweep(&options, progress);
    if let Some(path) = &args.csv {
        write(Some(path), &report.csv())?;
    }
    if let Some(path) = &args.svg {
        write(Some(path), &report.svg(&format!("Election messages, {} order", args.order)))?;
    }
    if output.is_json() {
        report.rows.iter().try_for_each(|row| Output::json(&Line { schema: "conclave.sim.sweep/1", row }))?;
    } else {
        Output::line(table(&report).render(output))?;
    }
    if args.svg.is_some() {
        report.divisors().iter().for_each(|divisor| eprintln!("the plot's measured over theory: {divisor}"));
    }
    for skipped in &report.skipped {
        eprintln!("left out: {skipped}");
    }
    if report.violations.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Exit::Invariant, "an invariant is broken").because(report.violations.join("\n")))
}

fn progress(done: usize, all: usize) {
    if std::io::stderr().is_terminal() {
        let end = if done == all { "\r\x1b[K" } else { "" };
        eprint!("\r\x1b[K[{:<30}] {done}/{all}{end}", "#".repeat(30 * done / all.max(1)));
    }
}

fn table(report: &SweepReport) -> Table {
    let mut table =
        Table::new(&["ALGORITHM", ">NODES", ">MIN", ">MEAN", ">MAX", ">THEORY BEST", ">MEAN", ">WORST", ">ROUNDS"]);
    let maybe = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
    for row in &report.rows {
        table.plain([
            row.algorithm.to_owned(),
            row.nodes.to_string(),
            row.election_min.to_string(),
            format!("{:.1}", row.election_mean),
            row.election_max.to_string(),
            format!("{:.0}", row.theory_best),
            maybe(row.theory_mean),
            maybe(row.theory_worst),
            format!("{:.1}", row.rounds_mean),
        ]);
    }
    table
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(catalog::names().chain([ALL]))
}
