//! The member list changes while the process runs: what follows for everything that is kept per member, and the answers to
//! the operator who asked for the change.

use std::collections::BTreeSet;
use std::sync::Arc;

use algorithms::{NodeId, Topology};
use client::{FailCode, Happened, Request, Response};
use member::reign::ListEvent;
use member::{Bootstrap, Command, Safety};
use types::{Change, ChangeRefusal, InstanceId, Listed, MemberList, Stamp};

use super::calls::reply;
use super::orders::unknown;
use super::{Daemon, failed};
use crate::config::{self, Config, Host, ID_MAX, split_address};
use crate::publisher::Subscription;
use crate::roster::Roster;

/// Longer addresses are refused: the list is part of every record and of many messages.
const ADDRESS_BYTES_MAX: usize = 256;

/// What the machine has announced about lists, in order.
pub(super) type ListNews = Vec<ListEvent>;

/// A change of the list that a client waits for.
#[derive(Debug)]
pub(super) struct AskedChange {
    asked: Subscription,
    change: Change,
}

impl Daemon {
    /// True if the machines have more to do now.
    pub(super) fn lists_changed(&mut self, news: &mut ListNews) -> bool {
        let mut changed = false;
        for event in news.drain(..) {
            match event {
                ListEvent::Known(list) => {
                    self.list_known(list);
                    changed = true;
                }
                ListEvent::Proposed(list) => self.proposed(&list),
                ListEvent::Refused(refusal) => self.change_refused(refusal),
                ListEvent::InForce(list) => self.in_force(&list),
                // A member that waits to be added hears of lists without itself.
                ListEvent::Removed(list) if self.volume.was_listed() => self.removed = Some(list),
                ListEvent::Removed(_) | ListEvent::Adopted(_) => {}
            }
        }
        changed
    }

    /// The machine has moved to the view of this list already.
    fn list_known(&mut self, list: Arc<MemberList>) {
        let before: BTreeSet<NodeId> = self.roster.ids().collect();
        self.roster = Roster::new(list, self.id);
        self.net.set_peers(&self.roster.peers());
        self.share_list();
        self.process.set_members(self.roster.me(), self.roster.others().map(|peer| peer.uid.id));
        self.volume.list_changed(&self.roster);
        // The positions have changed.
        self.links = None;
        let new: Vec<NodeId> = self.roster.others().map(|peer| peer.uid.id).filter(|id| !before.contains(id)).collect();
        for id in new {
            let Some(incarnation) = self.net.peer_incarnation(id.0) else { continue };
            // It was a guest.
            self.volume.met(id, incarnation);
            self.process.linked(id, true);
            self.tell_peer(id, true);
        }
        for id in before.into_iter().filter(|&id| self.roster.get(id).is_none()) {
            self.clocks.forget(id);
        }
    }

    /// Tells the transport which list this member has, and where to look for members while it has none with itself.
    pub(super) fn share_list(&mut self) {
        let list = self.roster.list();
        if !list.members.is_empty() {
            let entries = self.config.list_entries(list);
            self.net.set_list(list.stamp, Config::list_digest(&entries), &entries);
        }
        let join: &[String] = if self.roster.is_listed() { &[] } else { &self.config.join };
        self.net.join(join);
    }

    /// The first process start after `node --force-voters` says so.
    pub(super) fn announce_forced(&mut self) {
        if self.volume.take_forced() {
            let list = self.roster.list();
            let voters = list.voters().map(|id| id.0).collect();
            self.publisher.publish(InstanceId::ELECTION, Happened::Forced { list: list.stamp, voters });
        }
    }

    fn in_force(&self, list: &MemberList) {
        if self.config.bootstrap == Bootstrap::Auto && !list.same_members(&self.config.first_list()) {
            tracing::warn!(
                list = %list.stamp,
                "the member list has changed and the config has bootstrap = \"auto\": members of the old list whose disks are \
                 all emptied could begin a second cluster. Write bootstrap = \"manual\" into the configs of all members"
            );
        }
    }

    /// `None`: the answer comes when the machine has decided.
    pub(super) fn change_members(
        &mut self,
        asked: Subscription,
        instance: InstanceId,
        change: &Change,
    ) -> Option<Response> {
        if let Err(why) = self.check_change(instance, change) {
            return Some(failed(FailCode::BadRequest, why));
        }
        if self.change_asked.is_some() {
            return Some(failed(FailCode::Failed, "another change is being decided: try again".into()));
        }
        if *change != Change::Abort && self.leads_now() && !self.locks.voters_may_change() {
            // Copies of the lock table at the old voters and at the new voters must have a member in common.
            let why = "the voters do not have the newest lock table yet: try again";
            return Some(failed(FailCode::Failed, why.into()));
        }
        let response = self.command_leader(instance, Command::Change(change.clone()));
        if response != Response::Done {
            return Some(response);
        }
        self.change_asked = Some(AskedChange { asked, change: change.clone() });
        None
    }

