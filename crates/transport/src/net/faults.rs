//! Faults on purpose; see [`mod@crate::chaos`].

use std::collections::BTreeMap;

use super::Net;
use crate::chaos::Faults;
use crate::handshake::PeerId;

impl Net {
    /// Replaces the faults between this process and a peer, for the present connection and for every later one. False
    /// if the peer is not configured.
    pub fn inject(&mut self, peer: PeerId, faults: Faults) -> bool {
        let Some(state) = self.peers.get(&peer) else { return false };
        self.context.faults.set(peer, faults);
        if let Some(link) = state.link.and_then(|key| self.links.get_mut(&key)) {
            link.set_faults(faults);
            // Held bytes flow again, in both directions.
            link.wake();
        }
        true
    }

    /// Ends every fault.
    pub fn heal(&mut self) {
        for peer in self.faults().into_keys() {
            // Also those of a peer that is in the list no more.
            self.context.faults.set(peer, Faults::default());
            self.inject(peer, Faults::default());
        }
    }

    /// The faults in force, by peer.
    pub fn faults(&self) -> BTreeMap<PeerId, Faults> {
        self.context.faults.all()
    }
}
