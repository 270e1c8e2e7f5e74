//! E14: no two voters ever agree on different ids of the cluster. An id counts when it is announced, and when it is on a disk.

use member::ClusterId;

use super::Invariant;

#[derive(Default)]
pub(crate) struct OneClusterId {
    agreed: Option<ClusterId>,
}

impl Invariant for OneClusterId {
    fn named(&mut self, id: ClusterId) -> Result<(), String> {
        let agreed = *self.agreed.get_or_insert(id);
        if agreed == id { Ok(()) } else { Err(format!("the ids {agreed} and {id} were both agreed on")) }
    }
}
