//! `ctl bench failover`: how long a cluster is without a leader.
//!
//! The clock starts before the fault and stops when all survivors have reported the new leader on their event streams.
//! Every stream is awaited, and each event is stamped as it arrives. The stream of a killed leader ends when the kernel
//! has closed its files: those to members first, then the one to this process.

mod course;
mod crowd;
mod machine;
mod show;
mod slowest;
mod subject;

use std::time::{Duration, Instant};

use algorithms::catalog::{self, Row};
use anyhow::Result;
use clap::ValueEnum;
use clap::builder::PossibleValuesParser;
use types::Safety;

use self::subject::Subject;
use super::super::shared_args::{self, TopologyArg};
use super::super::up::Stop;
use super::progress::Progress;
use crate::args::Globals;
use crate::cluster::Plan;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// With several algorithms: the most processes that run at once.
const PROCESSES_MAX: u32 = 64;
const ALL_OF: &str = "all-";

/// Measure the time from a leader's failure until all survivors report its successor
///
/// Runs a cluster of its own in a temporary directory. After each trial the old leader is restarted with its data, and all
/// members agree on it again before the next trial. If members left the leader before the fault, the trial is discarded and
/// repeated. A trial begins when no write to disk of the trial before is under way. EOF is the median time from the SIGKILL
/// until this command read the end of the killed leader's connection. The kernel closes connections to members first, so
/// survivors may have elected by then; a line below the table shows when the first of them had left the leader, which is mostly
/// the kernel's share. Another line shows what the slowest trial waited for, by the members' own ledgers. `all-mesh` measures
/// all algorithms of a mesh: their clusters run at the same time and have a trial in turn, so that a load that comes and goes
/// meets all of them. MESSAGES are those of the survivors, per trial; ELECTION are those of the election that found the
/// successor, and THEORY what that election may cost.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl bench failover
  ctl bench failover --algorithm all-mesh
  ctl bench failover --topology ring --trials 100
  ctl bench failover --fault pause -o json | tail -1 | jq .median_ms")]
pub(crate) struct Args {
    /// The number of members
    #[arg(short = 'n', long = "nodes", value_name = "N", default_value_t = 5, value_parser = shared_args::nodes())]
    nodes: u32,
    /// The election algorithm, or all of a topology: all-mesh, all-ring, all-graph [default: one that fits the topology]
    #[arg(long, value_name = "NAME", value_parser = names(), hide_possible_values = true)]
    algorithm: Option<String>,
    #[command(flatten)]
    topology: TopologyArg,
    /// Who may lead: any member that is elected, or only with the lease of a majority
    #[arg(long, value_name = "SAFETY", default_value = "classic", value_parser = shared_args::safeties())]
    safety: Safety,
    /// Under quorum: what voters do when the leader's connection closes
    #[arg(long, value_name = "WHAT", value_parser = ["wait-lease", "immediate"])]
    on_close: Option<String>,
    /// The fault of the leader
    #[arg(long, value_enum, default_value_t)]
    fault: Fault,
    /// The number of trials
    #[arg(long, value_name = "K", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    trials: u32,
    /// After every trial another one beside this many watchers of the survivors, half of which never read
    #[arg(long, value_name = "W", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=2000))]
    watchers: u32,
    /// The same beside this many HTTP streams of events, half of which are never read, and a tenth as many requests that
    /// never end
    #[arg(long, value_name = "S", default_value_t = 0, conflicts_with = "watchers", value_parser = clap::value_parser!(u32).range(..=2000))]
    streams: u32,
}

