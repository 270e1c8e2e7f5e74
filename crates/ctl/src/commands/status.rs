//! `ctl status`: a row per member and a verdict.

use std::collections::BTreeSet;
use std::time::Duration;

use algorithms::catalog;
use client::json::{Drifting, Election, Messages, Range, Status, StatusMember};
use client::{
    Answer, ClientError, ElectionSummary, Endpoint, MemberStatus, PriorityBy, Role, Safety, Topology, Verdict, View,
    expiry_in_words, format_duration, now_ms,
};

use super::theory;
use crate::args::Globals;
use crate::connection_options::{Target, no_member_answered};
use crate::failure::{Exit, Failure};
use crate::output::{Ink, Output, Table};

/// The remaining lease and the silence of a member change without events.
const REFRESH: Duration = Duration::from_secs(1);

/// Show a row per member, and whether they agree
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl status
  ctl status --watch
  ctl status -o json

Verdicts: AGREED (all reachable members name one leader and epoch, and it claims it), ELECTING, SPLIT, NO QUORUM.
HEARD is how long ago another member last heard from this one.
Exit codes: 0 agreed, 3 no member reachable, 4 not agreed, 8 refused.")]
pub(crate) struct Args {
    /// Show it again at every change, until interrupted
    #[arg(long)]
    watch: bool,
}

pub(crate) async fn run(args: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    let mut target = Target::resolve(globals)?;
    if args.watch {
        return follow(target, output).await;
    }
    let answers = target.ask_listed().await;
    let document = document(&target, &answers);
    show(&document, output)?;
    let failures: Vec<(&Endpoint, &ClientError)> = answers
        .iter()
        .filter_map(|answer| answer.result.as_ref().err().map(|error| (&answer.endpoint, error)))
        .collect();
    if failures.len() == answers.len() {
        Err(no_member_answered(&failures))
    } else if document.leader.is_none() {
        Err(Failure::silent(Exit::NoLeader))
    } else {
        Ok(())
    }
}

/// Asks again whenever a member reports a change: the streams give the moment, the answers the content.
async fn follow(mut target: Target, output: Output) -> Result<(), Failure> {
    let mut observer = target.observer();
    loop {
        let asked = target.endpoints.clone();
        let answers = target.ask_listed().await;
        if asked != target.endpoints {
            observer = target.observer();
        }
        let document = document(&target, &answers);
        if output.is_terminal() && !output.is_json() {
            // Cursor home, overwrite, clear the rest: no flicker.
            Output::line(format!("\x1b[H{}\x1b[J", text(&document, output).replace('\n', "\x1b[K\n")))?;
        } else {
            show(&document, output)?;
        }
        // Only a terminal is refreshed without news: a log should contain changes only.
        if output.is_terminal() {
            let _ = tokio::time::timeout(REFRESH, observer.next()).await;
        } else {
            observer.next().await;
        }
        while tokio::time::timeout(Duration::ZERO, observer.next()).await.is_ok() {}
    }
}

