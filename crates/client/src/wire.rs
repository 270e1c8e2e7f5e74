//! The messages between clients and members. A frame of a client is a [`Call`], a frame of a member a [`Reply`]. A
//! client may have several calls under way; a reply names its call. A call that opens a stream is answered by many
//! replies.
//!
//! Compatibility: variants are numbered by position on the wire, so new ones go to the end.

use locks::LockName;
use locks::wire::{Mode, SessionId, ToClerk, ToClient};
use serde::{Deserialize, Serialize};
use types::{
    Access, Change, ChangeRefusal, InstanceId, Membership, NodeId, Role, Safety, Token, Topology, Uid, Wins, names,
};

use crate::announcement::{Announcement, ElectionCost};
use crate::chaos::Chaos;
use crate::ledger::LedgerPage;
use crate::order::{ClaimedName, Order};
use crate::reload::ReloadedKey;
use crate::workload::{Amount, Workload};

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
    /// Resign, if this member leads, and do not stand for this time, if one is given. Answered with [`Response::Done`] once
    /// the member has been told, `Failed` if it does not lead.
    StepDown { rest_ms: Option<u64> },
    /// Hand over to that member, if this member leads by quorum. `hold`: no better member takes over from the successor.
    /// Answered with [`Response::Done`] once the handover has begun.
    Transfer { to: u32, hold: bool },
    /// Inject a fault, or end all. Answered with [`Response::Done`], `Refused` unless the config allows it.
    Chaos(Chaos),
    /// A page of the member's ledger: the oldest entries, or those after this sequence number. Answered with one
    /// [`Response::History`].
    History { after: Option<u64> },
    /// This client runs a process for as long as the member leads, which needs at most this long to stop. Answered with [`Response::Done`]. Before the member
    /// gives leadership away by itself it answers once more, with [`Response::Stop`], and waits a while for the client
    /// to leave.
    Attach { grace_ms: u64 },
    /// Ends the stream that this [`Request::Watch`] or [`Request::LockSession`] opened. Answered with [`Response::Done`]; nothing more comes of it.
    EndWatch { call: CallId },
    /// The name under which this connection's orders are recorded. A claim, which nothing proves. Answered with
    /// [`Response::Done`].
    Introduce { name: ClaimedName },
    /// What this member knows of the member lists. Answered with one [`Response::Members`].
    Members,
    /// One step to the next member list. Answered with [`Response::Done`] once the leader has proposed it, or if it is so
    /// already; the new list is in force later. A refusal has the code [`FailCode::of`].
    ChangeMembers(Change),
    /// Begin a new cluster of the voters in the config. Answered with [`Response::Done`], also if the cluster has begun
    /// before.
    Bootstrap,
    /// Read the config and the files that it names again. Answered with [`Response::Reloaded`] once what may change while
    /// the process runs is in force, `Failed` if a file cannot be used: then nothing changes. Connections stay.
    Reload,
    /// Opens the stream of one lock session. Answered with a [`Response::Lock`] at once, then with one for everything that
    /// the clerk says to the session.
    LockSession,
    /// What the session says inside its stream: the call has the number of the [`Request::LockSession`] that opened the
    /// stream, and is answered there.
    Lock(ToClerk),
    /// The locks that are held or waited for, in the order of their names: one of them, or those after a name. Answered
    /// with one [`Response::Locks`] by the clerk; another member answers which member leads.
    Locks { only: Option<LockName>, after: Option<LockName> },
    /// Takes a lock from the holder that has it with this token. Answered with [`Response::Done`], `Failed` if no holder has
    /// it.
    Unlock { name: String, token: Token },
    /// This member's priority from the next election on, kept over restarts; `None`: that of its command or of the member
    /// list again. Answered with [`Response::Done`] once it is on the disk.
    Priority { value: Option<u32> },
    /// Pause the cluster, or end its pause. Answered with [`Response::Done`] once the member has been told.
    Pause { paused: bool },
    /// What the process of this attached client does now, and could do: shown until the connection closes. Answered with
    /// [`Response::Done`], `Failed` if the client is not attached or the numbers are too large.
    Work(Workload),
}

