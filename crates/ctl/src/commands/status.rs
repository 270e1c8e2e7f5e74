//! `ctl status`: a row per member and a verdict.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use client::json::{Drifting, Election, Messages, Status, StatusMember};
use client::{PriorityBy, Role, Safety, Topology, expiry_in_words, format_instant, now_ms};

use super::theory;
use crate::args::Globals;
use crate::connection_options::{Target, failures, no_member_answered};
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

Verdicts: AGREED (all reachable members name one leader and epoch, and it claims it), ELECTING, SPLIT, NO QUORUM
(too few voters answer), UNREACHABLE (no member answers).
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
    let document = target.status(&answers);
    show(&document, output)?;
    let failures = failures(&answers);
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
        let document = target.status(&answers);
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

fn show(document: &Status, output: Output) -> Result<(), Failure> {
    Ok(output.show(document, || text(document, output))?)
}

fn text(document: &Status, output: Output) -> String {
    let mut table = Table::new(&[
        "ID",
        "ROLE",
        ">LEADER",
        ">EPOCH",
        ">LEASE",
        ">HEARD",
        ">SENT",
        ">RECEIVED",
        "VERSION",
        "ADDRESS",
    ]);
    let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let time = |ms: Option<u64>| ms.map_or_else(|| "-".to_owned(), rounded);
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
            (member.version.clone().unwrap_or_else(|| "-".to_owned()), None),
            (address, None),
        ]);
    }
    let faults = active_lists(document)
        + &priorities(document)
        + &attached(document, output)
        + &maintenance(document, output)
        + &faults(document, output)
        + &clocks(document, output)
        + &certificates(document, output);
    let (cost, verdict) = (election_line(document), verdict_line(document, output));
    format!("{}\n\n{cost}{faults}{verdict}", table.render(output))
}

/// A time in few characters, rounded down: `35ms`, `1.2s`, `48s`, `12m`, `3h`, `5d`.
pub(super) fn rounded(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms}ms"),
        1..10 => format!("{seconds}.{}s", ms % 1000 / 100),
        10..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
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

/// Where commands of `ctl lead` run or wait; nothing where none does and no member stands only for them.
fn attached(document: &Status, output: Output) -> String {
    let at = |of: &dyn Fn(&&StatusMember) -> bool| {
        document.members.iter().filter(of).filter_map(|member| member.id).map(|id| id.to_string()).collect::<Vec<_>>()
    };
    let some = at(&|member| member.attached.is_some_and(|count| count > 0));
    let idle = at(&|member| member.stands_attached == Some(true) && member.attached == Some(0));
    let mut lines = String::new();
    if !some.is_empty() {
        let _ = writeln!(lines, "commands of `ctl lead` are attached to {}", some.join(", "));
    }
    for member in &document.members {
        if let (Some(id), Some(load), Some(capacity)) = (member.id, member.load, member.capacity) {
            let _ = writeln!(lines, "the command at {id} does {load} of {capacity}{}", share(load, capacity));
        }
    }
    let leader = document.leader.map(|leader| leader.to_string());
    if let Some(leader) = leader.filter(|leader| !some.is_empty() && !some.contains(leader)) {
        let warning = output.paint(Ink::Yellow, "NO WORKER");
        let _ = writeln!(lines, "{warning}: nothing is attached to the leader {leader}");
    }
    if !idle.is_empty() {
        let _ = writeln!(lines, "{} do not stand: nothing is attached to them (stand = \"attached\")", idle.join(", "));
    }
    lines
}

/// How much of what it could do a command does, in words.
fn share(load: f64, capacity: f64) -> String {
    if capacity > 0.0 { format!(" ({:.0} %)", 100.0 * load / capacity) } else { String::new() }
}

