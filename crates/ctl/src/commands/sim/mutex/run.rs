//! `ctl sim run` of a mutual exclusion.

use algorithms::catalog::mutex::Row;
use algorithms::theory::Range;
use serde::Serialize;
use sim::{MutexReport, Schedule, Times, TokenFault};

use super::super::ring::RingArgs;
use super::super::run::{ByKind, verdict};
use super::MutexArgs;
use crate::failure::Failure;
use crate::output::{Output, Table};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    algorithm: &'static str,
    nodes: usize,
    seed: u64,
    schedule: &'static str,
    contention: &'static str,
    links: &'static str,
    fault: Option<&'static str>,
    requests: u64,
    entries: u64,
    messages: Messages<'a>,
    #[serde(flatten)]
    seen: Seen,
    theory: Theory,
    violations: &'a [String],
}

#[derive(Serialize)]
struct Messages<'a> {
    total: u64,
    per_entry: Option<f64>,
    by_kind: ByKind<'a>,
    application: u64,
}

#[derive(Serialize)]
struct Seen {
    client_delay: Option<Delay>,
    sync_delay: Option<Delay>,
    wait: Option<Delay>,
    passed_by_max: u64,
    overtakes: u64,
    inside_max: usize,
    /// Tokens pass 2^53 in a live cluster: a decimal string everywhere.
    largest_token: Option<String>,
    first_entries: Vec<FirstEntry>,
}

#[derive(Serialize)]
struct FirstEntry {
    node: u32,
    token: String,
}

/// In message times.
#[derive(Serialize)]
pub(super) struct Delay {
    samples: u64,
    min: f64,
    mean: f64,
    max: f64,
}

impl Delay {
    pub(super) fn new(times: &Times) -> Option<Delay> {
        let (min, mean, max) = times.in_messages()?;
        Some(Delay { samples: times.samples, min: short(min), mean: short(mean), max: short(max) })
    }
}

#[derive(Serialize)]
struct Theory {
    messages_per_entry: client::json::Range,
    client_delay: client::json::Range,
    sync_delay: client::json::Range,
    fair: bool,
}

/// Three digits: enough, and the same on every machine.
pub(super) fn short(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

pub(in super::super) fn run(
    row: &'static Row,
    ring: &RingArgs,
    args: &MutexArgs,
    trials: u64,
    output: Output,
) -> Result<(), Failure> {
    let mut broken = Vec::new();
    for nth in 0..trials {
        let plan = args.experiment(row, ring, nth, |_| 1000)?;
        let report = plan.run().map_err(|why| Failure::usage(why).hint("ctl algorithms"))?;
        output.show(&document(&report, &plan.ids), || text(&report, output))?;
        broken.extend(report.violations.iter().map(|what| format!("seed {}: {what}", report.seed)));
    }
    verdict(&broken, None)
}

fn document<'a>(report: &'a MutexReport, ids: &[algorithms::Uid]) -> Document<'a> {
    let seen = &report.seen;
    Document {
        schema: "conclave.sim.mutex/1",
        algorithm: report.algorithm,
        nodes: report.members,
        seed: report.seed,
        schedule: report.schedule.name(),
        contention: report.contention,
        links: links(report),
        fault: report.fault.map(TokenFault::name),
        requests: report.requests,
        entries: seen.entries,
        messages: Messages {
            total: report.messages,
            per_entry: report.per_entry(report.messages).map(short),
            by_kind: ByKind(&report.by_kind),
            application: report.told,
        },
        seen: Seen {
            client_delay: Delay::new(&seen.client_delay),
            sync_delay: Delay::new(&seen.sync_delay),
            wait: Delay::new(&seen.waits),
            passed_by_max: seen.passed_by_max,
            overtakes: seen.overtakes,
            inside_max: seen.together_max,
            largest_token: seen.largest_token.map(|token| token.to_string()),
            first_entries: seen
                .first_entries
                .iter()
                .map(|&(at, token)| FirstEntry { node: ids[at].id.0, token: token.to_string() })
                .collect(),
        },
        theory: Theory {
            messages_per_entry: json_range(report.theory.messages),
            client_delay: json_range(report.theory.client_delay),
            sync_delay: json_range(report.theory.sync_delay),
            fair: report.theory.fair,
        },
        violations: &report.violations,
    }
}

