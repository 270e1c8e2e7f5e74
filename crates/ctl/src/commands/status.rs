//! `ctl status`: a row per member and a verdict.

use std::collections::BTreeSet;
use std::time::Duration;

use algorithms::catalog;
use client::{Answer, ClientError, Endpoint, MemberStatus, Verdict, View, format_duration};
use serde::Serialize;

use super::theory::{self, Theory};
use crate::args::Globals;
use crate::failure::{Exit, Failure};
use crate::output::{Ink, Output, Table};
use crate::target::{Target, nobody};

/// Leases and silences change without events.
const REFRESH: Duration = Duration::from_secs(1);

/// Show a row per member, and whether they agree
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl status
  ctl status --watch
  ctl status -o json

Verdicts: AGREED (all reachable members name one leader and epoch, and it claims it), ELECTING, SPLIT, NO QUORUM.
HEARD is how long ago another member last heard from this one.
Exit codes: 0 agreed, 3 nobody reachable, 4 not agreed, 8 refused.")]
pub(crate) struct Args {
    /// Show it again at every change, until interrupted
    #[arg(long)]
    watch: bool,
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    cluster: String,
    algorithm: Option<String>,
    topology: Option<String>,
    safety: Option<String>,
    verdict: &'static str,
    leader: Option<u32>,
    epoch: u64,
    members: Vec<Row>,
    /// Sent by all members that answered, each since its start, announcements included.
    election_messages: Option<u64>,
    /// What one election of all members costs.
    theory: Option<Theory>,
}

#[derive(Serialize)]
struct Row {
    id: Option<u32>,
    address: String,
    up: bool,
    role: String,
    leader: Option<u32>,
    epoch: Option<u64>,
    incarnation: Option<u64>,
    lease_ms: Option<u64>,
    sent: Option<u64>,
    received: Option<u64>,
    last_heard_ms: Option<u64>,
    /// What `ctl chaos` has done to it.
    faults: Option<Vec<String>>,
    blank: Option<bool>,
    #[serde(skip)]
    trouble: Option<String>,
}

pub(crate) async fn run(args: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    let target = Target::resolve(globals)?;
    if args.watch {
        return follow(&target, output).await;
    }
    let answers = target.ask_all().await;
    let document = document(&target, &answers);
    show(&document, output)?;
    let failures: Vec<(&Endpoint, &ClientError)> = answers
        .iter()
        .filter_map(|answer| answer.result.as_ref().err().map(|error| (&answer.endpoint, error)))
        .collect();
    if failures.len() == answers.len() {
        Err(nobody(&failures))
    } else if document.leader.is_none() {
        Err(Failure::silent(Exit::NoLeader))
    } else {
        Ok(())
    }
}

/// Asks again whenever a member reports a change; the streams say when, the answers say what.
async fn follow(target: &Target, output: Output) -> Result<(), Failure> {
    let mut observer = target.observer();
    loop {
        let document = document(target, &target.ask_all().await);
        if output.is_terminal() && !output.is_json() {
            // Home, print over, clear what is left: no flicker.
            Output::line(format!("\x1b[H{}\x1b[J", text(&document, output).replace('\n', "\x1b[K\n")))?;
        } else {
            show(&document, output)?;
        }
        // Only a terminal is refreshed without news: a log should hold changes.
        if output.is_terminal() {
            let _ = tokio::time::timeout(REFRESH, observer.next()).await;
        } else {
            observer.next().await;
        }
        while tokio::time::timeout(Duration::ZERO, observer.next()).await.is_ok() {}
    }
}

fn document(target: &Target, answers: &[Answer]) -> Document {
    let statuses: Vec<&MemberStatus> = answers.iter().filter_map(|answer| answer.result.as_ref().ok()).collect();
    let views: Vec<View> = statuses.iter().map(|status| View::from(*status)).collect();
    let file = target.file.as_ref();
    let first = statuses.first();
    let safety = first.map(|s| s.safety.clone()).or_else(|| file.map(|f| f.safety.clone()));
    let verdict = Verdict::of(&views, &target.electorate(safety.as_deref()));
    let ids = whose(target, answers);
    let rows = answers.iter().zip(ids).map(|(answer, id)| row(answer, id, &statuses));
    let algorithm = first.map(|s| s.algorithm.clone()).or_else(|| file.and_then(|f| f.algorithm.clone()));
    // A member knows how many there are, even where only some are asked.
    let size = first.map(|s| s.peers.len() + 1).or_else(|| file.map(|f| f.peers.len()));
    let known = algorithm.as_deref().and_then(catalog::row).zip(size);
    Document {
        schema: "conclave.status/1",
        cluster: first.map_or_else(|| target.settings.cluster.clone(), |status| status.cluster.clone()),
        algorithm,
        topology: first.map(|s| s.topology.clone()).or_else(|| file.and_then(|f| f.topology.clone())),
        safety,
        verdict: verdict.name(),
        leader: verdict.leader().map(|(leader, _)| leader),
        epoch: views.iter().map(|view| view.epoch).max().unwrap_or(0),
        members: rows.collect(),
        election_messages: first.map(|_| statuses.iter().map(|status| status.election_messages).sum()),
        theory: known.map(|(row, size)| (row.bounds)(size).into()),
    }
}

