//! The cost of an election by theory, in the shape of the JSON.

use algorithms::catalog;
use algorithms::theory::{self, Before, Bounds, Case, Expectation};
use types::Topology;

use crate::election::ElectionSummary;
use crate::json::{Messages, Range, Theory};

impl From<Bounds> for Theory {
    /// Over all inputs.
    fn from(Bounds { best, mean, worst }: Bounds) -> Self {
        Theory { best, mean, worst }
    }
}

/// The exact cost of this election; `None` if theory has no statement about such a case, or the case is not known.
/// `before`: what the members knew of a leader when it began.
pub fn theory_of(election: &ElectionSummary, before: Before) -> Option<Messages<Range>> {
    let row = catalog::row(&election.algorithm)?;
    let (ids, initiators) = (election.uids.as_deref()?, election.initiator_positions()?);
    // In a mesh theory requires only that timers are long compared to messages; on a ring, that all messages take
    // equally long.
    let synchronous = row.topology == Topology::Mesh;
    // What members report does not contain the links of a graph: no theory there.
    let shape = None;
    let case = Case { ids, wins: election.wins, initiators: &initiators, dead: &[], synchronous, before, shape };
    (row.expect)(&case).map(Messages::from)
}

impl From<Expectation> for Messages<Range> {
    fn from(Expectation { kinds, election, announcement, .. }: Expectation) -> Self {
        let by_kind = kinds.into_iter().map(|(kind, expected)| (kind.to_owned(), range(expected))).collect();
        Messages { election: range(election), announcement: range(announcement), by_kind }
    }
}

fn range(expected: theory::Range) -> Range {
    Range { min: expected.min, max: Some(expected.max).filter(|&max| max != u64::MAX) }
}
