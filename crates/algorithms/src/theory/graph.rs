//! Arbitrary graphs. The cost depends on the number of links and on the diameter, not on the order of the ids.

use super::{Bounds, Case, Expectation, Range};
use crate::view::{Shape, View};

/// Over all connected graphs of n nodes: a tree on which only the best starts; the complete graph with all traversals.
pub fn graph_bounds(n: usize) -> Bounds {
    let n = n as f64;
    Bounds { best: 2.0 * (n - 1.0), mean: None, worst: n * n * (n - 1.0) }
}

/// What theory says about one graph of n nodes, whichever nodes start.
pub fn bounds_of_graph(view: &View) -> Option<Bounds> {
    let (n, links) = (view.len() as f64, view.shape()?.links as f64);
    Some(Bounds { best: 2.0 * links, mean: None, worst: 2.0 * n * links })
}

/// Every wave or traversal costs at most 2m, and every node has at most one of its own.
struct Counts {
    links: usize,
    nodes: usize,
    /// Only the best node starts: there is no other wave or traversal.
    alone: bool,
}

impl Counts {
    fn of(case: &Case<'_>, shape: &Shape) -> Self {
        Counts { links: shape.links, nodes: case.n(), alone: case.initiators == [case.best()] }
    }

    /// A kind of message that one complete wave or traversal sends this many times.
    fn each(&self, times: usize) -> Range {
        if self.alone { Range::exactly(times) } else { Range::between(times, 2 * self.links * self.nodes) }
    }
}

pub fn dfs(case: &Case<'_>) -> Option<Expectation> {
    case.fault_free()?;
    let shape = case.shape?;
    let counts = Counts::of(case, &shape);
    let (m, n) = (counts.links, counts.nodes);
    let kinds = [("explore", counts.each(m)), ("accept", counts.each(n - 1)), ("reject", counts.each(m + 1 - n))];
    // One message at a time, and then LEADER down a tree of any depth.
    let rounds = (counts.alone && n > 1).then(|| Range::between(2 * m + 1, 2 * m + n - 1));
    Some(bounded(Expectation::new(&kinds, Some(("leader", Range::exactly(n - 1))), rounds), &counts))
}

pub fn echo(case: &Case<'_>) -> Option<Expectation> {
    case.fault_free()?;
    let shape = case.shape?;
    let counts = Counts::of(case, &shape);
    let (m, n) = (counts.links, counts.nodes);
    let kinds = [("explore", counts.each(2 * m + 1 - n)), ("echo", counts.each(n - 1))];
    // The farthest node is at least half of the diameter away: EXPLORE, ECHO and LEADER each go there.
    let rounds = shape.diameter.filter(|_| n > 1).map(|d| Range::between(3 * d.div_ceil(2), 4 * d + 1));
    Some(bounded(Expectation::new(&kinds, Some(("leader", Range::exactly(n - 1))), rounds), &counts))
}

/// All kinds together stay below the bound of each.
fn bounded(mut expectation: Expectation, counts: &Counts) -> Expectation {
    expectation.election.max = expectation.election.max.min((2 * counts.links * counts.nodes) as u64);
    expectation
}
