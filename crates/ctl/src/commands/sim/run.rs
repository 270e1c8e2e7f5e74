//! `ctl sim run`: one election or the sections of one mutual exclusion, counted exactly.

use algorithms::Uid;
use algorithms::theory::Range;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use sim::{Experiment, KindCount, Report};

use super::super::theory;
use super::mutex::{self, MutexArgs};
use super::ring::RingArgs;
use crate::failure::{Exit, Failure};
use crate::output::{Output, Table};
use client::json::Theory;

/// Run one election, or a mutual exclusion under a workload, and count its messages
///
/// Ids are in clockwise order, which is the sending direction of unidirectional algorithms. A node that crashes before
/// the start stays in the view of all nodes.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl sim run --ids 5,3,8,1
  ctl sim run --nodes 1000 --order decreasing --schedule random --seed 7 --trials 10 -o json
  ctl sim run --nodes 5 --crash 5 --initiators 1
  ctl sim run --algorithm chang-roberts --ids 1,2,3,4,5 --crash 5 --repair
  ctl sim run --algorithm echo --graph grid:4x4
  ctl sim run --algorithm dfs --links 1-2,2-3,3-1 --initiators 3
  ctl sim run --algorithm ricart-agrawala --nodes 5 --requests 1000 --contention random --schedule random
  ctl sim run --algorithm lamport --nodes 5 --no-fifo
  ctl sim run --algorithm token-ring --nodes 5 --duplicate-token

Exit codes: 0 right, 2 cannot be run, 4 stuck because of a crash that the algorithm does not cover, 7 an invariant is broken.")]
pub(crate) struct Args {
    #[command(flatten)]
    ring: RingArgs,
    #[command(flatten)]
    mutex: MutexArgs,
    /// The number of runs, each with the next seed
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    trials: u64,
    /// Refuse a run that will send more messages than this
    #[arg(long, value_name = "MESSAGES", default_value_t = 1_000_000_000)]
    budget: u64,
}

/// More trials than this are not printed one by one.
const PRINTED_TRIALS: u64 = 10;
/// More active nodes are counted.
const PRINTED_ACTIVE: usize = 20;
/// The ids of larger runs are left out of the JSON.
const PRINTED_IDS: usize = 10_000;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    algorithm: &'static str,
    nodes: usize,
    seed: u64,
    schedule: &'static str,
    initiators: String,
    ids: Option<Vec<String>>,
    crashes: Vec<Crash>,
    leader: Option<u32>,
    messages: Messages<'a>,
    rounds: Option<u64>,
    steps: u64,
    wall_ms: f64,
    theory: Theory,
    /// Of exactly this run.
    expectation: Option<client::json::Messages<client::json::Range>>,
    /// Of an algorithm that keeps a list of the active nodes.
    active: Option<Vec<String>>,
    stuck: Option<&'a str>,
    violations: &'a [String],
}

#[derive(Serialize)]
struct Crash {
    id: u32,
    before_round: u64,
    /// The run ended before that round.
    after_end: bool,
}

#[derive(Serialize)]
struct Messages<'a> {
    total: u64,
    election: u64,
    announcement: u64,
    by_kind: ByKind<'a>,
}

/// An object with a key per kind, in the algorithm's own order.
pub(super) struct ByKind<'a>(pub(super) &'a [KindCount]);

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
    if let Some(row) = args.mutex.row(&args.ring)? {
        return mutex::run(row, &args.ring, &args.mutex, args.trials, output);
    }
    let (mut broken, mut stuck) = (Vec::new(), None);
    let mut tally = Tally::default();
    for nth in 0..args.trials {
        let experiment = args.ring.experiment(nth)?;
        within_budget(&experiment, args.budget)?;
        let report = experiment.run().map_err(|why| Failure::usage(why).hint("ctl algorithms"))?;
        if output.is_json() {
            Output::json(&document(&report, &experiment, args))?;
        } else if args.trials <= PRINTED_TRIALS {
            Output::line(text(&report, args, output))?;
        }
        stuck = stuck.or_else(|| report.stuck.as_ref().map(|why| format!("seed {}: {why}", report.seed)));
        tally.add(&report);
        broken.extend(report.violations.iter().map(|what| format!("seed {}: {what}", report.seed)));
    }
    if args.trials > 1 && !output.is_json() {
        let gap = if args.trials <= PRINTED_TRIALS { "\n" } else { "" };
        Output::line(format!("{gap}{}", tally.text()))?;
    }
    verdict(&broken, stuck)
}

pub(super) fn verdict(broken: &[String], stuck: Option<String>) -> Result<(), Failure> {
    match stuck {
        _ if !broken.is_empty() => {
            Err(Failure::new(Exit::Invariant, "an invariant is broken").because(broken.join("\n")))
        }
        Some(why) => Err(Failure::new(Exit::NoLeader, "no node was elected that all know").because(why)),
        None => Ok(()),
    }
}

fn within_budget(experiment: &Experiment, budget: u64) -> Result<(), Failure> {
    let likely = experiment.likely_messages();
    if likely <= budget as f64 {
        return Ok(());
    }
    let what = format!("about {likely:.1e} messages, the budget is {:.1e}", budget as f64);
    Err(Failure::usage(what).hint(format!("fewer --nodes, or --budget {likely:.0}")))
}

fn document<'a>(report: &'a Report, experiment: &Experiment, args: &Args) -> Document<'a> {
    let messages = &report.messages;
    let late = |uid: Uid| report.crashes_after_end.iter().any(|crash| crash.0 == uid);
    let crash = |&(at, before_round): &(usize, u64)| {
        let uid = experiment.ids[at];
        Crash { id: uid.id.0, before_round, after_end: late(uid) }
    };
    let few = experiment.ids.len() <= PRINTED_IDS;
    let names = |uids: &[Uid]| uids.iter().map(ToString::to_string).collect();
    Document {
        schema: "conclave.sim/1",
        algorithm: report.algorithm,
        nodes: report.nodes,
        seed: report.seed,
        schedule: report.schedule.name(),
        initiators: args.ring.initiators.to_string(),
        ids: few.then(|| names(&experiment.ids)),
        crashes: experiment.crashes.iter().map(crash).collect(),
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
        theory: report.theory.into(),
        expectation: report.expectation.clone().map(Into::into),
        active: report.active.as_deref().filter(|_| few).map(names),
        stuck: report.stuck.as_deref(),
        violations: &report.violations,
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
    let alive = if report.crashes { ", if none of them crashes" } else { "" };
    let bounds = theory::in_words(&report.theory.into());
    let mut notes = vec![format!("election messages of {nodes} nodes in theory{alive}: {bounds}")];
    notes.extend(args.ring.repaired(report.nodes));
    notes.extend(report.active.as_deref().map(active_list));
    let late = |(uid, round): &(Uid, u64)| format!("{uid} was to crash before round {round}: the run was over by then");
    notes.extend(report.crashes_after_end.iter().map(late));
    notes.extend(report.stuck.clone());
    format!("{head}\n{}\n\n{}", table.render(output), notes.join("\n"))
}

/// The list that every node keeps.
fn active_list(uids: &[Uid]) -> String {
    let mut names: Vec<String> = uids.iter().take(PRINTED_ACTIVE).map(ToString::to_string).collect();
    if uids.len() > PRINTED_ACTIVE {
        names.push(format!("... ({} in all)", uids.len()));
    }
    format!("active list: {}", names.join(", "))
}

fn range(range: Option<Range>) -> String {
    range.map_or_else(|| "-".to_owned(), |range| range.to_string())
}
