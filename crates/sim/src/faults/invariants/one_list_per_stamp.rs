//! E15: no two lists of members have the same stamp.

use std::collections::BTreeMap;
use std::sync::Arc;

use algorithms::Uid;
use member::ListEvent;
use types::{MemberList, Stamp};

use super::Invariant;

#[derive(Default)]
pub(crate) struct OneListPerStamp {
    lists: BTreeMap<Stamp, Arc<MemberList>>,
}

impl Invariant for OneListPerStamp {
    fn listed(&mut self, node: usize, event: &ListEvent, members: &[Uid]) -> Result<(), String> {
        let (ListEvent::Known(list) | ListEvent::Adopted(list) | ListEvent::Proposed(list) | ListEvent::InForce(list)) =
            event
        else {
            return Ok(());
        };
        let known = self.lists.entry(list.stamp).or_insert_with(|| Arc::clone(list));
        if known == list { Ok(()) } else { Err(format!("{} has another list {}", members[node], list.stamp)) }
    }
}
