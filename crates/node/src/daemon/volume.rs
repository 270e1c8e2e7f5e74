//! The record on disk, as the event loop sees it: the member's own record and the incarnations it has seen of its
//! peers.
//!
//! An incarnation of this member is on disk before any peer learns of it, so no two incarnations of one volume are ever
//! the same to the peers. Peers refuse an incarnation that is not later than the latest one they have seen: its volume
//! was rolled back or copied (see `stale.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use algorithms::NodeId;
use anyhow::Context as _;
use client::LedgerHead;
use member::{Incarnation, Safety};

use types::{InstanceId, Stamp, since_boot};

use super::stale::Judgement;
use super::{Daemon, Instances};
use crate::binding::Binding;
use crate::config::Config;
use crate::disk::{Disk, Report, Ticket, Written};
use crate::records::{self, AuthorityRecord, Kept, ListMark};
use crate::roster::Roster;
use crate::storage::{StateFile, VolumeRecord};

/// What no machine waits for is written this much later, unless another write comes first: the new incarnation of a peer,
/// what an algorithm remembers for its next election. By then the election after a member's death or return is over, and
/// neither takes processor time from it nor makes a grant wait behind this write.
const REMEMBER_AFTER: Duration = Duration::from_secs(1);

pub(super) struct Volume {
    disk: Disk,
    /// Everything that is on the disk or about to be: after any change all of it is written.
    file: StateFile,
    /// When everything that can wait is to be written, since boot.
    remember_at: Option<Duration>,
    /// Instances whose record is to be written with it, once for each record.
    postponed: Vec<InstanceId>,
    /// The instances of the writes under way, and whether they wait for them.
    writes: BTreeMap<Ticket, Vec<(InstanceId, bool)>>,
    /// No peer was recorded on the disk when this process started.
    no_known_peers: bool,
}

impl Volume {
    /// Writes the first record of this incarnation, before the network exists that could reveal the incarnation.
    pub(super) async fn begin(
        disk: Disk,
        config: &Config,
        roster: &Roster,
        stored: Option<StateFile>,
        binding: Option<Binding>,
        instances: &mut Instances,
    ) -> anyhow::Result<Self> {
        // The record gets the digest and the safety of this config, even if the last process had another config.
        let (members, safety) = (config.votes_digest(), config.safety);
        let id = roster.me().id;
        let now = VolumeRecord { id, refused: false, members, safety, seen: BTreeMap::new(), binding };
        let mut file = match stored {
            Some(mut file) => {
                file.volume = VolumeRecord { seen: file.volume.seen, refused: file.volume.refused, ..now };
                file
            }
            None => StateFile::new(now),
        };
        let no_known_peers = file.volume.seen.is_empty();
        for (&instance, running) in instances.iter_mut() {
            records::put(&mut file, instance, running.algorithm, running.machine.first_record()?);
        }
        let (remember_at, postponed, writes) = (None, Vec::new(), BTreeMap::new());
        let mut volume = Volume { disk, file, remember_at, postponed, writes, no_known_peers };
        volume.list_changed(roster);
        volume.write_now().await?;
        for running in instances.values_mut() {
            running.machine.set_write_time(volume.write_time());
            running.machine.written(true);
        }
        Ok(volume)
    }

    pub(super) fn write(&mut self, instance: InstanceId, algorithm: &str, record: Kept, barrier: bool) {
        let later = !barrier && records::can_wait(&self.file, instance, algorithm, &record);
        records::put(&mut self.file, instance, algorithm, record);
        if later {
            self.postponed.push(instance);
            self.remember_at.get_or_insert_with(|| since_boot() + REMEMBER_AFTER);
            return;
        }
        let ticket = self.write_all();
        self.writes.entry(ticket).or_default().push((instance, barrier));
    }

    /// A peer is connected. A new incarnation of it is written in the background.
    pub(super) fn met(&mut self, peer: NodeId, incarnation: Incarnation) {
        // The first peer is written at once: from then on a rolled-back copy of this disk can be recognised.
        let patience = if self.file.volume.seen.is_empty() { Duration::ZERO } else { REMEMBER_AFTER };
        if self.file.volume.seen.insert(peer, incarnation) != Some(incarnation) {
            self.remember_at.get_or_insert_with(|| since_boot() + patience);
        }
    }

