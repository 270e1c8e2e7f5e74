//! `ctl bench idle`: the cost of members while nothing happens.

use std::fs::{read_dir, read_to_string};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use client::format_duration;
use serde::Serialize;
use types::Safety;

use super::super::shared_args::{self, AlgorithmArg, TopologyArg};
use super::super::up::Stop;
use super::progress::Progress;
use super::settle::{quiet, settle};
use crate::cluster::{Cluster, Plan, Scratch, free_ports_elsewhere, node_binary};
use crate::failure::{Exit, Failure};
use crate::output::{Output, Table};

/// Measure the cost of idle members: processor time, wake-ups and memory of each
///
/// Runs a cluster of its own in a temporary directory. When all members agree on a leader and have finished their
/// writes, the kernel's counters of every thread are read, and again after some seconds.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl bench idle
  ctl bench idle -n 9 --safety quorum --seconds 60 -o json")]
pub(crate) struct Args {
    /// The number of members
    #[arg(short = 'n', long = "nodes", value_name = "N", default_value_t = 5, value_parser = shared_args::nodes())]
    nodes: u32,
    #[command(flatten)]
    algorithm: AlgorithmArg,
    #[command(flatten)]
    topology: TopologyArg,
    /// Who may lead: any member that is elected, or only with the lease of a majority
    #[arg(long, value_name = "SAFETY", default_value = "classic", value_parser = shared_args::safeties())]
    safety: Safety,
    /// The length of the measurement in seconds
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    algorithm: &'static str,
    topology: &'static str,
    safety: Safety,
    nodes: u32,
    seconds: u32,
    members: Vec<Cost>,
}

#[derive(Serialize)]
struct Cost {
    id: u32,
    role: &'static str,
    /// Of one core.
    cpu_percent: f64,
    /// How often a thread gave up the processor by itself, so that it had to be woken.
    wakeups_per_s: f64,
    threads: u64,
    rss_kib: u64,
}

pub(crate) async fn run(args: &Args, output: Output) -> Result<(), Failure> {
    let row = Plan::choose(args.algorithm.name(), args.topology.topology)
        .map_err(|error| Failure::usage(error).hint("ctl algorithms"))?;
    let plan = Plan { name: "bench".to_owned(), safety: args.safety, ..Plan::new(args.nodes, row) };
    let binary =
        node_binary().map_err(|error| Failure::from(error).hint("build it: cargo build --release -p node -p ctl"))?;
    let mut stop = Stop::new()?;
    let scratch = Scratch::new("bench")?;
    let mut cluster = Cluster::prepare(&plan, scratch.path(), &free_ports_elsewhere(args.nodes)?, binary)?;
    cluster.start_all()?;
    let outcome = tokio::select! {
        outcome = measure(&cluster, &plan, Duration::from_secs(args.seconds.into())) => outcome.map_err(Failure::from),
        () = stop.wait() => Err(Failure::new(Exit::Failed, "interrupted")),
    };
    cluster.stop().await;
    show(&plan, args.seconds, outcome?, output)
}

async fn measure(cluster: &Cluster, plan: &Plan, time: Duration) -> Result<Vec<Cost>> {
    let started = Instant::now();
    // Dropped before the measurement, so that no client is connected.
    let leader = settle(cluster, &mut cluster.observer(), plan.best()).await?;
    quiet(cluster, started).await;
    Progress::default().say(&format!("{} members agree; measuring for {}", plan.nodes, format_duration(time)));
    let members = || cluster.ids().map(|id| Ok((id, Usage::of(cluster.pid(id).context("a member has ended")?)?)));
    let (begun, before) = (Instant::now(), members().collect::<Result<Vec<_>>>()?);
    tokio::time::sleep(time).await;
    let (seconds, after) = (begun.elapsed().as_secs_f64(), members().collect::<Result<Vec<_>>>()?);
    let cost = |((id, before), (_, after)): ((u32, Usage), (u32, Usage))| Cost {
        id,
        role: if id == leader { "leader" } else { "follower" },
        cpu_percent: digits((after.ran_ns - before.ran_ns) as f64 / 1e7 / seconds),
        wakeups_per_s: digits((after.wakeups - before.wakeups) as f64 / seconds),
        threads: after.threads,
        rss_kib: after.rss_kib,
    };
    Ok(before.into_iter().zip(after).map(cost).collect())
}

/// The kernel's counters of a process since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Usage {
    ran_ns: u64,
    wakeups: u64,
    threads: u64,
    rss_kib: u64,
}

impl Usage {
    pub(super) fn of(pid: u32) -> Result<Self> {
        let mut usage = Usage::default();
        for thread in read_dir(format!("/proc/{pid}/task"))? {
            let thread = thread?.path();
            let read = |file: &str| read_to_string(thread.join(file)).with_context(|| format!("no {file} of a thread"));
            usage.add_thread(&read("schedstat")?, &read("status")?).context("the kernel does not count what runs")?;
        }
        Ok(usage)
    }

    pub(super) fn rss_kib(&self) -> u64 {
        self.rss_kib
    }

    /// `RAN_NS WAITED_NS SLICES`, and lines of `name: value`. The memory is the same in all threads.
    fn add_thread(&mut self, schedstat: &str, status: &str) -> Option<()> {
        let field = |name: &str| -> Option<u64> {
            let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            value.split_whitespace().next()?.parse().ok()
        };
        self.ran_ns += schedstat.split_whitespace().next()?.parse::<u64>().ok()?;
        self.wakeups += field("voluntary_ctxt_switches")?;
        self.threads += 1;
        self.rss_kib = field("VmRSS")?;
        Some(())
    }
}

fn show(plan: &Plan, seconds: u32, members: Vec<Cost>, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        return Ok(Output::json(&Document {
            schema: "conclave.bench.idle/1",
            algorithm: plan.row.name,
            topology: plan.row.topology.name(),
            safety: plan.safety,
            nodes: plan.nodes,
            seconds,
            members,
        })?);
    }
    let mut table = Table::new(&[">ID", "ROLE", ">CPU", ">WAKE-UPS/S", ">THREADS", ">RSS"]);
    for Cost { id, role, cpu_percent, wakeups_per_s, threads, rss_kib } in members {
        let [cpu, wakeups, rss] = [format!("{cpu_percent} %"), wakeups_per_s.to_string(), format!("{rss_kib} KiB")];
        table.plain([id.to_string(), role.to_owned(), cpu, wakeups, threads.to_string(), rss]);
    }
    Ok(Output::line(table.render(output))?)
}

fn digits(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up_and_their_memory_is_one() {
        let status = "Name:\tnode\nVmRSS:\t    5600 kB\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t90\n";
        let mut usage = Usage::default();
        usage.add_thread("1000 50 3\n", status).unwrap();
        usage.add_thread("200 50 3\n", status).unwrap();
        assert_eq!(usage, Usage { ran_ns: 1200, wakeups: 14, threads: 2, rss_kib: 5600 });
        assert_eq!(usage.add_thread("", status), None, "a kernel without these counters is not an idle process");
    }
}
