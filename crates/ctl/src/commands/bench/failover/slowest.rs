//! What the slowest failover waited for: its steps, each with the member that took it, by the stamps of their ledgers.

use std::time::Duration;

use client::history::Ledgers;
use client::{LedgerEntry, LedgerKind};
use serde::Serialize;

use super::course::{Course, Ending};
use super::milliseconds;

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Slowest {
    /// Counts from 1.
    pub(super) trial: u32,
    pub(super) ms: f64,
    /// Who reported the successor last.
    pub(super) last_member: u32,
    /// The longest part, in words.
    pub(super) waited_for: String,
    /// From the fault to the last report, in order.
    pub(super) parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Part {
    /// What was done when it was over.
    pub(super) what: String,
    /// Whose stamp ended it.
    pub(super) member: u32,
    /// From the fault to the end of this part.
    pub(super) after_ms: f64,
    pub(super) took_ms: f64,
}

impl Slowest {
    pub(super) fn of(trial: u32, course: &Course, ending: &Ending, ledgers: &Ledgers) -> Self {
        let (winner, last) = (ending.successor, ending.last.member);
        let mut marks = marks(course, ending, ledgers);
        marks.push((ending.last.after, last, format!("the report of member {last} reached ctl")));
        // Two members' steps may cross: a step that was over before the one in front of it took no time.
        let mut before = Duration::ZERO;
        let parts: Vec<Part> = marks
            .into_iter()
            .map(|(after, member, what)| {
                let took = after.saturating_sub(before);
                before = before.max(after);
                Part { what, member, after_ms: milliseconds(after), took_ms: milliseconds(took) }
            })
            .collect();
        let longest = parts.iter().max_by(|a, b| a.took_ms.total_cmp(&b.took_ms));
        let waited_for = longest
            .map_or_else(String::new, |part| format!("{:.1} ms until {}, winner {winner}", part.took_ms, part.what));
        let ms = milliseconds(ending.last.after);
        Slowest { trial, ms, last_member: last, waited_for, parts }
    }

    /// One line for people.
    pub(super) fn line(&self) -> String {
        let parts: Vec<String> =
            self.parts.iter().map(|part| format!("{} after {:.1} ms", part.what, part.after_ms)).collect();
        let Slowest { trial, ms, last_member, waited_for, .. } = self;
        format!(
            "slowest: {ms:.1} ms in trial {trial}: member {last_member} reported last; it waited {waited_for} ({})",
            parts.join("; ")
        )
    }
}

type Mark = (Duration, u32, String);

/// What the members' own ledgers tell of the way there. A step that no ledger at hand has is left out.
fn marks(course: &Course, ending: &Ending, ledgers: &Ledgers) -> Vec<Mark> {
    let (winner, last) = (ending.successor, ending.last.member);
    let during = |id: u32| during(course, ending, ledgers, id);
    let survivors = ledgers.members.iter().map(|ledger| ledger.id).filter(|id| *id != course.old);
    let left = |id: u32| during(id).find(|(_, kind)| leaves(kind, course.old)).map(|(at, _)| (at, id));
    let mut marks = Vec::new();
    if let Some((at, id)) = survivors.clone().filter_map(left).min() {
        marks.push((at, id, format!("member {id}, the first, left the old leader")));
    }
    if let Some((at, id)) = left(winner) {
        marks.push((at, id, format!("the winner {id} left it")));
    }
    // Under quorum the majority's grant is what the winner waits for: the last one before it led.
    let leads = during(winner).find(|(_, kind)| names(kind, winner));
    let before = leads.map_or(Duration::MAX, |(at, _)| at);
    let grants =
        survivors.flat_map(|id| during(id).filter(|(_, kind)| grants(kind, winner)).map(move |(at, _)| (at, id)));
    if let Some((at, id)) = grants.filter(|(at, _)| *at <= before).max() {
        marks.push((at, id, format!("voter {id} granted the epoch")));
    }
    if let Some((at, _)) = leads {
        marks.push((at, winner, format!("the winner {winner} led")));
    }
    if let Some((at, _)) = during(last).filter(|(_, kind)| names(kind, winner)).last().filter(|_| last != winner) {
        marks.push((at, last, format!("member {last} followed it")));
    }
    marks
}

/// What a member wrote down from the fault to its end, by the time since the fault.
fn during<'a>(
    course: &Course,
    ending: &Ending,
    ledgers: &'a Ledgers,
    id: u32,
) -> impl Iterator<Item = (Duration, &'a LedgerKind)> {
    let (start, took) = (course.start_boot, ending.last.after);
    let entries = ledgers.members.iter().filter(move |ledger| ledger.id == id).flat_map(|ledger| &ledger.entries);
    let since = move |entry: &LedgerEntry| Duration::from_nanos(entry.boot_ns).checked_sub(start);
    entries.filter_map(move |entry| since(entry).filter(|since| *since <= took).map(|since| (since, &entry.kind)))
}

fn leaves(kind: &LedgerKind, old: u32) -> bool {
    matches!(kind, LedgerKind::Became { leader, .. } if *leader != Some(old))
}

fn names(kind: &LedgerKind, whom: u32) -> bool {
    matches!(kind, LedgerKind::Became { leader, .. } if *leader == Some(whom))
}

fn grants(kind: &LedgerKind, whom: u32) -> bool {
    matches!(kind, LedgerKind::Granted { holder, .. } if *holder == whom)
}
