//! Finished handshakes become links; failed dials lead to the next dial.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use tokio::time::Instant;
use tracing::info;

use super::{ARRIVALS_PER_TURN, Net};
use crate::accept::{Accepted, Arrival, Authenticated};
use crate::admit::{Admission, Claim, admit};
use crate::codec;
use crate::dial::{Connected, Dial, DialError, Running, Stage};
use crate::event::{ClientId, DownReason, Event};
use crate::exchange::SecureChannel;
use crate::handshake::{PeerId, Refusal, RefuseCode, Verdict};
use crate::link::{Link, Owner};
use crate::net::traffic::READS_TO_DRAIN;

impl Net {
    pub(super) fn take_arrivals(&mut self, cx: &mut TaskContext<'_>) {
        for _ in 0..ARRIVALS_PER_TURN {
            match self.arrivals.poll_recv(cx) {
                Poll::Ready(Some(Arrival::Dialled { peer, attempt, result })) => self.dialled(peer, attempt, result),
                Poll::Ready(Some(Arrival::Accepted(accepted))) => self.accepted(accepted),
                Poll::Ready(Some(Arrival::Introduced { address, attempt, id })) => {
                    self.was_introduced(&address, attempt, id);
                }
                Poll::Ready(Some(Arrival::Doubted(peer))) => self.doubted(peer),
                Poll::Ready(Some(Arrival::OutOfDescriptors)) => self.events.push(Event::OutOfDescriptors),
                Poll::Ready(None) | Poll::Pending => return,
            }
        }
        // There may be more arrivals, and no other event would wake this task.
        cx.waker().wake_by_ref();
    }

    /// Dials after the peer's next pause, if it is wanted and not connected. A guest is forgotten.
    pub(super) fn redial(&mut self, id: PeerId) {
        self.forget_idle_guest(id);
        if let Some(peer) = self.peers.get_mut(&id)
            && peer.wanted
        {
            let pause = peer.backoff.pause();
            self.dial(id, pause);
        }
    }

    pub(super) fn dial_now(&mut self, id: PeerId) {
        self.dial(id, Duration::ZERO);
    }

