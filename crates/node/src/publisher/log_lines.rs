//! One log line per announcement that an operator may look for.

use client::{Announcement, Happened, Role, Transition};

use super::Subscriber;

/// Lines pass through the log's own bounded queue.
#[derive(Debug)]
pub(crate) struct LogLines;

impl Subscriber for LogLines {
    fn take(&mut self, announcement: &Announcement) {
        let instance = announcement.instance.0;
        match &announcement.what {
            Happened::Became(Transition { old, now, cause, .. }) => tracing::info!(
                instance,
                old = old.map_or("none", Role::name),
                new = now.role.name(),
                leader = now.leader.map(|leader| leader.0),
                epoch = now.epoch.0,
                cause = cause.name(),
                "transition"
            ),
            Happened::Elected(cost) => {
                let sent: u64 = cost.sent.iter().map(|kind| kind.count).sum();
                let participants = cost.participants.len();
                tracing::debug!(instance, sent, participants, initiator = cost.initiator, "election over");
            }
            Happened::Link { peer, up: true } => tracing::debug!(peer, "connected"),
            Happened::Link { peer, up: false } => tracing::debug!(peer, "disconnected"),
            Happened::Faults(faults) => tracing::warn!(?faults, "injected faults in force"),
            Happened::Leaving => tracing::info!("left"),
            Happened::Ordered(ordered) => tracing::warn!(
                instance,
                order = %ordered.order,
                access = %ordered.access,
                from = %ordered.address,
                name = ordered.name.get(),
                "ordered by an operator"
            ),
            Happened::Adopted { list, voters } => tracing::info!(%list, ?voters, "member list on this disk"),
            Happened::InForce { list, voters } => tracing::info!(%list, ?voters, "member list in force"),
            Happened::Forced { list, voters } => tracing::warn!(%list, ?voters, "a new cluster, by an operator's word"),
            Happened::Started { .. } | Happened::Granted { .. } | Happened::PromiseEnded { .. } => {}
        }
    }
}
