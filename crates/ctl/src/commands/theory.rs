//! The cost of an election by theory, as every command prints it.

use algorithms::catalog;
use algorithms::theory::{self, Before, Bounds, Case, Expectation};
use client::json::{Messages, Range, Theory};
use client::{ElectionSummary, Topology};

/// Over all inputs.
pub(super) fn bounds(Bounds { best, mean, worst }: Bounds) -> Theory {
    Theory { best, mean, worst }
}

pub(super) fn in_words(theory: &Theory) -> String {
    let number = |value: f64| if value.is_finite() { format!("{value:.0}") } else { "unbounded".to_owned() };
    let mean = theory.mean.map_or_else(String::new, |mean| format!("mean {mean:.1}, "));
    format!("best {}, {mean}worst {}", number(theory.best), number(theory.worst))
}

/// The exact cost of this election; `None` if theory has no statement about such a case, or the case is not known.
pub(super) fn of_election(election: &ElectionSummary) -> Option<Messages<Range>> {
    let row = catalog::row(&election.algorithm)?;
    let (ids, initiators) = (election.uids.as_deref()?, election.initiator_positions()?);
    // In a mesh theory requires only that timers are long compared to messages; on a ring, that all messages take
    // equally long.
    let synchronous = row.topology == Topology::Mesh;
    // What members report does not contain the links of a graph: no theory there.
    let (before, shape) = (Before::Unknown, None);
    let case = Case { ids, wins: election.wins, initiators: &initiators, dead: &[], synchronous, before, shape };
    (row.expect)(&case).map(expected)
}

pub(super) fn expected(Expectation { kinds, election, announcement, .. }: Expectation) -> Messages<Range> {
    let by_kind = kinds.into_iter().map(|(kind, expected)| (kind.to_owned(), range(expected))).collect();
    Messages { election: range(election), announcement: range(announcement), by_kind }
}

fn range(expected: theory::Range) -> Range {
    Range { min: expected.min, max: Some(expected.max).filter(|&max| max != u64::MAX) }
}
