//! E5: every quorum leader holds grants of a majority of the configured voters.

use std::collections::{BTreeMap, BTreeSet};

use algorithms::{Epoch, NodeId, Uid};
use member::Role;

use super::{Announced, Granted, Invariant, Scene};

#[derive(Default)]
pub(crate) struct AMajority {
    grants: BTreeMap<(Epoch, NodeId), BTreeSet<usize>>,
}

impl Invariant for AMajority {
    fn name(&self) -> &'static str {
        "E5"
    }

    fn granted(&mut self, granted: &Granted, _: &[Uid]) -> Result<(), String> {
        self.grants.entry((granted.epoch, granted.holder.id)).or_default().insert(granted.node);
        Ok(())
    }

    fn announced(&mut self, announced: &Announced, scene: &Scene<'_>) -> Result<(), String> {
        if announced.standing.role != Role::Leader {
            return Ok(());
        }
        let (who, epoch) = (scene.members[announced.node], announced.standing.epoch);
        let grants = self.grants.get(&(epoch, who.id)).map_or(0, BTreeSet::len);
        if 2 * grants > scene.members.len() {
            return Ok(());
        }
        Err(format!("{who} leads in epoch {epoch} with {grants} grants of {}", scene.members.len()))
    }
}
