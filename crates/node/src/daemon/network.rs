//! What the transport reports becomes input of the instances.

use std::time::{Duration, Instant};

use algorithms::NodeId;
use anyhow::bail;
use bytes::{Buf, Bytes};
use member::Command;
use transport::{DownReason, Event as NetEvent, RefuseCode};
use types::{Incarnation, InstanceId, since_boot};

use super::Daemon;

/// A member that is refused as a duplicate for this long is a duplicate. A restarted member is refused only until its peers
/// notice that its old connections are dead.
const DUPLICATE: Duration = Duration::from_secs(3);

impl Daemon {
    /// Handles all events that are ready: events that arrived together are one turn.
    pub(super) fn network_all(&mut self, first: NetEvent) -> anyhow::Result<()> {
        let mut next = Some(first);
        while let Some(event) = next {
            self.network(event)?;
            next = self.net.queued();
        }
        Ok(())
    }

    pub(super) fn network(&mut self, event: NetEvent) -> anyhow::Result<()> {
        // Due timers come first: a lease that ended while this process was paused has ended.
        let now = since_boot();
        self.instances.values_mut().for_each(|running| running.machine.tick(now));
        match event {
            NetEvent::Frame { from, payload } => self.frame_of(NodeId(from), payload),
            NetEvent::Up { peer, incarnation } => {
                self.duplicate_since.clear();
                self.voices.forget(NodeId(peer));
                self.volume.met(NodeId(peer), incarnation);
                self.link(NodeId(peer), true);
                self.instances.values_mut().for_each(|running| running.machine.peer(NodeId(peer), true));
            }
            NetEvent::Down { peer, incarnation, why } => {
                tracing::debug!(peer, %why, "connection ended");
                self.link(NodeId(peer), false);
                for running in self.instances.values_mut() {
                    if let Some(closed) = closed(peer, incarnation, why) {
                        running.machine.command(closed);
                    }
                    running.machine.peer(NodeId(peer), false);
                }
            }
            NetEvent::Unreachable { peer, .. } => self.not_reached(peer),
            NetEvent::Refused { peer, code, text } => self.refused(peer, code, &text)?,
            NetEvent::ClientUp { .. } => {}
            NetEvent::ClientFrame { client, payload } => self.call(client, &payload),
            NetEvent::ClientGone { client } => self.client_gone(client),
        }
        Ok(())
    }

    fn frame_of(&mut self, from: NodeId, mut payload: Bytes) {
        self.process.received(from);
        let instance = (payload.len() >= 2).then(|| InstanceId(payload.get_u16()));
        let running = instance.and_then(|instance| self.instances.get_mut(&instance));
        if !running.is_some_and(|running| running.machine.frame(from, &payload)) {
            tracing::warn!(peer = from.0, "sent bytes that are no message of an instance here: connection closed");
            self.suspect(from);
        }
    }

    fn refused(&mut self, peer: u32, code: RefuseCode, text: &str) -> anyhow::Result<()> {
        if let RefuseCode::Stale { seen } = code {
            self.stale(peer, seen, text);
            return Ok(());
        }
        if code == RefuseCode::Duplicate {
            self.duplicate_since.entry(peer).or_insert_with(Instant::now);
            let refused = self.duplicate_since.values().filter(|since| since.elapsed() >= DUPLICATE).count();
            if is_duplicate(refused, self.config.peers.len() - 1) {
                bail!("another process with id {} is in the cluster; member {peer} says: {text}", self.id);
            }
        }
        self.not_reached(peer);
        Ok(())
    }

    /// A dial failed; meanwhile the peer may have dialled us.
    fn not_reached(&mut self, peer: u32) {
        if !self.net.is_connected(peer) {
            self.instances.values_mut().for_each(|running| running.machine.peer(NodeId(peer), false));
        }
    }
}

/// One peer's word ends no process, unless there is only one peer.
fn is_duplicate(refusing: usize, peers: usize) -> bool {
    refusing >= peers.clamp(1, 2)
}

/// What a voter may conclude from the end of a connection: only a close by the far side can be the end of its process.
fn closed(peer: u32, incarnation: Incarnation, why: DownReason) -> Option<Command> {
    (why == DownReason::Remote).then_some(Command::Closed(NodeId(peer), incarnation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_peer_of_several_does_not_end_the_process_as_a_duplicate() {
        assert!(!is_duplicate(0, 0) && !is_duplicate(0, 1) && !is_duplicate(1, 2) && !is_duplicate(1, 4));
        assert!(is_duplicate(1, 1) && is_duplicate(2, 2) && is_duplicate(2, 4));
    }

    #[test]
    fn only_a_close_by_the_far_side_can_free_a_promise() {
        let incarnation = Incarnation { counter: 3, nonce: 9 };
        let expected = Command::Closed(NodeId(2), incarnation);
        assert_eq!(closed(2, incarnation, DownReason::Remote), Some(expected));
        for why in [DownReason::Error, DownReason::Overflow, DownReason::Protocol, DownReason::Replaced] {
            assert_eq!(closed(2, incarnation, why), None, "{why}");
        }
    }
}