    /// A list that the leader has proposed by itself is not the answer.
    fn proposed(&mut self, list: &MemberList) {
        if let Some(AskedChange { asked, change }) = self.change_asked.take_if(|asked| asked.change.is_made_in(list)) {
            self.record(asked.client, InstanceId::ELECTION, &Request::ChangeMembers(change));
            reply(&mut self.net, asked, Response::Done);
        }
    }

    fn change_refused(&mut self, refusal: ChangeRefusal) {
        let Some(AskedChange { asked, .. }) = self.change_asked.take() else { return };
        reply(&mut self.net, asked, failed(FailCode::of(refusal), refusal.to_string()));
    }

    pub(super) fn members(&self, instance: InstanceId) -> Response {
        let Some(running) = self.instances.get(&instance) else { return unknown(instance) };
        match running.machine.membership() {
            Some(membership) => Response::Members(membership),
            None => failed(FailCode::BadRequest, CLASSIC.into()),
        }
    }

    /// An operator says that this cluster is new. Nothing happens if it has begun before.
    pub(super) fn bootstrap(&mut self, asked: Subscription, instance: InstanceId) -> Response {
        if self.config.safety == Safety::Classic {
            return failed(FailCode::BadRequest, "a classic cluster begins without an operator's word".into());
        }
        if !self.config.join.is_empty() {
            let why =
                "this member is to be added to a cluster (join in its config) and never begins one: ask another member";
            return failed(FailCode::BadRequest, why.into());
        }
        if self.instances.values().all(|running| running.machine.knows_the_past()) {
            return Response::Done;
        }
        self.instances.values_mut().for_each(|running| running.machine.command(Command::Bootstrap));
        self.record(asked.client, instance, &Request::Bootstrap);
        Response::Done
    }

    /// What the machine does not know: addresses, the algorithm's own limits, and other elections of this process.
    fn check_change(&self, instance: InstanceId, change: &Change) -> Result<(), String> {
        if self.config.safety == Safety::Classic {
            return Err(CLASSIC.into());
        }
        if instance != InstanceId::ELECTION {
            return Err("all elections have the members of election 0: ask for a change there".into());
        }
        if !self.config.instances.is_empty() {
            return Err("a cluster with [[instances]] cannot change its members while it runs".into());
        }
        if self.config.topology == Topology::Graph {
            return Err("the links of a graph are in the config files: its members cannot change while it runs".into());
        }
        let Change::List(listed) = change else { return Ok(()) };
        self.check_listed(listed)
    }

    fn check_listed(&self, listed: &Listed) -> Result<(), String> {
        let (id, address) = (listed.uid.id, &listed.address);
        if !(1..=ID_MAX).contains(&id.0) {
            return Err(format!("{id} is no id: ids are 1 to {ID_MAX}"));
        }
        let dialled = split_address(address).filter(|_| address.len() <= ADDRESS_BYTES_MAX);
        match dialled {
            None | Some((_, 0)) => return Err(format!("{address:?} is not a host and a port")),
            Some((Host::Ip(ip), _)) if ip.is_unspecified() => return Err(format!("no member can dial {address:?}")),
            Some(_) => {}
        }
        let others = || self.roster.list().members.iter().filter(|other| other.uid.id != id);
        if let Some(other) = others().find(|other| other.address.eq_ignore_ascii_case(address)) {
            return Err(format!("{address:?} is the address of member {}", other.uid.id));
        }
        if let Some(now) = self.roster.list().get(id).filter(|now| now.uid.priority != listed.uid.priority) {
            let priority = now.uid.priority;
            return Err(format!("member {id} has the priority {priority}, which it keeps while it is in the list"));
        }
        let members = others().map(|other| other.uid).chain([listed.uid]).collect();
        let row = self.config.row;
        let view = config::view(members, self.config.topology, &[]);
        if view.len() > row.max_nodes {
            return Err(format!("{} is fit for at most {} members", row.name, row.max_nodes));
        }
        (row.check)(&view, self.config.settings.election.wins)
            .map_err(|why| format!("{} cannot run with these members: {why}", row.name))
    }

    /// Not in the list any more: writes that down and ends.
    pub(super) async fn end_removed(mut self, list: Stamp) -> anyhow::Result<()> {
        self.volume.remove_member(list).await?;
        self.leave().await
    }
}

const CLASSIC: &str =
    "the members of a classic cluster are those of its config file: stop all members, change it, start them";
