//! `ctl leader`: the leader's id, alone on a line.

use std::time::Duration;

use client::{ClientError, News, NoLeader, Observer, View, find_leader, format_duration};
use serde::Serialize;

use crate::args::Globals;
use crate::connection_options::{Target, failures, may_be, no_member_answered};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Print the leader's id, alone on a line
///
/// Asks all members at once and prints the one leader that they name. Members that do not answer, or know no leader, do
/// not count as disagreement; members that name different leaders do (exit 4).
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl leader
  ctl leader --wait 5s
  ctl --endpoints 127.0.0.1:7401,127.0.0.1:7402 leader -o json

Exit codes: 0 printed, 3 no member reachable, 4 no leader or members disagree, 5 still none after --wait, 8 refused.")]
pub(crate) struct Args {
    /// Wait this long for a leader, instead of failing at once
    #[arg(long, value_name = "TIME", value_parser = client::parse_duration)]
    wait: Option<Duration>,
}

#[derive(Serialize)]
struct Line {
    schema: &'static str,
    leader: u32,
    epoch: u64,
}

pub(crate) async fn run(args: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    let target = Target::resolve(globals)?;
    let (leader, views) = match args.wait {
        None => ask(&target).await?,
        Some(patience) => wait(&target, patience).await?,
    };
    // The leader's own epoch if it answered, else the newest epoch named with it.
    let own = views.iter().find(|view| view.id == leader).map(|view| view.epoch);
    let named = views.iter().filter(|view| view.leader == Some(leader)).map(|view| view.epoch).max();
    let line = Line { schema: "conclave.leader/1", leader, epoch: own.or(named).unwrap_or(0) };
    Ok(output.show(&line, || leader.to_string())?)
}

async fn ask(target: &Target) -> Result<(u32, Vec<View>), Failure> {
    let answers = target.ask_all().await;
    let views: Vec<View> = answers.iter().filter_map(|answer| answer.result.as_ref().ok().map(View::from)).collect();
    let failures = failures(&answers);
    if views.is_empty() {
        return Err(no_member_answered(&failures));
    }
    let unanswered = |id| failures.iter().any(|(endpoint, _)| may_be(endpoint, id));
    match find_leader(&views, unanswered) {
        Ok(leader) => Ok((leader, views)),
        Err(reason) => Err(no_leader(Exit::NoLeader, &reason).hint("ctl leader --wait 5s, or look at `ctl status`")),
    }
}

/// Awaits events instead of asking repeatedly: the answer comes with the event that makes it true.
async fn wait(target: &Target, patience: Duration) -> Result<(u32, Vec<View>), Failure> {
    let mut observer = target.observer();
    let mut lost: Vec<Option<ClientError>> = target.endpoints.iter().map(|_| None).collect();
    let found = tokio::time::timeout(patience, async {
        loop {
            let report = observer.next().await;
            lost[report.at] = match report.news {
                News::Became { .. } | News::Announced(_) | News::Gap { .. } => None,
                News::Lost(error) => Some(error),
            };
            // Every member refuses this client, and waiting does not change that.
            if lost.iter().all(|error| error.as_ref().is_some_and(ClientError::is_refusal)) {
                return None;
            }
            // Until every endpoint was tried once, an endpoint without an answer could still name another leader.
            if observer.all_tried()
                && let Ok(leader) = judge(target, &observer)
            {
                return Some(leader);
            }
        }
    });
    if let Ok(Some(leader)) = found.await {
        return Ok((leader, observer.views()));
    }
    if observer.views().is_empty() {
        let silent = ClientError::Timeout;
        let failures: Vec<_> =
            target.endpoints.iter().zip(lost.iter().map(|e| e.as_ref().unwrap_or(&silent))).collect();
        return Err(no_member_answered(&failures));
    }
    // A member that never answered must not hide the leader that the other members name.
    match judge(target, &observer) {
        Ok(leader) => Ok((leader, observer.views())),
        Err(reason) => {
            let failure = no_leader(Exit::TimedOut, &reason);
            Err(failure.hint(format!("still so after {}: look at `ctl status`", format_duration(patience))))
        }
    }
}

fn judge(target: &Target, observer: &Observer) -> Result<u32, NoLeader> {
    let silent = |at: &usize| observer.view(*at).is_none();
    find_leader(&observer.views(), |id| {
        (0..target.endpoints.len()).filter(silent).any(|at| may_be(&target.endpoints[at], id))
    })
}

fn no_leader(exit: Exit, reason: &NoLeader) -> Failure {
    match reason {
        NoLeader::Nobody => Failure::new(exit, "no leader").because("no member names one"),
        NoLeader::Silent(id) => Failure::new(exit, "no leader")
            .because(format!("members name {id}, but {id} does not answer or does not claim to lead")),
        NoLeader::Disagree(named) => {
            let named: Vec<String> = named.iter().map(|(id, leader)| format!("{id} follows {leader}")).collect();
            Failure::new(exit, "members disagree").because(named.join(", "))
        }
    }
}