impl Request {
    /// One request of each kind, for tables and tests.
    pub const ALL: &'static [Request] = &[
        Request::Status,
        Request::Watch { everything: false },
        Request::Elect,
        Request::StepDown { rest_ms: None },
        Request::Transfer { to: 0, hold: false },
        Request::Chaos(Chaos::Heal),
        Request::History { after: None },
        Request::Attach { grace_ms: 0 },
        Request::EndWatch { call: CallId(0) },
        Request::Introduce { name: ClaimedName::NONE },
        Request::Members,
        Request::ChangeMembers(Change::Abort),
        Request::Bootstrap,
        Request::Reload,
        Request::LockSession,
        Request::Lock(ToClerk::Close),
        Request::Locks { only: None, after: None },
        Request::Unlock { name: String::new(), token: Token(0) },
        Request::Priority { value: None },
        Request::Pause { paused: true },
        Request::Work(Workload { load: Amount::ZERO, capacity: Amount::ZERO }),
    ];

    /// Its name, the least access that may send it, and the order that is recorded once it is carried out, if it changes
    /// anything. No catch-all arm: a new request does not compile until these are chosen.
    ///
    /// Attach only asks to be told, but it acts on the cluster: an attached client delays every handover until it leaves
    /// or is given up, and voters wait longer for the end of a leader with a child. So a reader may not hold leadership
    /// for a child; `ctl lead` runs with the operators' secret. A lock keeps other programs from working, so the same holds
    /// for taking one.
    fn facts(&self) -> (&'static str, Access, Option<Order>) {
        use Access::{Operator, Reader};
        match self {
            Request::Status => ("status", Reader, None),
            Request::Watch { .. } => ("watch", Reader, None),
            Request::Elect => ("elect", Operator, Some(Order::Elect)),
            Request::StepDown { rest_ms } => ("step-down", Operator, Some(Order::StepDown { rest_ms: *rest_ms })),
            Request::Transfer { to, hold } => ("transfer", Operator, Some(Order::Transfer { to: *to, hold: *hold })),
            Request::Chaos(fault) => ("chaos", Operator, Some(Order::Chaos(*fault))),
            Request::History { .. } => ("history", Reader, None),
            Request::Attach { .. } => ("attach", Operator, None),
            Request::EndWatch { .. } => ("end-watch", Reader, None),
            Request::Introduce { .. } => ("introduce", Reader, None),
            Request::Members => ("members", Reader, None),
            Request::ChangeMembers(change) => ("change-members", Operator, Some(Order::from(change))),
            Request::Bootstrap => ("bootstrap", Operator, Some(Order::Bootstrap)),
            Request::Reload => ("reload", Operator, Some(Order::Reload)),
            Request::LockSession => ("lock-session", Operator, None),
            Request::Lock(_) => ("lock", Operator, None),
            Request::Locks { .. } => ("locks", Reader, None),
            Request::Unlock { token, .. } => ("unlock", Operator, Some(Order::Unlock { token: *token })),
            Request::Priority { value } => ("priority", Operator, Some(Order::Priority { value: *value })),
            Request::Pause { paused } => {
                (if *paused { "pause" } else { "resume" }, Operator, Some(Order::Pause { paused: *paused }))
            }
            Request::Work(_) => ("work", Operator, None),
        }
    }

    pub fn name(&self) -> &'static str {
        self.facts().0
    }

    /// The least access that may send it.
    pub fn access(&self) -> Access {
        self.facts().1
    }

    /// The request as it is recorded once it is carried out; `None` for a request that changes nothing.
    pub fn order(&self) -> Option<Order> {
        self.facts().2
    }

    /// Is it for the lock service, whatever election the call names?
    pub fn is_about_locks(&self) -> bool {
        matches!(self, Request::LockSession | Request::Lock(_) | Request::Locks { .. } | Request::Unlock { .. })
    }
}

/// An answer of a member.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Response {
    /// In a box: every answer to a lock session would otherwise be moved in a place as large as this.
    Status(Box<MemberStatus>),
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
    Members(Membership),
    /// Of the stream of a lock session.
    Lock(ToClient),
    Locks(LockPage),
    /// The keys of the config that differ from those in force before.
    Reloaded(Vec<ReloadedKey>),
}

/// Some of the locks that the clerk knows of, in the order of their names.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LockPage {
    /// The clerk's epoch.
    pub epoch: u64,
    pub locks: Vec<LockStatus>,
    /// There are locks after the last one of this page.
    pub more: bool,
}

/// No config may allow more names of locks.
pub const LOCK_NAMES_MAX: u32 = 1_000_000;

impl LockPage {
    /// Appends the page that the member sent next. False if it goes back, or makes these more locks than any member has: asking that
    /// member for the next page might never end.
    pub(crate) fn append(&mut self, mut page: LockPage) -> bool {
        let last = self.locks.last().map(|lock| lock.name.clone());
        let goes_on = last.iter().chain(page.locks.iter().map(|lock| &lock.name)).is_sorted_by(|a, b| a < b);
        self.epoch = page.epoch;
        self.more = page.more && !page.locks.is_empty();
        self.locks.append(&mut page.locks);
        goes_on && self.locks.len() <= LOCK_NAMES_MAX as usize
    }
}

/// One lock that is held or waited for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LockStatus {
    pub name: LockName,
    pub mode: Mode,
    pub holders: Vec<HolderStatus>,
    /// The sessions that wait, in the order in which they will be served.
    pub waiters: Vec<SessionId>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HolderStatus {
    pub session: SessionId,
    pub token: Token,
    /// The time to live of its session.
    pub ttl_ms: u64,
    /// After how much silence from now on the lock is taken from it.
    pub left_ms: Option<u64>,
    /// How long it has held the lock; `None` if it held it before this clerk took office.
    pub held_ms: Option<u64>,
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
    /// The member's config, or a file that it names, cannot be used.
    BadConfig,
}

