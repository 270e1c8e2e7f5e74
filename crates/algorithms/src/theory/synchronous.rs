//! Synchronous rings: messages traded for time.

use super::{Bounds, Case, Expectation, Range};
use crate::election::{numbers, time_slice, variable_speeds};
use types::Uid;

/// The small number of each position, or `None` where the algorithm refuses.
fn numbers(case: &Case<'_>, first: u32, limit: u32) -> Option<Vec<u32>> {
    let number = numbers::numbering(case.ids, case.wins, first);
    let fit = |&id: &Uid| Some(number(id)).filter(|&number| number <= limit && id.priority == 0);
    case.ids.iter().map(fit).collect()
}

pub fn time_slice_bounds(n: usize) -> Bounds {
    let messages = n as f64;
    Bounds { best: messages, mean: Some(messages), worst: messages }
}

/// One token makes one lap, after all the phases of smaller numbers have passed in silence.
pub fn time_slice(case: &Case<'_>) -> Option<Expectation> {
    case.fault_free()?;
    let n = case.n();
    let numbers = numbers(case, time_slice::FIRST, time_slice::LIMIT)?;
    let rounds = n * (numbers[case.best()] as usize + 1);
    let rounds = case.synchronous.then(|| Range::exactly(rounds));
    Some(Expectation::new(&[("token", Range::exactly(n))], None, rounds))
}

pub fn variable_speeds_bounds(n: usize) -> Bounds {
    let nf = n as f64;
    Bounds { best: nf, mean: None, worst: 4.0 * nf }
}

/// A candidate's token, counted in hops from its owner.
struct Token {
    at: usize,
    delay: usize,
    /// Hops to the first node that is awake: up to there it is fast.
    fast: usize,
    reach: usize,
}

impl Token {
    /// The round in which it arrives after this many hops, if nothing stops it.
    fn arrives(&self, hops: usize) -> usize {
        hops.min(self.fast) + hops.saturating_sub(self.fast) * (1 + self.delay)
    }

    fn leaves(&self, hops: usize) -> usize {
        self.arrives(hops) + if hops >= self.fast { self.delay } else { 0 }
    }
}

/// Exact if all candidates wake at once: from the best on, each token runs until it meets a better candidate or a node
/// that a better token reaches before this token leaves it.
pub fn variable_speeds(case: &Case<'_>) -> Option<Expectation> {
    case.fault_free()?;
    let n = case.n();
    let numbers = numbers(case, variable_speeds::FIRST, variable_speeds::LIMIT)?;
    let announcement = Some(("leader", Range::exactly(n)));
    if !case.synchronous {
        return Some(Expectation::new(&[("token", Range::between(n, 4 * n))], announcement, None));
    }
    let mut candidates = case.initiators.to_vec();
    candidates.sort_by_key(|&at| numbers[at]);
    let mut tokens: Vec<Token> = Vec::new();
    for at in candidates {
        let hops_to = |other: usize| (other + n - at - 1) % n + 1;
        let fast = case.initiators.iter().map(|&other| hops_to(other)).min()?;
        let mut token = Token { at, delay: (1 << numbers[at]) - 1, fast, reach: n };
        let stopped = |hops: usize| {
            tokens.iter().any(|better| {
                let there = ((at + hops) % n + n - better.at) % n;
                there == 0 || there <= better.reach && better.arrives(there) <= token.leaves(hops)
            })
        };
        token.reach = (1..n).find(|&hops| stopped(hops)).unwrap_or(n);
        tokens.push(token);
    }
    let messages = tokens.iter().map(|token| token.reach).sum();
    let rounds = Range::exactly(tokens.first()?.arrives(n) + n);
    Some(Expectation::new(&[("token", Range::exactly(messages))], announcement, Some(rounds)))
}
