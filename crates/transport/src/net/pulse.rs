//! Signs of life: a slow heartbeat over every peer's link, and the probe of a link whose peer seems to have restarted.
//!
//! A machine that loses its power sends no end of its connections. The owner of the net watches only some of its peers,
//! so every link has a heartbeat of its own: one timer for all links, and no frame on a link that has received one since
//! the last beat.

use std::future::Future;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use tokio::io::ReadBuf;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

use super::Net;
use crate::accept::Accepted;
use crate::admit::{Claim, Standing, duplicate};
use crate::event::DownReason;
use crate::handshake::PeerId;
use crate::link::Owner;
use crate::peer::{Newcomer, Probe};

/// A link ends when so many beats in a row have brought nothing.
const PINGS_MAX: u32 = 2;

impl Net {
    pub(super) fn poll_pulse(&mut self, cx: &mut TaskContext<'_>) {
        while self.pulse.as_mut().is_some_and(|pulse| pulse.as_mut().poll(cx).is_ready()) {
            let now = Instant::now();
            self.conclude_probes(now);
            if self.next_beat.is_some_and(|next| now >= next) {
                self.next_beat = Some(now + self.beat());
            }
            self.set_pulse();
        }
    }

    pub(super) fn set_pulse(&mut self) {
        let probes = self.peers.values().filter_map(|peer| Some(peer.probe.as_ref()?.until));
        self.pulse = probes.chain(self.next_beat).min().map(|next| Box::pin(sleep_until(next)));
    }

    /// The slow heartbeat of all links. Returns the time until the next one, which an owner has to keep whose settings say that
    /// this net does not beat by itself.
    pub fn beat(&mut self) -> Duration {
        let interval = self.settings.link_heartbeat;
        let mut silent = Vec::new();
        for peer in self.peers.values() {
            let Some(link) = peer.link.and_then(|key| self.links.get_mut(&key)) else { continue };
            if link.heard.elapsed() < interval {
                continue;
            }
            if link.pings < PINGS_MAX {
                link.ping();
            } else {
                silent.extend(peer.link);
            }
        }
        for key in silent {
            self.end(key, Some(DownReason::Silent));
        }
        interval
    }

    /// A later process of a connected peer asks to be connected. If the old process is alive, its link answers a ping, and
    /// there are two processes with one id. If it does not answer in time, it is dead.
    pub(super) fn probe(&mut self, claim: Claim, accepted: Accepted) {
        let Some(peer) = self.peers.get_mut(&claim.id) else { return };
        let newcomer = Newcomer { claim, accepted };
        match &mut peer.probe {
            Some(probe) if probe.newcomer.claim.incarnation.counter > claim.incarnation.counter => {
                self.refuse_duplicate(newcomer);
            }
            // It has dialled again: its older connection closes here.
            Some(probe) => probe.newcomer = newcomer,
            None => {
                let begun = Instant::now();
                peer.probe = Some(Probe { begun, until: begun + self.settings.probe_timeout, newcomer });
                if let Some(link) = peer.link.and_then(|key| self.links.get_mut(&key)) {
                    link.ping();
                }
                self.set_pulse();
            }
        }
    }

    /// Called when a peer's link has been read: any byte since the ping shows that the old process is alive.
    pub(super) fn answered(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Some(link) = peer.link.and_then(|key| self.links.get(&key)) else { return };
        if let Some(probe) = peer.probe.take_if(|probe| link.heard > probe.begun) {
            self.refuse_duplicate(probe.newcomer);
        }
    }

    fn refuse_duplicate(&mut self, Newcomer { claim, accepted }: Newcomer) {
        if let Some(standing) = self.standing(claim.id) {
            let _ = accepted.refuse.send((accepted.channel, duplicate(&claim, &standing)));
        }
    }

    fn conclude_probes(&mut self, now: Instant) {
        let due = |probe: &Probe| probe.until <= now;
        let due: Vec<PeerId> =
            self.peers.iter().filter(|(_, peer)| peer.probe.as_ref().is_some_and(due)).map(|(id, _)| *id).collect();
        for id in due {
            let Some(peer) = self.peers.get_mut(&id) else { continue };
            // A newcomer that has left meanwhile will dial again.
            peer.probe.take_if(|probe| !is_open(&probe.newcomer.accepted.channel.stream));
            let why = if peer.probe.is_some() { DownReason::Replaced } else { DownReason::Silent };
            match peer.link {
                // The end of the old link admits the newcomer.
                Some(key) => self.end(key, Some(why)),
                None => peer.probe = None,
            }
        }
    }

    /// The old link has ended: the process that waited for it is admitted.
    pub(super) fn admit_newcomer(&mut self, id: PeerId) -> bool {
        let Some(probe) = self.peers.get_mut(&id).and_then(|peer| peer.probe.take()) else { return false };
        let Newcomer { claim, accepted } = probe.newcomer;
        if !is_open(&accepted.channel.stream) {
            return false;
        }
        self.keep(claim, accepted);
        true
    }

    pub(super) fn standing(&self, id: PeerId) -> Option<Standing> {
        let link = self.link_of(id)?;
        match link.owner {
            Owner::Peer { incarnation, floor, .. } => Some(Standing { incarnation, floor, address: link.address }),
            Owner::Client => None,
        }
    }
}

/// Has the far side not closed this connection?
fn is_open(stream: &TcpStream) -> bool {
    let mut byte = [0];
    let peeked = stream.poll_peek(&mut TaskContext::from_waker(Waker::noop()), &mut ReadBuf::new(&mut byte));
    matches!(peeked, Poll::Pending | Poll::Ready(Ok(1..)))
}
