//! What must hold at the end of a run.

use algorithms::theory::Range;
use algorithms::theory::mutex::Cost;

use super::audit::{Occasions, Times};
use super::driver::Outcome;
use super::report::MutexReport;
use super::{Contention, MutexExperiment};
use crate::experiment::Schedule;
use crate::observe::ROUND;

/// More sections than this may not begin during one wait. Machines that serve requests in order let each other member
/// pass once or twice; on a tree the queues along the way let more of them pass.
pub(crate) fn passed_by_limit(members: usize) -> u64 {
    4 * (members as u64).pow(2) + 16
}

/// Violations as text; empty if there are none.
pub(crate) fn violations(plan: &MutexExperiment, report: &MutexReport, outcome: &Outcome<'_>) -> Vec<String> {
    let mut broken = Vec::new();
    promises(plan, report, outcome, &mut broken);
    served(plan, report, outcome, &mut broken);
    if broken.is_empty() && plan.fault.is_none() && plan.crashes.is_empty() {
        costs(plan, report, outcome, &mut broken);
        delays(plan, report, &mut broken);
    }
    broken
}

fn promises(plan: &MutexExperiment, report: &MutexReport, outcome: &Outcome<'_>, broken: &mut Vec<String>) {
    let mut tell = |what: &str, occasions: &Occasions| {
        if occasions.count > 0 {
            broken.push(format!("{what}: {} times, first {}", occasions.count, occasions.first));
        }
    };
    let found = &outcome.audit.broken;
    tell("exclusion: a member entered while another one was inside", &found.overlaps);
    tell("fencing tokens: a section has no larger token than an earlier one", &found.tokens);
    tell("a member entered that had not asked", &found.uncalled);
    if plan.row.fair {
        tell("order: sections do not follow the timestamps of their requests", &found.order);
        if report.seen.overtakes > 0 {
            let (count, all) = (report.seen.overtakes, report.seen.entries);
            broken.push(format!("fairness: {count} of {all} sections began before one whose request happened before"));
        }
    }
}

/// Every request is served, and not after any number of others.
fn served(plan: &MutexExperiment, report: &MutexReport, outcome: &Outcome<'_>, broken: &mut Vec<String>) {
    let (starved, passed_by) = outcome.audit.starved();
    let alive: Vec<usize> = starved.into_iter().filter(|at| !outcome.dead.contains(at)).collect();
    if !alive.is_empty() {
        let names: Vec<String> = alive.iter().take(10).map(|&at| plan.ids[at].to_string()).collect();
        let served = report.seen.entries;
        broken.push(format!(
            "progress: {} members wait for ever ({}{}); {served} of {} requests were served",
            alive.len(),
            names.join(", "),
            if alive.len() > names.len() { ", ..." } else { "" },
            report.requests,
        ));
    }
    let (most, limit) = (passed_by.max(report.seen.passed_by_max), passed_by_limit(plan.ids.len()));
    if most > limit {
        broken.push(format!("starvation: {most} sections of others began during one wait, more than {limit}"));
    }
}

/// The numbers of messages: exact sums over all entries, by the position of the member that entered.
fn costs(plan: &MutexExperiment, report: &MutexReport, outcome: &Outcome<'_>, broken: &mut Vec<String>) {
    let members = plan.ids.len();
    let costs: Vec<Cost> = (0..members).map(|at| (plan.row.cost)(members, at)).collect();
    let saturated = plan.contention == Contention::Saturated && plan.requesters.is_none();
    // A token that circulates moves while no member wants it; only where all want it is every step part of an entry.
    if plan.row.endless && !saturated {
        return;
    }
    let sum = |of: &dyn Fn(&Cost) -> Range| {
        let add = |(min, max): (u64, u64), (count, cost): (&u64, &Cost)| {
            let range = of(cost);
            (min + count * range.min, max.saturating_add(count.saturating_mul(range.max)))
        };
        outcome.served.iter().zip(&costs).fold((0, 0), add)
    };
    let mut compare = |what: &str, (min, max): (u64, u64), got: u64| {
        if !(min..=max).contains(&got) {
            broken.push(format!("{what}: {got} for {} entries, theory says {min} to {max}", report.seen.entries));
        }
    };
    // In its first lap a circulating token may pass members that have not asked yet.
    let lap = if plan.row.endless { members as u64 } else { 0 };
    let (min, max) = sum(&|cost| cost.saturated.filter(|_| saturated).unwrap_or(cost.messages));
    compare("messages", (min, max.saturating_add(lap)), report.messages);
    for (nth, kind) in report.theory.kinds.iter().enumerate() {
        let counted = report.by_kind.iter().find(|counted| counted.name == kind.0).map_or(0, |counted| counted.count);
        let (min, max) = sum(&|cost| cost.kinds[nth].1);
        compare(&format!("{} messages", kind.0), (min, max.saturating_add(lap)), counted);
    }
}

/// Delays are exact if every message takes one round; else theory gives the longest only.
fn delays(plan: &MutexExperiment, report: &MutexReport, broken: &mut Vec<String>) {
    let mut compare = |what: &str, times: Times, range: Range| {
        let min = if plan.schedule == Schedule::Sync { range.min.saturating_mul(ROUND) } else { 0 };
        if times.samples > 0 && (times.min < min || times.max > range.max.saturating_mul(ROUND)) {
            let (min, _, max) = times.in_messages().unwrap_or_default();
            broken.push(format!("{what}: {min:.2} to {max:.2}, theory says {} to {}", range.min, range.max));
        }
    };
    compare("client delay in message times", report.seen.client_delay, report.theory.client_delay);
    compare("synchronisation delay in message times", report.seen.sync_delay, report.theory.sync_delay);
}
