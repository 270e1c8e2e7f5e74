//! Carries out an instance's effects: sockets, the disk, and the stream of announcements.

use std::time::Duration;

use algorithms::NodeId;
use bytes::{BufMut, BytesMut};
use client::{Happened, Transition};
use locks::service::{Grantee, ServiceCommand};
use member::reign::ListEvent;
use member::{Cause, Event, Role, Standing};
use transport::Net;
use types::{ClusterId, InstanceId, MemberList, since_boot};

use super::attached::Attached;
use super::lists::ListNews;
use super::volume::Volume;
use crate::instance::EffectSink;
use crate::peer_clocks::PeerClocks;
use crate::publisher::Publisher;
use crate::records::Kept;
use crate::visible_state::{ProcessState, VisibleState};

/// Lent to one instance while its effects are carried out.
pub(super) struct Effects<'a> {
    pub(super) instance: InstanceId,
    pub(super) algorithm: &'static str,
    pub(super) net: &'a mut Net,
    pub(super) volume: &'a mut Volume,
    pub(super) publisher: &'a mut Publisher,
    pub(super) process: &'a ProcessState,
    pub(super) shown: &'a VisibleState,
    pub(super) attached: &'a mut Attached,
    /// Peers whose connection this instance wants closed: the other instances must be told.
    pub(super) suspected: &'a mut Vec<NodeId>,
    /// What happened to the member lists.
    pub(super) list_news: &'a mut ListNews,
    /// Facts for the lock service, in the order of the effects.
    pub(super) lock_news: &'a mut Vec<ServiceCommand>,
    /// An election ended for this member.
    pub(super) elected: &'a mut bool,
    pub(super) frame: &'a mut BytesMut,
    pub(super) clocks: &'a mut PeerClocks,
    /// When the effects are carried out, since boot.
    pub(super) now: Duration,
}

impl EffectSink for Effects<'_> {
    /// A frame between members is the number of its instance, then the message.
    fn send(&mut self, to: NodeId, payload: &[u8]) {
        self.frame.clear();
        self.frame.put_u16(self.instance.0);
        self.frame.put_slice(payload);
        if self.net.send(to.0, self.frame) {
            self.process.sent(to);
            self.stamp(to);
        }
    }

    fn write(&mut self, record: Kept, barrier: bool) {
        self.volume.write(self.instance, self.algorithm, record, barrier);
    }

    fn announce(&mut self, event: Event, until: Option<Duration>) {
        match event {
            Event::Suspects(peer) => {
                tracing::warn!(peer = peer.0, "silent for too long: suspected, connection closed");
                self.suspected.push(peer);
            }
            Event::Became { now, cause } => {
                self.tell_locks(now);
                self.became(now, cause);
            }
            Event::Granted { epoch, holder, list } => {
                if self.instance == InstanceId::ELECTION {
                    let to = Grantee { id: holder.id, incarnation: holder.incarnation };
                    self.lock_news.push(ServiceCommand::Granted { epoch, to });
                }
                self.publish(Happened::Granted { epoch: epoch.0, holder: holder.id.0, list });
            }
            Event::PromiseEnded { epoch, holder } => {
                self.publish(Happened::PromiseEnded { epoch: epoch.0, holder: holder.id.0 });
            }
            Event::List(event) => self.list(event),
            Event::Named(id) => {
                if self.instance == InstanceId::ELECTION {
                    share_cluster_id(self.process, self.net, id);
                }
            }
            Event::Reigns { epoch, first, longest_ttl: wait } => {
                if self.instance == InstanceId::ELECTION {
                    self.lock_news.push(ServiceCommand::OfficeBegan { epoch, first, wait });
                }
            }
            Event::Mode(mode) => {
                tracing::info!(paused = mode.paused, keeps = mode.keeps.map(|id| id.0), by = mode.by.0, "maintenance");
                self.shown.set_mode(mode);
            }
            Event::Rests(rest) => self.shown.set_rest(rest.map(|rest| since_boot() + rest)),
            Event::StopChildren => self.attached.stop(self.net),
            Event::ChildrenGivenUp => self.attached.give_up(),
            Event::Lease { no_child, .. } => {
                self.shown.leased(until);
                if !no_child {
                    self.attached.accept(self.net);
                }
            }
        }
    }
}

/// From now on the status shows the id of the cluster, and the handshake compares it.
pub(super) fn share_cluster_id(process: &ProcessState, net: &Net, id: ClusterId) {
    if process.set_cluster_id(id.to_string()) {
        tracing::info!(cluster_id = %id, "this member belongs to this cluster");
        net.set_cluster_id(id.to_string());
    }
}

impl Effects<'_> {
    /// Adds a reading of our clock to the bytes for this peer, from time to time.
    fn stamp(&mut self, to: NodeId) {
        if self.clocks.stamp_due(to, self.now) {
            self.frame.clear();
            self.frame.put_u16(InstanceId::CLOCKS.0);
            self.frame.put_u64(since_boot().as_nanos() as u64);
            self.net.send(to.0, self.frame);
        }
    }

    /// The clerk of the locks is the leader of the cluster's own election.
    fn tell_locks(&mut self, now: Standing) {
        if self.instance != InstanceId::ELECTION {
            return;
        }
        self.lock_news.push(ServiceCommand::Leader(now.leader));
        // The office begins with `Event::Reigns`.
        if now.role != Role::Leader {
            self.lock_news.push(ServiceCommand::OfficeEnded);
        }
    }

    fn became(&mut self, now: Standing, cause: Cause) {
        let old = self.shown.became(now);
        // The announcement may have waited for the disk longer than its lease: a leadership that is over is not
        // announced.
        let now = self.shown.standing();
        if now.role != Role::Leader {
            self.attached.accept(self.net);
        }
        *self.elected |= matches!(cause, Cause::Elected | Cause::OtherElected);
        let lease_until_ns = self.shown.lease_until_ns();
        let old = old.map(|old| old.role);
        self.publish(Happened::Became(Transition { old, now, cause, lease_until_ns }));
    }

    fn list(&mut self, event: ListEvent) {
        // Only the cluster's election changes the list.
        if self.instance != InstanceId::ELECTION {
            return;
        }
        let voters = |list: &MemberList| list.voters().map(|id| id.0).collect();
        match &event {
            ListEvent::Adopted(list) => {
                self.publish(Happened::Adopted { list: list.stamp, voters: voters(list) });
            }
            ListEvent::InForce(list) => {
                self.lock_news.push(ServiceCommand::Voters(list.voters().collect()));
                self.publish(Happened::InForce { list: list.stamp, voters: voters(list) });
            }
            ListEvent::Known(_) | ListEvent::Proposed(_) | ListEvent::Refused(_) | ListEvent::Removed(_) => {}
        }
        self.list_news.push(event);
    }

    fn publish(&mut self, what: Happened) {
        self.publisher.publish(self.instance, what);
    }
}
