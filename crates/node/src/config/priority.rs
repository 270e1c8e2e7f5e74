//! `[priority]`: the command that prints this member's priority.

use std::time::Duration;

use algorithms::catalog::{Elects, Row};
use algorithms::{Uid, View, Wins};
use types::format_duration;

use super::Config;
use super::check::TIME_MAX;
use super::problems::Problems;
use super::read::or;
use super::section::{Found, Reader, Section};

const INTERVAL: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(2);
/// A command that runs more often than this would be the load that it measures.
const TIME_MIN: Duration = Duration::from_millis(100);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PriorityCommand {
    /// For `sh -c`.
    pub command: String,
    /// From the start of one run to the start of the next.
    pub interval: Duration,
    /// A run that takes longer is killed.
    pub timeout: Duration,
}

pub(super) struct PriorityDraft {
    command: Option<Found<String>>,
    interval: Option<Found<Duration>>,
    timeout: Option<Found<Duration>>,
}

pub(super) fn draft(reader: &mut Reader<'_>, section: &Section<'_>) -> PriorityDraft {
    PriorityDraft {
        command: reader.string(section, "command"),
        interval: reader.duration(section, "interval"),
        timeout: reader.duration(section, "timeout"),
    }
}

pub(super) fn resolve(draft: &PriorityDraft) -> Option<PriorityCommand> {
    let command = draft.command.as_ref()?.value.clone();
    let interval = or(draft.interval, INTERVAL);
    Some(PriorityCommand { command, interval, timeout: or(draft.timeout, TIMEOUT.min(interval)) })
}

pub(super) fn check(draft: &PriorityDraft, config: &Config, problems: &mut Problems) {
    let Some(command) = &draft.command else {
        for found in [draft.interval, draft.timeout].into_iter().flatten() {
            problems.push(found.line, "[priority] has no command", "write command = \"...\", or remove the table");
        }
        return;
    };
    if command.value.trim().is_empty() {
        let remedy = "write a command for `sh -c`, or remove the line";
        problems.push(command.line, "command in [priority] is empty", remedy);
    }
    for (key, found) in [("interval", draft.interval), ("timeout", draft.timeout)] {
        let Some(found) = found.filter(|found| found.value < TIME_MIN || found.value > TIME_MAX) else { continue };
        let message = format!("{key} = \"{}\" in [priority] cannot work", format_duration(found.value));
        let remedy = format!("write {} to {}", format_duration(TIME_MIN), format_duration(TIME_MAX));
        problems.push(found.line, message, remedy);
    }
    let interval = or(draft.interval, INTERVAL);
    if let Some(timeout) = draft.timeout.filter(|timeout| timeout.value > interval) {
        let message = format!("timeout in [priority] is longer than the interval ({})", format_duration(interval));
        problems.push(timeout.line, message, "write a shorter timeout or a longer interval");
    }
    if let Some(why) = refusal(config.row, &config.view(), config.settings.election.wins) {
        problems.push(command.line, format!("command in [priority]: {why}"), "remove it, or take another algorithm");
    }
}

/// Why members of this election cannot have other priorities; `None` if they can.
pub(crate) fn refusal(row: &Row, view: &View, wins: Wins) -> Option<String> {
    if row.elects == Elects::Anyone {
        return Some(format!("chance decides who wins {}: it compares no priorities", row.name));
    }
    let other = view.ranked(|uid| Uid { priority: uid.priority.saturating_add(1), ..uid });
    let possible = (row.check)(view, wins).is_err() || (row.check)(&other, wins).is_ok();
    (!possible).then(|| format!("{} counts with plain ids: its members have no priorities", row.name))
}
