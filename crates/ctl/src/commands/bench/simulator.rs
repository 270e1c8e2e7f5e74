//! `ctl bench sim`: the cost of a message in the simulator, beside a bare queue.

use algorithms::catalog;
use serde::Serialize;

use super::super::shared_args;
use crate::failure::{Exit, Failure};
use crate::output::{Output, Table};

/// Measure the simulator: nanoseconds per message, beside a bare queue of the same records
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl bench sim
  ctl bench sim --nodes 10000000 --trials 3 -o json")]
pub(crate) struct Args {
    /// The election [default: a cheap one on a ring]
    #[arg(long, value_name = "NAME", value_parser = shared_args::algorithm_names(), hide_possible_values = true)]
    algorithm: Option<String>,
    /// The number of nodes
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1_000_000, value_parser = shared_args::simulated_nodes())]
    nodes: u32,
    /// The number of runs; the median counts
    #[arg(long, value_name = "K", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    trials: u32,
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    algorithm: &'static str,
    nodes: usize,
    trials: u32,
    messages: u64,
    ns_per_message: f64,
    ns_per_message_bare_queue: f64,
    ratio: f64,
    peak_in_flight: usize,
    record_bytes: usize,
    bytes_per_node: f64,
}

pub(crate) fn run(args: &Args, output: Output) -> Result<(), Failure> {
    let row = args.algorithm.as_deref().and_then(catalog::row).unwrap_or_else(sim::bench_row);
    let report = sim::bench_sim(row, args.nodes as usize, args.trials as usize)
        .map_err(|error| Failure::new(Exit::Failed, error).hint("ctl bench sim, without --algorithm"))?;
    let digits = |value: f64| (value * 100.0).round() / 100.0;
    let document = Document {
        schema: "conclave.bench.sim/1",
        algorithm: report.algorithm,
        nodes: report.nodes,
        trials: args.trials,
        messages: report.messages,
        ns_per_message: digits(report.ns_per_message),
        ns_per_message_bare_queue: digits(report.ns_per_message_bare_queue),
        ratio: digits(report.ratio),
        peak_in_flight: report.peak_in_flight,
        record_bytes: report.record_bytes,
        bytes_per_node: digits(report.bytes_per_node),
    };
    if output.is_json() {
        return Ok(Output::json(&document)?);
    }
    let mut table =
        Table::new(&["ALGORITHM", ">NODES", ">MESSAGES", ">NS/MESSAGE", ">NS BARE QUEUE", ">RATIO", ">BYTES/NODE"]);
    table.plain([
        document.algorithm.to_owned(),
        document.nodes.to_string(),
        document.messages.to_string(),
        document.ns_per_message.to_string(),
        document.ns_per_message_bare_queue.to_string(),
        document.ratio.to_string(),
        document.bytes_per_node.to_string(),
    ]);
    Ok(Output::line(table.render(output))?)
}
