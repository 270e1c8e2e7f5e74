//! The output of `ctl bench failover`.

use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;
use types::Safety;

use super::super::statistics::{Summary, summary};
use super::slowest::Slowest;
use super::{Args, Samples};
use crate::cluster::Plan;
use crate::failure::Failure;
use crate::output::{Output, Table};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    algorithm: &'static str,
    topology: &'static str,
    safety: Safety,
    nodes: u32,
    fault: String,
    trials: u32,
    min_ms: f64,
    median_ms: f64,
    p95_ms: f64,
    max_ms: f64,
    samples_ms: &'a [f64],
    /// The median of `eof_ms`.
    eof_median_ms: Option<f64>,
    /// From the SIGKILL to the end of the killed leader's stream; null after other faults.
    eof_ms: Option<Times<'a>>,
    /// From the fault to the last survivor's announcement, by the members' stamps.
    announced_ms: Times<'a>,
    /// The same beside `watchers` watchers, half of which never read; null without them.
    watched_ms: Option<Times<'a>>,
    watchers: u32,
    /// Messages of the algorithm that the survivors sent, per trial; heartbeats are not among them.
    messages: &'a [u64],
    /// The most connections any member had to other members, before the first trial.
    connections_max: usize,
    /// The median write to disk of the survivors, over the whole run; a grant waits for such a write.
    persist_ms: Option<f64>,
    /// Trials before which the members had already left the leader: repeated, and not in any of these numbers.
    discarded: u32,
    slowest: Option<&'a Slowest>,
}

#[derive(Serialize)]
struct Times<'a> {
    min: f64,
    median: f64,
    p95: f64,
    max: f64,
    samples: &'a [f64],
}

impl<'a> Times<'a> {
    fn of(Summary { min, median, p95, max }: Summary, samples: &'a [f64]) -> Self {
        Times { min, median, p95, max, samples }
    }
}

pub(super) fn show(plan: &Plan, args: &Args, samples: &Samples, output: Output) -> Result<(), Failure> {
    let Summary { min, median, p95, max } = summary(&samples.ms).context("no samples")?;
    let eof = summary(&samples.eof_ms);
    let announced = summary(&samples.announced_ms).context("no samples")?;
    let watched = summary(&samples.watched_ms);
    let persist = middle(&samples.persist_us).map(|us| us as f64 / 1e3);
    let fault = args.fault.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    if output.is_json() {
        return Ok(Output::json(&Document {
            schema: "conclave.bench.failover/1",
            algorithm: plan.row.name,
            topology: plan.row.topology.name(),
            safety: plan.safety,
            nodes: plan.nodes,
            fault,
            trials: args.trials,
            min_ms: min,
            median_ms: median,
            p95_ms: p95,
            max_ms: max,
            samples_ms: &samples.ms,
            eof_median_ms: eof.map(|eof| eof.median),
            eof_ms: eof.map(|eof| Times::of(eof, &samples.eof_ms)),
            announced_ms: Times::of(announced, &samples.announced_ms),
            watched_ms: watched.map(|watched| Times::of(watched, &samples.watched_ms)),
            watchers: args.watchers,
            messages: &samples.messages,
            connections_max: samples.connections_max,
            persist_ms: persist,
            discarded: samples.discarded,
            slowest: samples.slowest.as_ref(),
        })?);
    }
    let mut table = Table::new(&[
        "ALGORITHM",
        "TOPOLOGY",
        "SAFETY",
        ">NODES",
        "FAULT",
        ">TRIALS",
        ">MIN",
        ">MEDIAN",
        ">P95",
        ">MAX",
        ">EOF",
        ">MESSAGES",
        ">LINKS",
        ">PERSIST",
    ]);
    let names = [plan.row.name, plan.row.topology.name(), plan.safety.name()].map(String::from);
    let time = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.3} ms"));
    let times = [Some(min), Some(median), Some(p95), Some(max), eof.map(|eof| eof.median)].map(time);
    let rest = [plan.nodes.to_string(), fault, args.trials.to_string()];
    let messages = middle(&samples.messages).unwrap_or(0).to_string();
    let cost = [messages, samples.connections_max.to_string(), time(persist)];
    table.plain(names.into_iter().chain(rest).chain(times).chain(cost));
    Output::line(table.render(output))?;
    let in_words = |of: Summary| format!("{:.3} ms, {:.3} to {:.3}", of.median, of.min, of.max);
    Output::line(format!("announced by the last survivor, by its own stamp: {}", in_words(announced)))?;
    if let Some(watched) = watched {
        Output::line(format!(
            "the same beside {} watchers, half of which never read: {}",
            args.watchers,
            in_words(watched)
        ))?;
    }
    if let Some(slowest) = &samples.slowest {
        Output::line(slowest.line())?;
    }
    if samples.discarded > 0 {
        Output::line(format!(
            "discarded: {} trials, because members left the leader before the fault",
            samples.discarded
        ))?;
    }
    Ok(())
}

fn middle(of: &[u64]) -> Option<u64> {
    let mut sorted = of.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}