/// Whose endpoint each is. One that was only given as an address and does not answer is known by its place, if all
/// others stand in the config's order too.
fn whose(target: &Target, answers: &[Answer]) -> Vec<Option<u32>> {
    let known = |answer: &Answer| answer.result.as_ref().ok().map(|status| status.id).or(answer.endpoint.id);
    let ids: Vec<Option<u32>> = answers.iter().map(known).collect();
    let listed: Vec<Option<u32>> = target.file.iter().flat_map(|file| &file.peers).map(|peer| peer.id).collect();
    let in_order = ids.len() == listed.len() && ids.iter().zip(&listed).all(|(id, place)| id.is_none() || id == place);
    if in_order { listed } else { ids }
}

fn row(answer: &Answer, id: Option<u32>, statuses: &[&MemberStatus]) -> Row {
    let heard_by = |other: &&MemberStatus| {
        let peer = other.peers.iter().find(|peer| Some(peer.id) == id)?;
        peer.last_heard_ms
    };
    let status = answer.result.as_ref().ok();
    Row {
        id,
        address: answer.endpoint.address.clone(),
        up: status.is_some(),
        role: status.map_or_else(|| "down".to_owned(), |status| status.role.clone()),
        leader: status.and_then(|status| status.leader),
        epoch: status.map(|status| status.epoch),
        incarnation: status.map(|status| status.incarnation),
        lease_ms: status.and_then(|status| status.lease_ms),
        sent: status.map(|status| status.sent),
        received: status.map(|status| status.received),
        last_heard_ms: statuses.iter().filter_map(heard_by).min(),
        faults: status.map(|status| status.faults.clone()),
        blank: status.map(|status| status.blank),
        trouble: answer.result.as_ref().err().map(ToString::to_string),
    }
}

fn show(document: &Document, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        Output::json(document)?;
    } else {
        Output::line(text(document, output))?;
    }
    Ok(())
}

fn text(document: &Document, output: Output) -> String {
    let mut table =
        Table::new(&["ID", "ROLE", ">LEADER", ">EPOCH", ">LEASE", ">HEARD", ">SENT", ">RECEIVED", "ADDRESS"]);
    let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let time = |ms: Option<u64>| ms.map_or_else(|| "-".to_owned(), |ms| format_duration(Duration::from_millis(ms)));
    for member in &document.members {
        let ink = match member.role.as_str() {
            "leader" => Some(Ink::Green),
            "candidate" => Some(Ink::Yellow),
            "down" => Some(Ink::Red),
            _ => None,
        };
        let address = match &member.trouble {
            Some(trouble) => format!("{} ({trouble})", member.address),
            None => member.address.clone(),
        };
        table.row([
            (number(member.id.map(u64::from)), None),
            (member.role.clone(), ink),
            (number(member.leader.map(u64::from)), None),
            (number(member.epoch), None),
            (time(member.lease_ms), None),
            (time(member.last_heard_ms), None),
            (number(member.sent), None),
            (number(member.received), None),
            (address, None),
        ]);
    }
    let faults = faults(document, output);
    let (cost, verdict) = (cost_line(document), verdict_line(document, output));
    format!("{}\n\n{cost}{faults}{verdict}", table.render(output))
}

/// A line per member with faults that somebody injected: nobody should wonder why such a cluster misbehaves.
fn faults(document: &Document, output: Output) -> String {
    let of = |member: &Row| {
        let faults = member.faults.as_ref().filter(|faults| !faults.is_empty())?;
        let id = member.id.map_or_else(|| member.address.clone(), |id| id.to_string());
        Some(format!("{} at {id}: {}\n", output.paint(Ink::Yellow, "FAULTS"), faults.join(", ")))
    };
    document.members.iter().filter_map(of).collect()
}

/// What the elections so far have cost, and what one should; empty where one of the two is not known.
fn cost_line(document: &Document) -> String {
    let row = document.algorithm.as_deref().and_then(catalog::row);
    let (Some(row), Some(sent), Some(theory)) = (row, document.election_messages, document.theory) else {
        return String::new();
    };
    let counted = theory::counted(row);
    format!("{sent} {counted} since the start, announcements included; one election in theory: {theory}\n")
}

fn verdict_line(document: &Document, output: Output) -> String {
    let up = document.members.iter().filter(|member| member.up).count();
    let reachable = format!("{up} of {} members reachable", document.members.len());
    let (ink, words) = match (document.verdict, document.leader) {
        (_, Some(leader)) => (Ink::Green, format!("{leader} leads in epoch {}", document.epoch)),
        ("SPLIT", _) => {
            let named: BTreeSet<u32> = document.members.iter().filter_map(|member| member.leader).collect();
            let named: Vec<String> = named.iter().map(u32::to_string).collect();
            (Ink::Red, format!("members name different leaders ({})", named.join(", ")))
        }
        ("ELECTING", _) => (Ink::Yellow, "not everybody has found a leader that answers".to_owned()),
        _ => (Ink::Red, "too few members answer for anybody to lead".to_owned()),
    };
    let kind = [&document.algorithm, &document.topology, &document.safety];
    let kind: Vec<&str> = kind.into_iter().flatten().map(String::as_str).collect();
    let verdict = output.paint(ink, document.verdict);
    format!("{verdict}: {words}; {reachable} ({}: {})", document.cluster, kind.join(", "))
}
