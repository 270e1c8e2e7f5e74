//! The messages between clients and members. A frame of a client is a [`Call`], a frame of a member a [`Reply`]. A
//! client may have several calls under way; a reply names its call. A call that opens a stream is answered by many
//! replies.
//!
//! Compatibility: variants are numbered by position on the wire, so new ones go to the end.

use serde::{Deserialize, Serialize};
use types::{Access, InstanceId, NodeId, Role, Safety, Topology, Uid, Wins};

use crate::announcement::{Announcement, ElectionCost};
use crate::chaos::Chaos;
use crate::ledger::LedgerPage;
use crate::order::{ClaimedName, Order};

/// Names one call of one connection; chosen by the client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct CallId(pub u32);

/// One frame of a client.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Call {
    pub id: CallId,
    /// The instance that is addressed.
    pub instance: InstanceId,
    pub request: Request,
}

/// One frame of a member.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reply {
    pub to: CallId,
    pub response: Response,
}

/// A request of a client to one member.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Answered with one [`Response::Status`].
    Status,
    /// Answered with the present standing as a [`Response::Announced`] at once, then with one per transition, or with
    /// one per announcement of any kind.
    Watch { everything: bool },
    /// Start an election now. Answered with [`Response::Done`] once it has begun.
    Elect,
    /// Resign, if this member leads. Answered with [`Response::Done`] once it has resigned, `Failed` if it does not
    /// lead.
    StepDown,
    /// Hand over to that member, if this member leads by quorum. Answered with [`Response::Done`] once the handover has
    /// begun.
    Transfer { to: u32 },
    /// Inject a fault, or end all. Answered with [`Response::Done`], `Refused` unless the config allows it.
    Chaos(Chaos),
    /// A page of the member's ledger: the oldest entries, or those after this sequence number. Answered with one
    /// [`Response::History`].
    History { after: Option<u64> },
    /// This client runs a process for as long as the member leads. Answered with [`Response::Done`]. Before the member
    /// gives leadership away by itself it answers once more, with [`Response::Stop`], and waits a while for the client
    /// to leave.
    Attach,
    /// Ends the stream that this [`Request::Watch`] opened. Answered with [`Response::Done`]; nothing more comes of it.
    EndWatch { call: CallId },
    /// The name under which this connection's orders are recorded. A claim, which nothing proves. Answered with
    /// [`Response::Done`].
    Introduce { name: ClaimedName },
}

impl Request {
    /// One request of each kind, for tables and tests.
    pub const ALL: &'static [Request] = &[
        Request::Status,
        Request::Watch { everything: false },
        Request::Elect,
        Request::StepDown,
        Request::Transfer { to: 0 },
        Request::Chaos(Chaos::Heal),
        Request::History { after: None },
        Request::Attach,
        Request::EndWatch { call: CallId(0) },
        Request::Introduce { name: ClaimedName::NONE },
    ];

    pub fn name(&self) -> &'static str {
        match self {
            Request::Status => "status",
            Request::Watch { .. } => "watch",
            Request::Elect => "elect",
            Request::StepDown => "step-down",
            Request::Transfer { .. } => "transfer",
            Request::Chaos(_) => "chaos",
            Request::History { .. } => "history",
            Request::Attach => "attach",
            Request::EndWatch { .. } => "end-watch",
            Request::Introduce { .. } => "introduce",
        }
    }

    /// The least access that may send it. No catch-all arm: a new request does not compile until this is chosen.
    ///
    /// Attach only asks to be told, but it acts on the cluster: an attached client delays every handover until it leaves
    /// or is given up, and voters wait longer for the end of a leader with a child. So a reader may not hold leadership
    /// for a child; `ctl lead` runs with the operators' secret.
    pub fn access(&self) -> Access {
        match self {
            Request::Status
            | Request::Watch { .. }
            | Request::History { .. }
            | Request::EndWatch { .. }
            | Request::Introduce { .. } => Access::Reader,
            Request::Elect | Request::StepDown | Request::Transfer { .. } | Request::Chaos(_) | Request::Attach => {
                Access::Operator
            }
        }
    }

    /// The request as it is recorded once it is carried out; `None` for a request that changes nothing.
    pub fn order(&self) -> Option<Order> {
        match *self {
            Request::Elect => Some(Order::Elect),
            Request::StepDown => Some(Order::StepDown),
            Request::Transfer { to } => Some(Order::Transfer { to }),
            Request::Chaos(fault) => Some(Order::Chaos(fault)),
            Request::Status
            | Request::Watch { .. }
            | Request::History { .. }
            | Request::Attach
            | Request::EndWatch { .. }
            | Request::Introduce { .. } => None,
        }
    }
}

/// An answer of a member.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant)] // one at a time, decoded and consumed at once
pub enum Response {
    Status(MemberStatus),
    Announced(Announcement),
    Done,
    Failed {
        reason: String,
        code: FailCode,
    },
    /// To an attached client: leadership ends now. Stop the work that depends on it, then close the connection.
    Stop,
    History(LedgerPage),
    /// To a watcher that does not read fast enough: this many announcements were dropped here. The present standing
    /// follows.
    Gap {
        missed: u64,
    },
}

