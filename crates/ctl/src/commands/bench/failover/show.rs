//! The output of `ctl bench failover`.

use anyhow::Context;
use clap::ValueEnum;
use client::json::Range;
use serde::Serialize;
use types::Safety;

use super::super::super::theory;
use super::super::statistics::{Summary, summary};
use super::Args;
use super::slowest::Slowest;
use super::subject::Samples;
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
    /// From the fault to when the first survivor left the old leader, by its own stamp.
    noticed_ms: Times<'a>,
    /// From the fault to the last survivor's announcement, by the members' stamps.
    announced_ms: Times<'a>,
    /// The same beside `watchers` watchers or `streams` HTTP streams of events, half of which never read; null without them.
    watched_ms: Option<Times<'a>>,
    watchers: u32,
    streams: u32,
    /// The largest memory of a survivor beside them.
    watched_rss_kib: Option<u64>,
    /// Messages of the algorithm that the survivors sent, per trial; heartbeats are not among them.
    messages: &'a [u64],
    /// Those of the election that found the successor, per trial.
    election_messages: &'a [u64],
    /// What theory says of these elections; null where it says nothing.
    theory: Option<Range>,
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

/// The object of each algorithm, or one table.
pub(super) fn show(all: &[(Plan, Samples)], args: &Args, output: Output) -> Result<(), Failure> {
    let rows = all.iter().map(|(plan, samples)| Figures::of(plan, args, samples)).collect::<Option<Vec<_>>>();
    let rows = rows.context("no samples")?;
    if output.is_json() {
        for row in &rows {
            Output::json(&row.document(args))?;
        }
        return Ok(());
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
        ">ELECTION",
        ">THEORY",
        ">LINKS",
        ">PERSIST",
    ]);
    for row in &rows {
        table.plain(row.cells(args));
    }
    Output::line(table.render(output))?;
    for row in &rows {
        let whose = if rows.len() == 1 { String::new() } else { format!("{}: ", row.plan.row.name) };
        for line in row.remarks(args, rows.len() == 1) {
            Output::line(format!("{whose}{line}"))?;
        }
    }
    Ok(())
}

/// The samples of one algorithm, summarised.
struct Figures<'a> {
    plan: &'a Plan,
    samples: &'a Samples,
    took: Summary,
    noticed: Summary,
    announced: Summary,
    eof: Option<Summary>,
    watched: Option<Summary>,
    persist_ms: Option<f64>,
    fault: String,
}

impl<'a> Figures<'a> {
    fn of(plan: &'a Plan, args: &Args, samples: &'a Samples) -> Option<Self> {
        Some(Figures {
            plan,
            samples,
            took: summary(&samples.ms)?,
            noticed: summary(&samples.noticed_ms)?,
            announced: summary(&samples.announced_ms)?,
            eof: summary(&samples.eof_ms),
            watched: summary(&samples.watched_ms),
            persist_ms: middle(&samples.persist_us).map(|us| us as f64 / 1e3),
            fault: args.fault.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned()),
        })
    }

    fn document(&self, args: &Args) -> Document<'_> {
        let (plan, samples, Summary { min, median, p95, max }) = (self.plan, self.samples, self.took);
        Document {
            schema: "conclave.bench.failover/1",
            algorithm: plan.row.name,
            topology: plan.row.topology.name(),
            safety: plan.safety,
            nodes: plan.nodes,
            fault: self.fault.clone(),
            trials: args.trials,
            min_ms: min,
            median_ms: median,
            p95_ms: p95,
            max_ms: max,
            samples_ms: &samples.ms,
            eof_median_ms: self.eof.map(|eof| eof.median),
            eof_ms: self.eof.map(|eof| Times::of(eof, &samples.eof_ms)),
            noticed_ms: Times::of(self.noticed, &samples.noticed_ms),
            announced_ms: Times::of(self.announced, &samples.announced_ms),
            watched_ms: self.watched.map(|watched| Times::of(watched, &samples.watched_ms)),
            watchers: args.watchers,
            streams: args.streams,
            watched_rss_kib: samples.watched_rss_kib,
            messages: &samples.messages,
            election_messages: &samples.elections,
            theory: samples.theory,
            connections_max: samples.connections_max,
            persist_ms: self.persist_ms,
            discarded: samples.discarded,
            slowest: samples.slowest.as_ref(),
        }
    }

    fn cells(&self, args: &Args) -> impl Iterator<Item = String> {
        let plan = self.plan;
        let names = [plan.row.name, plan.row.topology.name(), plan.safety.name()].map(String::from);
        let time = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.3} ms"));
        let Summary { min, median, p95, max } = self.took;
        let times = [Some(min), Some(median), Some(p95), Some(max), self.eof.map(|eof| eof.median)].map(time);
        let rest = [plan.nodes.to_string(), self.fault.clone(), args.trials.to_string()];
        let median = |of: &[u64]| middle(of).map_or_else(|| "-".to_owned(), |middle| middle.to_string());
        let (messages, election) = (median(&self.samples.messages), median(&self.samples.elections));
        let theory = self.samples.theory.map_or_else(|| "-".to_owned(), theory::range);
        let cost = [messages, election, theory, self.samples.connections_max.to_string(), time(self.persist_ms)];
        names.into_iter().chain(rest).chain(times).chain(cost)
    }

    /// Lines below the table; all of them for an algorithm that is alone in it.
    fn remarks(&self, args: &Args, alone: bool) -> Vec<String> {
        let in_words = |of: Summary| format!("{:.3} ms, {:.3} to {:.3}", of.median, of.min, of.max);
        let mut lines = Vec::new();
        if alone {
            let noticed = in_words(self.noticed);
            lines.push(format!("the first survivor had left the leader, by its own stamp, after: {noticed}"));
            lines.push(format!("announced by the last survivor, by its own stamp: {}", in_words(self.announced)));
        }
        if let Some(watched) = self.watched {
            let crowd = match args.streams {
                0 => format!("{} watchers", args.watchers),
                streams => format!("{streams} HTTP streams of events"),
            };
            let memory = self.samples.watched_rss_kib.map(|kib| format!("; at most {kib} KiB of memory in a survivor"));
            let took = in_words(watched) + &memory.unwrap_or_default();
            lines.push(format!("the same beside {crowd}, half of which never read: {took}"));
        }
        lines.extend(self.samples.slowest.as_ref().filter(|_| alone).map(Slowest::line));
        let discarded = self.samples.discarded;
        if discarded > 0 {
            lines.push(format!("discarded: {discarded} trials, because members left the leader before the fault"));
        }
        lines
    }
}

fn middle(of: &[u64]) -> Option<u64> {
    let mut sorted = of.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}
