//! Established links: reading, writing, ending.

use tokio::time::Instant;
use tracing::error;

use super::{CLIENT_FRAMES_PER_TURN, Net, Pace, TURN_BYTES};
use crate::event::{ClientId, DownReason, Event};
use crate::frame::FRAME_MAX_BYTES;
use crate::link::{Owner, Turn};

/// Socket reads per link and turn; the second one usually finds the socket empty and arms its waker.
const READS_PER_TURN: usize = 2;
/// Frames per peer and turn.
const PEER_FRAMES_PER_TURN: usize = 1024;
/// Reads that empty an ending link; the kernel holds no more than this many buffers' worth.
pub(super) const READS_TO_DRAIN: usize = 64;

impl Net {
    /// Serves every ready link, peers before clients and oldest first, until there is enough for the owner to do. The
    /// other links keep their places in the queue, so a flood on one link delays them by one turn and no more.
    pub(super) fn take_turn(&mut self) {
        self.ready.take(&mut self.woken);
        for key in self.woken.drain(..) {
            match self.links.get(&key).map(|link| link.owner) {
                Some(Owner::Peer { .. }) => self.turn_peers.push_back(key),
                Some(Owner::Client) => self.turn_clients.push_back(key),
                None => {}
            }
        }
        if self.turn_peers.is_empty() && self.turn_clients.is_empty() {
            return;
        }
        self.scratch.now = Instant::now();
        for _ in 0..self.turn_peers.len() {
            let Some(key) = self.turn_peers.pop_front() else { break };
            self.serve(key, READS_PER_TURN, PEER_FRAMES_PER_TURN);
            if self.events.held_bytes() >= TURN_BYTES {
                break;
            }
        }
        // At least one frame of a client: peers that never stop must not silence all clients.
        let mut frames = CLIENT_FRAMES_PER_TURN;
        for number in 0..self.turn_clients.len() {
            if frames == 0 || (number > 0 && self.events.held_bytes() >= TURN_BYTES) {
                break;
            }
            let Some(key) = self.turn_clients.pop_front() else { break };
            frames = frames.saturating_sub(self.serve(key, READS_PER_TURN, frames));
        }
    }

    /// Writes and reads one link, and ends it if it is over. Returns how many frames came of it.
    pub(super) fn serve(&mut self, key: u64, reads: usize, frames_max: usize) -> usize {
        let Some(link) = self.links.get_mut(&key) else { return 0 };
        link.write();
        let (events, owner) = (&mut self.events, link.owner);
        let (mut frames, mut bytes) = (0, 0);
        let turn = link.read(&mut self.scratch, reads, frames_max, |payload| {
            frames += 1;
            bytes += payload.len() as u64;
            events.push(match owner {
                Owner::Client => Event::ClientFrame { client: ClientId(key), payload },
                Owner::Peer { id, .. } => Event::Frame { from: id, payload },
            });
        });
        match turn {
            Turn::Idle => {}
            Turn::More => link.wake(),
            Turn::Ended(why) => self.end(key, Some(why)),
        }
        match owner {
            Owner::Client => self.recount(key),
            Owner::Peer { id, .. } => {
                if let Some(peer) = self.peers.get_mut(&id) {
                    peer.counters.frames_in += frames as u64;
                    peer.counters.bytes_in += bytes;
                }
                self.answered(id);
            }
        }
        frames
    }

    /// Queues a frame on a link, or ends the link if its queue is full.
    pub(super) fn push(&mut self, key: u64, payload: &[u8], max_bytes: usize, pace: Pace) -> bool {
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
        match (link.owner, pace) {
            (Owner::Client, Pace::Prompt) if !link.prompt => {
                link.prompt = true;
                self.dirty_prompt.push_back(key);
            }
            // Written with the prompt reply before it.
            (Owner::Client, _) if link.prompt || link.dirty => {}
            (Owner::Client, _) => {
                link.dirty = true;
                self.dirty_clients.push_back(key);
            }
            (Owner::Peer { .. }, _) if !link.dirty => {
                link.dirty = true;
                self.dirty_peers.push(key);
            }
            (Owner::Peer { .. }, _) => {}
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
                self.ended.push(link);
                // A replaced link has its successor already.
                if !self.admit_newcomer(id) && why != Some(DownReason::Replaced) {
                    self.redial(id);
                }
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
