//! What a member's effects reach: sockets, disk, watchers, and then people.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use algorithms::NodeId;
use client::{LedgerKind, MemberEvent, Response};
use member::{Cause, Event, Role, Standing};
use transport::{ClientId, Net, codec};

use super::attached::Attached;
use super::volume::Volume;
use crate::face::Face;
use crate::hooks::{Change, Hooks};
use crate::host::World;
use crate::ledger::Ledger;
use crate::notify::Notify;
use crate::records::Kept;

/// What the member's effects reach.
pub(super) struct Outside {
    pub(super) net: Net,
    pub(super) volume: Volume,
    pub(super) ledger: Ledger<ClientId>,
    pub(super) face: Face,
    pub(super) id: NodeId,
    pub(super) watchers: BTreeSet<ClientId>,
    pub(super) last_heard: BTreeMap<NodeId, Instant>,
    pub(super) notify: Notify,
    pub(super) hooks: Option<Hooks>,
    /// Transitions that people have not been told of.
    pub(super) untold: Vec<(Option<Standing>, Standing, Cause)>,
    pub(super) attached: Attached,
}

impl World for Outside {
    fn send(&mut self, to: NodeId, payload: &[u8]) {
        self.net.send(to.0, payload);
    }

    fn write(&mut self, record: Kept, barrier: bool) {
        self.volume.write(record, barrier);
    }

    fn announce(&mut self, event: Event, until: Option<Duration>) {
        match event {
            Event::Suspects(peer) => {
                tracing::warn!(peer = peer.0, "silent for too long: suspected, connection closed");
                self.net.close(peer.0);
            }
            Event::Became { now, cause } => self.became(now, cause),
            Event::Granted { epoch, holder } => {
                self.tell_people();
                self.ledger.append(LedgerKind::Granted { epoch: epoch.0, holder: holder.id.0 });
            }
            Event::PromiseEnded { epoch, holder } => {
                self.tell_people();
                self.ledger.append(LedgerKind::PromiseEnded { epoch: epoch.0, holder: holder.id.0 });
            }
            Event::StopChildren => self.stop_children(),
            Event::ChildrenGivenUp => self.give_children_up(),
            Event::Lease { no_child, .. } => {
                self.face.leased(until);
                if !no_child {
                    self.accept_attached();
                }
            }
        }
    }
}

impl Outside {
    /// One event per watcher; people, who wake other threads, are told when the sockets are flushed.
    fn became(&mut self, now: Standing, cause: Cause) {
        let old = self.face.became(now);
        // It may have waited for the disk longer than its lease: nobody is told of a leadership that is over.
        let now = self.face.standing();
        if now.role != Role::Leader {
            self.accept_attached();
        }
        self.untold.push((old, now, cause));
        let event = event_of(self.id, now, cause);
        for watcher in self.watchers.clone() {
            self.reply(watcher, &Response::Event(event.clone()));
        }
    }

    /// One line, one entry and one run of the hook per transition.
    pub(super) fn tell_people(&mut self) {
        for (old, now, cause) in std::mem::take(&mut self.untold) {
            self.tell(old, now, cause);
        }
    }

    fn tell(&mut self, old: Option<Standing>, now: Standing, cause: Cause) {
        self.ledger.became(old, now, cause);
        let name = |standing: Option<Standing>| standing.map_or("none", |s| s.role.name());
        let leader = now.leader.map(|leader| leader.0);
        tracing::info!(
            old = name(old),
            new = now.role.name(),
            leader,
            epoch = now.epoch.0,
            cause = cause.name(),
            "transition"
        );
        self.notify.say(&format!("STATUS={} in epoch {}", now.role.name(), now.epoch));
        self.run_hooks(old, now.role.name(), now);
    }

    pub(super) fn run_hooks(&self, old: Option<Standing>, new_role: &'static str, now: Standing) {
        let old_role = old.map_or("none", |old| old.role.name());
        let same = old_role == new_role && old.and_then(|old| old.leader) == now.leader;
        if let Some(hooks) = self.hooks.as_ref().filter(|_| !same) {
            hooks.changed(Change { id: self.id, old_role, new_role, leader: now.leader, epoch: now.epoch });
        }
    }

    pub(super) fn reply(&mut self, client: ClientId, response: &Response) {
        match codec::to_vec(response) {
            Ok(bytes) => {
                self.net.reply(client, &bytes);
            }
            Err(error) => tracing::error!(%error, "a reply of ours cannot be encoded"),
        }
    }
}

pub(super) fn event_of(id: NodeId, now: Standing, cause: Cause) -> MemberEvent {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    MemberEvent {
        id: id.0,
        at_ms: at.as_millis() as u64,
        role: now.role.name().to_owned(),
        leader: now.leader.map(|leader| leader.0),
        epoch: now.epoch.0,
        cause: cause.name().to_owned(),
    }
}