fn document(target: &Target, answers: &[Answer]) -> Status {
    let statuses: Vec<&MemberStatus> = answers.iter().filter_map(|answer| answer.result.as_ref().ok()).collect();
    let views: Vec<View> = statuses.iter().map(|status| View::from(*status)).collect();
    let file = target.file.as_ref();
    let first = statuses.first();
    let safety = first.map(|status| status.safety).or_else(|| file.map(|file| file.safety));
    let verdict = Verdict::of(&views, &target.electorate(safety));
    let ids = whose(target, answers);
    let rows = answers.iter().zip(ids).map(|(answer, id)| row(answer, id, &statuses));
    let algorithm = first.map(|s| s.algorithm.clone()).or_else(|| file.and_then(|f| f.algorithm.clone()));
    // A member knows the size of the cluster, even if only some members are asked.
    let size = first.map(|s| s.peers.len() + 1).or_else(|| file.map(|f| f.peers.len()));
    let known = algorithm.as_deref().and_then(catalog::row).zip(size);
    let election = ElectionSummary::newest(&statuses);
    Status {
        schema: Status::SCHEMA,
        cluster: first.map_or_else(|| target.settings.cluster.clone(), |status| status.cluster.clone()),
        instance: target.instance.0,
        algorithm,
        topology: first.map(|status| status.topology).or_else(|| file.and_then(|file| file.topology)),
        safety,
        verdict: verdict.name(),
        leader: verdict.leader().map(|(leader, _)| leader),
        epoch: views.iter().map(|view| view.epoch).max().unwrap_or(0),
        members: rows.collect(),
        election_messages: first.map(|_| statuses.iter().map(|status| status.election_messages).sum()),
        theory: known.map(|(row, size)| theory::bounds((row.bounds)(size))),
        election: election.map(|election| Election::new(&election, theory::of_election(&election))),
        drifting: drifting(&statuses),
    }
}

/// Every pair of members once: if one clock runs fast against another, the other runs slow against the first.
fn drifting(statuses: &[&MemberStatus]) -> Vec<Drifting> {
    let mut found: Vec<Drifting> = Vec::new();
    for status in statuses {
        let max_ppm = status.max_drift_ppm;
        let measured = status.peers.iter().filter_map(|peer| Some((peer.id, peer.drift_ppm?)));
        for (member, ppm) in measured.filter(|(_, ppm)| ppm.unsigned_abs() > max_ppm / 2) {
            let known = |other: &Drifting| (other.member, other.against) == (status.id, member);
            if !found.iter().any(known) {
                found.push(Drifting { member, against: status.id, ppm, max_ppm });
            }
        }
    }
    found
}

/// The member of each endpoint. An endpoint that was given only as an address and does not answer is identified by its
/// place, if all other endpoints are in the config's order too.
fn whose(target: &Target, answers: &[Answer]) -> Vec<Option<u32>> {
    let known = |answer: &Answer| answer.result.as_ref().ok().map(|status| status.id).or(answer.endpoint.id);
    let ids: Vec<Option<u32>> = answers.iter().map(known).collect();
    let listed: Vec<Option<u32>> = target.file.iter().flat_map(|file| &file.peers).map(|peer| peer.id).collect();
    let in_order = ids.len() == listed.len() && ids.iter().zip(&listed).all(|(id, place)| id.is_none() || id == place);
    if in_order { listed } else { ids }
}

fn row(answer: &Answer, id: Option<u32>, statuses: &[&MemberStatus]) -> StatusMember {
    let heard_by = |other: &&MemberStatus| {
        let peer = other.peers.iter().find(|peer| Some(peer.id) == id)?;
        peer.last_heard_ms
    };
    let measured_by = |other: &&MemberStatus| {
        let peer = other.peers.iter().find(|peer| Some(peer.id) == id)?;
        peer.drift_ppm
    };
    let status = answer.result.as_ref().ok();
    StatusMember {
        id,
        address: answer.endpoint.address.clone(),
        up: status.is_some(),
        role: status.map(|status| status.role),
        leader: status.and_then(|status| status.leader),
        epoch: status.map(|status| status.epoch),
        incarnation: status.map(|status| status.incarnation),
        lease_ms: status.and_then(|status| status.lease_ms),
        sent: status.map(|status| status.sent),
        received: status.map(|status| status.received),
        last_heard_ms: statuses.iter().filter_map(heard_by).min(),
        faults: status.map(|status| status.faults.clone()),
        blank: status.map(|status| status.blank),
        cluster_id: status.and_then(|status| status.cluster_id.clone()),
        old_volume: status.map(|status| status.old_volume),
        drift_ppm: statuses.iter().filter_map(measured_by).max_by_key(|ppm| ppm.unsigned_abs()),
        key_ids: status.map(|status| status.key_ids.clone()),
        expires_ms: status.and_then(|status| status.expires_ms),
        priority: status.map(|status| status.priority),
        priority_by: status.map(|status| status.priority_by),
        active_list: status.and_then(|status| status.active_list.clone()),
        trouble: answer.result.as_ref().err().map(ToString::to_string),
    }
}

