//! `ctl bench locks`: how many times per second locks are taken and released, and how long that takes.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use client::Session;
use serde::Serialize;
use types::Safety;

use super::super::shared_args;
use super::super::up::Stop;
use super::clerk_failover::{self, Failover};
use super::progress::Progress;
use super::settle::settle;
use crate::cluster::{Cluster, Plan, Scratch, free_ports_elsewhere, node_binary};
use crate::failure::{Exit, Failure};
use crate::output::{Output, Table};

pub(super) const TTL: Duration = Duration::from_secs(10);
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// If two members stand in the first election, the winner waits for so long before it grants locks.
const LOCKS: &str = "\n[locks]\nmax_ttl = \"10s\"\n";
const CLIENTS: [u32; 3] = [1, 16, 256];

/// Measure locks: taken and released per second, and the time from the request to the grant
///
/// Runs clusters of its own in a temporary directory, encrypted and then in clear. Each client is a session with a connection of
/// its own and takes and releases a lock as fast as it can: one lock for all of them, and then each its own lock. The clients
/// run in this process, on the same machine as the members, and take processor time from the members.
///
/// Then kills the leader while sessions hold a lock each, and measures the time to the first grant of the next leader, and to
/// the moment at which the last of the sessions is attached to it.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl bench locks
  ctl bench locks --clients 64 --same --seconds 10 -o json")]
pub(crate) struct Args {
    /// The number of members
    #[arg(short = 'n', long = "nodes", value_name = "N", default_value_t = 3, value_parser = shared_args::nodes())]
    nodes: u32,
    /// Only this number of clients [default: 1, 16 and 256]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    clients: Option<u32>,
    /// Only one lock for all clients
    #[arg(long, conflicts_with = "different")]
    same: bool,
    /// Only a lock of its own for each client
    #[arg(long)]
    different: bool,
    /// Only connections of this kind [default: both]
    #[arg(long, value_name = "KIND", value_enum)]
    connections: Option<Connections>,
    /// The length of each measurement in seconds
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// How often the leader is killed for the times of a failover
    #[arg(long, value_name = "K", default_value_t = 5)]
    failovers: u32,
    /// The number of sessions that hold a lock when it is killed
    #[arg(long, value_name = "N", default_value_t = 256)]
    holders: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Connections {
    Encrypted,
    /// With `insecure = true` in the config
    Clear,
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    nodes: u32,
    seconds: u32,
    results: Vec<Outcome>,
    failovers: Vec<Failover>,
}

#[derive(Serialize)]
struct Outcome {
    encrypted: bool,
    clients: u32,
    /// One lock for all clients.
    same: bool,
    /// Lock and unlock, per second, of all clients together.
    pairs_per_s: f64,
    /// From the request to the grant.
    p50_us: f64,
    p99_us: f64,
}

pub(crate) async fn run(args: &Args, output: Output) -> Result<(), Failure> {
    let binary =
        node_binary().map_err(|error| Failure::from(error).hint("build it: cargo build --release -p node -p ctl"))?;
    let row = Plan::choose(None, None).map_err(Failure::usage)?;
    let mut stop = Stop::new()?;
    let (mut results, mut failovers) = (Vec::new(), Vec::new());
    let kinds = [Connections::Encrypted, Connections::Clear];
    for kind in kinds.into_iter().filter(|kind| args.connections.is_none_or(|only| only == *kind)) {
        let clear = kind == Connections::Clear;
        let plan = Plan { name: "bench".to_owned(), safety: Safety::Quorum, clear, ..Plan::new(args.nodes, row) };
        let scratch = Scratch::new("bench")?;
        let ports = free_ports_elsewhere(args.nodes)?;
        let mut cluster = Cluster::prepare(&plan, scratch.path(), &ports, binary.clone())?;
        let config = fs::read_to_string(cluster.config())?;
        fs::write(cluster.config(), config + LOCKS)?;
        cluster.start_all()?;
        let outcome = tokio::select! {
            outcome = measure(&mut cluster, args, clear, (&mut results, &mut failovers)) => outcome.map_err(Failure::from),
            () = stop.wait() => Err(Failure::new(Exit::Failed, "interrupted")),
        };
        cluster.stop().await;
        outcome?;
    }
    show(args, results, failovers, output)
}

async fn measure(
    cluster: &mut Cluster,
    args: &Args,
    clear: bool,
    (results, failovers): (&mut Vec<Outcome>, &mut Vec<Failover>),
) -> Result<()> {
    settle(cluster, &mut cluster.observer(), None).await?;
    let mut progress = Progress::default();
    let counts = args.clients.map_or_else(|| CLIENTS.to_vec(), |clients| vec![clients]);
    for same in [true, false].into_iter().filter(|same| !(*same && args.different || !*same && args.same)) {
        for &clients in &counts {
            let time = Duration::from_secs(args.seconds.into());
            let what = if same { "on one lock" } else { "on a lock each" };
            let how = if clear { "in clear" } else { "encrypted" };
            progress.say(&format!("{clients} clients {what}, {how}: {} s", args.seconds));
            let (mut latencies, elapsed) = race(cluster, clients, same, time).await?;
            latencies.sort_unstable();
            let rank = |part: usize| latencies.get(latencies.len() * part / 100).copied().unwrap_or_default();
            let micros = |time: Duration| (time.as_secs_f64() * 1e7).round() / 10.0;
            results.push(Outcome {
                encrypted: !clear,
                clients,
                same,
                pairs_per_s: (latencies.len() as f64 / elapsed.as_secs_f64()).round(),
                p50_us: micros(rank(50)),
                p99_us: micros(rank(99)),
            });
        }
    }
    if args.failovers > 0 && args.nodes > 2 {
        failovers.push(clerk_failover::failovers(cluster, (args.failovers, args.holders), !clear).await?);
    }
    Ok(())
}

/// All clients begin when all have a session. Returns the time of each grant.
async fn race(cluster: &Cluster, clients: u32, same: bool, time: Duration) -> Result<(Vec<Duration>, Duration)> {
    let mut sessions = Vec::new();
    for _ in 0..clients {
        let opening = Session::open_within(cluster.endpoints(), cluster.settings(), TTL, PATIENCE);
        sessions.push(opening.await.context("a session")?);
    }
    let over = Arc::new(AtomicBool::new(false));
    let begun = Instant::now();
    let mut runs = Vec::new();
    for (number, session) in sessions.into_iter().enumerate() {
        let name = if same { "bench".to_owned() } else { format!("bench-{number}") };
        runs.push(tokio::spawn(repeat(session, name, Arc::clone(&over))));
    }
    tokio::time::sleep(time).await;
    over.store(true, Ordering::Relaxed);
    let elapsed = begun.elapsed();
    let mut latencies = Vec::new();
    for run in runs {
        let run = tokio::time::timeout(PATIENCE, run).await.context("a client hangs")?;
        latencies.append(&mut run.map_err(|error| anyhow!(error))??);
    }
    Ok((latencies, elapsed))
}

async fn repeat(session: Session, name: String, over: Arc<AtomicBool>) -> Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let guard = session.lock(&name).await?;
        latencies.push(asked.elapsed());
        guard.release().await?;
    }
    session.close().await;
    Ok(latencies)
}

