//! `ctl up`: a local cluster of real processes, in the foreground.

mod keys;

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use algorithms::{Topology, Wins};
use anyhow::Context;
use client::{Electorate, Observer, Programs, format_duration};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;
use types::Safety;

use self::keys::Enter;
use super::shared_args::{self, AlgorithmArg, LinkArg, TopologyArg, WinsArg};
use crate::args::Globals;
use crate::cluster::{Cluster, Plan, Stray, free_http_ports, free_ports, node_binary, stop_strays, strays};
use crate::failure::{Exit, Failure, remark};
use crate::output::Output;

/// Members start within milliseconds; this is for busy machines.
const PATIENCE: Duration = Duration::from_secs(30);
const LOG_LINES: usize = 5;
/// With --revive a member stays dead for so long: the reaction of the others can be seen.
const DEAD_FOR: Duration = Duration::from_secs(2);
/// How often the logs are looked at.
const LOGS_EVERY: Duration = Duration::from_secs(5);

/// Start a local cluster of real processes and stay in the foreground
///
/// Interrupt (Ctrl-C) to stop all members, also those that were started by hand in this directory. Enter starts members again that
/// have ended. The directory stays: config, secret, a data directory and a log per member, and with them the history.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl up
  ctl up -n 9 --topology ring
  ctl up --revive
  ctl up --preempt false --dir /tmp/other")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Args {
    /// The number of members
    #[arg(short = 'n', long = "nodes", value_name = "N", default_value_t = 5, value_parser = shared_args::nodes())]
    nodes: u32,
    #[command(flatten)]
    algorithm: AlgorithmArg,
    #[command(flatten)]
    topology: TopologyArg,
    /// The links of a graph, by id [default: every member to the next one, the last to the first]
    #[arg(long, value_name = "ID-ID,...", value_delimiter = ',')]
    links: Vec<LinkArg>,
    /// Who may lead: any member that is elected, or only with the lease of a majority
    #[arg(long, value_name = "SAFETY", default_value = "classic", value_parser = shared_args::safeties())]
    safety: Safety,
    /// The directory of config, secret, data and logs
    #[arg(long, value_name = "DIR", default_value = ".conclave")]
    dir: PathBuf,
    #[command(flatten)]
    wins: WinsArg,
    /// May a recovered member with a better id take over from a healthy leader?
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    preempt: bool,
    /// Allow `ctl chaos` to inject faults
    #[arg(long)]
    chaos: bool,
    /// Start members again two seconds after they have ended
    #[arg(long)]
    revive: bool,
    /// Certificates instead of a secret
    #[arg(long)]
    tls: bool,
    /// The first member's port; the other members use the next ones [default: 7401 if those are free, else any]
    #[arg(long, value_name = "PORT")]
    base_port: Option<u16>,
}

#[derive(Serialize)]
struct Started {
    schema: &'static str,
    leader: u32,
    epoch: u64,
    algorithm: &'static str,
    topology: &'static str,
    config: PathBuf,
    members: Vec<Process>,
}

#[derive(Serialize)]
struct Process {
    id: u32,
    address: String,
    http: Option<String>,
    pid: Option<u32>,
}

pub(crate) async fn run(args: &Args, _: &Globals, output: Output) -> Result<(), Failure> {
    let topology: Option<Topology> = args.topology.topology;
    let wins: Option<Wins> = args.wins.wins;
    let row = Plan::choose(args.algorithm.name(), topology).map_err(|e| Failure::usage(e).hint("ctl algorithms"))?;
    let Args { preempt, chaos, tls, .. } = *args;
    let links = args.links.iter().map(|&LinkArg(a, b)| (a, b)).collect();
    let mut plan = Plan { safety: args.safety, wins, preempt, chaos, tls, links, ..Plan::new(args.nodes, row) };
    plan.check_links().map_err(|why| Failure::usage(why).hint("ctl up --topology graph -n 3 --links 1-2,2-3"))?;
    let binary = node_binary().map_err(|error| {
        Failure::from(error).hint("./scripts/build, and start the `ctl` beside it; or ./scripts/install")
    })?;
    let mut stop = Stop::new()?;
    let _lock = lock(&args.dir)?;
    stop_left_behind(&args.dir).await?;
    let ports = free_ports(plan.nodes, args.base_port)
        .map_err(|error| Failure::from(error).hint("another --base-port, or none: then free ports are found"))?;
    plan.http_ports = free_http_ports(plan.nodes, &ports)?;
    let mut cluster = Cluster::prepare(&plan, &args.dir, &ports, binary)?;
    let mut observer = cluster.observer();
    cluster.start_all()?;
    let outcome = tokio::select! {
        outcome = serve(&mut cluster, &mut observer, &plan, args, output) => outcome,
        () = stop.wait() => Ok(()),
    };
    drop(observer);
    let by_hand = started_by_hand(&cluster);
    if output.is_terminal() && !output.is_json() {
        eprintln!("\nstopping {} members", cluster.running() + by_hand.len());
    }
    cluster.stop().await;
    stop_strays(cluster.directory(), &by_hand).await?;
    outcome
}

