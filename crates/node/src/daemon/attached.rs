//! Clients that run a child process for as long as this member leads (`ctl lead`). The member itself decides when they
//! must stop and how long it waits for that; here they are told, and their coming and going is told to the member.

use std::collections::BTreeSet;

use client::Response;
use member::{Command, OnClose, Role};
use transport::ClientId;

use super::Daemon;
use super::outside::Outside;

#[derive(Debug, Default)]
pub(super) struct Attached {
    clients: BTreeSet<ClientId>,
    /// Attached, and to be told so once a majority of the voters knows.
    waiting: Vec<ClientId>,
    /// What the member was last told.
    told: bool,
    /// The clients were told to stop.
    stopping: bool,
    /// This process is about to end: nothing begins any more.
    leaving: bool,
}

impl Attached {
    pub(super) fn gone(&mut self, client: ClientId) {
        self.clients.remove(&client);
        self.waiting.retain(|&waits| waits != client);
        self.stopping &= !self.clients.is_empty();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    pub(super) fn leave(&mut self) {
        self.leaving = true;
    }
}

impl Outside {
    /// The member is about to give leadership away: the children must stop first.
    pub(super) fn stop_children(&mut self) {
        tracing::info!(clients = self.attached.clients.len(), "telling attached clients to stop");
        self.attached.stopping = true;
        for client in self.attached.clients.clone() {
            self.reply(client, &Response::Stop);
        }
    }

    /// The member goes on without them: the deadline of their guards must do.
    pub(super) fn give_children_up(&mut self) {
        tracing::warn!(clients = self.attached.clients.len(), "attached clients did not stop in time");
        let leaving = self.attached.leaving;
        self.attached = Attached { leaving, ..Attached::default() };
    }

    /// A majority knows that a child depends on this leadership, or there is no leadership.
    pub(super) fn accept_attached(&mut self) {
        for client in std::mem::take(&mut self.attached.waiting) {
            self.reply(client, &Response::Done);
        }
    }
}

impl Daemon {
    pub(super) fn attach(&mut self, client: ClientId) {
        self.outside.attached.clients.insert(client);
        // The member itself, and not its face: voters may already have heard that no child depends on it.
        let leads = self.instance.standing().role == Role::Leader;
        if leads && self.config.settings.on_close == OnClose::Immediate {
            // Voters must not take this process's end for the end of what it started: they are told first.
            self.outside.attached.waiting.push(client);
        } else {
            self.outside.reply(client, &Response::Done);
        }
        if self.outside.attached.stopping || self.outside.attached.leaving {
            self.outside.reply(client, &Response::Stop);
        }
    }

    /// Tells the member when the first child attached or the last one left.
    pub(super) fn tell_attached(&mut self) {
        let attached = !self.outside.attached.is_empty();
        if std::mem::replace(&mut self.outside.attached.told, attached) != attached {
            self.instance.command(Command::Attached(attached));
        }
    }
}
