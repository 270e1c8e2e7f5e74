//! `[locks]`: the lock service of the cluster.

use std::time::Duration;

use client::LOCK_NAMES_MAX;
use locks::catalog::{self, Row};
use locks::service::{Limits, LockSettings};
use member::{OnClose, Safety};
use types::format_duration;

use super::Config;
use super::problems::Problems;
use super::section::{Found, Reader, Section, closest};

/// A shorter time to live could not be kept alive over a network.
const TTL_MIN: Duration = Duration::from_millis(100);
const MAX_TTL_MAX: Duration = Duration::from_hours(1);
const SESSIONS_MAX: u32 = 100_000;
const WAITERS_MAX: u32 = 100_000;
/// Subtracted from every right to act, for the time between a look at the clock and the act.
const MARGIN: Duration = Duration::from_millis(5);
/// A grant costs one message to one voter of three, and its answer, instead of two and two. Where that voter does not answer
/// the others are asked so much later, which few clients notice.
const SPREAD: Duration = Duration::from_millis(5);
/// A crowd of waiters comes back to a new leader within three leases more.
const REQUEUE_LONGER: u32 = 13;

/// The table as it is written: a missing key is `None`.
pub(super) struct LocksDraft {
    algorithm: Option<Found<String>>,
    max_ttl: Option<Found<Duration>>,
    max_sessions: Option<Found<u32>>,
    max_waiters: Option<Found<u32>>,
    max_names: Option<Found<u32>>,
}

/// The lock service of this cluster.
#[derive(Clone, PartialEq, Debug)]
pub struct Locks {
    pub row: &'static Row,
    /// The largest time to live that a session may ask for.
    pub max_ttl: Duration,
    pub limits: Limits,
}

impl Locks {
    /// What the machine needs to know.
    pub fn settings(&self, config: &Config) -> LockSettings {
        let timing = &config.settings.timing;
        LockSettings {
            max_ttl: self.max_ttl,
            min_ttl: TTL_MIN,
            max_drift_ppm: (timing.max_drift * 1e6).ceil() as u32,
            margin: MARGIN,
            heartbeat: timing.heartbeat,
            spread: SPREAD,
            // Clients need about as long as an election to find the new leader.
            requeue_window: timing.lease,
            requeue_longer: REQUEUE_LONGER,
            close_ends_bare: config.settings.on_close == OnClose::Immediate,
            limits: self.limits,
            ..LockSettings::default()
        }
    }

    /// Why this cluster grants no locks, if its config is the reason.
    pub fn needs_other_safety(&self, safety: Safety) -> bool {
        self.row.needs_quorum && safety == Safety::Classic
    }
}

pub(super) fn draft(reader: &mut Reader<'_>, section: &Section<'_>) -> LocksDraft {
    LocksDraft {
        algorithm: reader.string(section, "algorithm"),
        max_ttl: reader.duration(section, "max_ttl"),
        max_sessions: reader.integer(section, "max_sessions", 1, SESSIONS_MAX),
        max_waiters: reader.integer(section, "max_waiters", 1, WAITERS_MAX),
        max_names: reader.integer(section, "max_names", 1, LOCK_NAMES_MAX),
    }
}

/// Fills in the defaults.
pub(super) fn resolve(draft: &LocksDraft) -> Locks {
    let default = LockSettings::default();
    let or = |found: Option<Found<u32>>, default: usize| found.map_or(default, |found| found.value as usize);
    Locks {
        row: draft.algorithm.as_ref().and_then(|named| catalog::row(&named.value)).unwrap_or_else(catalog::default),
        max_ttl: draft.max_ttl.map_or(default.max_ttl, |found| found.value),
        limits: Limits {
            names: or(draft.max_names, default.limits.names),
            sessions: or(draft.max_sessions, default.limits.sessions),
            waiters: or(draft.max_waiters, default.limits.waiters),
            ..default.limits
        },
    }
}

pub(super) fn check(draft: &LocksDraft, config: &Config, problems: &mut Problems) {
    if let Some(named) = draft.algorithm.as_ref().filter(|named| catalog::row(&named.value).is_none()) {
        let names = catalog::names().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let remedy = match closest(&named.value, catalog::names()) {
            Some(name) => format!("did you mean {name:?}? The lock algorithms are {names}"),
            None => format!("write one of {names}"),
        };
        problems.push(named.line, format!("unknown lock algorithm {:?}", named.value), remedy);
    }
    let Some(said) = draft.max_ttl else { return };
    let shortest = TTL_MIN.max(config.settings.timing.lease);
    if said.value < shortest || said.value > MAX_TTL_MAX {
        let message = format!("max_ttl = \"{}\" cannot work", format_duration(said.value));
        let (from, to) = (format_duration(shortest), format_duration(MAX_TTL_MAX));
        problems.push(said.line, message, format!("write {from} (not less than the lease) to {to}"));
    }
}
