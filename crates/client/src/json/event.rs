//! `conclave.event/1`: one announcement of one member, or the loss of its stream.

use std::net::SocketAddr;

use serde::Serialize;
use types::Access;

use crate::announcement::{Announcement, ElectionCost, Happened, KindCount};
use crate::order::Ordered;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Event {
    schema: &'static str,
    /// The kind of event: `became`, or with `--all` also `elected`, `granted`, `promise-ended`, `link`, `faults`,
    /// `started`, `leaving`, `ordered`, `adopted`, `in-force`, `forced`; `lost` if the stream broke.
    pub what: &'static str,
    pub at_ms: u64,
    pub id: Option<u32>,
    pub address: String,
    pub instance: u16,
    /// Counts the announcements of one process start.
    pub sequence: Option<u64>,
    /// The role of `became`; `down` if the stream broke.
    pub role: Option<&'static str>,
    pub leader: Option<u32>,
    pub epoch: Option<u64>,
    /// The cause; for a broken stream the error.
    pub cause: Option<String>,
    /// The leader before, where it handed over to this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handed_over_by: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub participants: Option<Vec<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initiator: Option<bool>,
    /// The messages that this member sent for the election, by kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<std::collections::BTreeMap<String, u64>>,
    /// What an operator asked for, in the words of the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// The address of the client that asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<SocketAddr>,
    /// The name that the client gave itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The stamp of a member list: of `granted`, `adopted`, `in-force` and `forced`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// The voters of that list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voters: Option<Vec<u32>>,
}

impl Event {
    pub fn announced(announcement: &Announcement, address: &str) -> Self {
        let mut event = Event::empty(announcement.what.name(), announcement.wall_ms, address);
        event.id = Some(announcement.member);
        event.instance = announcement.instance.0;
        event.sequence = Some(announcement.sequence);
        match &announcement.what {
            Happened::Became(became) => {
                event.role = Some(became.now.role.name());
                event.leader = became.leader();
                event.epoch = Some(became.now.epoch.0);
                event.cause = Some(became.cause.name().to_owned());
            }
            Happened::Elected(ElectionCost { participants, initiator, sent, .. }) => {
                let count = |kind: &KindCount| (kind.kind.clone(), kind.count);
                event.participants = Some(participants.clone());
                event.initiator = Some(*initiator);
                event.sent = Some(sent.iter().map(count).collect());
            }
            Happened::Granted { epoch, holder, list } => {
                (event.epoch, event.holder, event.list) = (Some(*epoch), Some(*holder), Some(list.to_string()));
            }
            Happened::PromiseEnded { epoch, holder } => {
                (event.epoch, event.holder) = (Some(*epoch), Some(*holder));
            }
            Happened::Adopted { list, voters }
            | Happened::InForce { list, voters }
            | Happened::Forced { list, voters } => {
                (event.list, event.voters) = (Some(list.to_string()), Some(voters.clone()));
            }
            Happened::Link { peer, up } => (event.peer, event.up) = (Some(*peer), Some(*up)),
            Happened::Faults(faults) => event.faults = Some(faults.clone()),
            Happened::Ordered(Ordered { order, access, address, name, .. }) => {
                (event.order, event.access, event.from) = (Some(order.to_string()), Some(*access), Some(*address));
                event.name = name.get().map(str::to_owned);
            }
            Happened::Started { .. } | Happened::Leaving => {}
        }
        event
    }

    /// The stream of a member broke, or could not be opened.
    pub fn lost(id: Option<u32>, address: &str, at_ms: u64, why: String) -> Self {
        Event { id, role: Some("down"), cause: Some(why), ..Event::empty("lost", at_ms, address) }
    }

    fn empty(what: &'static str, at_ms: u64, address: &str) -> Self {
        let (schema, address) = ("conclave.event/1", address.to_owned());
        Event { schema, what, at_ms, address, ..Event::default() }
    }
}