async fn serve(
    cluster: &mut Cluster,
    observer: &mut Observer,
    plan: &Plan,
    args: &Args,
    output: Output,
) -> Result<(), Failure> {
    let (leader, epoch) = settle(cluster, observer).await?;
    if output.is_json() {
        let members = cluster.endpoints().into_iter().filter_map(|endpoint| {
            let id = endpoint.id?;
            let http = plan.http_ports.get(id as usize - 1).map(|port| format!("127.0.0.1:{port}"));
            Some(Process { id, address: endpoint.address, http, pid: cluster.pid(id) })
        });
        Output::json(&Started {
            schema: "conclave.up/1",
            leader,
            epoch,
            algorithm: plan.row.name,
            topology: plan.row.topology.name(),
            config: cluster.config(),
            members: members.collect(),
        })?;
    } else {
        Output::line(introduction(cluster, plan, args, leader, epoch))?;
    }
    stay(cluster, observer, args.revive, output).await
}

/// Waits until all members agree; if a member ends before that, its log has the reason.
async fn settle(cluster: &mut Cluster, observer: &mut Observer) -> Result<(u32, u64), Failure> {
    tokio::select! {
        agreed = tokio::time::timeout(PATIENCE, observer.until_all_agree()) => agreed.map_err(|_| {
            let verdict = observer.verdict(&Electorate::Anybody);
            Failure::new(Exit::NoLeader, format!("no leader after {}", format_duration(PATIENCE)))
                .because(format!("members are {verdict}"))
                .hint(format!("look at the logs: {}/n*/log", cluster.directory().display()))
        }),
        (id, status) = cluster.next_exit() => {
            let exit = if status.code() == Some(2) { Exit::Usage } else { Exit::Failed };
            Err(Failure::new(exit, format!("member {id} ended while starting ({status})"))
                .because(cluster.log_tail(id, LOG_LINES))
                .hint(format!("start it alone to see more: {}", cluster.command_line(id))))
        }
    }
}

fn introduction(cluster: &Cluster, plan: &Plan, args: &Args, leader: u32, epoch: u64) -> String {
    let row = plan.row;
    let mut text = format!(
        "{} leads {} members in epoch {epoch} ({}, {}, {})\n\n",
        leader,
        plan.nodes,
        row.name,
        row.topology.name(),
        plan.safety
    );
    for endpoint in cluster.endpoints() {
        let id = endpoint.id.unwrap_or_default();
        let pid = cluster.pid(id).unwrap_or_default();
        let log = args.dir.join(format!("n{id}")).join("log");
        let _ = writeln!(text, "  {id:>3}  {}  pid {pid:<7} {}", endpoint.address, log.display());
    }
    let ctl = &Programs::called().ctl;
    let config = match args.dir.to_str() {
        Some(".conclave") => String::new(),
        _ => format!(" --config {}", cluster.config().display()),
    };
    let pid = cluster.pid(leader).unwrap_or_default();
    let token = args.dir.join("http.token");
    let dashboard = plan.http_ports.first().map_or_else(String::new, |port| {
        format!(
            "Dashboard, from any member: http://127.0.0.1:{port}/ (the token for orders is in {})\n\n",
            token.display()
        )
    });
    text + &format!(
        "\nTry, in another terminal:\n  {ctl}{config} leader\n  kill -9 {pid}    # the leader; then ask again\n  \
         {ctl}{config} watch\n\n{dashboard}Enter starts dead members again, Ctrl-C stops them all."
    )
}

