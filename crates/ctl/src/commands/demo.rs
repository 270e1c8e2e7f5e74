//! `ctl demo`: what goes wrong without a lock, shown with real processes.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use client::{LockGuard, Session};
use serde::Serialize;
use tokio::process::Command;

use crate::args::Globals;
use crate::cluster::Scratch;
use crate::connection_options::Target;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// The lock of the demonstration.
const LOCK: &str = "demo-counter";
/// Between reading the counter and writing it: long enough that two processes meet without a lock.
const THINK: Duration = Duration::from_millis(20);
const TTL: Duration = Duration::from_secs(5);

/// Show what a lock is for
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    Counter(Counter),
    #[command(hide = true)]
    Increment(Increment),
}

/// Several processes add 1 to a number in one file: without a lock some of the additions are lost
///
/// Each process reads the number, adds 1 and writes it back. Two processes that read the same number write the same number:
/// one addition is lost. With --lock each of them first takes a lock of the cluster, and none is lost.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl demo counter              two processes, three additions each: 4, 5 or 6 is left, seldom 6
  ctl demo counter --lock       always 6
  ctl demo counter --lock -p 4 --times 25

Exit codes: 0, also if additions were lost without the lock; 7 one was lost with it.")]
struct Counter {
    /// Take a lock of the cluster around each addition
    #[arg(long)]
    lock: bool,

    /// The number of processes
    #[arg(short = 'p', long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    processes: u32,

    /// Additions of each process
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    times: u32,
}

/// One process of the demonstration (internal)
#[derive(clap::Args, Debug)]
struct Increment {
    file: std::path::PathBuf,
    #[arg(long)]
    lock: bool,
    #[arg(long)]
    times: u32,
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    lock: bool,
    processes: u32,
    times: u32,
    expected: u32,
    counter: u32,
}

pub(crate) async fn run(args: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    match &args.what {
        What::Counter(counter) => count(counter, globals, output).await,
        What::Increment(increment) => add(increment, globals).await,
    }
}

async fn count(args: &Counter, globals: &Globals, output: Output) -> Result<(), Failure> {
    if args.lock {
        // A cluster that is not there is reported once, not by each process.
        drop(session(globals).await?);
    }
    let scratch = Scratch::new("demo")?;
    let file = scratch.path().join("counter");
    write(&file, 0)?;
    let mut processes = Vec::new();
    for _ in 0..args.processes {
        processes.push(increment(&file, args, globals).spawn()?);
    }
    for process in &mut processes {
        if !process.wait().await?.success() {
            return Err(Failure::new(Exit::Failed, "a process of the demonstration failed"));
        }
    }
    let (expected, counter) = (args.processes * args.times, read(&file)?);
    let Counter { lock, processes, times } = *args;
    if output.is_json() {
        Output::json(&Document { schema: "conclave.demo.counter/1", lock, processes, times, expected, counter })?;
    } else {
        let with = if lock { "with" } else { "without" };
        let lost = expected - counter;
        Output::line(format!(
            "{processes} processes added 1 {times} times each, {with} a lock: {counter} of {expected}, {lost} lost"
        ))?;
    }
    if lock && counter != expected { Err(Failure::silent(Exit::Invariant)) } else { Ok(()) }
}

/// The same program, as another process, with the same options.
fn increment(file: &Path, args: &Counter, globals: &Globals) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["demo", "increment", "--times", &args.times.to_string()]).arg(file);
    if args.lock {
        command.arg("--lock");
    }
    let files = [("--config", &globals.config), ("--secret-file", &globals.secret_file)];
    for (option, file) in files.into_iter().chain([("--certificate", &globals.certificate)]) {
        if let Some(file) = file {
            command.arg(option).arg(file);
        }
    }
    if let Some(cluster) = &globals.cluster {
        command.args(["--cluster", cluster]);
    }
    if !globals.endpoints.is_empty() {
        command.args(["--endpoints", &globals.endpoints.join(",")]);
    }
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn session(globals: &Globals) -> Result<Session, Failure> {
    let target = Target::resolve_listed(globals).await?;
    let opened = Session::open_within(target.endpoints.clone(), &target.settings, TTL, target.timeout).await;
    opened.map_err(|error| super::lock::not_opened(TTL, &error))
}

async fn add(args: &Increment, globals: &Globals) -> Result<(), Failure> {
    let session = if args.lock { Some(session(globals).await?) } else { None };
    for _ in 0..args.times {
        let guard = match &session {
            Some(session) => Some(lock(session).await?),
            None => None,
        };
        let value = read(&args.file)?;
        tokio::time::sleep(THINK).await;
        write(&args.file, value + 1)?;
        if let Some(guard) = guard {
            guard.release().await.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        }
    }
    Ok(())
}

async fn lock(session: &Session) -> Result<LockGuard, Failure> {
    session.lock(LOCK).await.map_err(|error| Failure::new(Exit::Failed, error.to_string()))
}

fn read(file: &Path) -> Result<u32, Failure> {
    // A process that reads while another one writes may find an empty file.
    Ok(fs::read_to_string(file)?.trim().parse().unwrap_or(0))
}

/// Replaces the file as a whole.
fn write(file: &Path, value: u32) -> Result<(), Failure> {
    let beside = file.with_extension(std::process::id().to_string());
    fs::write(&beside, value.to_string())?;
    Ok(fs::rename(beside, file)?)
}