fn links(report: &MutexReport) -> &'static str {
    if report.fifo { "fifo" } else { "any-order" }
}

pub(super) fn json_range(range: Range) -> client::json::Range {
    client::json::Range { min: range.min, max: Some(range.max).filter(|&max| max != u64::MAX) }
}

/// Contains no times of this machine: the same seed prints the same text.
fn text(report: &MutexReport, output: Output) -> String {
    let MutexReport { algorithm, members, seed, schedule, contention, requests, .. } = report;
    let order = if report.fifo { "FIFO links" } else { "links in any order" };
    let seen = &report.seen;
    let head = format!(
        "{algorithm}, {members} nodes, seed {seed}, schedule {schedule}, contention {contention}, {order}\n\
         {requests} requests, {} entries; at most {} inside; largest fencing token {}\n{}",
        seen.entries,
        seen.together_max,
        seen.largest_token.map_or_else(|| "none".to_owned(), |token| token.to_string()),
        fault(report)
    );
    format!("{head}\n{}\n\n{}\n\n{}", messages(report, output), delays(report, output), fairness(report))
}

fn messages(report: &MutexReport, output: Output) -> String {
    let mut table = Table::new(&["MESSAGES", ">COUNT", ">PER ENTRY", ">THEORY"]);
    let per_entry =
        |count: u64| report.per_entry(count).map_or_else(|| "-".to_owned(), |number| format!("{number:.3}"));
    for kind in &report.by_kind {
        let theory = report.theory.kinds.iter().find(|(name, _)| *name == kind.name);
        let theory = theory.map_or_else(|| "-".to_owned(), |(_, range)| range.to_string());
        table.plain([kind.name.to_owned(), kind.count.to_string(), per_entry(kind.count), theory]);
    }
    let theory = report.theory.messages.to_string();
    table.plain(["= total".to_owned(), report.messages.to_string(), per_entry(report.messages), theory]);
    table.render(output)
}

fn delays(report: &MutexReport, output: Output) -> String {
    let mut table = Table::new(&["IN MESSAGE TIMES", ">SAMPLES", ">LEAST", ">MEAN", ">MOST", ">THEORY"]);
    let seen = &report.seen;
    // With random delays theory gives the longest time only.
    let theory = |range: Range| match report.schedule {
        Schedule::Random if range.max != u64::MAX => format!("up to {}", range.max),
        Schedule::Random | Schedule::Sync => range.to_string(),
    };
    for (name, times, theory) in [
        ("client delay", &seen.client_delay, theory(report.theory.client_delay)),
        ("synchronisation delay", &seen.sync_delay, theory(report.theory.sync_delay)),
        ("wait", &seen.waits, "-".to_owned()),
    ] {
        let [least, mean, most] = match times.in_messages() {
            None => ["-"; 3].map(str::to_owned),
            Some((least, mean, most)) => [least, mean, most].map(|number| format!("{number:.3}")),
        };
        table.plain([name.to_owned(), times.samples.to_string(), least, mean, most, theory]);
    }
    table.render(output)
}

fn fairness(report: &MutexReport) -> String {
    let seen = &report.seen;
    let promise = if report.theory.fair { "theory: none" } else { "theory promises no order" };
    format!(
        "order: {} of {} sections began before one whose request had happened before ({promise}); \
         at most {} sections of others during one wait",
        seen.overtakes, seen.entries, seen.passed_by_max
    )
}

/// What the fault of the run did.
fn fault(report: &MutexReport) -> String {
    match report.fault {
        None => String::new(),
        Some(TokenFault::Lose) => {
            let waiting = report.requests - report.seen.entries;
            format!("the token was lost: no node entered any more, {waiting} requests wait for ever\n")
        }
        Some(TokenFault::Duplicate) if report.violations.is_empty() => {
            "the token arrived twice: its receiver could not use the copy, nothing came of it\n".to_owned()
        }
        Some(TokenFault::Duplicate) => {
            "the token arrived twice: nodes enter with equal fencing tokens, which a resource that checks them refuses\n"
                .to_owned()
        }
    }
}
