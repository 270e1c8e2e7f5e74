//! Closed forms: what an election must cost. The only place with formulas; tests, docs, plots and tables read it.

use crate::id::{Uid, Wins};

/// One fault-free run, as far as theory cares.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// In ring order, clockwise = the sending direction.
    pub ids: &'a [Uid],
    pub wins: Wins,
    /// Positions that start by their own will, ascending, not empty.
    pub initiators: &'a [usize],
    /// Positions that are dead from the start but still in everybody's view, ascending.
    pub dead: &'a [usize],
    /// Did all messages take exactly one round, and all initiators start in round 0?
    pub synchronous: bool,
}

impl Case<'_> {
    pub fn n(&self) -> usize {
        self.ids.len()
    }

    fn all_start(&self) -> bool {
        self.initiators.len() == self.n()
    }

    fn is_dead(&self, at: usize) -> bool {
        self.dead.binary_search(&at).is_ok()
    }

    /// The position of the uid that beats all others.
    pub fn best(&self) -> usize {
        (0..self.n()).reduce(|a, b| if self.wins.beats(self.ids[b], self.ids[a]) { b } else { a }).unwrap_or(0)
    }

    /// Clockwise hops from `at` to the next uid that beats it; n for the best itself.
    pub fn distance_to_better(&self, at: usize) -> usize {
        let n = self.n();
        (1..n).find(|hops| self.wins.beats(self.ids[(at + hops) % n], self.ids[at])).unwrap_or(n)
    }

    /// How many members beat `at`.
    fn betters(&self, at: usize) -> usize {
        self.ids.iter().filter(|&&id| self.wins.beats(id, self.ids[at])).count()
    }
}

/// An inclusive interval; a point where theory is exact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    pub min: u64,
    pub max: u64,
}

impl Range {
    pub fn exactly(value: usize) -> Self {
        Range { min: value as u64, max: value as u64 }
    }

    pub fn between(min: usize, max: usize) -> Self {
        Range { min: min as u64, max: max as u64 }
    }

    pub fn contains(self, value: u64) -> bool {
        (self.min..=self.max).contains(&value)
    }
}

/// What one run must cost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expectation {
    /// Messages per kind, by the kind's name; kinds not listed are not checked.
    pub kinds: Vec<(&'static str, Range)>,
    /// All messages that are not announcement.
    pub election: Range,
    pub announcement: Range,
    /// Synchronous rounds until the last message, where known.
    pub rounds: Option<Range>,
}

/// Election messages of n nodes without the announcement, over all inputs theory covers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounds {
    pub best: f64,
    pub mean: Option<f64>,
    pub worst: f64,
}

/// H_n = 1 + 1/2 + ... + 1/n
pub fn harmonic(n: usize) -> f64 {
    // Summed from the small end, so that 10^7 terms keep their digits.
    (1..=n).rev().map(|k| 1.0 / k as f64).sum()
}

/// The smallest k with 2^k >= n.
pub fn ceil_log2(n: usize) -> u32 {
    n.next_power_of_two().trailing_zeros()
}

/// The largest k with 2^k <= n.
pub fn floor_log2(n: usize) -> u32 {
    n.ilog2()
}

pub fn chang_roberts_bounds(n: usize) -> Bounds {
    let nf = n as f64;
    Bounds { best: 2.0 * nf - 1.0, mean: Some(nf * harmonic(n)), worst: nf * (nf + 1.0) / 2.0 }
}

/// Own probe first: every node's id travels to the next better one, whoever starts.
pub fn chang_roberts(case: &Case<'_>) -> Option<Expectation> {
    if !case.dead.is_empty() {
        return None;
    }
    let n = case.n();
    let probes = (0..n).map(|at| case.distance_to_better(at)).sum();
    let rounds = if !case.synchronous {
        None
    } else if case.all_start() {
        Some(Range::exactly(2 * n))
    } else {
        first_wake_to_best(case).map(|d| Range::exactly(d + 2 * n))
    };
    Some(ring_expectation("probe", Range::exactly(probes), "selected", n, rounds))
}

/// A single initiator's clockwise distance to the best node.
fn first_wake_to_best(case: &Case<'_>) -> Option<usize> {
    match case.initiators {
        [only] => Some((case.best() + case.n() - only) % case.n()),
        _ => None,
    }
}

pub fn chang_roberts_substitute_bounds(n: usize) -> Bounds {
    let nf = n as f64;
    Bounds { best: nf, mean: None, worst: nf * (nf + 1.0) / 2.0 }
}

