//! Clients that run a child process for as long as this member leads (`ctl lead`). The member itself decides when they
//! must stop and how long it waits for that; here they are told, and their coming and going is told to the member.

use std::collections::BTreeSet;

use client::Response;
use transport::{ClientId, Net};

use super::reply;
use crate::publisher::{STREAMS_MAX, Subscription};

#[derive(Debug, Default)]
pub(super) struct Attached {
    clients: BTreeSet<Subscription>,
    /// Attached, and to be told so once a majority of the voters knows.
    waiting: Vec<Subscription>,
    /// What the member was last told.
    told: bool,
    /// The clients were told to stop.
    stopping: bool,
    /// This process is about to end: nothing begins any more.
    leaving: bool,
}

impl Attached {
    /// `voters_first`: voters must not take the end of this process for the end of its child, so they are told of the
    /// child before the client is told to begin.
    /// Returns false if the client is attached as often as it may be.
    pub(super) fn add(&mut self, client: Subscription, voters_first: bool, net: &mut Net) -> bool {
        if self.clients.range(client.of_same_client()).count() >= STREAMS_MAX {
            return false;
        }
        self.clients.insert(client);
        if voters_first {
            self.waiting.push(client);
        } else {
            reply(net, client, Response::Done);
        }
        if self.stopping || self.leaving {
            reply(net, client, Response::Stop);
        }
        true
    }

    pub(super) fn gone(&mut self, client: ClientId) {
        self.clients.retain(|attached| attached.client != client);
        self.waiting.retain(|waits| waits.client != client);
        self.stopping &= !self.clients.is_empty();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    pub(super) fn leave(&mut self) {
        self.leaving = true;
    }

    /// When the first child has attached or the last one has left: whether there is one.
    pub(super) fn news(&mut self) -> Option<bool> {
        let attached = !self.clients.is_empty();
        (std::mem::replace(&mut self.told, attached) != attached).then_some(attached)
    }

    /// The member is about to give leadership away: the children must stop first.
    pub(super) fn stop(&mut self, net: &mut Net) {
        tracing::info!(clients = self.clients.len(), "telling attached clients to stop");
        self.stopping = true;
        for &client in &self.clients {
            reply(net, client, Response::Stop);
        }
    }

    /// The member gives leadership away without them: the deadline of their guards ends them.
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
