//! What must hold at the end of a bare run.

use algorithms::Uid;
use algorithms::catalog::Elects;
use algorithms::theory::Range;

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

/// Exactly one node won and all other living nodes follow it. If nodes died during the run, the winner may be among
/// them.
fn one_winner(run: &Experiment, trail: &Trail, broken: &mut Vec<String>) {
    let at = |wanted: fn(Verdict) -> bool| (0..run.ids.len()).filter(move |&at| wanted(trail.verdicts[at]));
    let died_later = run.crashes.iter().any(|crash| crash.1 > 0);
    let winners: Vec<_> = at(|v| v == Verdict::Won).take(10).map(|at| run.ids[at]).collect();
    if winners.len() > 1 {
        let names: Vec<String> = winners.iter().map(ToString::to_string).collect();
        broken.push(format!("more than one leader: {}", names.join(", ")));
    }
    if winners.is_empty() && !died_later {
        broken.push("no node won".into());
    }
    let undecided = at(Verdict::undecided).count();
    if undecided > 0 && !died_later {
        broken.push(format!("{undecided} of {} nodes never learnt the result", run.ids.len()));
    }
    if let [winner] = winners[..] {
        let astray = trail.verdicts.iter().filter(|v| matches!(v, Verdict::Follows(id) if *id != winner.id)).count();
        if astray > 0 {
            broken.push(format!("{astray} nodes follow another node than the winner {winner}"));
        }
    }
}

/// The winner is the node that the row specifies. Nothing is specified if a node died during the run.
fn right_winner(run: &Experiment, trail: &Trail, report: &Report, broken: &mut Vec<String>) {
    let eligible = |at: &usize| match run.row.elects {
        Elects::Best => true,
        Elects::BestCandidate => run.initiators.contains(*at),
        Elects::Anyone => false,
    };
    let alive = (0..run.ids.len()).filter(|&at| trail.verdicts[at] != Verdict::Dead);
    let best = run.wins.best(alive.filter(eligible).map(|at| run.ids[at]));
    let died_later = run.crashes.iter().any(|crash| crash.1 > 0);
    if best.is_some() && !died_later && report.leader != best {
        let name = |uid: Option<Uid>| uid.map_or("nobody".into(), |uid| uid.to_string());
        broken.push(format!("{} won, {} should have", name(report.leader), name(best)));
    }
}

fn costs(report: &Report, broken: &mut Vec<String>) {
    let Some(expected) = &report.expectation else { return };
    let mut compare = |what: &str, range: Range, got: u64| {
        if !range.contains(got) {
            let wanted =
                if range.min == range.max { range.min.to_string() } else { format!("{}..{}", range.min, range.max) };
            broken.push(format!("{what}: {got}, theory says {wanted}"));
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
