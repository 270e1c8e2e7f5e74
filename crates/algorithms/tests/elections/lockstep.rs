//! The driver of synchronous algorithms: what is sent in round r is read in round r + 1.

use algorithms::drive::Dice;
use algorithms::{Ctx, Next, Rounds};

use crate::subject::{Log, Plan, Run, Schedule, readable};

const MAX_ROUNDS: u64 = 1 << 21;

/// `skip`: believe a machine that says when it next has something to do.
pub(crate) fn run<R: Rounds>(plan: &Plan<'_>, skip: bool, mut log: Log<'_>) -> Run {
    let (n, members, settings) = (plan.view.len(), plan.view.members(), plan.settings());
    let mut dice = Dice(plan.seed);
    let wakes = wakes(plan, &mut dice);
    let mut run = Run::new::<R::Message>(n, false);
    let ctx = |node: usize, dice: u64| Ctx { me: members[node], view: plan.view, settings: &settings, dice };
    let mut nodes: Vec<R> = (0..n).map(|node| R::new(&ctx(node, dice.roll()))).collect();
    let mut quiet_until = vec![0; n];
    let mut inboxes: Vec<Vec<R::Message>> = vec![Vec::new(); n];
    for r in 0.. {
        let mut next: Vec<Vec<R::Message>> = vec![Vec::new(); n];
        for node in 0..n {
            let (awake, inbox) = (wakes[node] == Some(r), &inboxes[node]);
            if skip && !awake && inbox.is_empty() && r < quiet_until[node] {
                continue;
            }
            let out = &mut next[(node + 1) % n];
            let said = nodes[node].round(&ctx(node, dice.roll()), r, awake, inbox, out);
            quiet_until[node] = match said {
                Next::Quiet { until } => until,
                Next::Go | Next::Decided(_) => 0,
            };
            if let Next::Decided(outcome) = said {
                run.outcomes[node].push(outcome);
            }
            let eventful = awake || !inbox.is_empty() || !out.is_empty() || matches!(said, Next::Decided(_));
            if let (Some(log), true) = (&mut log, eventful) {
                let wakes = if awake { " wakes" } else { "" };
                log.push(format!("round {r}: {}{wakes}, reads {}", members[node], readable(plan.view, inbox)));
                log.extend(out.iter().map(|message| format!("    send {}", readable(plan.view, message))));
                if let Next::Decided(outcome) = said {
                    log.push(format!("    announce {}", readable(plan.view, &outcome)));
                }
            }
            for message in out.iter() {
                run.count(message);
            }
        }
        inboxes = next;
        let silent = inboxes.iter().all(Vec::is_empty);
        if !silent {
            run.rounds = r + 1;
        }
        let nothing_ahead = wakes.iter().flatten().all(|&wake| wake <= r) && quiet_until.iter().all(|&q| q == u64::MAX);
        if silent && nothing_ahead {
            return run;
        }
        if r == MAX_ROUNDS {
            break;
        }
    }
    run.endless = true;
    run
}

fn wakes(plan: &Plan<'_>, dice: &mut Dice) -> Vec<Option<u64>> {
    let mut wakes = vec![None; plan.view.len()];
    for &node in plan.initiators {
        let late = plan.schedule == Schedule::Random;
        wakes[node] = Some(if late { dice.below(2 * plan.view.len()) as u64 } else { 0 });
    }
    let first = wakes.iter().flatten().min().copied().unwrap_or(0);
    wakes.iter().map(|wake| wake.map(|round| round - first)).collect()
}
