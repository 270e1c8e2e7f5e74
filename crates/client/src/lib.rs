//! Talking to the members of a cluster: the requests, the answers, an async client, and what the answers of all
//! members together mean.
//!
//! - [`LeaderClient`] is for programs: it finds the leader and follows it from member to member.
//! - [`Client`] speaks to one member, with any number of calls at once; [`Watch`] is its stream of announcements.
//! - [`ask_all`] asks every member at once; [`Observer`] follows the announcements of all; [`Members`] asks those of the
//!   present member list, [`Gathered`] has all their ledgers.
//! - [`json`] is the JSON of all of it.
//! - [`history`] judges what all members' ledgers show together.
//! - [`Session`] holds locks of the cluster, each with a fencing token.
//! - [`Attachment`] ties work to one member's reign; with [`Fence`] a resource refuses the work of an older reign.
//! - [`Verdict`] and [`find_leader`] judge the answers. A member out of reach is unknown, never a disagreement.

mod alarm;
mod announcement;
mod ask;
mod attachment;
mod chaos;
mod cluster_file;
mod connection;
mod election;
mod endpoint;
mod explain;
mod fence;
mod gathered;
pub mod history;
mod instant;
pub mod json;
mod leader;
mod ledger;
mod members;
mod observe;
mod order;
mod overview;
mod pause;
mod program;
mod reload;
mod secret_file;
mod session;
mod status;
mod theory;
mod verdict;
mod watch;
mod wire;
mod workload;

pub use alarm::Alarm;
pub use announcement::{Announcement, ElectionCost, ElectionName, Happened, KindCount, Transition};
pub use ask::{Answer, ask_all, ask_ledgers, ask_locks, ask_members, within};
pub use attachment::{Attachment, GRACE_MAX, Notice, Reporter};
pub use chaos::{CHAOS_MAX, Chaos, Way};
pub use cluster_file::{ClusterFile, ClusterFileError, DEFAULT_CONFIG, TlsFiles};
pub use connection::{Client, ClientError};
pub use election::ElectionSummary;
pub use endpoint::Endpoint;
pub use explain::{Evidence, Explanation, cause_in_words, expiry_in_words, explain, now_ms};
pub use fence::{Fence, FenceError};
pub use gathered::Gathered;
pub use instant::{InstantError, format_instant, parse_instant};
pub use leader::{Leader, LeaderClient};
pub use ledger::{LedgerBreak, LedgerEntry, LedgerHash, LedgerHead, LedgerKind, LedgerPage, LedgerProof, ListPart};
pub use members::Members;
pub use observe::{News, Observer, Report};
pub use order::{ClaimedName, NAME_BYTES_MAX, Order, Ordered, REST_MAX};
pub use overview::Overview;
pub use program::{INSTALLED_CTL, INSTALLED_NODE, Programs};
pub use reload::{ReloadOutcome, ReloadedKey};
pub use secret_file::{
    CertificateFiles, SecretFileError, SecretPermissions, read_certificate, read_secrets, read_tokens,
};
pub use session::{LockError, LockGuard, LostReason, Release, Right, Session, Wait, refusal_in_words};
pub use theory::theory_of;
pub use transport::{
    Certificate, CertificateError, ClientSettings, ConnectError, Holder, Keyring, RefuseCode, Secret, SecretError,
    certificate_ids,
};
pub use types::{
    Access, Cause, DurationError, InstanceId, Role, Safety, Standing, Topology, format_duration, parse_duration,
};
pub use verdict::{Electorate, NoLeader, Verdict, View, find_leader};
pub use watch::{Watch, Watched};
pub use wire::{
    Call, CallId, FailCode, HolderStatus, LOCK_NAMES_MAX, LockPage, LockStatus, Maintenance, MemberStatus, PeerStatus,
    PriorityBy, Reply, Request, Response,
};
pub use workload::{Amount, Workload, WorkloadError};
