//! `conclave.status/1`: a row per member, and the verdict over all answers.

use std::collections::BTreeMap;

use serde::Serialize;
use types::{Role, Safety, Topology};

use crate::election::ElectionSummary;
use crate::wire::PriorityBy;

#[derive(Debug, Serialize)]
pub struct Status {
    pub schema: &'static str,
    pub cluster: String,
    /// The instance of this status; 0 is the cluster's election.
    pub instance: u16,
    pub algorithm: Option<String>,
    pub topology: Option<Topology>,
    pub safety: Option<Safety>,
    pub verdict: &'static str,
    pub leader: Option<u32>,
    pub epoch: u64,
    /// By the newest order that a member knows: no elections until `ctl resume`.
    pub paused: bool,
    /// The one member that may lead while the cluster is paused.
    pub keeps: Option<u32>,
    pub members: Vec<StatusMember>,
    /// Sent by all members that answered, each since its start, announcements included.
    pub election_messages: Option<u64>,
    /// The cost of one election of all members, over all inputs.
    pub theory: Option<Theory>,
    /// The newest election that a member reports.
    pub election: Option<Election>,
    /// Clocks that run apart by more than half of `max_drift`; not part of the JSON.
    #[serde(skip)]
    pub drifting: Vec<Drifting>,
}

/// One member's measurement of another member's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drifting {
    pub member: u32,
    pub against: u32,
    pub ppm: i64,
    pub max_ppm: u64,
}

impl Status {
    pub const SCHEMA: &'static str = "conclave.status/1";
}

#[derive(Debug, Serialize)]
pub struct StatusMember {
    pub id: Option<u32>,
    pub address: String,
    pub up: bool,
    /// `None` is shown as `down`.
    #[serde(serialize_with = "role_or_down")]
    pub role: Option<Role>,
    pub leader: Option<u32>,
    pub epoch: Option<u64>,
    pub incarnation: Option<u64>,
    pub lease_ms: Option<u64>,
    pub sent: Option<u64>,
    pub received: Option<u64>,
    pub last_heard_ms: Option<u64>,
    /// The faults that `ctl chaos` injected.
    pub faults: Option<Vec<String>>,
    pub blank: Option<bool>,
    pub cluster_id: Option<String>,
    pub old_volume: Option<bool>,
    /// What the other members measure of its clock, in millionths by which it runs faster than theirs: the value furthest
    /// from zero.
    pub drift_ppm: Option<i64>,
    /// The keys that its new handshakes use, named without being revealed; see [`MemberStatus`](crate::MemberStatus).
    pub key_ids: Option<Vec<String>>,
    /// When its certificate or an authority expires, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
    /// Its priority in the next election, and where that comes from: `list`, `command` or `operator`.
    pub priority: Option<u32>,
    pub priority_by: Option<PriorityBy>,
    /// The members that took part in its last election; null where the algorithm keeps no such list.
    pub active_list: Option<Vec<u32>>,
    pub attached: Option<u32>,
    pub stands_attached: Option<bool>,
    /// What the processes of attached clients do and could do, all together; null if none of them says so.
    pub load: Option<f64>,
    pub capacity: Option<f64>,
    /// It leads, and no better member takes over from it (`ctl transfer --hold`).
    pub held: Option<bool>,
    /// It does not stand until then (`ctl step-down --for`), in milliseconds since 1970.
    pub rests_until_ms: Option<u64>,
    /// Does it know of a pause?
    pub paused: Option<bool>,
    /// The release that it runs.
    pub version: Option<String>,
    /// Why it did not answer; not part of the JSON.
    #[serde(skip)]
    pub trouble: Option<String>,
}

#[expect(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn role_or_down<S: serde::Serializer>(role: &Option<Role>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(role.map_or("down", Role::name))
}

/// Messages of one fault-free election over all inputs, without its announcement. In JSON null means that theory has no
/// finite number.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Theory {
    pub best: f64,
    pub mean: Option<f64>,
    pub worst: f64,
}

/// One election: the messages sent for it, and the theory for exactly its participants and initiators.
#[derive(Debug, Serialize)]
pub struct Election {
    pub participants: Vec<u32>,
    /// `null` if the algorithm has no rounds that members start.
    pub initiators: Option<Vec<u32>>,
    /// Has every participant reported what it sent?
    pub complete: bool,
    pub messages: Messages<u64>,
    /// `null` if theory has no statement about such a case, or not every participant has reported.
    pub theory: Option<Messages<Range>>,
}

/// Counts, or ranges of counts.
#[derive(Debug, Serialize)]
pub struct Messages<T> {
    /// Without the announcement of the result.
    pub election: T,
    pub announcement: T,
    pub by_kind: BTreeMap<String, T>,
}

/// Both ends included; `max` is null where there is no bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Range {
    pub min: u64,
    pub max: Option<u64>,
}

impl Range {
    pub fn contains(self, value: u64) -> bool {
        value >= self.min && self.max.is_none_or(|max| value <= max)
    }
}

impl Election {
    pub fn new(summary: &ElectionSummary, theory: Option<Messages<Range>>) -> Self {
        let by_kind = summary.sent.iter().map(|kind| (kind.kind.clone(), kind.count)).collect();
        Election {
            participants: summary.participants.clone(),
            initiators: summary.initiators.clone(),
            complete: summary.uids.is_some(),
            messages: Messages {
                election: summary.election_messages(),
                announcement: summary.announcement_messages(),
                by_kind,
            },
            theory: theory.filter(|_| summary.uids.is_some()),
        }
    }
}