/// Substitute: one initiator costs exactly d + n, all at once what own-probe-first costs, other sets lie between.
pub fn chang_roberts_substitute(case: &Case<'_>) -> Option<Expectation> {
    if !case.dead.is_empty() {
        return None;
    }
    let n = case.n();
    let all: usize = (0..n).map(|at| case.distance_to_better(at)).sum();
    let (probes, rounds) = match first_wake_to_best(case) {
        Some(d) => (Range::exactly(d + n), Some(Range::exactly(d + 2 * n))),
        None if case.all_start() && case.synchronous => (Range::exactly(all), Some(Range::exactly(2 * n))),
        None => (Range::between(n, all), None),
    };
    Some(ring_expectation("probe", probes, "selected", n, rounds.filter(|_| case.synchronous)))
}

fn ring_expectation(
    kind: &'static str,
    election: Range,
    announce: &'static str,
    n: usize,
    rounds: Option<Range>,
) -> Expectation {
    let announcement = Range::exactly(n);
    Expectation { kinds: vec![(kind, election), (announce, announcement)], election, announcement, rounds }
}

pub fn bully_bounds(n: usize) -> Bounds {
    // Nobody dead. Best: the best node itself starts; worst: the worst one does, and everybody joins in.
    let m = n as f64 - 1.0;
    Bounds { best: 0.0, mean: None, worst: m * (m + 1.0) }
}

/// Textbook Bully on a synchronous mesh: everybody at least as good as the worst initiator takes part once.
pub fn bully(case: &Case<'_>) -> Option<Expectation> {
    if !case.synchronous {
        return None;
    }
    let dead_best = match case.dead {
        [] => false,
        [one] if *one == case.best() => true,
        _ => return None,
    };
    let m = case.initiators.iter().filter(|&&at| !case.is_dead(at)).map(|&at| case.betters(at)).max()?;
    let asked = m * (m + 1) / 2;
    let answered = if dead_best { m * (m - 1) / 2 } else { asked };
    let told = case.n() - 1 - usize::from(dead_best);
    Some(Expectation {
        kinds: vec![
            ("election", Range::exactly(asked)),
            ("answer", Range::exactly(answered)),
            ("coordinator", Range::exactly(told)),
        ],
        election: Range::exactly(asked + answered),
        announcement: Range::exactly(told),
        rounds: None,
    })
}

pub fn bully_1982_bounds(n: usize) -> Bounds {
    // The best node itself runs it: three calls and three replies for each other one.
    let calls = 6.0 * (n as f64 - 1.0);
    Bounds { best: calls, mean: None, worst: f64::INFINITY }
}

/// Calls and replies when the best living node is the only one to start and at most the best of all is dead.
pub fn bully_1982(case: &Case<'_>) -> Option<Expectation> {
    let dead_best = match case.dead {
        [] => 0,
        [one] if *one == case.best() => 1,
        _ => return None,
    };
    let [only] = case.initiators else { return None };
    if !case.synchronous || case.betters(*only) != dead_best {
        return None;
    }
    let others = case.n() - 1 - dead_best;
    let each = Range::exactly(others);
    Some(Expectation {
        kinds: vec![
            ("are-you-up", Range::exactly(dead_best)),
            ("enter-election", each),
            ("set-coordinator", each),
            ("new-state", each),
        ],
        election: Range::exactly(dead_best + 6 * others),
        announcement: Range::exactly(0),
        rounds: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmonic_numbers_and_logarithms() {
        assert!((harmonic(4) - 25.0 / 12.0).abs() < 1e-12);
        assert_eq!([1, 2, 3, 4, 5, 8, 9].map(ceil_log2), [0, 1, 2, 2, 3, 3, 4]);
        assert_eq!([1, 2, 3, 4, 5, 8, 9].map(floor_log2), [0, 1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn chang_roberts_costs_least_on_increasing_and_most_on_decreasing_rings() {
        let increasing: Vec<Uid> = (1..=6).map(Uid::plain).collect();
        let decreasing: Vec<Uid> = (1..=6).rev().map(Uid::plain).collect();
        let cost = |ids: &[Uid]| {
            let case = Case { ids, wins: Wins::Highest, initiators: &[0], dead: &[], synchronous: true };
            chang_roberts(&case).map(|e| e.election)
        };
        assert_eq!(cost(&increasing), Some(Range::exactly(11)));
        assert_eq!(cost(&decreasing), Some(Range::exactly(21)));
    }
}
