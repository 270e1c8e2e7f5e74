//! What the slowest failover waited for: its steps, each with its member, by the stamps of the ledgers.

use std::time::Duration;

use client::history::Ledgers;
use client::{LedgerEntry, LedgerKind};
use serde::Serialize;

use super::course::{Course, Ending};
use super::machine::Machine;
use super::milliseconds;

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Slowest {
    /// Counts from 1.
    pub(super) trial: u32,
    pub(super) ms: f64,
    /// The member that reported the successor last.
    pub(super) last_member: u32,
    /// The longest part, as text.
    pub(super) waited_for: String,
    /// From the fault to the last report, in order.
    pub(super) parts: Vec<Part>,
    /// What the machine did during the trial.
    pub(super) machine: Machine,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Part {
    /// The event that ended it.
    pub(super) what: String,
    /// The member whose stamp ended it.
    pub(super) member: u32,
    /// From the fault to the end of this part.
    pub(super) after_ms: f64,
    pub(super) took_ms: f64,
}

impl Slowest {
    pub(super) fn of(trial: u32, course: &Course, ending: &Ending, ledgers: &Ledgers) -> Self {
        let last = ending.last.member;
        let mut marks = marks(course, ending, ledgers);
        marks.push((ending.last.after, last, format!("the report of member {last} reached ctl")));
        // Steps of two members may cross: a step that was over before the previous one took no time.
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
        let waited_for = longest.map_or_else(String::new, |part| format!("{:.1} ms until {}", part.took_ms, part.what));
        let ms = milliseconds(ending.last.after);
        Slowest { trial, ms, last_member: last, waited_for, parts, machine: course.machine() }
    }

    /// One line of text.
    pub(super) fn line(&self) -> String {
        let parts: Vec<String> =
            self.parts.iter().map(|part| format!("{} after {:.1} ms", part.what, part.after_ms)).collect();
        let Slowest { trial, ms, last_member, waited_for, machine, .. } = self;
        format!(
            "slowest: {ms:.1} ms in trial {trial}: member {last_member} reported last; it waited {waited_for} ({}; the \
             machine in that time: {})",
            parts.join("; "),
            machine.in_words()
        )
    }
}

/// A member writes an entry after it has sent the report.
const STAMPED_LATE: Duration = Duration::from_millis(5);

type Mark = (Duration, u32, String);

/// The steps that the members' own ledgers record. A step that no available ledger has is left out.
fn marks(course: &Course, ending: &Ending, ledgers: &Ledgers) -> Vec<Mark> {
    let (winner, last) = (ending.successor, ending.last.member);
    let during = |id: u32| during(course, ending, ledgers, id);
    let survivors = ledgers.members.iter().map(|ledger| ledger.id).filter(|id| *id != course.old);
    let left = |id: u32| during(id).find(|(_, kind)| leaves(kind, course.old)).map(|(at, _)| (at, id));
    let mut marks = Vec::new();
    // This process may see the end later than the old leader's peers, so it is not a step of its own.
    let eof = course.eof.map_or_else(String::new, |eof| {
        format!(" (its connection to ctl had ended after {:.1} ms)", milliseconds(eof))
    });
    if let Some((at, id)) = survivors.clone().filter_map(left).min() {
        marks.push((at, id, format!("member {id}, the first, left the old leader{eof}")));
    }
    if let Some((at, id)) = left(winner) {
        marks.push((at, id, format!("the winner {id} left it")));
    }
    // Under quorum the winner waits for the majority's grant: the last grant before it led.
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

/// The entries of a member from the fault to its end, by the time since the fault.
fn during<'a>(
    course: &Course,
    ending: &Ending,
    ledgers: &'a Ledgers,
    id: u32,
) -> impl Iterator<Item = (Duration, &'a LedgerKind)> {
    let (start, took) = (course.start_boot, ending.last.after);
    let entries = ledgers.members.iter().filter(move |ledger| ledger.id == id).flat_map(|ledger| &ledger.entries);
    let since = move |entry: &LedgerEntry| Duration::from_nanos(entry.boot_ns).checked_sub(start);
    let due = move |entry| since(entry).filter(|since| *since <= took + STAMPED_LATE);
    entries.filter_map(move |entry| due(entry).map(|since| (since.min(took), &entry.kind)))
}

fn leaves(kind: &LedgerKind, old: u32) -> bool {
    matches!(kind, LedgerKind::Became(became) if became.leader() != Some(old))
}

fn names(kind: &LedgerKind, whom: u32) -> bool {
    matches!(kind, LedgerKind::Became(became) if became.leader() == Some(whom))
}

fn grants(kind: &LedgerKind, whom: u32) -> bool {
    matches!(kind, LedgerKind::Granted { holder, .. } if *holder == whom)
}

#[cfg(test)]
mod tests {
    use client::history::MemberLedger;
    use client::{Cause, Report, Role, Standing, Transition};
    use types::{Epoch, NodeId, Stamp};

    use super::super::course::tests::reported;

    use super::*;

    fn ledger(course: &Course, id: u32, entries: &[(u64, LedgerKind)]) -> MemberLedger {
        let boot_ns = |ms: u64| (course.start_boot + Duration::from_millis(ms)).as_nanos() as u64;
        let entries = entries.iter().zip(1..).map(|((ms, kind), sequence)| LedgerEntry {
            sequence,
            wall_ms: 0,
            boot_ns: boot_ns(*ms),
            boot_id: [0; 16],
            kind: kind.clone(),
        });
        MemberLedger { id, entries: entries.collect(), ..MemberLedger::default() }
    }

    fn became(leader: Option<u32>) -> LedgerKind {
        let now = Standing { role: Role::Follower, leader: leader.map(NodeId), epoch: Epoch(2) };
        LedgerKind::Became(Transition { old: None, now, cause: Cause::Heard, lease_until_ns: None })
    }

    /// Member 3 is killed; 2 succeeds it after 40 ms, and 1 reports that after 42.
    fn ended() -> (Course, Ending) {
        let mut course = Course::begin(3, vec![0, 1], 3);
        for (at, ms) in [(1, 41), (0, 42)] {
            let news = reported(at as u32 + 1, Some(2), u64::MAX);
            course.take(&Report { at, when: course.after(Duration::from_millis(ms)), news });
        }
        let ending = course.ending().unwrap();
        (course, ending)
    }

    #[test]
    fn the_longest_step_is_what_it_waited_for() {
        let (course, ending) = ended();
        let granted = LedgerKind::Granted { epoch: 2, holder: 2, list: Stamp::FIRST };
        let members = vec![
            ledger(&course, 1, &[(1, became(None)), (39, granted), (41, became(Some(2))), (900, became(None))]),
            ledger(&course, 2, &[(2, became(None)), (40, became(Some(2)))]),
            ledger(&course, 3, &[(1, became(None))]),
        ];
        let slowest = Slowest::of(7, &course, &ending, &Ledgers { members, ..Ledgers::default() });
        let steps: Vec<(u32, f64)> = slowest.parts.iter().map(|part| (part.member, part.after_ms)).collect();
        assert_eq!(steps, [(1, 1.0), (2, 2.0), (1, 39.0), (2, 40.0), (1, 41.0), (1, 42.0)]);
        assert_eq!((slowest.trial, slowest.ms, slowest.last_member), (7, 42.0, 1));
        assert!(slowest.waited_for.starts_with("37.0 ms until voter 1 granted"), "{}", slowest.waited_for);
        assert!(
            slowest.line().starts_with("slowest: 42.0 ms in trial 7: member 1 reported last"),
            "{}",
            slowest.line()
        );
    }

    #[test]
    fn without_ledgers_only_the_report_is_known() {
        let (course, ending) = ended();
        let slowest = Slowest::of(1, &course, &ending, &Ledgers::default());
        assert_eq!(slowest.parts.len(), 1);
        assert_eq!((slowest.parts[0].took_ms, slowest.parts[0].member), (42.0, 1));
    }
}
