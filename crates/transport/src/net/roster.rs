//! Who is a peer: the list, which may change while the process runs; guests; and members that are known by their address
//! only.
//!
//! A *guest* is a member outside the list: it was removed, or is not added yet. It is connected and reported like a peer, is
//! never dialled, and is forgotten when its connection ends. A process without a list asks the processes at the addresses
//! that it was given for their ids, and then dials these members like peers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::Net;
use crate::accept::Arrival;
use crate::dial;
use crate::handshake::{PeerId, Refusal, RefuseCode};
use crate::link::Owner;
use crate::peer::{Backoff, Peer};

/// An address whose member is asked for its id.
#[derive(Debug)]
pub(super) struct Introduction {
    /// The member that answered.
    id: Option<PeerId>,
    /// The question under way, and its number.
    asking: Option<Asking>,
    asked: u64,
    backoff: Backoff,
}

/// A question under way; dropping it ends the question.
#[derive(Debug)]
struct Asking(AbortHandle);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Net {
    /// Keeps a connection to exactly these peers by dialling until each is connected. Other peers may still connect,
    /// and a connection that exists is not closed. Ids that are not in the list are ignored.
    pub fn want(&mut self, peers: &[PeerId]) {
        let introduced = self.introduced();
        for (id, peer) in &mut self.peers {
            peer.wanted = (peer.listed && peers.contains(id)) || introduced.contains(id);
            if !peer.wanted {
                peer.dial = None;
            }
        }
        let idle = |peer: &Peer| peer.wanted && peer.link.is_none() && peer.dial.is_none();
        let to_dial: Vec<PeerId> = self.peers.iter().filter(|(_, peer)| idle(peer)).map(|(id, _)| *id).collect();
        for id in to_dial {
            self.dial_now(id);
        }
    }

    /// Dials a wanted peer now instead of after its pause. An attempt that is under way continues.
    pub fn hurry(&mut self, peer: PeerId) {
        let Some(state) = self.peers.get_mut(&peer) else { return };
        state.backoff.reset();
        let under_way = state.dial.as_ref().is_some_and(|dial| !dial.stage.is_waiting());
        if state.wanted && state.link.is_none() && !under_way {
            self.dial_now(peer);
        }
    }

    /// Replaces the list. The connections of peers that stay are not touched, not even that of a peer whose address has
    /// changed: the address counts for its next dial. A connected peer that is not in the new list becomes a guest.
    pub fn set_peers(&mut self, peers: &[(PeerId, String)]) {
        let others = peers.iter().filter(|(id, _)| *id != self.settings.id);
        let listed: BTreeMap<PeerId, &str> = others.map(|(id, address)| (*id, address.as_str())).collect();
        let gone: Vec<PeerId> =
            self.peers.iter().filter(|(id, peer)| peer.listed && !listed.contains_key(id)).map(|(id, _)| *id).collect();
        for id in gone {
            if let Some(peer) = self.peers.get_mut(&id) {
                (peer.listed, peer.wanted, peer.dial) = (false, false, None);
            }
            self.context.dial_log.ended(id);
            self.forget_idle_guest(id);
        }
        for (id, address) in listed {
            self.list_peer(id, address);
        }
    }

    fn list_peer(&mut self, id: PeerId, address: &str) {
        let Some(peer) = self.peers.get_mut(&id) else {
            let peer = self.new_peer(id, address, true);
            self.peers.insert(id, peer);
            return;
        };
        peer.listed = true;
        let moved = peer.address != address;
        if moved {
            address.clone_into(&mut peer.address);
        }
        let redial = moved && peer.dial.take().is_some();
        if let Some(Owner::Peer { incarnation, .. }) = self.link_of(id).map(|link| link.owner) {
            self.context.seen.note(id, incarnation);
        }
        if redial {
            self.dial_now(id);
        }
    }

    fn new_peer(&self, id: PeerId, address: &str, listed: bool) -> Peer {
        Peer::new(address.to_owned(), listed, self.gone_dials, self.backoff(u64::from(id)))
    }

    fn backoff(&self, salt: u64) -> Backoff {
        Backoff::new(self.settings.backoff_min, self.settings.backoff_max, self.seed ^ salt)
    }

    /// Is this peer in the list?
    pub fn is_listed(&self, peer: PeerId) -> bool {
        self.peers.get(&peer).is_some_and(|peer| peer.listed)
    }