fn show(document: &Status, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        Output::json(document)?;
    } else {
        Output::line(text(document, output))?;
    }
    Ok(())
}

fn text(document: &Status, output: Output) -> String {
    let mut table =
        Table::new(&["ID", "ROLE", ">LEADER", ">EPOCH", ">LEASE", ">HEARD", ">SENT", ">RECEIVED", "ADDRESS"]);
    let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let time = |ms: Option<u64>| ms.map_or_else(|| "-".to_owned(), |ms| format_duration(Duration::from_millis(ms)));
    for member in &document.members {
        let ink = match member.role {
            Some(Role::Leader) => Some(Ink::Green),
            Some(Role::Candidate) => Some(Ink::Yellow),
            None => Some(Ink::Red),
            _ => None,
        };
        let address = match &member.trouble {
            Some(trouble) => format!("{} ({trouble})", member.address),
            None => member.address.clone(),
        };
        table.row([
            (number(member.id.map(u64::from)), None),
            (member.role.map_or("down", Role::name).to_owned(), ink),
            (number(member.leader.map(u64::from)), None),
            (number(member.epoch), None),
            (time(member.lease_ms), None),
            (time(member.last_heard_ms), None),
            (number(member.sent), None),
            (number(member.received), None),
            (address, None),
        ]);
    }
    let faults = active_lists(document)
        + &priorities(document)
        + &faults(document, output)
        + &clocks(document, output)
        + &certificates(document, output);
    let (cost, verdict) = (election_line(document), verdict_line(document, output));
    format!("{}\n\n{cost}{faults}{verdict}", table.render(output))
}

/// The lists of active members, where the algorithm keeps them: one line if all are the same.
fn active_lists(document: &Status) -> String {
    let mut lists: Vec<(&Vec<u32>, Vec<String>)> = Vec::new();
    for member in &document.members {
        let (Some(id), Some(list)) = (member.id, &member.active_list) else { continue };
        match lists.iter_mut().find(|(known, _)| *known == list) {
            Some((_, members)) => members.push(id.to_string()),
            None => lists.push((list, vec![id.to_string()])),
        }
    }
    let line = |(list, members): &(&Vec<u32>, Vec<String>)| {
        let list: Vec<String> = list.iter().map(ToString::to_string).collect();
        format!("active list of {}: {}\n", members.join(", "), list.join(", "))
    };
    lists.iter().map(line).collect()
}

/// Of members whose priority is not 0, or comes from elsewhere than the list: such a cluster elects by more than ids.
fn priorities(document: &Status) -> String {
    let of = |member: &StatusMember| {
        let (id, priority, by) = (member.id?, member.priority?, member.priority_by?);
        let source = if by == PriorityBy::List { String::new() } else { format!(" ({})", by.name()) };
        (priority > 0 || by != PriorityBy::List).then(|| format!("{id}: {priority}{source}"))
    };
    let all: Vec<String> = document.members.iter().filter_map(of).collect();
    if all.is_empty() { String::new() } else { format!("priorities of the next election: {}\n", all.join(", ")) }
}

/// A line per member with injected faults: they explain why the cluster misbehaves.
fn faults(document: &Status, output: Output) -> String {
    let of = |member: &StatusMember| {
        let faults = member.faults.as_ref().filter(|faults| !faults.is_empty())?;
        let id = member.id.map_or_else(|| member.address.clone(), |id| id.to_string());
        Some(format!("{} at {id}: {}\n", output.paint(Ink::Yellow, "FAULTS"), faults.join(", ")))
    };
    document.members.iter().filter_map(of).collect()
}