impl Args {
    fn has_crowd(&self) -> bool {
        self.watchers + self.streams > 0
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum Fault {
    /// SIGKILL
    #[default]
    Kill,
    /// SIGSTOP: the leader is silent, and its connections stay open
    Pause,
    /// The leader resigns
    StepDown,
    /// The leader hands over to the next best member; needs --safety quorum
    Transfer,
}

pub(crate) async fn run(args: &Args, _: &Globals, output: Output) -> Result<(), Failure> {
    if args.nodes < 2 {
        return Err(Failure::usage("a failover needs a survivor").hint("ctl bench failover -n 2"));
    }
    let rows = rows(args)?;
    if args.fault == Fault::Transfer && args.safety == Safety::Classic {
        return Err(
            Failure::usage("a transfer needs a reign").hint("ctl bench failover --safety quorum --fault transfer")
        );
    }
    let plan = |row: &&'static Row| {
        let (name, on_close) = ("bench".to_owned(), args.on_close.clone());
        Plan { name, safety: args.safety, on_close, ..Plan::new(args.nodes, row) }
    };
    let mut stop = Stop::new()?;
    let mut measured = Vec::new();
    // Clusters that wait for their turn cost next to nothing, but not so if there are hundreds of processes.
    for some in rows.chunks((PROCESSES_MAX / args.nodes).max(1) as usize) {
        let mut subjects = Vec::new();
        let outcome = tokio::select! {
            outcome = measure(some.iter().map(plan), &mut subjects, args) => outcome,
            () = stop.wait() => Err(Failure::new(Exit::Failed, "interrupted")),
        };
        for subject in &mut subjects {
            subject.stop().await;
        }
        outcome?;
        measured.extend(subjects.into_iter().map(Subject::into_result));
    }
    show::show(&measured, args, output)
}

/// All clusters run, and each has a trial in turn. A restart disturbs no trial: it follows when all have had theirs.
async fn measure(
    plans: impl Iterator<Item = Plan>,
    subjects: &mut Vec<Subject>,
    args: &Args,
) -> std::result::Result<(), Failure> {
    for plan in plans {
        subjects.push(Subject::start(plan, args)?);
    }
    let mut progress = Progress::default();
    while subjects.iter().any(|subject| !subject.is_done(args)) {
        for subject in subjects.iter_mut().filter(|subject| !subject.is_done(args)) {
            subject.agree().await?;
        }
        let agreed = Instant::now();
        for subject in subjects.iter_mut().filter(|subject| !subject.is_done(args)) {
            subject.rest(agreed).await;
        }
        let mut took = Vec::new();
        for subject in subjects.iter_mut().filter(|subject| !subject.is_done(args)) {
            took.push(subject.trial(args).await?);
        }
        // Several algorithms take long: each round of trials has its line.
        let line = took.join(", ");
        if subjects.len() > 1 {
            eprintln!("{line}");
        } else {
            progress.say(&line);
        }
        for subject in subjects.iter_mut() {
            subject.restart().await?;
        }
    }
    for subject in subjects {
        subject.look_at_slowest().await;
    }
    Ok(())
}

/// The names of the catalog, and of all algorithms of a topology.
fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(catalog::names().chain(["all-mesh", "all-ring", "all-graph"]))
}

/// One algorithm, or all of a topology that such a cluster can run.
fn rows(args: &Args) -> std::result::Result<Vec<&'static Row>, Failure> {
    let named = args.algorithm.as_deref();
    let Some(all) = named.and_then(|name| name.strip_prefix(ALL_OF)) else {
        let row = Plan::choose(named, args.topology.topology);
        return Ok(vec![row.map_err(|error| Failure::usage(error).hint("ctl algorithms"))?]);
    };
    if let Some(other) = args.topology.topology.filter(|topology| topology.name() != all) {
        let hint = format!("ctl bench failover --algorithm {ALL_OF}{}", other.name());
        return Err(Failure::usage(format!("{ALL_OF}{all} and a {}", other.name())).hint(hint));
    }
    let able = |row: &&Row| args.nodes as usize <= row.max_nodes && row.topology.name() == all;
    Ok(catalog::ROWS.iter().filter(able).collect())
}

/// To the microsecond: finer digits would be noise.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
