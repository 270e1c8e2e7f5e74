//! `ctl lock`: runs a command while it holds a lock.

mod run;

use std::ffi::OsString;
use std::time::Duration;

use client::{LockError, Session, Wait, format_duration};
use locks::LockName;
use locks::wire::{Mode, OpenRefusal, Unavailable};

use self::run::Run;
use crate::args::Globals;
use crate::connection_options::{Target, request_failed};
use crate::failure::{Exit, Failure};
use crate::guard::{Progress, Signals};

/// Run a command while it holds a lock
///
/// Waits for the lock, in line with the others, then runs the command. The lock is released when the command ends. If the
/// lock cannot be confirmed in time, the command and everything it started get SIGTERM, and after the grace SIGKILL, before
/// another holder gets the lock. No process of the command outlives `ctl`. Signals sent to `ctl` are passed on.
///
/// The command's environment has CONCLAVE_TOKEN, a number that grows with every grant of the lock: send it to the resource
/// that the command writes to, and let the resource refuse smaller ones (`ctl fence-check` is an example). CONCLAVE_LOCK is
/// the name of the lock, CONCLAVE_EPOCH the epoch of the leader that granted it.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl lock backup -- ./backup.sh
  ctl lock backup --try -- ./backup.sh                 exit code 5 if another holder has it
  ctl lock db-writer --ttl 30s --wait 10s -- sh -c 'ctl fence-check /srv/fence && exec ./writer'
  ctl lock report --shared -- ./read-report            readers share; a waiting writer goes before later readers
  ctl lock workers --slots 4 -- ./worker               a semaphore: at most four at a time
  ctl lock queue --progress 5s -- ./worker             ./worker writes a byte to /dev/fd/$CONCLAVE_PROGRESS_FD
                                                       at least every 5 s, or loses the lock

Exit codes: the command's own (128 + signal if it was killed; 126 or 127 if it cannot be run), 5 the lock is busy (--try) or
was not granted within --wait, 6 it was lost while the command ran, 1 the lock cannot be had, 2 usage, 3 no member reachable,
4 no member grants locks, 8 refused.")]
pub(crate) struct Args {
    /// 1 to 256 bytes without control characters
    #[arg(value_name = "NAME", value_parser = name)]
    lock: LockName,

    /// How long the lock stays with a holder of which nothing is heard
    #[arg(long, value_name = "TIME", value_parser = client::parse_duration, default_value = "10s")]
    ttl: Duration,

    /// Wait this long for the lock [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = client::parse_duration)]
    wait: Option<Duration>,

    /// Do not wait: the lock is free now, or the command is not run
    #[arg(long = "try", conflicts_with = "wait")]
    at_once: bool,

    /// Share it with other readers
    #[arg(long, conflicts_with = "slots")]
    shared: bool,

    /// A semaphore: at most K hold it at a time; every request for it must say the same K
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    slots: Option<u32>,

    /// The command must write a byte to the descriptor in CONCLAVE_PROGRESS_FD at least this often: else it counts as hung, and
    /// loses the lock
    #[arg(long, value_name = "TIME", value_parser = client::parse_duration)]
    progress: Option<Duration>,

    /// Time between SIGTERM and SIGKILL when the lock is lost; must fit the ttl [default: a fifth of the ttl]
    #[arg(long, value_name = "TIME", value_parser = client::parse_duration)]
    grace: Option<Duration>,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Args {
    fn mode(&self) -> Mode {
        match self.slots {
            Some(slots) => Mode::Slots(slots),
            None if self.shared => Mode::Shared,
            None => Mode::Exclusive,
        }
    }

    fn patience(&self) -> Wait {
        match self.wait {
            _ if self.at_once => Wait::No,
            Some(wait) if wait.is_zero() => Wait::No,
            Some(wait) => Wait::AtMost(wait),
            None => Wait::ForEver,
        }
    }
}

/// For clap: the name of a lock, with the rule that it breaks.
pub(super) fn name(text: &str) -> Result<LockName, String> {
    LockName::new(text).map_err(|error| error.to_string())
}

pub(crate) async fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    // Before the guard is started, which inherits it.
    let progress = args.progress.map(Progress::new).transpose()?;
    let target = Target::resolve_listed(globals).await?;
    run::grace(args.ttl, args.grace)?;
    let mut signals = Signals::new()?;
    let taking = async {
        let session = open(args, &target).await?;
        match session.acquire(&args.lock, args.mode(), args.patience()).await {
            Ok(guard) => Ok((session, guard)),
            Err(error) => {
                // Else it would count as one of the sessions until its ttl is over.
                let _ = tokio::time::timeout(run::GOODBYE, session.close()).await;
                Err(not_taken(args, &error))
            }
        }
    };
    let (session, guard) = tokio::select! {
        taken = taking => taken?,
        number = signals.deadly() => return Err(Failure::passed((128 + number) as u8)),
    };
    // The time to live may be shorter than the one asked for.
    let grace = run::grace(session.ttl(), args.grace)?;
    Run::start(args, grace, progress, session, guard)?.finish(signals).await
}

/// A cluster that cannot be reached, or has no leader, is reported after the timeout of the command.
async fn open(args: &Args, target: &Target) -> Result<Session, Failure> {
    let (endpoints, settings) = (target.endpoints.clone(), &target.settings);
    let opening = Session::open_for_children(endpoints, settings, args.ttl, target.timeout);
    opening.await.map_err(|error| not_opened(args.ttl, &error))
}

/// There is no session.
pub(super) fn not_opened(ttl: Duration, error: &LockError) -> Failure {
    match error {
        LockError::NotOpened(OpenRefusal::TooManySessions) => {
            Failure::new(Exit::Failed, "no session can be opened").because(error.to_string()).hint("ctl locks")
        }
        LockError::NotOpened(_) => Failure::usage(format!("a ttl of {} cannot be had", format_duration(ttl)))
            .because(error.to_string())
            .hint("--ttl with a value in these bounds"),
        LockError::Unavailable(Unavailable::ClassicSafety) => {
            Failure::new(Exit::Failed, "this cluster grants no locks").because(error.to_string())
        }
        LockError::Unavailable(_) => Failure::new(Exit::NoLeader, "no member grants locks now")
            .because(error.to_string())
            .hint("ctl explain; the same with a longer --timeout"),
        LockError::Client(error) if error.is_refusal() => request_failed("the lock service refuses this client", error),
        error => Failure::new(Exit::Unreachable, "no member is reachable")
            .because(error.to_string())
            .hint("start the cluster (`ctl up`), or name where it runs with --config or --endpoints"),
    }
}

fn not_taken(args: &Args, error: &LockError) -> Failure {
    let name = &args.lock;
    match error {
        LockError::Busy => Failure::new(Exit::TimedOut, format!("{name} is busy"))
            .because("another session holds it")
            .hint(format!("ctl locks {name} shows the holder; --wait 10s waits for it")),
        LockError::TimedOut => {
            let wait = format_duration(args.wait.unwrap_or_default());
            Failure::new(Exit::TimedOut, format!("{name} was not granted within {wait}"))
                .because("another session holds it, or others wait for it")
                .hint(format!("ctl locks {name} shows them; wait longer, or without a limit"))
        }
        error @ (LockError::NotOpened(_) | LockError::Unavailable(_) | LockError::Client(_)) => {
            not_opened(args.ttl, error)
        }
        error => Failure::new(Exit::Failed, format!("{name} cannot be had"))
            .because(error.to_string())
            .hint(format!("ctl locks {name}")),
    }
}
