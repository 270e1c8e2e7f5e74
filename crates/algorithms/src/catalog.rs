//! The registry of algorithms: every harness (counts, model, faults, live cluster, docs) iterates it, and the one
//! dispatch from a name to a type is here. Adding an algorithm is one file and one row.

use crate::election::{bully, bully_1982, chang_roberts};
use crate::id::Wins;
use crate::protocol::{Election, Rounds};
use crate::theory::{self, Bounds, Case, Expectation};
use crate::view::Topology;

/// What a config gets that names no algorithm.
pub const DEFAULT: &str = "bully";

#[derive(Debug)]
pub struct Row {
    pub name: &'static str,
    /// Author and year.
    pub paper: &'static str,
    pub topology: Topology,
    /// Who wins unless the config says otherwise.
    pub wins: Wins,
    pub life: Life,
    /// What must hold for the published proof, in a line.
    pub assumes: &'static str,
    /// Can it be told to leave a healthy worse leader alone (`preempt = false`)?
    pub can_wait: bool,
    /// The largest cluster it is fit for live; simulations may go further.
    pub max_nodes: usize,
    /// T' as a multiple of T where the algorithm has the two; the config check and the default come from it.
    pub coordinator_factor: u32,
    /// Messages of a fault-free election without announcement, over all rings or start sets of n nodes.
    pub bounds: fn(usize) -> Bounds,
    /// What exactly one fault-free run must cost; `None` where theory says nothing about such a run.
    pub expect: fn(&Case<'_>) -> Option<Expectation>,
}

/// How `member` runs a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// A fresh machine per round: the papers' "no failure during the election" holds inside each round.
    PerRound,
    /// One machine for the life of the process: it has its own attempts and is never reset.
    Continuous,
}

/// Gets the type behind a row. A synchronous algorithm arrives as [`Rounds`], to be run bare or synchronised.
pub trait Visitor {
    type Output;
    fn election<E: Election>(self, row: &'static Row) -> Self::Output;
    fn rounds<R: Rounds>(self, row: &'static Row) -> Self::Output;
}

pub fn row(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

pub fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name)
}

/// Lists a row per line, with the type that implements it: `election` for machines, `rounds` for synchronous ones.
macro_rules! catalog {
    ($($method:ident $machine:ty => $row:expr;)*) => {
        pub static ROWS: &[Row] = &[$($row),*];

        /// The one place where a name becomes a type.
        pub fn dispatch<V: Visitor>(row: &'static Row, visitor: V) -> V::Output {
            let at = ROWS.iter().position(|known| known.name == row.name).expect("rows come from this catalog");
            let mut index = 0..;
            $(if index.next() == Some(at) { return visitor.$method::<$machine>(row); })*
            unreachable!("every row has a type")
        }
    };
}

catalog! {
    election bully::Bully => Row {
        name: "bully",
        paper: "textbook form of Garcia-Molina 1982",
        topology: Topology::Mesh,
        wins: Wins::Highest,
        life: Life::PerRound,
        assumes: "an answer takes at most T",
        can_wait: true,
        max_nodes: 256,
        coordinator_factor: 3,
        bounds: theory::bully_bounds,
        expect: theory::bully,
    };
    election bully_1982::Bully1982 => Row {
        name: "bully-1982",
        paper: "Garcia-Molina 1982",
        topology: Topology::Mesh,
        wins: Wins::Highest,
        life: Life::Continuous,
        assumes: "delivery and processing within T, no false timeouts",
        can_wait: false,
        max_nodes: 256,
        coordinator_factor: 6,
        bounds: theory::bully_1982_bounds,
        expect: theory::bully_1982,
    };
    election chang_roberts::OwnProbeFirst => Row {
        name: "chang-roberts",
        paper: "Chang & Roberts 1979, own probe first",
        topology: Topology::Ring,
        wins: Wins::Highest,
        life: Life::PerRound,
        assumes: "unidirectional ring, unique ids",
        can_wait: true,
        max_nodes: 256,
        coordinator_factor: 3,
        bounds: theory::chang_roberts_bounds,
        expect: theory::chang_roberts,
    };
    election chang_roberts::Substitute => Row {
        name: "chang-roberts-substitute",
        paper: "Chang & Roberts 1979, substituting wake rule",
        topology: Topology::Ring,
        wins: Wins::Highest,
        life: Life::PerRound,
        assumes: "unidirectional ring, unique ids",
        can_wait: true,
        max_nodes: 256,
        coordinator_factor: 3,
        bounds: theory::chang_roberts_substitute_bounds,
        expect: theory::chang_roberts_substitute,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_the_default_is_among_them() {
        let mut names: Vec<_> = names().collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
        assert!(row(DEFAULT).is_some());
    }

    struct Topologies;
    impl Visitor for Topologies {
        type Output = Topology;
        fn election<E: Election>(self, _: &'static Row) -> Topology {
            <E::Link as crate::view::Link>::TOPOLOGY
        }
        fn rounds<R: Rounds>(self, _: &'static Row) -> Topology {
            Topology::Ring
        }
    }

    #[test]
    fn the_dispatch_gives_each_row_a_machine_of_its_topology() {
        for row in ROWS {
            assert_eq!(dispatch(row, Topologies), row.topology, "{}", row.name);
        }
    }
}
