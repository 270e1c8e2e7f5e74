//! Bare runs: the textbook machines alone, with perfect links and, at most, nodes that die.
//!
//! The outbox writes straight into the event queue, so that a step allocates nothing; machines, ids and verdicts are
//! three flat arrays; everything is compiled once per algorithm, schedule and observer.

mod engine;
pub(crate) mod queue;
mod rounds;
pub(crate) mod timers;
mod wire;

use algorithms::catalog::Row;
use algorithms::drive::Counts;
use algorithms::{NodeId, Outcome, Settings, Uid, View, Wins};
use std::time::Duration;

pub(crate) use engine::{Engine, first_message, run_random, run_sync};
pub(crate) use rounds::run_rounds;

use crate::observe::ROUND;

/// One round as a machine's timers see it.
const ROUND_TIME: Duration = Duration::from_nanos(ROUND);

/// The description of a run, for any machine.
#[derive(Debug)]
pub(crate) struct Setup {
    pub view: View,
    pub settings: Settings,
    pub initiators: Initiators,
    /// Ascending by round.
    pub crashes: Vec<(usize, u64)>,
    pub seed: u64,
    /// A run that takes more steps than this is ended.
    pub step_limit: u64,
}

/// The initiators. `All` of ten million nodes needs no list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Initiators {
    All,
    /// Positions, ascending.
    At(Vec<usize>),
}

impl Initiators {
    pub fn count(&self, nodes: usize) -> usize {
        match self {
            Initiators::All => nodes,
            Initiators::At(positions) => positions.len(),
        }
    }

    pub fn get(&self, nth: usize) -> usize {
        match self {
            Initiators::All => nth,
            Initiators::At(positions) => positions[nth],
        }
    }

    pub fn contains(&self, at: usize) -> bool {
        match self {
            Initiators::All => true,
            Initiators::At(positions) => positions.binary_search(&at).is_ok(),
        }
    }

    pub fn positions(&self, nodes: usize) -> Vec<usize> {
        (0..self.count(nodes)).map(|nth| self.get(nth)).collect()
    }
}

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Trail {
    pub verdicts: Vec<Verdict>,
    /// Sends per kind.
    pub counts: Counts,
    /// The round of the last delivery; meaningful under the synchronous schedule.
    pub rounds: u64,
    pub steps: u64,
    pub peak_in_flight: usize,
    /// Bytes of the simulator's arrays at the end, machines included; without a machine's own heap memory.
    pub bytes: usize,
    pub wall: Duration,
    /// The part of the wall time in which this thread was on a processor.
    pub busy: Duration,
    /// The step limit ended the run.
    pub gave_up: bool,
    /// The list of active nodes that the first living node keeps, for algorithms with such a list.
    pub active: Option<Vec<Uid>>,
}

/// The result of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Verdict {
    #[default]
    Undecided,
    Won,
    Follows(NodeId),
    /// Knows that a node won, but not which.
    FollowsSomebody,
    /// Dead, whatever it decided before.
    Dead,
}

impl Verdict {
    pub(crate) fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Won => Verdict::Won,
            Outcome::Follow(Some(uid)) => Verdict::Follows(uid.id),
            Outcome::Follow(None) => Verdict::FollowsSomebody,
            Outcome::GaveUp | Outcome::Halted => Verdict::Undecided,
        }
    }

    pub(crate) fn undecided(self) -> bool {
        self == Verdict::Undecided
    }
}

/// Messages take at most one round, so T = 3 rounds is more than a call and its reply; T' is the row's multiple.
pub(crate) fn settings(row: &Row, wins: Wins) -> Settings {
    let answer_timeout = 3 * ROUND_TIME;
    let coordinator_timeout = answer_timeout * row.coordinator_factor.max(2);
    Settings { wins, answer_timeout, coordinator_timeout, ..Settings::default() }
}