/// Shows changes until interrupted. Members that have ended are started again by Enter, or all of them.
async fn stay(cluster: &mut Cluster, observer: &mut Observer, revive: bool, output: Output) -> Result<(), Failure> {
    let mut shown = String::new();
    let mut enter = Enter::new();
    let mut logs = tokio::time::interval(LOGS_EVERY);
    let mut revive_at: Option<Instant> = None;
    loop {
        let line = status_line(observer);
        if line != shown && !output.is_json() {
            show_status(&line, output)?;
            shown = line;
        }
        let due = async {
            match revive_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = observer.next() => {}
            () = enter.pressed() => { shown.clear(); start_dead(cluster)?; }
            () = due => { revive_at = None; start_dead(cluster)?; }
            _ = logs.tick() => cluster.bound_logs(),
            (id, status) = cluster.next_exit() => {
                let begin = if output.is_terminal() { "\r\x1b[K" } else { "" };
                let next = match (revive, enter.can_come() && output.is_terminal()) {
                    (true, _) => format!("it is started again in {}", format_duration(DEAD_FOR)),
                    (false, true) => format!("Enter starts it again, or: {}", cluster.command_line(id)),
                    (false, false) => format!("to start it again: {}", cluster.command_line(id)),
                };
                eprintln!("{begin}member {id} ended ({status}); {next}");
                observer.forget(id as usize - 1);
                shown.clear();
                if revive {
                    revive_at.get_or_insert(Instant::now() + DEAD_FOR);
                } else if cluster.running() == 0 && !enter.can_come() && started_by_hand(cluster).is_empty() {
                    return Err(Failure::new(Exit::Failed, "all members have ended").hint("ctl up"));
                }
            }
        }
    }
}

/// From one look at the members: its parts cannot contradict each other.
fn status_line(observer: &Observer) -> String {
    let verdict = observer.verdict(&Electorate::Anybody);
    let words = match verdict.leader() {
        Some((leader, epoch)) => format!("{leader} leads in epoch {epoch}"),
        None => "no agreed leader".to_owned(),
    };
    let (answer, all) = (observer.views().len(), observer.endpoints().len());
    format!("{verdict}: {words}; {answer} of {all} members answer")
}

/// Starts the members that do not run.
fn start_dead(cluster: &mut Cluster) -> Result<(), Failure> {
    let by_hand: Vec<u32> = started_by_hand(cluster).iter().map(|stray| stray.id).collect();
    let dead = |id: &u32| cluster.pid(*id).is_none() && !by_hand.contains(id);
    let dead: Vec<u32> = cluster.ids().filter(dead).collect();
    for id in dead {
        cluster.start(id)?;
    }
    Ok(())
}

/// The members of this cluster that another process started. A killed child may not be reaped yet when the same member runs
/// again, started by hand.
fn started_by_hand(cluster: &Cluster) -> Vec<Stray> {
    let is_child = |stray: &Stray| cluster.pid(stray.id).is_some_and(|child| stray.may_be(child));
    strays(cluster.directory()).into_iter().filter(|stray| !is_child(stray)).collect()
}

/// Members that still run although no `ctl up` does: they have the data and the ports of those that are to be started.
async fn stop_left_behind(directory: &Path) -> Result<(), Failure> {
    let found = strays(directory);
    if !found.is_empty() {
        let ids: Vec<String> = found.iter().map(|stray| stray.id.to_string()).collect();
        remark(format!("stopping what runs in {} already: member {}", directory.display(), ids.join(", ")));
        stop_strays(directory, &found).await?;
    }
    Ok(())
}

/// One updated line on a terminal, a line per change elsewhere.
fn show_status(line: &str, output: Output) -> Result<(), Failure> {
    if !output.is_terminal() {
        return Ok(Output::line(line)?);
    }
    let mut out = std::io::stdout().lock();
    write!(out, "\r\x1b[K{line}")?;
    Ok(out.flush()?)
}

/// Two clusters must not share a directory. Held until this process ends.
fn lock(directory: &PathBuf) -> Result<File, Failure> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let path = directory.join("up.lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.with_context(|| format!("cannot write {}", path.display()))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        Failure::new(Exit::Failed, format!("another `ctl up` runs in {}", directory.display()))
            .hint("ctl status, or another --dir")
    })?;
    Ok(file)
}

/// The signals that end a foreground cluster.
pub(super) struct Stop {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Stop {
    /// From now on the signals no longer end the process by themselves.
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Stop {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    pub(super) async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
