//! E5: every quorum leader holds the grants of a majority of the configured voters. The leader must have a role that
//! may lead, and each of the grants must come from a member that votes.

use std::collections::{BTreeMap, BTreeSet};

use algorithms::{Epoch, NodeId, Uid};
use member::{Role, Settings};

use super::{Announced, Granted, Invariant, Scene};

pub(crate) struct MajorityGranted {
    settings: Settings,
    voters: usize,
    grants: BTreeMap<(Epoch, NodeId), BTreeSet<usize>>,
}

impl MajorityGranted {
    pub(crate) fn new(settings: &Settings, voters: usize) -> Self {
        MajorityGranted { settings: settings.clone(), voters, grants: BTreeMap::new() }
    }
}

impl Invariant for MajorityGranted {
    fn name(&self) -> &'static str {
        "E5"
    }

    fn granted(&mut self, granted: &Granted, members: &[Uid]) -> Result<(), String> {
        let who = members[granted.node];
        if !self.settings.votes(who.id) {
            return Err(format!("{who} has no vote and granted epoch {} to {}", granted.epoch, granted.holder.id));
        }
        self.grants.entry((granted.epoch, granted.holder.id)).or_default().insert(granted.node);
        Ok(())
    }

    fn announced(&mut self, announced: &Announced, scene: &Scene<'_>) -> Result<(), String> {
        if announced.standing.role != Role::Leader {
            return Ok(());
        }
        let (who, epoch) = (scene.members[announced.node], announced.standing.epoch);
        let grants = self.grants.get(&(epoch, who.id)).map_or(0, BTreeSet::len);
        if !self.settings.may_lead(who.id) {
            return Err(format!("{who} leads in epoch {epoch} and has not the role for it"));
        }
        if 2 * grants > self.voters {
            return Ok(());
        }
        Err(format!("{who} leads in epoch {epoch} with {grants} grants of {}", self.voters))
    }
}
