//! The operator's settings that a textbook machine may know.

use std::time::Duration;

use crate::catalog::{Algorithm, Row};
use types::{NodeId, Wins};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    pub wins: Wins,
    /// Bully's T: an answer that has not arrived within this time will not arrive.
    pub answer_timeout: Duration,
    /// Bully's T': a member that answered must have announced a coordinator within this time.
    pub coordinator_timeout: Duration,
    /// Members without a vote, where an algorithm counts votes.
    pub learners: Vec<NodeId>,
    /// Which machine [`AnyElection`](crate::catalog::AnyElection) is; textbook machines do not read it.
    pub algorithm: Option<Algorithm>,
}

impl Settings {
    /// The defaults of this row.
    pub fn of(row: &Row) -> Self {
        let default = Settings::default();
        let coordinator_timeout = default.answer_timeout * row.coordinator_factor;
        Settings { wins: row.wins, coordinator_timeout, algorithm: Some(row.algorithm), ..default }
    }

    pub fn votes(&self, id: NodeId) -> bool {
        !self.learners.contains(&id)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            wins: Wins::Highest,
            answer_timeout: Duration::from_millis(100),
            coordinator_timeout: Duration::from_millis(300),
            learners: Vec::new(),
            algorithm: None,
        }
    }
}

/// Settings of any machine: all of them know which uid wins.
pub trait Ranks {
    fn wins(&self) -> Wins;
}

impl Ranks for Settings {
    fn wins(&self) -> Wins {
        self.wins
    }
}
