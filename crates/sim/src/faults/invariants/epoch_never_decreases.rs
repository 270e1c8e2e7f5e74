//! E2: a node's epoch never decreases, restarts that kept the state included.

use algorithms::Epoch;

use super::{Announced, Invariant, Scene};

pub(crate) struct EpochNeverDecreases {
    last: Vec<Epoch>,
}

impl EpochNeverDecreases {
    pub(crate) fn new(nodes: usize) -> Self {
        EpochNeverDecreases { last: vec![Epoch(0); nodes] }
    }
}

impl Invariant for EpochNeverDecreases {
    fn wiped(&mut self, node: usize) {
        self.last[node] = Epoch(0);
    }

    fn announced(&mut self, announced: &Announced, scene: &Scene<'_>) -> Result<(), String> {
        let epoch = announced.standing.epoch;
        let before = std::mem::replace(&mut self.last[announced.node], epoch);
        if epoch >= before {
            return Ok(());
        }
        let (who, start) = (scene.members[announced.node], announced.start);
        Err(format!("{who} went back from epoch {before} to {epoch} in start {start}"))
    }
}
