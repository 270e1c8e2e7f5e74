//! `ctl locks`: which locks are held, by which session, and which sessions wait.

use std::time::Duration;

use client::json::{Lock, Locks};
use client::{Answer, ClientError, Endpoint, LeaderClient, format_duration, within};
use locks::LockName;

use crate::args::Globals;
use crate::connection_options::{Target, no_member_answered, request_failed};
use crate::failure::{Exit, Failure};
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
    let mut cluster = LeaderClient::new(target.endpoints.clone(), &target.settings);
    loop {
        let document = ask(&target, &mut cluster, args.lock.as_ref()).await?;
        show(&document, args, output)?;
        if !args.watch {
            return Ok(());
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// The leader's answer. A cluster without a reachable member, or without a leader, is an error of its own.
async fn ask(target: &Target, cluster: &mut LeaderClient, name: Option<&LockName>) -> Result<Locks, Failure> {
    let question = cluster.ask_leader(|client| {
        let name = name.cloned();
        async move { Ok((client.member_id(), client.locks(name).await?)) }
    });
    match within(target.timeout, question).await {
        Ok((member, page)) => Ok(with_others(target, Locks::new(member, page), name).await),
        Err(ClientError::Timeout) => Err(no_answer(target).await),
        Err(error) => Err(request_failed("the leader does not list its locks", &error)),
    }
}

/// Under a lock algorithm in views every member knows the locks of its own clients. Under `central` only the leader answers.
async fn with_others(target: &Target, mut locks: Locks, name: Option<&LockName>) -> Locks {
    let others: Vec<Endpoint> =
        target.endpoints.iter().filter(|endpoint| endpoint.id != Some(locks.member)).cloned().collect();
    let timeout = target.member_timeout.min(target.timeout);
    let mut in_views = false;
    let mut silent = Vec::new();
    for Answer { endpoint, result } in client::ask_locks(&others, &target.settings, timeout, name).await {
        match result {
            Ok(page) => {
                in_views = true;
                locks.add(page);
            }
            Err(ClientError::Failed { .. }) => {}
            Err(_) => silent.extend(endpoint.id),
        }
    }
    if in_views {
        locks.silent = silent;
    }
    locks
}

pub(super) async fn no_answer(target: &Target) -> Failure {
    let answers = target.ask_all().await;
    let failures: Vec<_> =
        answers.iter().filter_map(|answer| Some((&answer.endpoint, answer.result.as_ref().err()?))).collect();
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
        eprintln!("ctl: the locks of clients of these members are not listed, because they do not answer: {silent}");
    }
    if document.locks.is_empty() {
        let what = args.lock.as_ref().map_or_else(|| "no lock is held".to_owned(), |name| format!("{name} is free"));
        return Ok(Output::line(what)?);
    }
    let mut table = Table::new(&["LOCK", "MODE", "HOLDER", ">TOKEN", ">HELD", ">LEFT", "WAITERS"]);
    for lock in &document.locks {
        rows(lock, &mut table);
    }
    Ok(Output::line(table.render(output))?)
}

/// A row per holder; the waiters stand in the first one.
fn rows(lock: &Lock, table: &mut Table) {
    let mode = lock.slots.map_or_else(|| lock.mode.to_owned(), |slots| format!("{slots} slots"));
    let waiters = lock.waiters.iter().map(|session| short(session)).collect::<Vec<_>>().join(" ");
    let time = |ms: Option<u64>| ms.map_or_else(|| "?".to_owned(), seconds);
    if lock.holders.is_empty() {
        let nobody = [lock.name.clone(), mode, "-".into(), "-".into(), "-".into(), "-".into(), waiters];
        return table.plain(nobody);
    }
    for (at, holder) in lock.holders.iter().enumerate() {
        let (name, mode, waiters) = if at == 0 {
            (lock.name.clone(), mode.clone(), waiters.clone())
        } else {
            (String::new(), String::new(), String::new())
        };
        let (held, left) = (time(holder.held_ms), time(holder.left_ms));
        table.plain([name, mode, short(&holder.session), holder.token.clone(), held, left, waiters]);
    }
}

/// The first digits tell the sessions of one table apart.
pub(super) fn short(session: &str) -> String {
    session.chars().take(8).collect()
}

fn seconds(ms: u64) -> String {
    format!("{}.{}s", ms / 1000, ms % 1000 / 100)
}
