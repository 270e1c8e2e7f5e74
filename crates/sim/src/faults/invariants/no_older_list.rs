//! E16: no voter grants an epoch under a list older than its own, and no list on a disk is replaced by an older one, as long
//! as the voter has its disk.

use std::collections::BTreeMap;

use algorithms::Uid;
use member::ListEvent;
use types::Stamp;

use super::{Granted, Invariant};

#[derive(Default)]
pub(crate) struct NoOlderList {
    last: BTreeMap<usize, Stamp>,
}

impl NoOlderList {
    fn note(&mut self, node: usize, stamp: Stamp, members: &[Uid]) -> Result<(), String> {
        match self.last.insert(node, stamp) {
            Some(before) if stamp < before => Err(format!("{} has list {stamp}, after list {before}", members[node])),
            _ => Ok(()),
        }
    }
}

impl Invariant for NoOlderList {
    fn wiped(&mut self, node: usize) {
        self.last.remove(&node);
    }

    fn granted(&mut self, granted: &Granted, members: &[Uid]) -> Result<(), String> {
        self.note(granted.node, granted.list, members)
    }

    fn listed(&mut self, node: usize, event: &ListEvent, members: &[Uid]) -> Result<(), String> {
        if let ListEvent::Adopted(list) = event { self.note(node, list.stamp, members) } else { Ok(()) }
    }
}