    fn dial(&mut self, id: PeerId, delay: Duration) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.dials += 1;
        let attempt = peer.dials;
        let connect_timeout = self.settings.dial_timeout;
        let dial = Dial { peer: id, address: peer.address.clone(), attempt, delay, connect_timeout };
        let stage = Arc::new(Stage::default());
        let (context, arrivals) = (Arc::clone(&self.context), self.arrivals_in.clone());
        let task = tokio::spawn({
            let stage = Arc::clone(&stage);
            async move {
                let result = dial.run(&context, &stage).await;
                // The receiver is gone once the process shuts down; then the result is not needed.
                let _ = arrivals.send(Arrival::Dialled { peer: id, attempt, result }).await;
            }
        });
        peer.dial = Some(Running { attempt, stage, task: task.abort_handle() });
    }

    fn dialled(&mut self, id: PeerId, attempt: u64, result: Result<Connected, DialError>) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        // A cancelled dial may have finished before it noticed; its connection closes here.
        if peer.dial.as_ref().is_none_or(|dial| dial.attempt != attempt) {
            return;
        }
        peer.dial = None;
        match result {
            Ok(Connected { channel, address, incarnation, floor }) => {
                let key = self.fresh_key();
                let owner = Owner::Peer { id, incarnation, floor };
                self.install(key, self.peer_link(key, owner, id, address, channel));
                return;
            }
            Err(DialError::Unreachable(why)) => self.events.push(Event::Unreachable { peer: id, why }),
            Err(DialError::Refused(Refusal { code: RefuseCode::AlreadyConnected, .. })) => peer.backoff.reset(),
            Err(DialError::Refused(Refusal { code, text })) => {
                self.events.push(Event::Refused { peer: id, code, text });
            }
            Err(DialError::Cancelled) => {}
        }
        self.redial(id);
    }

    /// Every member has the key of members and may say that it is this peer. This member dials the peer once to get the
    /// answer of the process at the peer's address, even if the peer is not wanted.
    fn doubted(&mut self, id: PeerId) {
        if self.peers.get(&id).is_some_and(|peer| peer.link.is_none() && peer.dial.is_none()) {
            self.dial_now(id);
        }
    }

    fn accepted(&mut self, accepted: Accepted) {
        match accepted.who {
            Authenticated::Client => self.accepted_client(accepted),
            Authenticated::Peer(claim) => self.accepted_peer(claim, accepted),
        }
    }

    fn accepted_client(&mut self, Accepted { channel, address, refuse, .. }: Accepted) {
        if self.clients >= self.settings.clients_max {
            let text = format!("n{} serves {} clients and takes no more", self.settings.id, self.clients);
            // If the task has ended, its connection was cut at the cap and closes here.
            let _ = refuse.send((channel, Refusal::new(RefuseCode::Busy, text)));
            return;
        }
        let key = self.fresh_key();
        let link = Link::new(Owner::Client, address, channel, self.ready.waker(key));
        self.welcome(key, link, 0);
    }

    fn accepted_peer(&mut self, claim: Claim, accepted: Accepted) {
        if let Err(refusal) = self.receive_guest(claim.id) {
            let _ = accepted.refuse.send((accepted.channel, refusal));
            return;
        }
        // The rest of the old connection is read first, above all its end: a restarted process closed its old
        // connection before it opened this one.
        if let Some(old) = self.peers.get(&claim.id).and_then(|peer| peer.link) {
            self.scratch.now = Instant::now();
            self.serve(old, READS_TO_DRAIN, usize::MAX);
        }
        match self.decide(&claim) {
            Admission::Refuse(refusal) => {
                let _ = accepted.refuse.send((accepted.channel, refusal));
                self.forget_idle_guest(claim.id);
            }
            Admission::Keep => self.keep(claim, accepted),
            Admission::Probe => self.probe(claim, accepted),
            Admission::Replace => {
                if let Some(old) = self.peers.get(&claim.id).and_then(|peer| peer.link) {
                    self.end(old, Some(DownReason::Replaced));
                }
                self.keep(claim, accepted);
            }
        }
    }

    /// Makes an authenticated connection the link of its peer, which has none.
    pub(super) fn keep(&mut self, claim: Claim, Accepted { channel, address, .. }: Accepted) {
        let Some(peer) = self.peers.get_mut(&claim.id) else { return };
        peer.dial = None;
        let own_dials = peer.dials;
        let key = self.fresh_key();
        let owner = Owner::Peer { id: claim.id, incarnation: claim.incarnation, floor: claim.attempt };
        self.welcome(key, self.peer_link(key, owner, claim.id, address, channel), own_dials);
    }

    fn peer_link(&self, key: u64, owner: Owner, id: PeerId, address: SocketAddr, channel: SecureChannel) -> Link {
        let mut link = Link::new(owner, address, channel, self.ready.waker(key));
        link.set_faults(self.context.faults.of(id));
        link
    }

    fn decide(&self, claim: &Claim) -> Admission {
        let standing = self.standing(claim.id);
        if standing.is_none()
            && let Err(refusal) = self.context.seen.check(self.settings.id, claim.id, claim.incarnation)
        {
            return Admission::Refuse(refusal);
        }
        let dial = self.peers.get(&claim.id).and_then(|peer| peer.dial.as_ref());
        admit(self.settings.id, claim, standing.as_ref(), || dial.is_none_or(|dial| dial.stage.cancel()))
    }

    /// Tells the dialler that its connection is kept, and keeps it.
    fn welcome(&mut self, key: u64, mut link: Link, floor: u64) {
        let Ok(welcome) = codec::to_vec(&Verdict::Welcome { floor }) else { return };
        if link.push(&welcome).is_ok() {
            link.write();
            self.install(key, link);
        }
    }

    fn install(&mut self, key: u64, mut link: Link) {
        match link.owner {
            Owner::Client => {
                self.clients += 1;
                self.events.push(Event::ClientUp { client: ClientId(key), access: link.access });
            }
            Owner::Peer { id, incarnation, .. } => {
                link = link.numbered_behind_clients();
                if let Some(peer) = self.peers.get_mut(&id) {
                    peer.link = Some(key);
                    peer.counters.connections += 1;
                    peer.backoff.reset();
                    if peer.listed {
                        self.context.seen.note(id, incarnation);
                    }
                }
                if self.context.dial_log.ended(id) {
                    info!(peer = id, address = %link.address, "connected again");
                }
                self.events.push(Event::Up { peer: id, incarnation });
            }
        }
        // The link's first turn passes on the frames that came with the handshake and arms its waker.
        link.wake();
        self.links.insert(key, link);
    }

    fn fresh_key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }
}
