//! Clients that run something for as long as this member leads (`ctl lead`). Before it gives leadership away of its own
//! accord it tells them to stop and waits until they have left, so that the next leader's work does not overlap theirs.

use std::collections::BTreeSet;
use std::time::Duration;

use algorithms::OnClose;
use client::Response;
use member::{Command, Role};
use transport::ClientId;

use super::Daemon;
use crate::clock::since_boot;

/// A client that has not left by then is hung, and the deadline of its guard must do. Never less than a lease.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Attached {
    clients: BTreeSet<ClientId>,
    /// What the member was last told.
    told: bool,
    /// This process is about to end: nothing begins any more.
    leaving: bool,
    stopping: Option<Stopping>,
}

#[derive(Debug)]
struct Stopping {
    /// Since boot.
    until: Duration,
    /// Who asked the member to step down and waits for the answer.
    askers: Vec<ClientId>,
}

impl Attached {
    pub(super) fn gone(&mut self, client: ClientId) {
        self.clients.remove(&client);
    }

    /// When to go on without those who are still there.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.stopping.as_ref().map(|stopping| stopping.until)
    }

    /// The askers, once everybody has left or the patience is over.
    fn take_stopped(&mut self, now: Duration) -> Option<Vec<ClientId>> {
        let over = |stopping: &mut Stopping| self.clients.is_empty() || now >= stopping.until;
        let stopping = self.stopping.take_if(over)?;
        if !self.clients.is_empty() {
            tracing::warn!(clients = self.clients.len(), "attached clients did not stop in time");
            self.clients.clear();
        }
        Some(stopping.askers)
    }
}

impl Daemon {
    pub(super) fn attach(&mut self, client: ClientId) {
        self.attached.clients.insert(client);
        // The member itself, and not its face: voters may already have heard that nothing is attached.
        let leads = self.instance.standing().role == Role::Leader;
        if leads && self.config.settings.on_close == OnClose::Immediate {
            // Voters must not take this process's end for the end of what it started: they are told first.
            self.outside.attaching.push(client);
        } else {
            self.outside.reply(client, &Response::Done);
        }
        if self.attached.stopping.is_some() || self.attached.leaving {
            self.outside.reply(client, &Response::Stop);
        }
    }

    /// Steps down at once, or as soon as the attached clients have stopped: the answer comes then.
    pub(super) fn step_down(&mut self, asker: ClientId) {
        if let Some(refusal) = self.must_stay() {
            return self.outside.reply(asker, &refusal);
        }
        let leads = self.outside.face.standing().role == Role::Leader;
        if leads && !self.attached.clients.is_empty() {
            self.tell_to_stop().push(asker);
            return;
        }
        let response = self.resign();
        self.outside.reply(asker, &response);
    }

    /// Called at every turn of the loop: resigns when the time has come.
    pub(super) fn resign_when_stopped(&mut self) {
        if std::mem::take(&mut self.outside.stop_children) {
            self.tell_to_stop();
        }
        for asker in self.attached.take_stopped(since_boot()).unwrap_or_default() {
            let response = self.resign();
            self.outside.reply(asker, &response);
        }
        let attached = !self.attached.clients.is_empty();
        if std::mem::replace(&mut self.attached.told, attached) != attached {
            self.instance.command(Command::Attached(attached));
        }
    }

    /// Tells everybody attached to stop, and keeps the member going until they have.
    pub(super) async fn stop_attached(&mut self) -> anyhow::Result<()> {
        self.attached.leaving = true;
        if self.attached.clients.is_empty() {
            return Ok(());
        }
        self.tell_to_stop();
        while let Some(until) = self.attached.deadline() {
            self.turn(until).await?;
        }
        Ok(())
    }

    fn tell_to_stop(&mut self) -> &mut Vec<ClientId> {
        if self.attached.stopping.is_none() {
            tracing::info!(clients = self.attached.clients.len(), "telling attached clients to stop");
            for &client in &self.attached.clients {
                self.outside.reply(client, &Response::Stop);
            }
        }
        let patience = PATIENCE.max(self.config.settings.timing.lease);
        let fresh = || Stopping { until: since_boot() + patience, askers: Vec::new() };
        &mut self.attached.stopping.get_or_insert_with(fresh).askers
    }

    fn resign(&mut self) -> Response {
        self.command_leader(Command::StepDown)
    }
}
