//! `ctl bench failover`: how long a cluster is without a leader.
//!
//! The clock starts before the fault and stops when all survivors have reported the new leader on their event streams.
//! Every stream is awaited, and each event is stamped as it arrives. The stream of a killed leader ends when the kernel
//! has ended its process; no member can notice its end earlier.

mod course;
mod crowd;
mod machine;
mod show;
mod slowest;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use algorithms::catalog::{self, Row};
use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use clap::builder::PossibleValuesParser;
use client::history::{Ledgers, MemberLedger};
use client::{Client, MemberStatus, Observer, ask_all, format_duration};
use types::Safety;

use self::course::{Course, Ending};
use self::crowd::Crowd;
use self::slowest::Slowest;
use super::super::shared_args::{self, TopologyArg};
use super::super::up::Stop;
use super::settle::{PATIENCE, quiet, settle};
use crate::args::Globals;
use crate::cluster::{Cluster, Plan, Scratch, free_ports_elsewhere, node_binary};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// The most spoiled trials; more are allowed if more trials were requested.
const DISCARDS_MAX: u32 = 10;

/// With several algorithms: how many trials one has before the next one's turn.
const TURN: u32 = 5;
const ALL_OF: &str = "all-";

/// Measure the time from a leader's failure until all survivors report its successor
///
/// Runs a cluster of its own in a temporary directory. After each trial the old leader is restarted with its data, and
/// all members agree on it again before the next trial. If members left the leader before the fault, the trial is
/// discarded and repeated. A trial begins when no write to disk of the trial before is under way. EOF is the median
/// time from the SIGKILL until the killed leader's connection to this command ended: the kernel's share, which no
/// failover can undercut. The line below the table shows what the slowest trial waited for, by the members' own
/// ledgers. `all-mesh` measures all algorithms of a mesh, one cluster at a time: they take turns of a few trials each, so that a
/// load that comes and goes meets all of them.
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

