//! `ctl sim faults`: whole members under faults.

use std::io::IsTerminal;

use algorithms::catalog::{self, Row};
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use sim::{FaultOptions, FaultReport, ManyReport, Safety};

use super::super::shared_args;
use crate::failure::{Exit, Failure};
use crate::output::{Output, Table};

const ALL: &str = "all";
const DRIFT_MAX: f64 = 90.0;

/// Run whole members under seeded faults and check the invariants
///
/// Crashes, restarts, pauses, partitions, delays and slow disks, first for safety; then all faults end, and progress is
/// required. A failing seed prints the command that reproduces it.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl sim faults --seeds 1000
  ctl sim faults --algorithm all --seeds 200 -o json
  ctl sim faults --seed 17                  one seed, with what happened

Exit codes: 0 all invariants hold, 2 cannot be run, 7 an invariant is broken.")]
pub(crate) struct Args {
    /// The election algorithm, or all of them
    #[arg(long, value_name = "NAME|all", value_parser = names(), hide_possible_values = true, default_value = catalog::DEFAULT)]
    algorithm: String,
    /// The number of seeds, from --seed on
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// The first seed; without --seeds the only one
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// The number of members [default: 2 to 7, by the seed]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=64))]
    nodes: Option<u32>,
    /// Who may lead: any member that is elected, or only with the lease of a majority
    #[arg(long, value_name = "SAFETY", default_value = "classic", value_parser = shared_args::safeties())]
    safety: Safety,
    /// A recovered member with a better id does not replace a healthy leader
    #[arg(long)]
    no_preempt: bool,
    /// The error of the clocks, as a multiple of what the leases allow for; beyond 1 leases may overlap
    #[arg(long, value_name = "TIMES", default_value_t = 1.0, value_parser = drift, allow_negative_numbers = true)]
    drift: f64,
    /// Members are added to and removed from the list while the run lasts; needs --safety quorum
    #[arg(long)]
    changes: bool,
    /// Measure leases with the clock that NTP bends by up to 8.3 %: a mistake, leases may overlap
    #[arg(long)]
    slewed_leases: bool,
    /// The number of last lines of a broken run to show
    #[arg(long, value_name = "LINES", default_value_t = 30)]
    trace: usize,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    algorithm: &'static str,
    safety: &'static str,
    first_seed: u64,
    seeds: u64,
    broken: u64,
    events: u64,
    kills: u64,
    reigns: u64,
    slowest_settle_ms: u64,
    digest: String,
    failures: Vec<Broken<'a>>,
}

#[derive(Serialize)]
struct Broken<'a> {
    seed: u64,
    violations: Vec<String>,
    command: String,
    trace: &'a [String],
}

pub(crate) fn run(args: &Args, output: Output) -> Result<(), Failure> {
    let nodes = args.nodes.map(|nodes| nodes as usize);
    let options = FaultOptions {
        safety: args.safety,
        preempt: !args.no_preempt,
        nodes,
        drift: args.drift,
        changes: args.changes,
        slewed_leases: args.slewed_leases,
        trace_lines: args.trace,
    };
    let first = args.seed.unwrap_or(1);
    let alone = args.seeds.is_none() && args.seed.is_some();
    let count = args.seeds.unwrap_or(if alone { 1 } else { 100 });
    let end = first.checked_add(count).ok_or_else(|| Failure::usage("there are no such seeds"))?;
    let mut reports = Vec::new();
    for row in rows(&args.algorithm) {
        if let Some((why, hint)) = unfit(row, args) {
            if args.algorithm == ALL {
                eprintln!("left out: {why}");
                continue;
            }
            return Err(Failure::usage(why).hint(hint));
        }
        if alone && !output.is_json() {
            Output::line(sim::run_faults(row, first, &options).to_string().trim_end())?;
        }
        let report = sim::run_many(row, first..end, &options, |done| progress(row, done, count));
        if output.is_json() {
            Output::json(&document(&report, &options, first))?;
        }
        reports.push(report);
    }
    if !output.is_json() && !alone {
        Output::line(table(&reports).render(output))?;
    }
    verdict(&reports, alone)
}

