//! E4: no voter grants one epoch to two holders, nor (E6) an epoch below its last, as long as it has its disk.

use std::collections::BTreeMap;

use algorithms::{Epoch, Uid};
use member::reign::Holder;

use super::{Granted, Invariant};

#[derive(Default)]
pub(crate) struct OneGrantPerEpoch {
    last: BTreeMap<usize, (Epoch, Holder)>,
}

impl Invariant for OneGrantPerEpoch {
    fn wiped(&mut self, node: usize) {
        self.last.remove(&node);
    }

    fn granted(&mut self, granted: &Granted, members: &[Uid]) -> Result<(), String> {
        let Granted { node, epoch, holder, .. } = *granted;
        match self.last.insert(node, (epoch, holder)) {
            Some((before, other)) if epoch < before || (epoch == before && other != holder) => Err(format!(
                "{} granted epoch {epoch} to {}, after epoch {before} to {}",
                members[node], holder.id, other.id
            )),
            _ => Ok(()),
        }
    }
}