    /// Makes room for a member outside the list that asks to be connected.
    pub(super) fn receive_guest(&mut self, id: PeerId) -> Result<(), Refusal> {
        if self.peers.contains_key(&id) {
            return Ok(());
        }
        let guests = self.peers.values().filter(|peer| !peer.listed).count();
        if guests >= self.settings.guests_max {
            let text = format!("n{id} is not in the list of n{}, which has {guests} guests already", self.settings.id);
            return Err(Refusal::new(RefuseCode::Busy, text));
        }
        let guest = self.new_peer(id, "", false);
        self.peers.insert(id, guest);
        Ok(())
    }

    /// Called when a guest's connection has ended, or was not made.
    pub(super) fn forget_idle_guest(&mut self, id: PeerId) {
        let idle = |peer: &Peer| !peer.listed && peer.link.is_none() && peer.dial.is_none() && peer.probe.is_none();
        if !self.peers.get(&id).is_some_and(idle) {
            return;
        }
        if let Some(guest) = self.peers.remove(&id) {
            self.gone_dials = self.gone_dials.max(guest.dials);
        }
        self.ask_again(id);
    }

    /// Keeps a connection to the members at these addresses, whose ids are not known, until this is called without
    /// them. For a process without a list.
    pub fn join(&mut self, addresses: &[String]) {
        self.introductions.retain(|address, _| addresses.contains(address));
        for address in addresses {
            if !self.introductions.contains_key(address) {
                let backoff = self.backoff(address.len() as u64);
                let introduction = Introduction { id: None, asking: None, asked: 0, backoff };
                self.introductions.insert(address.clone(), introduction);
                self.ask(address, Duration::ZERO);
            }
        }
        let introduced = self.introduced();
        let guests: Vec<PeerId> = self.peers.iter().filter(|(_, peer)| !peer.listed).map(|(id, _)| *id).collect();
        for id in guests.into_iter().filter(|id| !introduced.contains(id)) {
            if let Some(peer) = self.peers.get_mut(&id) {
                (peer.wanted, peer.dial) = (false, None);
            }
            self.forget_idle_guest(id);
        }
    }

    fn introduced(&self) -> BTreeSet<PeerId> {
        self.introductions.values().filter_map(|introduction| introduction.id).collect()
    }

    /// The member behind an address is gone, or another member has its address now.
    fn ask_again(&mut self, id: PeerId) {
        let of_it = self.introductions.iter_mut().filter(|(_, introduction)| introduction.id == Some(id));
        let again: Vec<(String, Duration)> = of_it
            .map(|(address, introduction)| {
                introduction.id = None;
                (address.clone(), introduction.backoff.pause())
            })
            .collect();
        for (address, pause) in again {
            self.ask(&address, pause);
        }
    }

    fn ask(&mut self, address: &str, pause: Duration) {
        let Some(introduction) = self.introductions.get_mut(address) else { return };
        introduction.asked += 1;
        let (attempt, timeout, to) = (introduction.asked, self.settings.dial_timeout, address.to_owned());
        let (context, arrivals) = (Arc::clone(&self.context), self.arrivals_in.clone());
        let task = tokio::spawn(async move {
            sleep(pause).await;
            let id = dial::ask(&context, &to, attempt, timeout).await;
            // The receiver is gone once the process shuts down; then the result is not needed.
            let _ = arrivals.send(Arrival::Introduced { address: to, attempt, id }).await;
        });
        introduction.asking = Some(Asking(task.abort_handle()));
    }

    /// The process at this address has told its id, or nothing.
    pub(super) fn was_introduced(&mut self, address: &str, attempt: u64, id: Option<PeerId>) {
        let Some(introduction) = self.introductions.get_mut(address) else { return };
        if introduction.asked != attempt {
            return;
        }
        introduction.asking = None;
        let Some(id) = id else {
            let pause = introduction.backoff.pause();
            return self.ask(address, pause);
        };
        introduction.id = Some(id);
        if id == self.settings.id {
            return;
        }
        if !self.peers.contains_key(&id) {
            let peer = self.new_peer(id, address, false);
            self.peers.insert(id, peer);
        }
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if !peer.listed {
            // A guest that was connected already has no address of its own.
            address.clone_into(&mut peer.address);
            peer.wanted = true;
            if peer.link.is_none() && peer.dial.is_none() {
                self.dial_now(id);
            }
        }
    }
}
