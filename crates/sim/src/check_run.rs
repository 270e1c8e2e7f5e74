//! What must hold at the end of a bare run.

use algorithms::catalog::Elects;
use algorithms::theory::Range;
use algorithms::{Topology, Uid};

use crate::bare::{Trail, Verdict};
use crate::experiment::{Experiment, Report};

/// Violations as text; empty if there are none.
pub(crate) fn violations(run: &Experiment, trail: &Trail, report: &Report) -> Vec<String> {
    let mut broken = Vec::new();
    if trail.gave_up {
        broken.push(format!("no end after {} steps", trail.steps));
    }
    one_winner(run, trail, &mut broken);
    if broken.is_empty() {
        right_winner(run, trail, report, &mut broken);
        costs(report, &mut broken);
    }
    broken
}

/// Did the election not end because nodes crashed? In a mesh timers detect nodes that are dead from the start; no other
/// crash is covered by the published algorithms.
pub(crate) fn stuck(run: &Experiment, trail: &Trail) -> Option<String> {
    let undecided = trail.verdicts.iter().filter(|verdict| verdict.undecided()).count();
    if run.crashes.is_empty() || undecided == 0 || covered(run) {
        return None;
    }
    let assumes = match run.row.elects {
        Elects::Majority => "a majority of the nodes lives",
        _ => "no node crashes during an election",
    };
    Some(format!(
        "stuck: outside the model: {undecided} of {} nodes never learnt the result, and the published algorithm assumes that \
         {assumes}",
        run.ids.len()
    ))
}

/// Does the published algorithm cover the crashes of this run?
fn covered(run: &Experiment) -> bool {
    let can_elect = run.row.elects != Elects::Majority || 2 * run.crashes.len() < run.ids.len();
    run.row.topology == Topology::Mesh && can_elect && run.crashes.iter().all(|crash| crash.1 == 0)
}

/// Exactly one node won and all other living nodes follow it. If nodes crashed and the algorithm does not cover that, the
/// winner may be among them, or there may be none.
fn one_winner(run: &Experiment, trail: &Trail, broken: &mut Vec<String>) {
    let at = |wanted: fn(Verdict) -> bool| (0..run.ids.len()).filter(move |&at| wanted(trail.verdicts[at]));
    let outside = !run.crashes.is_empty() && !covered(run);
    let winners: Vec<_> = at(|v| v == Verdict::Won).take(10).map(|at| run.ids[at]).collect();
    if winners.len() > 1 {
        let names: Vec<String> = winners.iter().map(ToString::to_string).collect();
        broken.push(format!("more than one leader: {}", names.join(", ")));
    }
    if winners.is_empty() && !outside {
        broken.push("no node won".into());
    }
    let undecided = at(Verdict::undecided).count();
    if undecided > 0 && !outside {
        broken.push(format!("{undecided} of {} nodes never learnt the result", run.ids.len()));
    }
    if let [winner] = winners[..] {
        let astray = trail.verdicts.iter().filter(|v| matches!(v, Verdict::Follows(id) if *id != winner.id)).count();
        if astray > 0 {
            broken.push(format!("{astray} nodes follow another node than the winner {winner}"));
        }
    }
}

/// The winner is the node that the row specifies. Nothing is specified of crashes that the algorithm does not cover.
fn right_winner(run: &Experiment, trail: &Trail, report: &Report, broken: &mut Vec<String>) {
    let eligible = |at: &usize| match run.row.elects {
        Elects::Best => true,
        Elects::BestCandidate => run.initiators.contains(*at),
        Elects::FirstCandidate | Elects::Majority | Elects::Anyone => false,
    };
    let alive = (0..run.ids.len()).filter(|&at| trail.verdicts[at] != Verdict::Dead);
    let best = run.wins.best(alive.filter(eligible).map(|at| run.ids[at]));
    let outside = !run.crashes.is_empty() && !covered(run);
    if best.is_some() && !outside && report.leader != best {
        let name = |uid: Option<Uid>| uid.map_or("nobody".into(), |uid| uid.to_string());
        broken.push(format!("{} won, {} should have", name(report.leader), name(best)));
    }
}

fn costs(report: &Report, broken: &mut Vec<String>) {
    let Some(expected) = &report.expectation else { return };
    let mut compare = |what: &str, range: Range, got: u64| {
        if !range.contains(got) {
            broken.push(format!("{what}: {got}, theory says {range}"));
        }
    };
    for &(kind, range) in &expected.kinds {
        compare(&format!("{kind} messages"), range, report.messages.of(kind).unwrap_or(0));
    }
    compare("election messages", expected.election, report.messages.election);
    compare("announcement messages", expected.announcement, report.messages.announcement);
    if let (Some(range), Some(rounds)) = (expected.rounds, report.rounds) {
        compare("rounds", range, rounds);
    }
}
