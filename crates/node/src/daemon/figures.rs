//! What the event loop counts, for metrics. Each count is kept where its state is owned; they are put together when the
//! HTTP face asks for them.

use std::time::Duration;

use client::{Announcement, Happened, Transition, Workload};
use face::{Figures, Histogram, LockFigures, PeerQueue};
use tokio::sync::oneshot;
use types::{InstanceId, NodeId, since_boot};

use super::Daemon;
use crate::http::Questions;

/// Counts that belong to no other part of the daemon.
#[derive(Debug)]
pub(super) struct Counts {
    questions: Option<Questions>,
    leader_changes: u64,
    elections: Histogram,
    fsync: Histogram,
    /// The leader and the epoch of the last announcement, and when the leader was lost, since boot.
    leader: Option<(NodeId, u64)>,
    lost: Option<Duration>,
}

impl Counts {
    pub(super) fn new(questions: Option<Questions>) -> Self {
        let (elections, fsync) = (Histogram::new(Histogram::WAIT), Histogram::new(Histogram::DISK));
        // The first election of this process counts from its start.
        Counts { questions, leader_changes: 0, elections, fsync, leader: None, lost: Some(since_boot()) }
    }

    /// The next question. Cancel-safe; without a face it waits for ever.
    pub(super) async fn question(&mut self) -> oneshot::Sender<Figures> {
        match &mut self.questions {
            Some(questions) => match questions.recv().await {
                Some(question) => question,
                None => std::future::pending().await,
            },
            None => std::future::pending().await,
        }
    }

    pub(super) fn written(&mut self, took: Duration) {
        self.fsync.observe(took);
    }

    /// Called with the announcements of every turn.
    pub(super) fn take(&mut self, announcements: &[Announcement]) {
        for announcement in announcements {
            if let (InstanceId::ELECTION, Happened::Became(transition)) = (announcement.instance, &announcement.what) {
                self.became(transition, since_boot());
            }
        }
    }

    fn became(&mut self, transition: &Transition, now: Duration) {
        let leader = transition.now.leader.map(|leader| (leader, transition.now.epoch.0));
        match leader {
            None => _ = self.lost.get_or_insert(now),
            Some(found) => {
                if let Some(lost) = self.lost.take() {
                    self.elections.observe(now.saturating_sub(lost));
                }
                if self.leader.is_some_and(|known| known != found) {
                    self.leader_changes += 1;
                }
                self.leader = leader;
            }
        }
    }
}

impl Daemon {
    pub(super) fn figures(&self) -> Figures {
        let election = self.instances.get(&InstanceId::ELECTION);
        let queue = |peer: NodeId| PeerQueue { peer: peer.0, bytes: self.net.queued_bytes(peer.0) as u64 };
        Figures {
            messages: election.map(|running| running.machine.message_counts()).unwrap_or_default(),
            leader_changes: self.counts.leader_changes,
            elections: Some(self.counts.elections.clone()),
            fsync: Some(self.counts.fsync.clone()),
            locks: self
                .locks
                .totals()
                .map(|(held, waiters)| LockFigures { held: held as u64, waiters: waiters as u64 }),
            lock_acquire: Some(self.locks.acquired().times().clone()),
            log_lines_dropped: crate::log::dropped(),
            queues: vec![
                ("watchers_behind", self.publisher.watchers.behind() as u64),
                ("ledger_pages", self.pages.all() as u64),
            ],
            peer_queues: self.roster.others().map(|peer| queue(peer.uid.id)).collect(),
            attached_children: self.instances.values().map(|running| running.attached.len() as u64).sum(),
            clients: self.net.clients() as u64,
            work: Workload::sum(self.instances.values().filter_map(|running| running.attached.work())),
        }
    }
}

#[cfg(test)]
mod tests {
    use member::{Cause, Role, Standing};
    use types::Epoch;

    use super::*;

    fn told(leader: Option<u32>, epoch: u64) -> Transition {
        let now = Standing { role: Role::Follower, leader: leader.map(NodeId), epoch: Epoch(epoch) };
        Transition { old: None, now, cause: Cause::OtherElected, lease_until_ns: None }
    }

    #[test]
    fn an_election_lasts_from_the_loss_of_a_leader_to_the_next_one_and_a_change_is_another_leader_or_epoch() {
        let mut counts = Counts::new(None);
        let begun = counts.lost.unwrap();
        let at = |ms| begun + Duration::from_millis(ms);
        for (leader, epoch, ms) in
            [(Some(5), 1, 40), (Some(5), 1, 50), (None, 1, 100), (None, 2, 300), (Some(4), 3, 400), (Some(4), 4, 500)]
        {
            counts.became(&told(leader, epoch), at(ms));
        }
        assert_eq!(counts.leader_changes, 2);
        let mut expected = Histogram::new(Histogram::WAIT);
        for ms in [40, 300] {
            expected.observe(Duration::from_millis(ms));
        }
        assert_eq!(format!("{:?}", counts.elections), format!("{expected:?}"));
    }
}
