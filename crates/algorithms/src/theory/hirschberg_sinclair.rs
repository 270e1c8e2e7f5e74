//! Hirschberg and Sinclair: candidates that double their reach.

use super::{Bounds, Case, Expectation, Range, ceil_log2};

fn bounds(n: usize, per_node: usize) -> Bounds {
    let log = ceil_log2(n) as usize;
    let best = if n == 1 { 2 } else { per_node * n + (4 << log) - 8 };
    Bounds { best: best as f64, mean: None, worst: (8 * n * (1 + log)) as f64 }
}

pub fn hirschberg_sinclair_bounds(n: usize) -> Bounds {
    bounds(n, 5)
}

pub fn hirschberg_sinclair_reply_bounds(n: usize) -> Bounds {
    bounds(n, 6)
}

/// The messages that one candidate causes.
#[derive(Clone, Copy, Default)]
struct Cost {
    out: usize,
    /// The way back from the end of its reach.
    back: usize,
    /// The way back of a refusal.
    refused: usize,
}

/// A candidate plays phase after phase until one in which a better id is within reach, or at most `phases` of them.
/// `left` and `right` are the hops to the next better id on either side.
fn candidate(n: usize, left: usize, right: usize, phases: u32) -> Cost {
    let mut cost = Cost::default();
    for phase in 0..phases {
        let reach = 1 << phase;
        for distance in [left, right] {
            cost.out += distance.min(reach);
            if distance > reach {
                cost.back += reach;
            } else if distance < n {
                cost.refused += distance;
            }
        }
        if left.min(right) <= reach {
            break;
        }
    }
    cost
}

/// The cost of all candidates, those that are not the best playing at most `phases` phases.
fn all(case: &Case<'_>, phases: u32) -> Cost {
    let (right, left) = (case.distances_to_better(true), case.distances_to_better(false));
    let n = case.n();
    let mut sum = Cost::default();
    for (left, right) in left.into_iter().zip(right) {
        let cost = candidate(n, left, right, if left == n { u32::MAX } else { phases });
        sum = Cost { out: sum.out + cost.out, back: sum.back + cost.back, refused: sum.refused + cost.refused };
    }
    sum
}

/// The best node wakes, plays its phases and completes a lap; the announcement makes another lap.
fn rounds(case: &Case<'_>) -> Option<Range> {
    let phases = 2 * ((1 << ceil_log2(case.n())) - 1);
    case.synchronous.then(|| Range::exactly(case.wake_both_ways(case.best()) + phases + 2 * case.n()))
}

/// Version without replies: independent of the schedule and of the initiators.
pub fn hirschberg_sinclair(case: &Case<'_>) -> Option<Expectation> {
    case.fault_free()?;
    let cost = all(case, u32::MAX);
    let kinds = [("out", Range::exactly(cost.out)), ("in", Range::exactly(cost.back))];
    Some(Expectation::new(&kinds, Some(("announce", Range::exactly(case.n()))), rounds(case)))
}

/// With refusals: exact if all start at once and messages take a round; else a passing better candidate may stop a
/// candidate early, but never before its first phase, which is the lower end.
pub fn hirschberg_sinclair_reply(case: &Case<'_>) -> Option<Expectation> {
    case.fault_free()?;
    let most = all(case, u32::MAX);
    let least = if case.synchronous && case.all_start() { most } else { all(case, 1) };
    let kinds = [
        ("from", Range::between(least.out, most.out)),
        ("ok", Range::between(least.back, most.back)),
        ("no", Range::between(least.refused, most.refused)),
    ];
    Some(Expectation::new(&kinds, Some(("announce", Range::exactly(case.n()))), rounds(case)))
}