fn show(args: &Args, results: Vec<Outcome>, failovers: Vec<Failover>, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        let (nodes, seconds) = (args.nodes, args.seconds);
        return Ok(Output::json(&Document { schema: "conclave.bench.locks/1", nodes, seconds, results, failovers })?);
    }
    let mut table = Table::new(&["CONNECTIONS", "LOCKS", ">CLIENTS", ">PAIRS/S", ">P50", ">P99"]);
    for Outcome { encrypted, clients, same, pairs_per_s, p50_us, p99_us } in results {
        let connections = if encrypted { "encrypted" } else { "in clear" };
        let locks = if same { "the same" } else { "different" };
        let [p50, p99] = [p50_us, p99_us].map(|time| format!("{time} us"));
        let cells = [connections.into(), locks.into(), clients.to_string(), pairs_per_s.to_string(), p50, p99];
        table.plain(cells);
    }
    Output::line(table.render(output))?;
    for Failover {
        encrypted,
        holders,
        trials,
        first_grant_ms,
        first_grant_max_ms,
        last_holder_ms,
        last_holder_max_ms,
    } in failovers
    {
        let connections = if encrypted { "encrypted" } else { "in clear" };
        Output::line(format!(
            "leader killed {trials} times, {connections}: first grant after {first_grant_ms} ms (at most {first_grant_max_ms}), last of \
             {holders} holders attached after {last_holder_ms} ms (at most {last_holder_max_ms})"
        ))?;
    }
    Ok(())
}
