//! Established links: reading, writing, ending.

use tracing::error;

use super::{Net, TURN_BYTES};
use crate::event::{ClientId, DownReason, Event};
use crate::frame::FRAME_MAX_BYTES;
use crate::link::{Owner, Turn};

/// Socket reads per link and turn; the second one usually finds the socket empty and arms its waker.
const READS_PER_TURN: usize = 2;
/// Reads that empty an ending link; the kernel holds no more than this many buffers' worth.
pub(super) const READS_TO_DRAIN: usize = 64;

impl Net {
    /// Serves every ready link, oldest first, until there is enough for the owner to do. The other links keep their
    /// places in the queue, so a flood on one link delays them by one turn and no more.
    pub(super) fn take_turn(&mut self) {
        self.ready.take(&mut self.turn);
        for _ in 0..self.turn.len() {
            let Some(key) = self.turn.pop_front() else { break };
            self.serve(key, READS_PER_TURN);
            if self.events.payload_bytes() >= TURN_BYTES {
                break;
            }
        }
    }

    /// Writes and reads one link, and ends it if it is over.
    pub(super) fn serve(&mut self, key: u64, reads: usize) {
        let Some(link) = self.links.get_mut(&key) else { return };
        link.write();
        let events = &mut self.events;
        let turn = match link.owner {
            Owner::Client => link.read(&mut self.scratch, reads, |payload| {
                events.push(Event::ClientFrame { client: ClientId(key), payload });
            }),
            Owner::Peer { id, .. } => {
                let counters = self.peers.get_mut(&id).map(|peer| &mut peer.counters);
                let (mut frames, mut bytes) = (0, 0);
                let turn = link.read(&mut self.scratch, reads, |payload| {
                    frames += 1;
                    bytes += payload.len() as u64;
                    events.push(Event::Frame { from: id, payload });
                });
                if let Some(counters) = counters {
                    counters.frames_in += frames;
                    counters.bytes_in += bytes;
                }
                turn
            }
        };
        match turn {
            Turn::Idle => {}
            Turn::More => link.wake(),
            Turn::Ended(why) => self.end(key, Some(why)),
        }
        self.recount(key);
    }

    /// Queues a frame on a link, or ends the link if its queue is full.
    pub(super) fn push(&mut self, key: u64, payload: &[u8], max_bytes: usize) -> bool {
        let Some(link) = self.links.get_mut(&key) else { return false };
        if payload.len() > FRAME_MAX_BYTES {
            error!(bytes = payload.len(), "a frame above the limit was not sent");
            return false;
        }
        if link.would_exceed(payload.len(), max_bytes) {
            // The owner may not have flushed yet; the far side is slow only if the socket accepts nothing.
            link.write();
            if link.would_exceed(payload.len(), max_bytes) {
                self.end(key, Some(DownReason::Overflow));
                return false;
            }
        }
        if link.push(payload).is_err() {
            return false;
        }
        if !link.dirty {
            link.dirty = true;
            match link.owner {
                Owner::Peer { .. } => self.dirty_peers.push(key),
                Owner::Client => self.dirty_clients.push_back(key),
            }
        }
        self.recount(key);
        self.links.contains_key(&key)
    }

    /// Ends a link; `why` is reported unless the owner itself closed the link.
    pub(super) fn end(&mut self, key: u64, why: Option<DownReason>) {
        let Some(link) = self.links.remove(&key) else { return };
        match link.owner {
            Owner::Client => {
                self.clients -= 1;
                self.clients_bytes -= link.counted_bytes;
                if why.is_some() {
                    self.events.push(Event::ClientGone { client: ClientId(key) });
                }
            }
            Owner::Peer { id, incarnation, .. } => {
                if let Some(peer) = self.peers.get_mut(&id) {
                    peer.link = None;
                }
                if let Some(why) = why {
                    self.events.push(Event::Down { peer: id, incarnation, why });
                }
                // A replaced link has its successor already.
                if why != Some(DownReason::Replaced) {
                    self.redial(id);
                }
                self.ended.push(link);
            }
        }
    }

    /// Keeps the total of the bytes that clients hold, and drops the client that holds most when it is too much: a
    /// thousand clients that each send half a frame must not cost a thousand frames.
    pub(super) fn recount(&mut self, key: u64) {
        let Some(link) = self.links.get_mut(&key).filter(|link| link.owner == Owner::Client) else { return };
        let held = link.held_bytes();
        self.clients_bytes = self.clients_bytes - link.counted_bytes + held;
        link.counted_bytes = held;
        if self.clients_bytes <= self.settings.client_total_bytes {
            return;
        }
        let clients = self.links.iter().filter(|(_, link)| link.owner == Owner::Client);
        if let Some(heaviest) = clients.max_by_key(|(_, link)| link.counted_bytes).map(|(key, _)| *key) {
            self.end(heaviest, Some(DownReason::Overflow));
        }
    }
}
