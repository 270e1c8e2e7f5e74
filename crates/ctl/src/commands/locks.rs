//! `ctl locks`: which locks are held, by which session, and which sessions wait.

use std::time::Duration;

use client::json::{Lock, LockHolder, Locks};
use client::{ClientError, format_duration};
use locks::LockName;

use crate::args::Globals;
use crate::connection_options::{Target, failures, no_member_answered, request_failed};
use crate::failure::{Exit, Failure, remark};
use crate::output::{Output, Table};

/// `--watch` asks this often.
const EVERY: Duration = Duration::from_millis(500);

/// List the locks that are held or waited for, with their holders and waiters
///
/// The leader is asked: it alone knows who waits. Under a lock algorithm in views all members are asked, each of which knows the
/// locks of its own clients; the order between waiters of two members is not known then. LEFT is how long the lock stays with its holder if nothing more is heard of
/// the holder. A session is named by its number; `ctl lock` prints the number of its own session.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl locks
  ctl locks backup --watch
  ctl locks -o json | jq -r '.locks[] | select(.waiters != []) | .name'

Exit codes: 0 also if no lock is held, 1 this cluster grants no locks, 3 no member reachable, 4 no leader, 8 refused.")]
pub(crate) struct Args {
    /// Only this lock
    #[arg(value_name = "NAME", value_parser = super::lock::name)]
    lock: Option<LockName>,

    /// Show the locks anew until interrupted
    #[arg(long)]
    watch: bool,
}

pub(crate) async fn run(args: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    let target = Target::resolve_listed(globals).await?;
    loop {
        let document = ask(&target, args.lock.as_ref()).await?;
        show(&document, args, output)?;
        if !args.watch {
            return Ok(());
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// A cluster without a reachable member, or without a leader, is an error of its own.
pub(super) async fn ask(target: &Target, name: Option<&LockName>) -> Result<Locks, Failure> {
    match target.locks(name, target.timeout).await {
        Ok(locks) => Ok(locks),
        Err(ClientError::Timeout) => Err(no_answer(target).await),
        Err(error) => Err(request_failed("the leader does not list its locks", &error)),
    }
}

pub(super) async fn no_answer(target: &Target) -> Failure {
    let answers = target.ask_all().await;
    let failures = failures(&answers);
    if failures.len() == answers.len() {
        return no_member_answered(&failures);
    }
    Failure::new(Exit::NoLeader, "no leader answers for the locks")
        .because(format!("there was none within {}", format_duration(target.timeout)))
        .hint("ctl explain, or the same with a longer --timeout")
}

fn show(document: &Locks, args: &Args, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        return Ok(Output::json(document)?);
    }
    if !document.silent.is_empty() {
        let silent = document.silent.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        remark(format!("the locks of clients of these members are not listed, because they do not answer: {silent}"));
    }
    if document.locks.is_empty() {
        let what = args.lock.as_ref().map_or_else(|| "no lock is held".to_owned(), |name| format!("{name} is free"));
        return Ok(Output::line(what)?);
    }
    let mut table = Table::new(&["LOCK", "MODE", "HOLDER", ">TOKEN", ">HELD", ">LEFT", "WAITERS"]);
    for lock in &document.locks {
        for row in cells(lock) {
            table.plain(row);
        }
    }
    Ok(Output::line(table.render(output))?)
}

/// A row per holder; the waiters stand in the first one.
pub(super) fn cells(lock: &Lock) -> Vec<[String; 7]> {
    let mode = lock.slots.map_or_else(|| lock.mode.to_owned(), |slots| format!("{slots} slots"));
    let waiters = lock.waiters.iter().map(|session| short(session)).collect::<Vec<_>>().join(" ");
    let time = |ms: Option<u64>| ms.map_or_else(|| "?".to_owned(), seconds);
    if lock.holders.is_empty() {
        let nobody = [lock.name.clone(), mode, "-".into(), "-".into(), "-".into(), "-".into(), waiters];
        return vec![nobody];
    }
    let row = |(at, holder): (usize, &LockHolder)| {
        let (name, mode, waiters) = if at == 0 {
            (lock.name.clone(), mode.clone(), waiters.clone())
        } else {
            (String::new(), String::new(), String::new())
        };
        let (held, left) = (time(holder.held_ms), time(holder.left_ms));
        [name, mode, short(&holder.session), holder.token.clone(), held, left, waiters]
    };
    lock.holders.iter().enumerate().map(row).collect()
}

/// The first digits tell the sessions of one table apart.
pub(super) fn short(session: &str) -> String {
    session.chars().take(8).collect()
}

fn seconds(ms: u64) -> String {
    format!("{}.{}s", ms / 1000, ms % 1000 / 100)
}