    /// The member list has changed: incarnations of members that are in the list no more are forgotten. The mark that this
    /// member is in a list is on the disk before any list without it.
    pub(super) fn list_changed(&mut self, roster: &Roster) {
        self.file.volume.seen.retain(|&peer, _| roster.get(peer).is_some());
        if roster.is_listed() {
            let mark = ListMark { listed: true, ..records::list_mark(&self.file) };
            records::put_list_mark(&mut self.file, mark);
        }
    }

    /// Was this member ever in a list that it knew?
    pub(super) fn was_listed(&self) -> bool {
        records::list_mark(&self.file).listed
    }

    /// Was this member forced to begin a new cluster, and nothing has announced it yet?
    pub(super) fn take_forced(&mut self) -> bool {
        let place = records::list_mark(&self.file);
        if place.forced {
            records::put_list_mark(&mut self.file, ListMark { forced: false, ..place });
            self.remember_at.get_or_insert_with(|| since_boot() + REMEMBER_AFTER);
        }
        place.forced
    }

    /// The list in force is without this member, which is not to start again with this volume.
    pub(super) async fn remove_member(&mut self, list: Stamp) -> anyhow::Result<()> {
        let place = ListMark { removed: Some(list), ..records::list_mark(&self.file) };
        records::put_list_mark(&mut self.file, place);
        self.write_now().await
    }

    /// The ledger has these entries on its disk. Written in the background; never before the ledger itself.
    pub(super) fn remember_ledger(&mut self, head: LedgerHead) {
        records::put_ledger(&mut self.file, head);
        self.remember_at.get_or_insert_with(|| since_boot() + REMEMBER_AFTER);
    }

    /// The priority that an operator gave this member. It counts when this write is done.
    pub(super) fn set_priority(&mut self, priority: Option<u32>) -> Ticket {
        records::put_priority(&mut self.file, priority);
        self.write_all()
    }

    pub(super) fn priority(&self) -> Option<u32> {
        records::priority(&self.file)
    }

    /// Before an end in order: writes what waits to be written in the background.
    pub(super) async fn write_remembered(&mut self) -> anyhow::Result<()> {
        if self.remember_at.is_some() { self.write_now().await } else { Ok(()) }
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.remember_at
    }

    pub(super) fn remember_when_due(&mut self, now: Duration) {
        if self.remember_at.is_some_and(|due| due <= now) {
            self.write_all();
        }
    }

    /// The next report of the disk. Cancel-safe.
    pub(super) async fn written(&mut self) -> Report {
        self.disk.written().await
    }

    /// The instances whose writes were finished, in the order of the writes, and did the instance wait for it?
    pub(super) fn finish(&mut self, written: Written) -> anyhow::Result<Vec<(InstanceId, bool)>> {
        let Written { ticket, result, .. } = written;
        // A member that cannot write its epochs could repeat them after a restart.
        result.with_context(|| cannot_write(self.disk.path()))?;
        Ok(self.writes.remove(&ticket).unwrap_or_default())
    }

    /// How long the last write took.
    pub(super) fn write_time(&self) -> Duration {
        self.disk.latest().unwrap_or_default()
    }

    /// The median time of the last writes.
    pub(super) fn median(&self) -> Option<Duration> {
        self.disk.median()
    }

    pub(super) fn seen(&self) -> Vec<(u32, Incarnation)> {
        self.file.volume.seen.iter().map(|(peer, &incarnation)| (peer.0, incarnation)).collect()
    }

    /// A member with an empty disk counts its incarnations from the start and cannot know its earlier ones. It has no
    /// promise to forget, so it may continue above the incarnation that its peers have seen.
    fn has_no_past(&self) -> bool {
        match self.file.volume.safety {
            Safety::Quorum => self.instances().all(|(_, record)| record.vote().is_none()),
            Safety::Classic => self.no_known_peers,
        }
    }

    /// Was this volume found to be old?
    pub(super) fn is_refused(&self) -> bool {
        self.file.volume.refused
    }

    /// The count of this member's starts.
    fn counter(&self) -> u64 {
        records::authority(&self.file, InstanceId::ELECTION).map_or(0, |mut record| record.incarnation_mut().counter)
    }

    /// The record of the next incarnation, which is later than the one with this counter.
    pub(super) fn resume_after(self, counter: u64) -> (Disk, StateFile) {
        let Volume { disk, mut file, no_known_peers, .. } = self;
        if no_known_peers {
            // Still no recorded peer: a third member may have seen a later incarnation.
            file.volume.seen.clear();
        }
        if let Some(mut record) = records::authority(&file, InstanceId::ELECTION) {
            let incarnation = record.incarnation_mut();
            incarnation.counter = incarnation.counter.max(counter);
            records::put_authority(&mut file, InstanceId::ELECTION, record.encode());
        }
        (disk, file)
    }

