//! `ctl sim run`: one election, counted exactly.

use algorithms::theory::Range;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use sim::{KindCount, Report};

use super::super::theory;
use super::ring::RingArgs;
use crate::failure::{Exit, Failure};
use crate::output::{Output, Table};
use client::json::Theory;

/// Run one election of the bare algorithm and count its messages
///
/// Ids are in clockwise order, which is the sending direction of unidirectional algorithms. A node that crashes before
/// the start stays in the view of all nodes.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl sim run --ids 5,3,8,1
  ctl sim run --nodes 1000 --order decreasing --schedule random --seed 7 --trials 10 -o json
  ctl sim run --nodes 5 --crash 5 --initiators 1

Exit codes: 0 right, 2 cannot be run, 7 an invariant is broken.")]
pub(crate) struct Args {
    #[command(flatten)]
    ring: RingArgs,
    /// The number of runs, each with the next seed
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    trials: u64,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    algorithm: &'static str,
    nodes: usize,
    seed: u64,
    schedule: &'static str,
    initiators: String,
    leader: Option<u32>,
    messages: Messages<'a>,
    rounds: Option<u64>,
    steps: u64,
    wall_ms: f64,
    theory: Theory,
}

#[derive(Serialize)]
struct Messages<'a> {
    total: u64,
    election: u64,
    announcement: u64,
    by_kind: ByKind<'a>,
}

/// An object with a key per kind, in the algorithm's own order.
struct ByKind<'a>(&'a [KindCount]);

impl Serialize for ByKind<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for kind in self.0 {
            map.serialize_entry(kind.name, &kind.count)?;
        }
        map.end()
    }
}

/// All trials together.
#[derive(Default)]
struct Tally {
    trials: u64,
    sum: u64,
    min: Option<u64>,
    max: Option<u64>,
    mean_in_theory: Option<f64>,
}

impl Tally {
    fn add(&mut self, report: &Report) {
        let messages = report.messages.election;
        self.trials += 1;
        self.sum += messages;
        self.min = Some(self.min.map_or(messages, |min| min.min(messages)));
        self.max = self.max.max(Some(messages));
        self.mean_in_theory = report.theory.mean;
    }

    fn text(&self) -> String {
        let mean = self.sum as f64 / self.trials as f64;
        let theory = self.mean_in_theory.map_or_else(String::new, |theory| {
            format!("; theory's mean over all orders is {theory:.1}, deviation {:+.2} %", (mean / theory - 1.0) * 100.0)
        });
        let (min, max) = (self.min.unwrap_or(0), self.max.unwrap_or(0));
        format!("{} trials: election messages {min} to {max}, mean {mean:.1}{theory}", self.trials)
    }
}

pub(crate) fn run(args: &Args, output: Output) -> Result<(), Failure> {
    let mut broken = Vec::new();
    let mut tally = Tally::default();
    for nth in 0..args.trials {
        let experiment = args.ring.experiment(nth)?;
        let report = experiment.run().map_err(|why| Failure::usage(why).hint("ctl algorithms"))?;
        if output.is_json() {
            Output::json(&document(&report, args))?;
        } else {
            Output::line(text(&report, args, output))?;
        }
        tally.add(&report);
        broken.extend(report.violations.iter().map(|what| format!("seed {}: {what}", report.seed)));
    }
    if args.trials > 1 && !output.is_json() {
        Output::line(format!("\n{}", tally.text()))?;
    }
    if broken.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Exit::Invariant, "an invariant is broken").because(broken.join("\n")))
}

fn document<'a>(report: &'a Report, args: &Args) -> Document<'a> {
    let messages = &report.messages;
    Document {
        schema: "conclave.sim/1",
        algorithm: report.algorithm,
        nodes: report.nodes,
        seed: report.seed,
        schedule: report.schedule.name(),
        initiators: args.ring.initiators.to_string(),
        leader: report.leader.map(|uid| uid.id.0),
        messages: Messages {
            total: messages.total,
            election: messages.election,
            announcement: messages.announcement,
            by_kind: ByKind(&messages.by_kind),
        },
        rounds: report.rounds,
        steps: report.steps,
        wall_ms: (report.wall.as_secs_f64() * 1e6).round() / 1e3,
        theory: theory::bounds(report.theory),
    }
}

/// Contains no times: the same seed prints the same text.
fn text(report: &Report, args: &Args, output: Output) -> String {
    let leader = report.leader.map_or_else(|| "nobody".to_owned(), |uid| uid.to_string());
    let Report { algorithm, nodes, seed, schedule, decided, steps, .. } = report;
    let head = format!(
        "{algorithm}, {nodes} nodes, seed {seed}, schedule {schedule}, initiators {}\n\
         leader {leader}, known to {decided}; {}{steps} steps\n",
        args.ring.initiators,
        report.rounds.map_or_else(String::new, |rounds| format!("{rounds} rounds, ")),
    );
    let expectation = report.expectation.as_ref();
    let mut table = Table::new(&["MESSAGES", ">COUNT", ">THEORY (THIS RUN)"]);
    for kind in &report.messages.by_kind {
        let known = expectation.and_then(|e| e.kinds.iter().find(|(name, _)| *name == kind.name)).map(|(_, r)| *r);
        let name = if kind.announcement { format!("{} (announcement)", kind.name) } else { kind.name.to_owned() };
        table.plain([name, kind.count.to_string(), range(known)]);
    }
    let sums = [
        ("election", report.messages.election, expectation.map(|e| e.election)),
        ("announcement", report.messages.announcement, expectation.map(|e| e.announcement)),
        ("total", report.messages.total, None),
    ];
    for (name, count, theory) in sums {
        table.plain([format!("= {name}"), count.to_string(), range(theory)]);
    }
    let theory =
        format!("election messages of {nodes} nodes in theory: {}", theory::in_words(&theory::bounds(report.theory)));
    format!("{head}\n{}\n\n{theory}", table.render(output))
}

fn range(range: Option<Range>) -> String {
    match range {
        None => "-".to_owned(),
        Some(Range { min, max }) if min == max => min.to_string(),
        Some(Range { min, max }) => format!("{min}..{max}"),
    }
}
