//! `ctl sim compare`: all mutual exclusions beside each other.

use serde::Serialize;
use sim::{Comparison, MutexReport, Order, Times};

use super::super::run::verdict;
use super::run::{Delay, json_range, short};
use crate::failure::Failure;
use crate::output::{Output, Table};

/// Compare all mutual exclusions: messages, delays, order, and which crashes stop them
///
/// Measured, beside theory, with the same nodes and the same number of requests: one request at a time (ALONE), every
/// node asking all the time (SATURATED), and random moments with nodes that tell each other of their requests
/// (OVERTAKES). A crash is fatal if it keeps another node out for ever: each node dies once, outside its section.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl sim compare
  ctl sim compare --nodes 25 --requests 2000 -o json

Exit codes: 0 right, 7 an invariant is broken.")]
pub(crate) struct CompareArgs {
    /// The ids 1 to N
    #[arg(short = 'n', long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=200))]
    nodes: u32,
    /// The requests of each run
    #[arg(long, value_name = "K", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    requests: u64,
    /// Determines everything that is random
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    algorithm: &'static str,
    nodes: u32,
    requests: u64,
    seed: u64,
    messages_alone: Option<f64>,
    messages_saturated: Option<f64>,
    client_delay: Option<Delay>,
    sync_delay: Option<Delay>,
    overtakes: u64,
    entries: u64,
    fatal_crashes: usize,
    theory: Theory,
    violations: Vec<&'a String>,
}

#[derive(Serialize)]
struct Theory {
    messages: client::json::Range,
    messages_saturated: client::json::Range,
    client_delay: client::json::Range,
    sync_delay: client::json::Range,
    fair: bool,
}

pub(in super::super) fn compare(args: &CompareArgs, output: Output) -> Result<(), Failure> {
    let ids = Order::Increasing.ids(args.nodes as usize, args.seed);
    let all = sim::compare(&ids, args.requests, args.seed).map_err(Failure::usage)?;
    if output.is_json() {
        for one in &all {
            Output::json(&document(one, args))?;
        }
    } else {
        Output::line(table(&all, args, output))?;
    }
    let broken: Vec<String> =
        all.iter().flat_map(|one| one.violations().map(|what| format!("{}: {what}", one.row.name))).collect();
    verdict(&broken, None)
}

fn per_entry(report: &MutexReport) -> Option<f64> {
    report.per_entry(report.messages).map(short)
}

fn document<'a>(one: &'a Comparison, args: &CompareArgs) -> Document<'a> {
    Document {
        schema: "conclave.sim.compare/1",
        algorithm: one.row.name,
        nodes: args.nodes,
        requests: args.requests,
        seed: args.seed,
        messages_alone: per_entry(&one.single),
        messages_saturated: per_entry(&one.saturated),
        client_delay: Delay::new(&one.single.seen.client_delay),
        sync_delay: Delay::new(&one.saturated.seen.sync_delay),
        overtakes: one.random.seen.overtakes,
        entries: one.random.seen.entries,
        fatal_crashes: one.fatal_crashes,
        theory: Theory {
            messages: json_range(one.single.theory.messages),
            messages_saturated: json_range(one.saturated.theory.messages),
            client_delay: json_range(one.single.theory.client_delay),
            sync_delay: json_range(one.saturated.theory.sync_delay),
            fair: one.row.fair,
        },
        violations: one.violations().collect(),
    }
}

fn table(all: &[Comparison], args: &CompareArgs, output: Output) -> String {
    let mut table = Table::new(&[
        "ALGORITHM",
        ">ALONE",
        ">SATURATED",
        ">THEORY",
        ">CLIENT DELAY",
        ">THEORY",
        ">SYNC DELAY",
        ">THEORY",
        ">OVERTAKES",
        "FATAL CRASHES",
    ]);
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    let mean = |times: &Times| number(times.in_messages().map(|(_, mean, _)| mean));
    for one in all {
        let messages = match (one.single.theory.messages, one.saturated.theory.messages) {
            (single, saturated) if single == saturated => single.to_string(),
            (single, saturated) => format!("{single}; {saturated}"),
        };
        table.plain([
            one.row.name.to_owned(),
            number(per_entry(&one.single)),
            number(per_entry(&one.saturated)),
            messages,
            mean(&one.single.seen.client_delay),
            one.single.theory.client_delay.to_string(),
            mean(&one.saturated.seen.sync_delay),
            one.saturated.theory.sync_delay.to_string(),
            format!("{}{}", one.random.seen.overtakes, if one.row.fair { " (never)" } else { "" }),
            format!("{} of {}", one.fatal_crashes, args.nodes),
        ]);
    }
    format!(
        "{} nodes, {} requests a run, seed {}; messages per entry, delays as means in message times\n\n{}\n\n\
         A token that circulates also moves while no node asks: its messages per entry alone are not bounded.",
        args.nodes,
        args.requests,
        args.seed,
        table.render(output)
    )
}
