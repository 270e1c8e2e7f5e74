//! What the transport reports becomes input of the instances.

use std::time::{Duration, Instant};

use algorithms::NodeId;
use anyhow::bail;
use bytes::{Buf, Bytes};
use member::Command;
use transport::{DownReason, Event as NetEvent, RefuseCode, WITH_HEIRS, is_next_for_a_test};
use types::{Incarnation, InstanceId, since_boot};

use super::Daemon;

impl Daemon {
    /// Handles all events that are ready: events that arrived together are one turn.
    ///
    /// All of them were read from their connections before the first is handled. So one look at the clock is later than the
    /// reading of every frame of clients behind it: a message to the clerk must not be compared with an earlier moment than that.
    pub(super) fn network_all(&mut self, first: NetEvent) -> anyhow::Result<()> {
        let mut next = Some(first);
        let mut looked = None;
        while let Some(event) = next {
            let of_client = matches!(event, NetEvent::ClientFrame { .. });
            let now = looked.filter(|_| of_client).unwrap_or_else(|| self.look_at_the_clock());
            looked = Some(now).filter(|_| of_client);
            self.handle(event, now)?;
            next = self.net.queued();
        }
        Ok(())
    }

    pub(super) fn network(&mut self, event: NetEvent) -> anyhow::Result<()> {
        let now = self.look_at_the_clock();
        self.handle(event, now)
    }

    /// Due timers come before what arrived: a lease that ended while this process was paused has ended.
    fn look_at_the_clock(&mut self) -> Duration {
        let now = since_boot();
        self.instances.values_mut().for_each(|running| running.machine.tick(now));
        if self.locks.has_machine() {
            let leads = self.leads_at(now);
            self.locks.tick(now, leads);
        }
        now
    }

    /// `now`: read from the clock after the event was there.
    fn handle(&mut self, event: NetEvent, now: Duration) -> anyhow::Result<()> {
        match event {
            NetEvent::Frame { from, payload } => self.frame_of(NodeId(from), payload, now),
            NetEvent::Up { peer, incarnation } => {
                self.duplicates.connected(peer);
                self.voices.forget(NodeId(peer));
                if self.net.is_listed(peer) {
                    self.volume.met(NodeId(peer), incarnation);
                }
                self.clocks.forget(NodeId(peer));
                self.process.set_drift(NodeId(peer), None);
                self.link(NodeId(peer), true);
                self.locks.meets(NodeId(peer), self.net.speaks(peer, WITH_HEIRS));
                self.tell_peer(NodeId(peer), true);
            }
            NetEvent::Down { peer, incarnation, why } => {
                tracing::debug!(peer, %why, "connection ended");
                self.link(NodeId(peer), false);
                if !self.net.is_listed(peer) {
                    // A guest may never come back.
                    self.clocks.forget(NodeId(peer));
                }
                for running in self.instances.values_mut() {
                    if let Some(closed) = closed(peer, incarnation, why) {
                        running.machine.command(closed);
                    }
                    running.machine.peer(NodeId(peer), false);
                }
                self.locks.peer(NodeId(peer), false);
            }
            NetEvent::Unreachable { peer, .. } => {
                self.process.not_refused(NodeId(peer));
                self.not_reached(peer);
            }
            NetEvent::Refused { peer, code, text } => self.refused(peer, code, &text)?,
            NetEvent::ClientUp { client, access } => self.clients.up(client, access),
            NetEvent::ClientFrame { client, payload } => self.call(client, &payload, now),
            NetEvent::ClientGone { client } => self.client_gone(client),
            NetEvent::OutOfDescriptors => self.out_of_descriptors(),
        }
        Ok(())
    }

    /// What a peer of a later version sends and this version does not know is skipped; other peers are disconnected.
    fn frame_of(&mut self, from: NodeId, mut payload: Bytes, now: Duration) {
        let newer = self.net.speaks_newer(from.0) || is_next_for_a_test();
        let instance = (payload.len() >= 2).then(|| InstanceId(payload.get_u16()));
        if instance == Some(InstanceId::CLOCKS)
            && let Ok(reading) = payload.as_ref().try_into()
        {
            return self.clock_read(from, u64::from_be_bytes(reading));
        }
        self.process.received(from, now);
        if instance == Some(InstanceId::LOCKS) {
            if !self.locks.frame(from, &payload) && !newer {
                tracing::warn!(peer = from.0, "sent bytes that are no message of the lock service: connection closed");
                self.suspect(from);
            }
            return;
        }
        let running = instance.and_then(|instance| self.instances.get_mut(&instance));
        if !running.is_some_and(|running| running.machine.frame(from, &payload, newer)) && !newer {
            tracing::warn!(peer = from.0, "sent bytes that are no message of an instance here: connection closed");
            self.suspect(from);
        }
    }

    fn clock_read(&mut self, from: NodeId, reading_ns: u64) {
        if let Some(ppm) = self.clocks.read(from, reading_ns, since_boot()) {
            self.process.set_drift(from, Some(ppm));
        }
    }

    fn refused(&mut self, peer: u32, code: RefuseCode, text: &str) -> anyhow::Result<()> {
        if let RefuseCode::Stale { seen } = code {
            self.stale(peer, seen, text);
            return Ok(());
        }
        self.process.refused(NodeId(peer), text);
        if code == RefuseCode::Duplicate {
            let others = self.roster.others().count();
            if self.duplicates.refused(peer, others, Instant::now()) {
                bail!(
                    "another process with id {} is in the cluster: a majority of the members is connected to it, and it \
                     answers them. Stop that process, or start this one with an id and a data directory of its own. \
                     Member {peer} says: {text}",
                    self.id
                );
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

/// What a voter may conclude from the end of a connection: only a close by the far side can be the end of its process.
fn closed(peer: u32, incarnation: Incarnation, why: DownReason) -> Option<Command> {
    (why == DownReason::Remote).then_some(Command::Closed(NodeId(peer), incarnation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_close_by_the_far_side_can_free_a_promise() {
        let incarnation = Incarnation { counter: 3, nonce: 9 };
        let expected = Command::Closed(NodeId(2), incarnation);
        assert_eq!(closed(2, incarnation, DownReason::Remote), Some(expected));
        for why in
            [DownReason::Error, DownReason::Overflow, DownReason::Protocol, DownReason::Replaced, DownReason::Silent]
        {
            assert_eq!(closed(2, incarnation, why), None, "{why}");
        }
    }
}
