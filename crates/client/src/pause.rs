//! Pausing a cluster, and ending its pause: one member takes the order, all others learn it from each other.

use std::time::Duration;

use types::Role;

use crate::ask::within;
use crate::connection::ClientError;
use crate::json::Paused;
use crate::members::Members;
use crate::order::ClaimedName;
use crate::wire::{Maintenance, MemberStatus};

/// The pause between two looks at the members.
const LOOK: Duration = Duration::from_millis(10);

impl Members {
    /// Waits until all members that answer know the order. It is taken by the member that knows the newest order before it,
    /// the leader if it does: an order of a member that knows less would count for nothing.
    pub async fn order_pause(
        &self,
        name: &ClaimedName,
        paused: bool,
        patience: Duration,
    ) -> Result<Paused, ClientError> {
        within(patience, self.order_pause_patiently(name, paused)).await
    }

    async fn order_pause_patiently(&self, name: &ClaimedName, paused: bool) -> Result<Paused, ClientError> {
        let mut asked = None;
        loop {
            let answers = self.ask_all().await;
            let statuses: Vec<&MemberStatus> =
                answers.iter().filter_map(|answer| answer.result.as_ref().ok()).collect();
            let newest = Maintenance::newest(statuses.iter().copied());
            let done = statuses.iter().all(|status| status.maintenance.paused == paused);
            if let Some(member) = asked.filter(|_| done) {
                return Ok(Paused::new(member, &answers));
            }
            if asked.is_none() || newest.is_some_and(|newest| newest.paused != paused) {
                let knows =
                    |status: &&&MemberStatus| Some(status.maintenance.order) == newest.map(|newest| newest.order);
                let first = statuses.iter().filter(knows).max_by_key(|status| status.role == Role::Leader);
                let Some(member) = first.map(|status| status.id) else { return Err(ClientError::Timeout) };
                let at = answers.iter().find(|answer| answer.result.as_ref().is_ok_and(|status| status.id == member));
                let Some(answer) = at else { return Err(ClientError::Timeout) };
                self.connect_as(&answer.endpoint, name).await?.pause(paused).await?;
                asked = Some(member);
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
