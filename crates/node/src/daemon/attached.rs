//! Clients that run a child process for as long as this member leads (`ctl lead`). The member decides when the children
//! must stop and how long it waits; this file tells the clients, and tells the member when clients attach and leave.

use std::collections::BTreeMap;
use std::time::Duration;

use client::{GRACE_MAX, Response, Workload};
use transport::{ClientId, Net};

use super::reply;
use crate::publisher::{STREAMS_MAX, Subscription};

#[derive(Debug, Default)]
pub(super) struct Attached {
    /// With the time that each may need to stop.
    clients: BTreeMap<Subscription, Duration>,
    /// What the processes of some of them do and could do.
    work: BTreeMap<ClientId, Workload>,
    /// Attached; they are answered once a majority of the voters knows of the child.
    waiting: Vec<Subscription>,
    /// The last value that the member was told.
    told: bool,
    /// The clients were told to stop.
    stopping: bool,
    /// This process is about to end: no client may attach.
    leaving: bool,
}

impl Attached {
    /// `voters_first`: voters must not take the end of this process for the end of its child, so they are told of the
    /// child before the client is told to begin. `ends`: the client is told to stop at once.
    /// Returns false if the client is attached as often as it may be.
    pub(super) fn add(
        &mut self,
        (client, grace): (Subscription, Duration),
        voters_first: bool,
        ends: bool,
        net: &mut Net,
    ) -> bool {
        if self.clients.range(client.of_same_client()).count() >= STREAMS_MAX {
            return false;
        }
        self.clients.insert(client, grace.min(GRACE_MAX));
        if voters_first {
            self.waiting.push(client);
        } else {
            reply(net, client, Response::Done);
        }
        if self.stopping || self.leaving || ends {
            reply(net, client, Response::Stop);
        }
        true
    }

    pub(super) fn has(&self, client: ClientId) -> bool {
        self.clients.keys().any(|attached| attached.client == client)
    }

    /// False if this client is not attached.
    pub(super) fn report(&mut self, client: ClientId, work: Workload) -> bool {
        let known = self.has(client);
        if known {
            self.work.insert(client, work);
        }
        known
    }

    /// Of all processes together.
    pub(super) fn work(&self) -> Option<Workload> {
        Workload::sum(self.work.values().copied())
    }

    pub(super) fn gone(&mut self, client: ClientId) {
        self.work.remove(&client);
        self.clients.retain(|attached, _| attached.client != client);
        self.waiting.retain(|waits| waits.client != client);
        self.stopping &= !self.clients.is_empty();
    }

    pub(super) fn len(&self) -> usize {
        self.clients.len()
    }

    /// The longest grace of the attached commands: the time that such a command may need to stop.
    pub(super) fn grace(&self) -> Duration {
        self.clients.values().max().copied().unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    pub(super) fn leave(&mut self) {
        self.leaving = true;
    }

    /// Whether there is a child, if the first one has attached or the last one has left since the last call.
    pub(super) fn news(&mut self) -> Option<bool> {
        let attached = !self.clients.is_empty();
        (std::mem::replace(&mut self.told, attached) != attached).then_some(attached)
    }

    /// The member is about to give leadership away: the children must stop first.
    pub(super) fn stop(&mut self, net: &mut Net) {
        tracing::info!(clients = self.clients.len(), "telling attached clients to stop");
        self.stopping = true;
        for &client in self.clients.keys() {
            reply(net, client, Response::Stop);
        }
    }

    /// The member gives leadership away without waiting longer: the deadline of each guard stops its child.
    pub(super) fn give_up(&mut self) {
        tracing::warn!(clients = self.clients.len(), "attached clients did not stop in time");
        *self = Attached { leaving: self.leaving, ..Attached::default() };
    }

    /// A majority knows that a child depends on this leadership, or there is no leadership.
    pub(super) fn accept(&mut self, net: &mut Net) {
        for client in std::mem::take(&mut self.waiting) {
            reply(net, client, Response::Done);
        }
    }
}
