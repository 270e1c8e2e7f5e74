//! The two later forms of Bully. Here `synchronous` means that timers are long compared to messages.

use super::{Before, Bounds, Case, Expectation, Range, bully};

/// Without a list of successors the election of Bully; else CRASHED to members that are to take over, and COORDINATOR.
pub fn improved_bully(case: &Case<'_>) -> Option<Expectation> {
    match case.before {
        Before::Nothing => {
            let plain = bully(case)?;
            let kinds: Vec<_> = plain.kinds.iter().copied().filter(|(name, _)| *name != "coordinator").collect();
            Some(Expectation::new(&[kinds.as_slice(), &[("crashed", Range::exactly(0))]].concat(), told(case), None))
        }
        Before::Followed(leader) if leader == case.best() => Some(succession(case, crashed(case)?, None)),
        // Members that are better than the leader are not on its list.
        Before::Followed(_) => None,
        Before::Lost => {
            let (crashed, rounds) = reported(case)?;
            Some(succession(case, crashed, rounds))
        }
        Before::Unknown => {
            // Lists may differ: every member that another member asks may then send CRASHED itself, but for the winner.
            let (plain, winner) = (bully(case)?, case.best_living().filter(|_| case.synchronous)?);
            let living = case.n() - case.dead.len();
            let most = living.saturating_sub(1) * (case.betters(winner) + 1);
            let mut kinds: Vec<(&'static str, Range)> = vec![("crashed", Range::between(0, most))];
            for (name, range) in plain.kinds.iter().filter(|(name, _)| *name != "coordinator") {
                kinds.push((name, Range { min: 0, max: range.max }));
            }
            Some(Expectation::new(&kinds, told(case), None))
        }
    }
}

fn succession(case: &Case<'_>, crashed: Range, rounds: Option<Range>) -> Expectation {
    let zero = Range::exactly(0);
    Expectation::new(&[("election", zero), ("answer", zero), ("crashed", crashed)], told(case), rounds)
}

/// CRASHED after the death of a coordinator that named all members, and the rounds of messages. No member tells a first
/// successor that misses the coordinator itself. Else k members that miss it tell the successor, unless its COORDINATOR is
/// faster than their own wait: N - 1 messages for k = 1, where N counts the coordinator that is gone.
fn reported(case: &Case<'_>) -> Option<(Range, Option<Range>)> {
    let winner = case.best_living().filter(|_| case.synchronous)?;
    let told = usize::from(case.n() > 1);
    match case.living_initiators().count() {
        _ if case.betters(winner) > 0 => Some((crashed(case)?, None)),
        _ if case.initiators.contains(&winner) => Some((Range::exactly(0), Some(Range::exactly(told)))),
        detectors => Some((Range::between(1, detectors), Some(Range::exactly(2)))),
    }
}

/// CRASHED where the list names all members: each initiator tries the dead ones, best first, then the winner. What one
/// initiator has found out saves others the search.
fn crashed(case: &Case<'_>) -> Option<Range> {
    let winner = case.best_living().filter(|_| case.synchronous)?;
    let (dead, initiators) = (case.betters(winner), case.living_initiators().count());
    let winner_starts = usize::from(case.initiators.contains(&winner));
    let most = initiators * (dead + 1) - winner_starts;
    if dead == 0 || initiators == 1 {
        return Some(Range::exactly(most));
    }
    Some(Range::between((initiators + dead).saturating_sub(winner_starts), most))
}

fn told(case: &Case<'_>) -> Option<(&'static str, Range)> {
    let winner = case.best_living()?;
    Some(("coordinator", Range::exactly(case.n() - 1 - case.betters(winner))))
}

pub fn modified_bully_bounds(n: usize) -> Bounds {
    // No node is dead. Best: the best node itself starts; worst: all but the best start, and each asks all its betters.
    let others = n as f64 - 1.0;
    Bounds { best: 0.0, mean: None, worst: others * n as f64 + others }
}

/// Each initiator asks its betters, those that live answer, and it grants once, unless the winner was faster.
pub fn modified_bully(case: &Case<'_>) -> Option<Expectation> {
    let winner = case.best_living().filter(|_| case.synchronous)?;
    let grants = case.living_initiators().filter(|&at| at != winner).count();
    let least = usize::from(grants > 0 && !case.initiators.contains(&winner));
    let granted = match grants {
        // All answers arrive in one round, so that no grant is faster than another.
        _ if case.dead.is_empty() && least == 1 => Range::exactly(grants),
        // The best of all wins at once, before any answer arrives.
        _ if case.betters(winner) == 0 && least == 0 => Range::exactly(0),
        _ => Range::between(least, grants),
    };
    let kinds = [
        ("election", Range::exactly(case.living_initiators().map(|at| case.betters(at)).sum())),
        ("ok", Range::exactly(case.living_initiators().map(|at| case.living_betters(at)).sum())),
        ("grant", granted),
    ];
    Some(Expectation::new(&kinds, told(case), None))
}