/// Why members cannot run this row so, and what to change. Their config check says the same.
fn unfit(row: &Row, args: &Args) -> Option<(String, &'static str)> {
    let (name, most) = (row.name, row.max_nodes);
    match args.nodes {
        Some(nodes) if nodes as usize > most => {
            Some((format!("{name} runs with at most {most} members, not {nodes}"), "fewer --nodes"))
        }
        _ if args.no_preempt && !row.can_wait => {
            Some((format!("{name} cannot leave a worse leader alone"), "the same without --no-preempt"))
        }
        _ => None,
    }
}

/// Beyond 90 times the allowed drift of 1 % a clock would stand still or run backwards.
fn drift(text: &str) -> Result<f64, String> {
    let drift = text.parse().ok().filter(|drift| (0.0..=DRIFT_MAX).contains(drift));
    drift.ok_or_else(|| format!("write a number from 0 to {DRIFT_MAX}"))
}

fn rows(name: &str) -> impl Iterator<Item = &'static Row> + '_ {
    catalog::ROWS.iter().filter(move |row| name == ALL || row.name == name)
}

fn progress(row: &Row, done: u64, count: u64) {
    if std::io::stderr().is_terminal() && (done.is_multiple_of(16) || done == count) {
        let end = if done == count { "\r\x1b[K" } else { "" };
        eprint!("\r\x1b[K{}: {done}/{count}{end}", row.name);
    }
}

fn document<'a>(report: &'a ManyReport, options: &FaultOptions, first_seed: u64) -> Document<'a> {
    Document {
        schema: "conclave.sim.faults/1",
        algorithm: report.algorithm,
        safety: options.safety.name(),
        first_seed,
        seeds: report.runs,
        broken: report.broken_count,
        events: report.events,
        kills: report.kills,
        reigns: report.reigns,
        slowest_settle_ms: report.slowest_settle_ms,
        digest: format!("{:016x}", report.digest),
        failures: report.broken.iter().map(broken).collect(),
    }
}

fn broken(report: &FaultReport) -> Broken<'_> {
    let violations = report.violations.iter().map(ToString::to_string).collect();
    Broken { seed: report.seed, violations, command: report.command(), trace: &report.trace }
}

fn table(reports: &[ManyReport]) -> Table {
    let mut table =
        Table::new(&["ALGORITHM", ">SEEDS", ">BROKEN", ">EVENTS", ">KILLS", ">REIGNS", ">SLOWEST SETTLE", "DIGEST"]);
    for report in reports {
        let ManyReport { runs, broken_count, events, kills, reigns, slowest_settle_ms, digest, .. } = report;
        let counts = [runs, broken_count, events, kills, reigns].map(ToString::to_string);
        let ends = [format!("{slowest_settle_ms} ms"), format!("{digest:016x}")];
        table.plain(std::iter::once(report.algorithm.to_owned()).chain(counts).chain(ends));
    }
    table
}

/// The lowest failing seeds, each with its command; the first one with its log.
fn verdict(reports: &[ManyReport], told: bool) -> Result<(), Failure> {
    let failed: Vec<&FaultReport> = reports.iter().flat_map(|report| &report.broken).collect();
    let Some(first) = failed.first() else { return Ok(()) };
    let total: u64 = reports.iter().map(|report| report.broken_count).sum();
    let failure = Failure::new(Exit::Invariant, format!("invariants are broken on {total} seeds"));
    let failure = if told { failure } else { failure.because(first.to_string().trim_end()) };
    let commands: Vec<String> = failed.iter().map(|report| report.command()).collect();
    Err(failure.hint(commands.join("\n")))
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(catalog::names().chain([ALL]))
}