impl FailCode {
    /// A change that may be possible soon is [`FailCode::Failed`]: the same request again may succeed. One that is refused
    /// as the list stands is [`FailCode::BadRequest`].
    pub fn of(refusal: ChangeRefusal) -> Self {
        match refusal {
            ChangeRefusal::NotLeading => FailCode::NoLeader,
            ChangeRefusal::NotReady(_) | ChangeRefusal::NotAffirmed => FailCode::Failed,
            ChangeRefusal::Pending(_)
            | ChangeRefusal::NothingPending
            | ChangeRefusal::Unlisted(_)
            | ChangeRefusal::Leader(_)
            | ChangeRefusal::NoMajority
            | ChangeRefusal::TooFew
            | ChangeRefusal::TooMany => FailCode::BadRequest,
        }
    }
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
    /// The next election compares it before the id.
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
    /// The keys that new handshakes use, named without being revealed. Secrets: all that are accepted, the first one is used to
    /// dial. Certificates: the member's own, then those of the authorities that it trusts.
    pub key_ids: Vec<String>,
    /// When its certificate or an authority expires, in milliseconds since 1970; secrets do not expire.
    pub expires_ms: Option<u64>,
    /// Where its priority comes from.
    pub priority_by: PriorityBy,
    /// The members that took part in its last election, where the algorithm keeps such a list.
    pub active_list: Option<Vec<u32>>,
    /// Clients that run, or wait to run, a command under its leadership (`ctl lead`).
    pub attached: u32,
    /// It stands for election only while a client is attached.
    pub stands_attached: bool,
    pub maintenance: Maintenance,
    /// What the processes of its attached clients do and could do, all together; `None` if none of them has said so.
    pub work: Option<Workload>,
}

/// Orders of operators that last for a while, as a member knows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Maintenance {
    /// The number of the newest order of a pause or its end, and the member that took it: the newest one counts.
    pub order: (u64, u32),
    pub paused: bool,
    /// The one member that stands while the cluster is paused.
    pub keeps: Option<u32>,
    /// The member leads, and no better member takes over from it.
    pub held: bool,
    /// The member does not stand until then, in milliseconds since 1970.
    pub rests_until_ms: Option<u64>,
}

impl Maintenance {
    /// Of the member that knows the newest order.
    pub fn newest<'a>(statuses: impl IntoIterator<Item = &'a MemberStatus>) -> Option<Self> {
        statuses.into_iter().map(|status| status.maintenance).max_by_key(|maintenance| maintenance.order)
    }
}

/// Where a member's priority comes from. An order of an operator counts before the command, and the command before the list.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PriorityBy {
    #[default]
    List,
    Command,
    Operator,
}

names!(PriorityBy { List: "list", Command: "command", Operator: "operator" });

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
            key_ids: Vec::new(),
            expires_ms: None,
            priority_by: PriorityBy::List,
            active_list: None,
            attached: 0,
            stands_attached: false,
            maintenance: Maintenance::default(),
            work: None,
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
    /// Why there is no connection, where one of the two refuses the other: the values that differ, for example.
    pub refusal: Option<String>,
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
        ("members", Access::Reader, false),
        ("change-members", Access::Operator, true),
        ("bootstrap", Access::Operator, true),
        ("reload", Access::Operator, true),
        ("lock-session", Access::Operator, false),
        ("lock", Access::Operator, false),
        ("locks", Access::Reader, false),
        ("unlock", Access::Operator, true),
        ("priority", Access::Operator, true),
        ("pause", Access::Operator, true),
        ("work", Access::Operator, false),
    ];

    #[test]
    fn every_request_has_its_line_in_the_access_table() {
        let line = |request: &Request| (request.name(), request.access(), request.order().is_some());
        assert_eq!(Request::ALL.iter().map(line).collect::<Vec<_>>(), ACCESS);
    }

    #[test]
    fn a_member_whose_pages_of_locks_go_back_is_believed_no_further() {
        let page = |names: &[&str]| {
            let lock = |name: &&str| LockStatus {
                name: LockName::new(name).unwrap(),
                mode: Mode::Exclusive,
                holders: Vec::new(),
                waiters: Vec::new(),
            };
            LockPage { epoch: 3, locks: names.iter().map(lock).collect(), more: true }
        };
        let mut all = LockPage::default();
        assert!(all.append(page(&["a", "b"])) && all.append(page(&["d"])) && all.more);
        for again in [["a", "e"], ["d", "e"], ["f", "e"]] {
            assert!(!all.clone().append(page(&again)), "{again:?}");
        }
        assert!(all.append(page(&[])) && !all.more, "an empty page is the last");
        assert_eq!((all.epoch, all.locks.len()), (3, 3));
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