/// The results of the trials.
#[derive(Debug, Default)]
struct Samples {
    ms: Vec<f64>,
    /// From the fault to the end of the old leader's stream; for killed leaders only.
    eof_ms: Vec<f64>,
    /// From the fault to the last survivor's announcement of the new leader, by the members' stamps.
    announced_ms: Vec<f64>,
    /// The same in trials beside watchers, half of which never read.
    watched_ms: Vec<f64>,
    messages: Vec<u64>,
    connections_max: usize,
    persist_us: Vec<u64>,
    discarded: u32,
    slowest: Option<Slowest>,
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
    let plan = |row| {
        let (name, on_close) = ("bench".to_owned(), args.on_close.clone());
        Plan { name, safety: args.safety, on_close, ..Plan::new(args.nodes, row) }
    };
    let mut all: Vec<(Plan, Samples)> = rows.into_iter().map(|row| (plan(row), Samples::default())).collect();
    let mut stop = Stop::new()?;
    let turn = if all.len() == 1 { args.trials } else { TURN };
    let mut left = args.trials;
    while left > 0 {
        let trials = turn.min(left);
        left -= trials;
        for (plan, samples) in &mut all {
            samples.add(measure(plan, args, trials, &mut stop).await?);
        }
    }
    show::show(&all, args, output)
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

/// So many trials with a cluster of their own.
async fn measure(plan: &Plan, args: &Args, count: u32, stop: &mut Stop) -> std::result::Result<Samples, Failure> {
    let binary =
        node_binary().map_err(|error| Failure::from(error).hint("build it: cargo build --release -p node -p ctl"))?;
    let scratch = Scratch::new("bench")?;
    let mut cluster = Cluster::prepare(plan, scratch.path(), &free_ports_elsewhere(args.nodes)?, binary)?;
    cluster.start_all()?;
    let outcome = tokio::select! {
        outcome = trials(&mut cluster, plan, args, count) => outcome.map_err(Failure::from),
        () = stop.wait() => Err(Failure::new(Exit::Failed, "interrupted")),
    };
    cluster.stop().await;
    outcome
}

impl Samples {
    fn add(&mut self, more: Samples) {
        self.ms.extend(more.ms);
        self.eof_ms.extend(more.eof_ms);
        self.announced_ms.extend(more.announced_ms);
        self.watched_ms.extend(more.watched_ms);
        self.messages.extend(more.messages);
        self.connections_max = self.connections_max.max(more.connections_max);
        self.persist_us.extend(more.persist_us);
        self.discarded += more.discarded;
        let both = self.slowest.take().into_iter().chain(more.slowest);
        self.slowest = both.max_by(|a, b| a.ms.total_cmp(&b.ms));
    }
}

async fn trials(cluster: &mut Cluster, plan: &Plan, args: &Args, count: u32) -> Result<Samples> {
    let progress = std::io::stderr().is_terminal();
    let mut observer = cluster.observer();
    let mut samples = Samples::default();
    let mut slowest: Option<(u32, Course, Ending)> = None;
    let mut restarted = Instant::now();
    let mut trial = 1;
    while trial <= count || (args.watchers > 0 && samples.watched_ms.len() < samples.ms.len()) {
        let leader = settle(cluster, &mut observer, plan.best()).await;
        let leader = leader.with_context(|| format!("before trial {trial}"))?;
        quiet(cluster, restarted).await;
        let before = statuses(cluster, leader).await;
        if trial == 1 {
            let connections = |status: &MemberStatus| status.peers.iter().filter(|peer| peer.connected).count();
            samples.connections_max = before.iter().map(connections).max().unwrap_or(0);
        }
        // Side by side: every trial without watchers is followed by one with them.
        let watched = args.watchers > 0 && samples.watched_ms.len() < samples.ms.len();
        let crowd = if watched { Some(Crowd::gather(cluster, leader, args.watchers).await?) } else { None };
        let struck = strike(cluster, &mut observer, leader, args.fault).await;
        let Some((course, ending)) = struck.with_context(|| format!("trial {trial} of {count}"))? else {
            samples.discarded += 1;
            if samples.discarded > DISCARDS_MAX.max(count) {
                bail!("{} trials were discarded: the members changed their leader before the fault", samples.discarded);
            }
            restarted = begin_anew(cluster, &mut observer, leader).await?;
            continue;
        };
        if crowd.is_some() {
            samples.watched_ms.push(milliseconds(ending.announced));
            restarted = begin_anew(cluster, &mut observer, leader).await?;
            continue;
        }
        let took = milliseconds(ending.last.after);
        samples.ms.push(took);
        samples.announced_ms.push(milliseconds(ending.announced));
        samples.eof_ms.extend(course.eof.map(milliseconds));
        let after = statuses(cluster, leader).await;
        samples.messages.push(sent(&after).saturating_sub(sent(&before)));
        samples.persist_us.extend(after.iter().filter_map(|status| status.persist_us));
        if progress {
            eprint!("\r\x1b[K{} {trial}/{count}: {took:.3} ms", plan.row.name);
        }
        if slowest.as_ref().is_none_or(|(_, _, slowest)| slowest.last.after < ending.last.after) {
            slowest = Some((trial, course, ending));
        }
        restarted = begin_anew(cluster, &mut observer, leader).await?;
        trial += 1;
    }
    if progress {
        eprint!("\r\x1b[K");
    }
    if let Some((trial, course, ending)) = &slowest {
        samples.slowest = Some(Slowest::of(*trial, course, ending, &ledgers(cluster).await));
    }
    Ok(samples)
}

/// Also after a pause or a resignation: a new process stands for election at once.
async fn begin_anew(cluster: &mut Cluster, observer: &mut Observer, leader: u32) -> Result<Instant> {
    cluster.restart(leader).await?;
    observer.forget(leader as usize - 1);
    Ok(Instant::now())
}

/// The ledgers of all members that answer.
async fn ledgers(cluster: &Cluster) -> Ledgers {
    let answers = client::ask_ledgers(&cluster.endpoints(), cluster.settings(), PATIENCE).await;
    let pages = answers.into_iter().filter_map(|answer| answer.result.ok());
    let members = pages.map(|(status, page)| MemberLedger::new(status.id, page));
    Ledgers { members: members.collect(), ..Ledgers::default() }
}

/// The status of all members but the leader, which may be dead.
async fn statuses(cluster: &Cluster, leader: u32) -> Vec<MemberStatus> {
    let others: Vec<_> = cluster.endpoints().into_iter().filter(|endpoint| endpoint.id != Some(leader)).collect();
    let answers = ask_all(&others, cluster.settings(), PATIENCE).await;
    answers.into_iter().filter_map(|answer| answer.result.ok()).collect()
}

fn sent(statuses: &[MemberStatus]) -> u64 {
    statuses.iter().map(|status| status.election_messages).sum()
}

/// One fault, until the last survivor reported the successor. `None`: the members changed their leader before the
/// fault, so the trial does not measure it.
async fn strike(
    cluster: &Cluster,
    observer: &mut Observer,
    old: u32,
    fault: Fault,
) -> Result<Option<(Course, Ending)>> {
    let at = old as usize - 1;
    // The handshake is not a part of a resignation.
    let mut leader = match fault {
        Fault::StepDown | Fault::Transfer => {
            Some(Client::connect(&cluster.endpoints()[at].address, cluster.settings()).await?)
        }
        Fault::Kill | Fault::Pause => None,
    };
    let lives = matches!(fault, Fault::StepDown | Fault::Transfer);
    let endpoints = observer.endpoints().len();
    let survivors: Vec<usize> = (0..endpoints).filter(|&other| other != at || lives).collect();
    // Takes the events that have arrived: there is no fault if the leader leads no more or its stream is lost.
    while tokio::time::timeout(Duration::ZERO, observer.next()).await.is_ok() {}
    let follows = |at: usize| observer.view(at).is_some_and(|view| view.leader == Some(old));
    if !(0..endpoints).all(follows) {
        return Ok(None);
    }
    let mut course = Course::begin(old, survivors, endpoints);
    match (fault, &mut leader) {
        (Fault::Kill, _) => cluster.kill(old)?,
        (Fault::Pause, _) => cluster.pause(old)?,
        (Fault::StepDown, Some(leader)) => leader.step_down().await?,
        (Fault::Transfer, Some(leader)) => leader.transfer(if old == 1 { 2 } else { old - 1 }).await?,
        (Fault::StepDown | Fault::Transfer, None) => unreachable!("connected above"),
    }
    let ended = async {
        loop {
            course.take(&observer.next().await);
            if let Some(ending) = course.ending()
                && (fault != Fault::Kill || course.eof.is_some())
            {
                return ending;
            }
        }
    };
    let ending = tokio::time::timeout(PATIENCE, ended).await;
    course.stop();
    let ending = ending.map_err(|_| anyhow!("no successor after {}", format_duration(PATIENCE)))?;
    Ok((!course.is_spoiled()).then_some((course, ending)))
}

/// To the microsecond: finer digits would be noise.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
