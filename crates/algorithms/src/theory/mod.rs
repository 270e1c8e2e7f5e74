//! Closed forms: the cost of an election, and in [`mutex`] that of an entry into a critical section. The only place with
//! formulas; tests, docs, plots and tables read it.

mod bully_family;
mod fewer_messages;
mod graph;
mod hirschberg_sinclair;
mod mesh;
pub mod mutex;
mod peterson_dolev_klawe_rodeh;
mod ring;
mod synchronous;

pub use bully_family::*;
pub use fewer_messages::*;
pub use graph::*;
pub use hirschberg_sinclair::*;
pub use mesh::*;
pub use peterson_dolev_klawe_rodeh::*;
pub use ring::*;
pub use synchronous::*;

use std::fmt;

use crate::view::Shape;
use types::{Uid, Wins};

/// One fault-free run, as far as it matters to theory.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// In ring order, clockwise = the sending direction.
    pub ids: &'a [Uid],
    pub wins: Wins,
    /// Positions that start an election, ascending, not empty.
    pub initiators: &'a [usize],
    /// Positions that are dead from the start but still in the view of all nodes, ascending.
    pub dead: &'a [usize],
    /// Did all messages take exactly one round, and all initiators start in round 0?
    pub synchronous: bool,
    pub before: Before,
    /// Of a graph ([`crate::View::shape`]).
    pub shape: Option<Shape>,
}

/// What the members did before this election, as far as an algorithm remembers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Before {
    /// The first election.
    #[default]
    Nothing,
    /// All members that live followed the one at this position.
    Followed(usize),
    /// All members followed one that is no member of this election: its connections are closed.
    Lost,
    /// Not known to the observer.
    Unknown,
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

    /// The same for all positions at once, in either direction: one pass with a stack of the positions still searching.
    fn distances_to_better(&self, clockwise: bool) -> Vec<usize> {
        let n = self.n();
        let at = |i: usize| if clockwise { i % n } else { (2 * n - 1 - i) % n };
        let mut distances = vec![n; n];
        let mut searching: Vec<usize> = Vec::new();
        for i in 0..2 * n {
            while let Some(&j) = searching.last()
                && self.wins.beats(self.ids[at(i)], self.ids[at(j)])
            {
                searching.pop();
                if j < n {
                    distances[at(j)] = i - j;
                }
            }
            searching.push(i);
        }
        distances
    }

    /// Clockwise hops from the nearest initiator: the round in which `at` wakes if every message takes a round.
    fn wake_clockwise(&self, at: usize) -> usize {
        let n = self.n();
        self.initiators.iter().map(|from| (at + n - from) % n).min().unwrap_or(0)
    }

    /// The same where messages travel both ways.
    fn wake_both_ways(&self, at: usize) -> usize {
        let n = self.n();
        let hops = |from: usize| (at + n - from) % n;
        self.initiators.iter().map(|&from| hops(from).min((n - hops(from)) % n)).min().unwrap_or(0)
    }

    /// `None`, for the functions of algorithms that assume no failure, if a node is dead.
    fn fault_free(&self) -> Option<()> {
        self.dead.is_empty().then_some(())
    }

    /// How many members beat `at`.
    fn betters(&self, at: usize) -> usize {
        self.ids.iter().filter(|&&id| self.wins.beats(id, self.ids[at])).count()
    }

    /// How many living members beat `at`.
    fn living_betters(&self, at: usize) -> usize {
        self.living().filter(|&other| self.wins.beats(self.ids[other], self.ids[at])).count()
    }

    fn living(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.n()).filter(|&at| !self.is_dead(at))
    }

    fn best_living(&self) -> Option<usize> {
        self.living().reduce(|a, b| if self.wins.beats(self.ids[b], self.ids[a]) { b } else { a })
    }

    fn living_initiators(&self) -> impl Iterator<Item = usize> + '_ {
        self.initiators.iter().copied().filter(|&at| !self.is_dead(at))
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

    pub fn at_least(value: usize) -> Self {
        Range { min: value as u64, max: u64::MAX }
    }

    pub fn contains(self, value: u64) -> bool {
        (self.min..=self.max).contains(&value)
    }

    fn plus(self, other: Range) -> Self {
        Range { min: self.min + other.min, max: self.max.saturating_add(other.max) }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Range { min, max } if min == max => write!(f, "{min}"),
            Range { min, max: u64::MAX } => write!(f, "{min} or more"),
            Range { min, max } => write!(f, "{min}..{max}"),
        }
    }
}

/// The exact cost of one run.
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

impl Expectation {
    /// From the kinds of the election itself and the kind of the announcement, if there is one.
    fn new(
        election: &[(&'static str, Range)],
        announcement: Option<(&'static str, Range)>,
        rounds: Option<Range>,
    ) -> Expectation {
        let zero = Range::exactly(0);
        Expectation {
            kinds: election.iter().copied().chain(announcement).collect(),
            election: election.iter().fold(zero, |sum, (_, range)| sum.plus(*range)),
            announcement: announcement.map_or(zero, |(_, range)| range),
            rounds,
        }
    }
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
            let case = Case {
                ids,
                wins: Wins::Highest,
                initiators: &[0],
                dead: &[],
                synchronous: true,
                before: Before::Nothing,
                shape: None,
            };
            chang_roberts(&case).map(|e| e.election)
        };
        assert_eq!(cost(&increasing), Some(Range::exactly(11)));
        assert_eq!(cost(&decreasing), Some(Range::exactly(21)));
    }
}