/// Orders of operators that last for a while.
fn maintenance(document: &Status, output: Output) -> String {
    let mut lines = String::new();
    for (id, until) in document.members.iter().filter_map(|member| member.id.zip(member.rests_until_ms)) {
        let until = format_instant(until);
        let time = until.get(11..19).unwrap_or(&until);
        let _ = writeln!(lines, "{id} does not stand until {time} UTC, unless no other member can lead");
    }
    let held = document.members.iter().filter(|member| member.held == Some(true)).filter_map(|member| member.id);
    for id in held {
        let _ = writeln!(lines, "{id} is held: no better member takes over (`ctl elect` ends that)");
    }
    if document.paused {
        let who = document.keeps.map_or_else(|| "nobody".to_owned(), |keeps| keeps.to_string());
        let word = output.paint(Ink::Yellow, "PAUSED");
        let _ = writeln!(lines, "{word}: no elections until `ctl resume`; only {who} may lead");
    }
    lines
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
    let theory = match &election.theory {
        Some(expected) => {
            let Messages { election, announcement, .. } = expected;
            format!("theory for this case: {} + {}", theory::range(*election), theory::range(*announcement))
        }
        None => why_no_theory(document, election),
    };
    let Messages { election: elected, announcement, .. } = &election.messages;
    format!(
        "last election of {}{started}: {elected} messages + {announcement} to announce it ({}); {theory}\n",
        list(&election.participants),
        kinds.collect::<Vec<_>>().join(", ")
    )
}

/// What stands in place of the theory for exactly this case.
pub(super) fn why_no_theory(document: &Status, election: &Election) -> String {
    match &document.theory {
        _ if !election.complete => "not all participants have answered, so theory is not compared".to_owned(),
        Some(bounds) => format!("theory for any such election: {}", theory::in_words(bounds)),
        None => "theory has no number for this case".to_owned(),
    }
}

/// What the verdict means, and how many members answer.
pub(super) fn verdict_in_words(document: &Status) -> (String, String) {
    let up = document.members.iter().filter(|member| member.up).count();
    let words = match (document.verdict, document.leader) {
        (_, Some(leader)) if document.members.iter().all(|member| member.id != Some(leader)) => {
            format!(
                "{leader} leads in epoch {}, as all say that were asked; {leader} itself was not asked",
                document.epoch
            )
        }
        (_, Some(leader)) => format!("{leader} leads in epoch {}", document.epoch),
        ("UNREACHABLE", _) => "no member answers".to_owned(),
        ("SPLIT", _) => {
            let named: BTreeSet<u32> = document.members.iter().filter_map(|member| member.leader).collect();
            let named: Vec<String> = named.iter().map(u32::to_string).collect();
            format!("members name different leaders ({})", named.join(", "))
        }
        ("ELECTING", _) => "not all members have found a leader that answers".to_owned(),
        _ => "too few members answer for any member to lead".to_owned(),
    };
    (words, format!("{up} of {} members reachable", document.members.len()))
}

fn verdict_line(document: &Status, output: Output) -> String {
    let ink = match (document.verdict, document.leader) {
        (_, Some(_)) => Ink::Green,
        ("ELECTING", _) => Ink::Yellow,
        _ => Ink::Red,
    };
    let (words, reachable) = verdict_in_words(document);
    let kind =
        [document.algorithm.as_deref(), document.topology.map(Topology::name), document.safety.map(Safety::name)];
    let kind: Vec<&str> = kind.into_iter().flatten().collect();
    let verdict = output.paint(ink, document.verdict);
    format!("{verdict}: {words}; {reachable} ({}: {})", document.cluster, kind.join(", "))
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn times_stay_short() {
        let hour = 3_600_000;
        let times = [0, 35, 999, 1_231, 9_999, 10_000, 119_999, 120_000, 2 * hour, 47 * hour, 48 * hour];
        let expected = ["0ms", "35ms", "999ms", "1.2s", "9.9s", "10s", "119s", "2m", "2h", "47h", "2d"];
        assert_eq!(times.map(rounded), expected);
    }
}
