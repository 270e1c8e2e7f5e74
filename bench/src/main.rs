//! Takes and releases locks of several services as fast as they answer, one service after the other in turns, and prints how
//! often and how long. Every client has a connection of its own and one request under way; a release is answered before the next
//! request.

mod conclave;
mod etcd;
mod redis;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;
use serde_json::json;

#[derive(Parser, Debug)]
struct Args {
    /// NAME=FILE: the config of a running Conclave cluster; may be repeated
    #[arg(long, value_name = "NAME=FILE")]
    conclave: Vec<String>,
    /// The address of a Redis server
    #[arg(long)]
    redis: Option<String>,
    /// The addresses of all members of an etcd cluster; the clients connect to its leader
    #[arg(long, value_delimiter = ',')]
    etcd: Vec<String>,
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 256])]
    clients: Vec<usize>,
    /// The number of clients that take turns with one lock
    #[arg(long, default_value_t = 16)]
    contenders: usize,
    /// The length of one measurement
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// The time between two measurements, for the other work of the machine
    #[arg(long, default_value_t = 0.0)]
    pause: f64,
    /// How often all services are measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

#[derive(Clone, Debug)]
enum Service {
    Conclave(PathBuf),
    Redis(String),
    Etcd(String),
}

enum Connection {
    Conclave(conclave::Connection),
    Redis(redis::Connection),
    Etcd(etcd::Connection),
}

impl Service {
    async fn connect(&self) -> Result<Connection> {
        Ok(match self {
            Service::Conclave(config) => Connection::Conclave(conclave::Connection::open(config).await?),
            Service::Redis(address) => Connection::Redis(redis::Connection::open(address).await?),
            Service::Etcd(address) => Connection::Etcd(etcd::Connection::open(address).await?),
        })
    }
}

impl Connection {
    /// Takes the lock, then gives it back. Returns how long taking it took.
    async fn pair(&mut self, name: &str) -> Result<Duration> {
        match self {
            Connection::Conclave(connection) => connection.pair(name).await,
            Connection::Redis(connection) => connection.pair(name).await,
            Connection::Etcd(connection) => connection.pair(name).await,
        }
    }
}

#[derive(Default)]
struct Figures {
    pairs_per_s: Vec<f64>,
    latencies: Vec<Duration>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(&args))
}

async fn run(args: &Args) -> Result<()> {
    let mut services = Vec::new();
    for cluster in &args.conclave {
        let (name, config) = cluster.split_once('=').context("--conclave wants NAME=FILE")?;
        services.push((name.to_owned(), Service::Conclave(PathBuf::from(config))));
    }
    services.extend(args.redis.clone().map(|address| ("redis".to_owned(), Service::Redis(address))));
    if !args.etcd.is_empty() {
        services.push(("etcd".to_owned(), Service::Etcd(etcd::leader(&args.etcd).await?)));
    }
    if services.is_empty() {
        bail!("nothing to measure: name a service");
    }
    let different = args.clients.iter().map(|&clients| (clients, false));
    let cases: Vec<(usize, bool)> = different.chain([(args.contenders, true)]).collect();
    let time = Duration::from_secs_f64(args.seconds);
    let mut all: BTreeMap<(usize, usize), Figures> = BTreeMap::new();
    for round in 1..=args.rounds {
        for (case, &(clients, same)) in cases.iter().enumerate() {
            for (at, (name, service)) in services.iter().enumerate() {
                tokio::time::sleep(Duration::from_secs_f64(args.pause)).await;
                let measured = race(service, clients, same, time);
                let (mut latencies, elapsed) = measured.await.with_context(|| format!("{name}, {clients} clients"))?;
                let pairs_per_s = latencies.len() as f64 / elapsed.as_secs_f64();
                eprintln!("round {round}, {}: {name}: {pairs_per_s:.0} pairs/s", title(clients, same));
                let figures = all.entry((case, at)).or_default();
                figures.pairs_per_s.push(pairs_per_s);
                figures.latencies.append(&mut latencies);
            }
        }
    }
    show(&services, &cases, all);
    Ok(())
}

fn title(clients: usize, same: bool) -> String {
    let locks = if same { "one lock" } else { "a lock each" };
    format!("{clients} clients, {locks}")
}

/// All clients begin when all are connected.
async fn race(service: &Service, clients: usize, same: bool, time: Duration) -> Result<(Vec<Duration>, Duration)> {
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(service.connect().await?);
    }
    let over = Arc::new(AtomicBool::new(false));
    let begun = Instant::now();
    let mut runs = Vec::new();
    for (number, mut connection) in connections.into_iter().enumerate() {
        let name = if same { "bench".to_owned() } else { format!("bench-{number}") };
        let over = Arc::clone(&over);
        runs.push(tokio::spawn(async move {
            let mut latencies = Vec::new();
            while !over.load(Ordering::Relaxed) {
                latencies.push(connection.pair(&name).await?);
            }
            anyhow::Ok(latencies)
        }));
    }
    tokio::time::sleep(time).await;
    over.store(true, Ordering::Relaxed);
    let elapsed = begun.elapsed();
    let mut latencies = Vec::new();
    for run in runs {
        latencies.append(&mut run.await??);
    }
    Ok((latencies, elapsed))
}

fn show(services: &[(String, Service)], cases: &[(usize, bool)], mut all: BTreeMap<(usize, usize), Figures>) {
    println!(
        "{:<28} {:<20} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "CASE", "SERVICE", "PAIRS/S", "P50 us", "P99 us", "OF REDIS", "OF ETCD"
    );
    let mut documents = Vec::new();
    for (case, &(clients, same)) in cases.iter().enumerate() {
        for (at, (name, _)) in services.iter().enumerate() {
            // Rounds of one number were measured one after the other, under about the same load of the machine.
            let of = |peer: &str| {
                let peer = services.iter().position(|(name, _)| name == peer)?;
                let pairs = all.get(&(case, at))?.pairs_per_s.iter().zip(&all.get(&(case, peer))?.pairs_per_s);
                Some(median(pairs.map(|(own, peers)| own / peers).collect()))
            };
            let (of_redis, of_etcd) = (of("redis"), of("etcd"));
            let Some(figures) = all.get_mut(&(case, at)) else { continue };
            figures.latencies.sort_unstable();
            let rank = |part: usize| figures.latencies.get(figures.latencies.len() * part / 100).copied();
            let micros = |part| rank(part).unwrap_or_default().as_secs_f64() * 1e6;
            let (p50, p99, rounds) = (micros(50), micros(99), &figures.pairs_per_s);
            let pairs_per_s = median(rounds.clone());
            let [redis, etcd] = [of_redis, of_etcd].map(|of| of.map_or("-".to_owned(), |of| format!("{of:.2}")));
            println!(
                "{:<28} {name:<20} {pairs_per_s:>10.0} {p50:>10.0} {p99:>10.0} {redis:>10} {etcd:>10}",
                title(clients, same)
            );
            documents.push(json!({ "service": name, "clients": clients, "same": same, "pairs_per_s": pairs_per_s,
                "rounds": rounds, "p50_us": p50, "p99_us": p99, "of_redis": of_redis, "of_etcd": of_etcd }));
        }
    }
    println!("{}", json!({ "schema": "conclave.bench.peers/1", "results": documents }));
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or_default()
}