    fn instances(&self) -> impl Iterator<Item = (InstanceId, AuthorityRecord)> {
        let ids: BTreeSet<InstanceId> = self
            .file
            .sections()
            .iter()
            .map(|(instance, ..)| instance)
            .filter(|instance| instance.is_election())
            .collect();
        ids.into_iter().filter_map(|instance| Some((instance, records::authority(&self.file, instance)?)))
    }

    fn write_all(&mut self) -> Ticket {
        self.remember_at = None;
        let ticket = self.disk.write(self.file.clone());
        let postponed = std::mem::take(&mut self.postponed);
        if !postponed.is_empty() {
            self.writes.insert(ticket, postponed.into_iter().map(|instance| (instance, false)).collect());
        }
        ticket
    }

    /// Marks the volume as old. Otherwise a later incarnation of it would be accepted as a voter, because it is later than
    /// the one the peers have seen. The next incarnation has the same count: the volume that is missing may return.
    pub(super) async fn refuse(mut self) -> anyhow::Result<(Disk, StateFile)> {
        self.file.volume.refused = true;
        self.write_now().await?;
        Ok((self.disk, self.file))
    }

    async fn write_now(&mut self) -> anyhow::Result<()> {
        let ticket = self.write_all();
        loop {
            let Report::Written(written) = self.disk.written().await else { continue };
            written.result.with_context(|| cannot_write(self.disk.path()))?;
            if written.ticket == ticket {
                return Ok(());
            }
        }
    }
}

/// Machines that start with a volume that is known to be old do not count their starts: the incarnation with the next
/// count belongs to the volume that is missing.
pub(super) fn same_count(file: &mut StateFile) {
    if let Some(mut record) = records::authority(file, InstanceId::ELECTION) {
        let incarnation = record.incarnation_mut();
        incarnation.counter = incarnation.counter.saturating_sub(1);
        records::put_authority(file, InstanceId::ELECTION, record.encode());
    }
}

impl Daemon {
    /// A peer has seen a later incarnation of this member, or another process with this incarnation.
    pub(super) fn stale(&mut self, peer: u32, seen: u64, text: &str) {
        if self.volume.is_refused() {
            return;
        }
        if self.voices.hear(NodeId(peer), seen) {
            tracing::warn!(
                peer,
                text,
                "this peer has seen a later incarnation of this member. If this volume is a copy or a restored backup, \
                 empty the data directory and start again; this member stops voting when a majority says so"
            );
        }
        let voters = self.roster.list().voters().collect();
        let (own, no_past) = (self.volume.counter(), self.volume.has_no_past());
        match self.voices.judge(NodeId(peer), &voters, own, no_past) {
            Judgement::Wait => {}
            Judgement::ResumeAfter(seen) => {
                tracing::warn!(
                    peer,
                    text,
                    "this disk has no record of the member's earlier incarnations: starting again with a later incarnation"
                );
                self.stale_run = Some(StaleRun::ResumeAfter(seen));
            }
            Judgement::Old => self.stale_run = Some(StaleRun::Old),
        }
    }
}

/// What is done with a volume when peers have seen a later incarnation of its member.
#[derive(Debug)]
pub(super) enum StaleRun {
    /// It has no promises to forget: the member starts again with a later incarnation than this one.
    ResumeAfter(u64),
    /// It has lost promises: the member starts again and neither votes nor stands.
    Old,
}

pub(super) fn remedy(state: &Path) -> String {
    format!(
        "This member may have made promises that {} does not know of, so it neither votes nor stands for election. \
         Restore the newer volume (or, if another process runs with it, let only that process run); or empty the data \
         directory {} and start again: this member then learns from the other members",
        state.display(),
        directory(state).display()
    )
}

/// What to do about a disk that fails. No promise was made that is not on the disk.
fn cannot_write(state: &Path) -> String {
    format!(
        "cannot write the state file {}: this member ends, because it must not vote or lead on what it cannot record; the \
         other members continue. Is the disk full, read-only or broken? Free space or repair it and start again; if the \
         disk is lost, start with an empty data directory instead of {}: this member then learns from the other voters",
        state.display(),
        directory(state).display()
    )
}

fn directory(state: &Path) -> PathBuf {
    state.parent().map(Path::to_path_buf).unwrap_or_default()
}