/// The kind of a failure, for exit codes; the reason is for operators.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum FailCode {
    /// The request was understood and failed, or the answer is "no".
    Failed,
    /// Not a request that this member knows, or not one that is possible here.
    BadRequest,
    /// There is no leader to carry it out.
    NoLeader,
    /// The client is not authorised, or the cluster's config forbids the request.
    Refused,
}

/// One member's own view.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MemberStatus {
    pub id: u32,
    pub instance: InstanceId,
    pub cluster: String,
    /// Its name in the catalog.
    pub algorithm: String,
    pub topology: Topology,
    pub safety: Safety,
    pub role: Role,
    /// Elections compare it before the id.
    pub priority: u32,
    /// The uid that the election chooses.
    pub wins: Wins,
    pub leader: Option<u32>,
    pub epoch: u64,
    pub incarnation: u64,
    /// The remaining time of the lease, where leadership has one.
    pub lease_ms: Option<u64>,
    /// Frames since the start, all peers together.
    pub sent: u64,
    pub received: u64,
    /// Messages of the election algorithm since the start, without heartbeats.
    pub election_messages: u64,
    /// The last election it took part in, or the one under way.
    pub election: Option<ElectionCost>,
    pub peers: Vec<PeerStatus>,
    pub uptime_ms: u64,
    pub version: String,
    /// The median time of its last writes to disk.
    pub persist_us: Option<u64>,
    /// Injected faults that are in force, as text.
    pub faults: Vec<String>,
    /// Its disk is new or was lost, and it has not learnt yet what was granted before: it does not vote.
    pub blank: bool,
    /// The id of the cluster, in hexadecimal digits, once its voters have agreed on one.
    pub cluster_id: Option<String>,
    /// A majority of the voters has seen later runs of this member: its disk is old, and it does not vote.
    pub old_volume: bool,
    /// The config's `max_drift`, in millionths.
    pub max_drift_ppm: u64,
}

impl MemberStatus {
    pub fn uid(&self) -> Uid {
        Uid { priority: self.priority, id: NodeId(self.id) }
    }

    /// A follower without a leader and with empty fields, for tests to change.
    #[doc(hidden)]
    pub fn example() -> Self {
        MemberStatus {
            id: 1,
            instance: InstanceId::ELECTION,
            cluster: String::new(),
            algorithm: String::new(),
            topology: Topology::Mesh,
            safety: Safety::Classic,
            role: Role::Follower,
            priority: 0,
            wins: Wins::Highest,
            leader: None,
            epoch: 0,
            incarnation: 1,
            lease_ms: None,
            sent: 0,
            received: 0,
            election_messages: 0,
            election: None,
            peers: Vec::new(),
            uptime_ms: 0,
            version: String::new(),
            persist_us: None,
            faults: Vec::new(),
            blank: false,
            cluster_id: None,
            old_volume: false,
            max_drift_ppm: 10_000,
        }
    }
}

/// A member's view of a peer.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PeerStatus {
    pub id: u32,
    pub connected: bool,
    /// How long ago the last frame of it arrived; `None` if never.
    pub last_heard_ms: Option<u64>,
    /// By how many millionths its clock runs faster than the member's own; `None` before that is measured, which takes half
    /// a minute, and for a peer that sends the member nothing.
    pub drift_ppm: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole table: the least access, and whether it is recorded. A new request fails here until it has a line.
    const ACCESS: &[(&str, Access, bool)] = &[
        ("status", Access::Reader, false),
        ("watch", Access::Reader, false),
        ("elect", Access::Operator, true),
        ("step-down", Access::Operator, true),
        ("transfer", Access::Operator, true),
        ("chaos", Access::Operator, true),
        ("history", Access::Reader, false),
        ("attach", Access::Operator, false),
        ("end-watch", Access::Reader, false),
        ("introduce", Access::Reader, false),
    ];

    #[test]
    fn every_request_has_its_line_in_the_access_table() {
        let line = |request: &Request| (request.name(), request.access(), request.order().is_some());
        assert_eq!(Request::ALL.iter().map(line).collect::<Vec<_>>(), ACCESS);
    }

    #[test]
    fn all_lists_every_request() {
        // An encoding begins with the position of its variant: every position of the list is one request, and the
        // first one past it is none, whatever fields follow.
        for (position, request) in (0_u32..).zip(Request::ALL) {
            let bytes = transport::codec::to_vec(request).unwrap();
            assert!(bytes.starts_with(&transport::codec::to_vec(&position).unwrap()), "{}", request.name());
            assert_eq!(&transport::codec::decode::<Request>(&bytes).unwrap(), request);
        }
        for fields in 0..64 {
            let mut past = transport::codec::to_vec(&(Request::ALL.len() as u32)).unwrap();
            past.resize(past.len() + fields, 0);
            assert!(transport::codec::decode::<Request>(&past).is_err(), "{fields} bytes of fields");
        }
    }
}
