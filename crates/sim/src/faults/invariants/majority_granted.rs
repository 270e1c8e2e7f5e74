//! E5: every quorum leader holds the grants of a majority of the voters of its list. The leader must have a role that
//! may lead, and each of the grants must come from a member that votes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use algorithms::{Epoch, NodeId, Uid};
use member::reign::Vote;
use member::{ListEvent, Role, Settings};
use types::MemberList;

use super::{Announced, Granted, Invariant, Scene};

pub(crate) struct MajorityGranted {
    settings: Settings,
    voters: usize,
    grants: BTreeMap<(Epoch, NodeId), BTreeSet<usize>>,
    /// Lists that voters have on disk, beside the first one.
    lists: BTreeSet<Arc<MemberList>>,
}

impl MajorityGranted {
    pub(crate) fn new(settings: &Settings, voters: usize) -> Self {
        MajorityGranted { settings: settings.clone(), voters, grants: BTreeMap::new(), lists: BTreeSet::new() }
    }
}

impl Invariant for MajorityGranted {
    fn granted(&mut self, granted: &Granted, members: &[Uid]) -> Result<(), String> {
        let who = members[granted.node];
        if !self.settings.votes(who.id) {
            return Err(format!("{who} has no vote and granted epoch {} to {}", granted.epoch, granted.holder.id));
        }
        self.grants.entry((granted.epoch, granted.holder.id)).or_default().insert(granted.node);
        Ok(())
    }

    fn recorded(&mut self, node: usize, vote: &Vote) -> Result<(), String> {
        if let Some(holder) = vote.holder {
            self.grants.entry((vote.epoch, holder.id)).or_default().insert(node);
        }
        Ok(())
    }

    fn listed(&mut self, _: usize, event: &ListEvent, _: &[Uid]) -> Result<(), String> {
        if let ListEvent::Adopted(list) = event {
            self.lists.insert(Arc::clone(list));
        }
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
        let granted = |id: NodeId| {
            let at = scene.members.iter().position(|uid| uid.id == id);
            let of = self.grants.get(&(epoch, who.id));
            at.is_some_and(|at| of.is_some_and(|grants| grants.contains(&at)))
        };
        if 2 * grants > self.voters || self.lists.iter().any(|list| list.is_majority(granted)) {
            return Ok(());
        }
        Err(format!("{who} leads in epoch {epoch} with {grants} grants of {}", self.voters))
    }
}
