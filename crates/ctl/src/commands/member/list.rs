//! `ctl member list`.

use client::Overview;
use serde::Serialize;
use types::{MemberList, Membership, PeerRole, Stamp};

use super::overview::overview;
use crate::connection_options::Target;
use crate::failure::{Exit, Failure};
use crate::output::{Ink, Output, Table};

/// `conclave.members/1`
#[derive(Serialize, Debug)]
pub(super) struct Listing {
    schema: &'static str,
    leader: Option<u32>,
    /// The stamp of the list that follows.
    list: String,
    /// By the leader's word; null without a leader.
    in_force: Option<String>,
    pending: Option<String>,
    /// The voters of the pending list, if a member told them.
    pending_voters: Option<Vec<u32>>,
    members: Vec<Row>,
}

#[derive(Serialize, Debug)]
struct Row {
    id: u32,
    /// Null for a member that answered and is in no list.
    role: Option<PeerRole>,
    priority: u32,
    address: String,
    /// It answered.
    up: bool,
    /// The stamp of the list on its disk.
    on_disk: Option<String>,
    /// It does not know what was granted; null if it did not answer.
    blank: Option<bool>,
    /// Connected to the leader, and not blank; null without a leader.
    ready: Option<bool>,
}

pub(super) async fn run(target: &Target, output: Output) -> Result<(), Failure> {
    let members = Listing::of(&overview(target).await?);
    output.show_words(&members, || members.in_words(output))?;
    match members.leader {
        Some(_) => Ok(()),
        None => Err(Failure::new(Exit::NoLeader, "no leader can tell which list is in force")
            .hint("ctl leader --wait 5s, then again; `ctl explain` says why nobody leads")),
    }
}

impl Listing {
    fn of(overview: &Overview) -> Self {
        let leader = overview.leader();
        let list = overview.list();
        let stamp = |of: fn(&Membership) -> Option<Stamp>| leader.and_then(|(_, told)| of(told));
        let (in_force, pending) = (stamp(|told| told.in_force), stamp(|told| told.pending));
        let voters = |list: &MemberList| list.voters().map(|id| id.0).collect();
        let mut members: Vec<Row> = list
            .members
            .iter()
            .map(|listed| Row::of(listed.uid.id.0, Some(listed.role), listed.uid.priority, &listed.address, overview))
            .collect();
        for (endpoint, status, _) in overview.told() {
            if members.iter().all(|member| member.id != status.id) {
                members.push(Row::of(status.id, None, status.priority, &endpoint.address, overview));
            }
        }
        Listing {
            schema: "conclave.members/1",
            leader: leader.map(|(id, _)| id),
            list: list.stamp.to_string(),
            in_force: in_force.map(|stamp| stamp.to_string()),
            pending: pending.map(|stamp| stamp.to_string()),
            pending_voters: pending.and_then(|stamp| overview.with_stamp(stamp)).map(voters),
            members,
        }
    }

    fn in_words(&self, output: Output) -> String {
        let mut table = Table::new(&[">ID", "ROLE", "ADDRESS", "LIST ON DISK", "STATE"]);
        for member in &self.members {
            let (state, ink) = self.state(member);
            let on_disk = match (&member.on_disk, member.up) {
                (Some(stamp), _) => stamp.clone(),
                (None, true) => "none".to_owned(),
                (None, false) => "?".to_owned(),
            };
            let role = member.role.map_or("not listed", PeerRole::name);
            let cells = [member.id.to_string(), role.to_owned(), member.address.clone(), on_disk];
            table.row(cells.map(|cell| (cell, None)).into_iter().chain([(state.to_owned(), ink)]));
        }
        format!("{}\n{}", self.verdict(), table.render(output))
    }

    fn state(&self, member: &Row) -> (&'static str, Option<Ink>) {
        match member {
            member if !member.up => ("no answer", Some(Ink::Red)),
            Row { blank: Some(true), .. } => ("blank: does not know what was granted", Some(Ink::Yellow)),
            member if self.leader == Some(member.id) => ("leads", Some(Ink::Green)),
            Row { ready: Some(true), .. } => ("ready", None),
            Row { ready: Some(false), .. } => ("not connected to the leader", Some(Ink::Yellow)),
            _ => ("up", None),
        }
    }

    fn verdict(&self) -> String {
        match (&self.in_force, &self.pending) {
            (None, _) => format!("list {}: no leader, so it is not known whether it is in force", self.list),
            (Some(in_force), None) => format!("list {in_force} in force"),
            (Some(in_force), Some(pending)) => {
                let voters = self.pending_voters.as_ref().map(|voters| {
                    let ids: Vec<String> = voters.iter().map(u32::to_string).collect();
                    format!(" with the voters {}", ids.join(", "))
                });
                format!("list {in_force} in force, list {pending}{} pending", voters.unwrap_or_default())
            }
        }
    }
}

impl Row {
    fn of(id: u32, role: Option<PeerRole>, priority: u32, address: &str, overview: &Overview) -> Self {
        let told = overview.by(id).map(|(_, membership)| membership);
        let ready = overview.leader().map(|(_, leader)| leader.ready.iter().any(|ready| ready.0 == id));
        Row {
            id,
            role,
            priority,
            address: address.to_owned(),
            up: told.is_some(),
            on_disk: told.and_then(|told| told.on_disk).map(|stamp| stamp.to_string()),
            blank: told.map(|told| told.on_disk.is_none()),
            ready,
        }
    }
}