/// A line per pair of clocks that run apart: leases are safe only within `max_drift`.
fn clocks(document: &Status, output: Output) -> String {
    let of = |&Drifting { member, against, ppm, max_ppm }: &Drifting| {
        let (how, ppm) = (if ppm > 0 { "fast" } else { "slow" }, ppm.unsigned_abs());
        let warning = output.paint(if ppm > max_ppm { Ink::Red } else { Ink::Yellow }, "CLOCKS");
        format!(
            "{warning} apart: that of {member} runs {ppm} ppm {how} against that of {against}; leases allow for {max_ppm} \
             (max_drift)\n"
        )
    };
    document.drifting.iter().map(of).collect()
}

/// A line per member whose certificate ends soon.
fn certificates(document: &Status, output: Output) -> String {
    let of = |member: &StatusMember| {
        let end = expiry_in_words(member.expires_ms?, now_ms())?;
        let id = member.id.map_or_else(|| member.address.clone(), |id| id.to_string());
        let ink = if end.starts_with("has") { Ink::Red } else { Ink::Yellow };
        Some(format!("{} of {id} {end}: `ctl secret rotate` makes new ones\n", output.paint(ink, "CERTIFICATE")))
    };
    document.members.iter().filter_map(of).collect()
}

/// The cost of the last election, and the theory for exactly that case.
fn election_line(document: &Status) -> String {
    let Some(election) = &document.election else { return String::new() };
    let list = |ids: &[u32]| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let kinds = election.messages.by_kind.iter().map(|(kind, count)| format!("{kind} {count}"));
    let started = election.initiators.as_deref().filter(|ids| !ids.is_empty());
    let started = started.map_or_else(String::new, |ids| format!(", started by {}", list(ids)));
    let theory = match (&election.theory, &document.theory) {
        (Some(expected), _) => {
            format!("theory for this case: {} + {}", range(expected.election), range(expected.announcement))
        }
        _ if !election.complete => "not all participants have answered, so theory is not compared".to_owned(),
        (None, Some(bounds)) => format!("theory for any such election: {}", theory::in_words(bounds)),
        (None, None) => "theory has no number for this case".to_owned(),
    };
    let Messages { election: elected, announcement, .. } = &election.messages;
    format!(
        "last election of {}{started}: {elected} messages + {announcement} to announce it ({}); {theory}\n",
        list(&election.participants),
        kinds.collect::<Vec<_>>().join(", ")
    )
}

fn range(Range { min, max }: Range) -> String {
    match max {
        Some(max) if max == min => min.to_string(),
        Some(max) => format!("{min} to {max}"),
        None => format!("{min} or more"),
    }
}

fn verdict_line(document: &Status, output: Output) -> String {
    let up = document.members.iter().filter(|member| member.up).count();
    let reachable = format!("{up} of {} members reachable", document.members.len());
    let (ink, words) = match (document.verdict, document.leader) {
        (_, Some(leader)) => (Ink::Green, format!("{leader} leads in epoch {}", document.epoch)),
        ("SPLIT", _) => {
            let named: BTreeSet<u32> = document.members.iter().filter_map(|member| member.leader).collect();
            let named: Vec<String> = named.iter().map(u32::to_string).collect();
            (Ink::Red, format!("members name different leaders ({})", named.join(", ")))
        }
        ("ELECTING", _) => (Ink::Yellow, "not all members have found a leader that answers".to_owned()),
        _ => (Ink::Red, "too few members answer for any member to lead".to_owned()),
    };
    let kind =
        [document.algorithm.as_deref(), document.topology.map(Topology::name), document.safety.map(Safety::name)];
    let kind: Vec<&str> = kind.into_iter().flatten().collect();
    let verdict = output.paint(ink, document.verdict);
    format!("{verdict}: {words}; {reachable} ({}: {})", document.cluster, kind.join(", "))
}
