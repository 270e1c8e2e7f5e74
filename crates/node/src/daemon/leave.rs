//! Leaving in order: on a signal, after leadership was handed over.

use std::time::Duration;

use client::Happened;
use member::{Command, FromDriver, Role, Settings};
use types::{InstanceId, since_boot};

use super::Daemon;
use crate::error_text;

/// How long a leaving leader waits for its successor.
const HANDOVER: Duration = Duration::from_secs(1);

impl Daemon {
    /// Hands leadership over before leaving: the other members elect without having to detect a death.
    pub(super) async fn leave(mut self) -> anyhow::Result<()> {
        self.instances.values_mut().for_each(|running| running.attached.leave());
        let alone = !self.roster.others().any(|peer| self.net.is_connected(peer.uid.id.0));
        let children = self.instances.values().any(|running| !running.attached.is_empty());
        let leading: Vec<InstanceId> = self.leading();
        tracing::info!(handover = !leading.is_empty() && !alone, children, "leaving");
        self.notify.say("STOPPING=1");
        if !leading.is_empty() && (!alone || children) {
            for instance in &leading {
                if let Some(running) = self.instances.get_mut(instance) {
                    running.machine.command(Command::StepDown(None));
                }
            }
            self.carry_out();
            // Enough time to give up a successor that does not answer, and then to release without one.
            let settings = &self.config.settings;
            let handover = HANDOVER.max(3 * settings.election.answer_timeout);
            let grace = self.instances.values().map(|running| running.attached.grace()).max().unwrap_or_default();
            let patience =
                Settings { from_driver: FromDriver { child_grace: grace, ..settings.from_driver }, ..settings.clone() }
                    .children_patience();
            let stopping = if children { patience } else { Duration::ZERO };
            let until = since_boot() + handover + stopping;
            while since_boot() < until && !leading.iter().all(|&instance| self.handed_over(instance, alone)) {
                self.turn(until).await?;
            }
        }
        self.publisher.publish(InstanceId::ELECTION, Happened::Leaving);
        self.publisher.tell_all_watchers(&mut self.net);
        self.net.flush_all();
        self.publisher.tell_subscribers();
        self.close_ledger().await;
        Ok(())
    }

    /// The connections close first: nobody waits for these writes.
    async fn close_ledger(self) {
        let Daemon { net, publisher, mut ledger, mut volume, .. } = self;
        // The ledger ends when its last writer is gone.
        drop((net, publisher));
        if let Some(head) = ledger.settle() {
            volume.remember_ledger(head);
        }
        if let Err(error) = volume.write_remembered().await {
            tracing::warn!(
                error = error_text::with_causes(&error),
                "the state file does not know the last entries of the ledger"
            );
        }
    }

    fn leading(&self) -> Vec<InstanceId> {
        let leads = |instance: &InstanceId| self.instances[instance].shown.standing().role == Role::Leader;
        self.instances.keys().copied().filter(leads).collect()
    }

    /// True if another member leads; in a cluster of one, if this member does not lead.
    fn handed_over(&self, instance: InstanceId, alone: bool) -> bool {
        let standing = self.instances[&instance].shown.standing();
        standing.leader.is_some_and(|leader| leader != self.id) || (alone && standing.role != Role::Leader)
    }

    /// One turn of a process that is leaving; ends at `until` at the latest.
    async fn turn(&mut self, until: Duration) -> anyhow::Result<()> {
        let wake = self.deadline().map_or(until, |timer| timer.min(until));
        tokio::select! {
            biased;
            () = tokio::time::sleep(wake.saturating_sub(since_boot())) => {}
            written = self.volume.written() => self.written(written)?,
            event = self.net.event() => self.network(event)?,
        }
        self.carry_out();
        Ok(())
    }
}
