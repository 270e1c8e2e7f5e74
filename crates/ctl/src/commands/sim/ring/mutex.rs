//! The options of a bare run, where it is one of a mutual exclusion.

use algorithms::Uid;
use algorithms::catalog::mutex::{self, Row};
use sim::MutexExperiment;

use super::{RingArgs, Starters, positions};
use crate::failure::Failure;

impl RingArgs {
    /// The row of a mutual exclusion; `None` if this is an election.
    pub(in super::super) fn mutex(&self) -> Option<&'static Row> {
        mutex::row(&self.algorithm)
    }

    /// The run with the n-th seed from the given one on.
    pub(in super::super) fn mutex_experiment(
        &self,
        row: &'static Row,
        requests: u64,
        nth: u64,
    ) -> Result<MutexExperiment, Failure> {
        let graph = self.graph.is_some() || !self.links.is_empty();
        if self.initiators != Starters::All || self.wins.wins.is_some() || graph {
            return Err(Failure::usage("--initiators, --wins, --graph and --links are options of elections")
                .because(format!("{} is a mutual exclusion", row.name))
                .hint("--requesters ID,..."));
        }
        let seed = self.seed.wrapping_add(nth);
        let ids = self.uids(seed)?;
        let crashes = self.crashes(&ids)?;
        Ok(MutexExperiment { schedule: self.schedule, seed, crashes, ..MutexExperiment::new(row, ids, requests) })
    }
}

/// The positions of these ids.
pub(in super::super) fn places(
    ids: &[Uid],
    wanted: impl Iterator<Item = u32>,
    what: &str,
) -> Result<Vec<usize>, Failure> {
    positions(ids, wanted, what)
}
