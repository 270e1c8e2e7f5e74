//! E17: two lists of members that are in force one after the other differ by at most one voter.

use std::collections::BTreeMap;
use std::sync::Arc;

use algorithms::Uid;
use member::ListEvent;
use types::{MemberList, Stamp};

use super::Invariant;

#[derive(Default)]
pub(crate) struct OneVoterApart {
    in_force: BTreeMap<Stamp, Arc<MemberList>>,
}

impl Invariant for OneVoterApart {
    fn listed(&mut self, node: usize, event: &ListEvent, members: &[Uid]) -> Result<(), String> {
        let ListEvent::InForce(list) = event else { return Ok(()) };
        self.in_force.insert(list.stamp, Arc::clone(list));
        let before = self.in_force.range(..list.stamp).next_back();
        match before.map(|(stamp, before)| (stamp, before.voters_apart(list))) {
            Some((stamp, apart)) if apart > 1 => {
                Err(format!("{} has list {} in force, {apart} voters apart from {stamp}", members[node], list.stamp))
            }
            _ => Ok(()),
        }
    }
}
