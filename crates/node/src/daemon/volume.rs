//! The record on disk, as the event loop sees it: the member's own and what it has seen of its peers.
//!
//! An incarnation of this member is on disk before any peer hears of it, so no two of one volume are ever the same to
//! the others. They refuse one that is not later than one they have seen: its volume was rolled back or copied.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use algorithms::NodeId;
use anyhow::Context as _;
use member::{Incarnation, Safety};

use super::Daemon;
use crate::clock::since_boot;
use crate::config::Config;
use crate::disk::{Disk, Ticket, Written};
use crate::host::Instance;
use crate::records::{self, Kept};
use crate::storage::{StateFile, VolumeRecord};

/// A peer's new incarnation is written down this much later, unless something else is written before: by then what its
/// return set off is over, and no grant waits behind this write.
const REMEMBER_AFTER: Duration = Duration::from_secs(1);
/// More starts than any member has in its life.
const COUNTER_MAX: u64 = 1 << 40;

pub(super) struct Volume {
    disk: Disk,
    /// Everything that is on the disk or about to be: whatever changes, all of it is written.
    file: StateFile,
    algorithm: &'static str,
    /// When what was seen of the peers is to be written, since boot.
    remember_at: Option<Duration>,
    /// Writes under way for the member, and whether it waits for them.
    writes: BTreeMap<Ticket, bool>,
    /// The disk told of no peer when this process began.
    met_nobody: bool,
}

impl Volume {
    /// Writes the first record of this incarnation, before there is a network that could tell of it.
    pub(super) async fn begin(
        disk: Disk,
        config: &Config,
        id: NodeId,
        stored: Option<StateFile>,
        instance: &mut dyn Instance,
    ) -> anyhow::Result<Self> {
        // This process writes with this config, whatever the last one wrote with.
        let (members, safety) = (config.votes_digest(), config.safety);
        let now = VolumeRecord { id, refused: false, members, safety, seen: BTreeMap::new() };
        let mut file = match stored {
            Some(mut file) => {
                file.volume = VolumeRecord { seen: file.volume.seen, ..now };
                file
            }
            None => StateFile::new(now),
        };
        let met_nobody = file.volume.seen.is_empty();
        file.volume.seen.retain(|&peer, _| config.peer(peer).is_some());
        let algorithm = config.row.name;
        records::put(&mut file, algorithm, instance.first_record()?);
        let (remember_at, writes) = (None, BTreeMap::new());
        let mut volume = Volume { disk, file, algorithm, remember_at, writes, met_nobody };
        volume.write_now().await?;
        instance.written(true);
        Ok(volume)
    }

    pub(super) fn write(&mut self, record: Kept, barrier: bool) {
        records::put(&mut self.file, self.algorithm, record);
        let ticket = self.write_all();
        self.writes.insert(ticket, barrier);
    }

    /// A peer is connected. What is new about it is written in the background.
    pub(super) fn met(&mut self, peer: NodeId, incarnation: Incarnation) {
        // The first peer is written at once: from then on a rolled-back copy of this disk can be recognised.
        let patience = if self.file.volume.seen.is_empty() { Duration::ZERO } else { REMEMBER_AFTER };
        if self.file.volume.seen.insert(peer, incarnation) != Some(incarnation) {
            self.remember_at.get_or_insert_with(|| since_boot() + patience);
        }
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.remember_at
    }

    pub(super) fn remember_when_due(&mut self, now: Duration) {
        if self.remember_at.is_some_and(|due| due <= now) {
            self.write_all();
        }
    }

    /// The next finished write. Cancel-safe.
    pub(super) async fn written(&mut self) -> Written {
        self.disk.written().await
    }

    /// Was the finished write the member's, and did the member wait for it?
    pub(super) fn finish(&mut self, Written { ticket, result, .. }: Written) -> anyhow::Result<Option<bool>> {
        // A member that cannot write its epochs down could repeat them after a restart.
        result.with_context(|| cannot_write(self.disk.path()))?;
        Ok(self.writes.remove(&ticket))
    }

    pub(super) fn usual(&self) -> Option<Duration> {
        self.disk.usual()
    }

    pub(super) fn seen(&self) -> Vec<(u32, transport::Incarnation)> {
        let entry = |(peer, run): (&NodeId, &Incarnation)| {
            (peer.0, transport::Incarnation { counter: run.counter, nonce: run.nonce })
        };
        self.file.volume.seen.iter().map(entry).collect()
    }

    /// A member with an empty disk begins to count anew, and cannot know how far it had come. It has no promise to
    /// forget, so it may go on above what the others have seen.
    fn has_no_past(&self) -> bool {
        match self.file.volume.safety {
            Safety::Quorum => records::authority(&self.file).is_none_or(|record| record.vote().is_none()),
            Safety::Classic => self.met_nobody,
        }
    }

    /// What the next incarnation begins with, so that it is later than the one with this counter.
    pub(super) fn above(self, counter: u64) -> (Disk, StateFile) {
        let Volume { disk, mut file, met_nobody, .. } = self;
        if met_nobody {
            // Still without a peer: a third one may have seen a later incarnation.
            file.volume.seen.clear();
        }
        if let Some(mut record) = records::authority(&file) {
            let incarnation = record.incarnation_mut();
            incarnation.counter = incarnation.counter.max(counter);
            records::put_authority(&mut file, record.encode());
        }
        (disk, file)
    }

    fn write_all(&mut self) -> Ticket {
        self.remember_at = None;
        self.disk.write(self.file.clone())
    }

    /// Marks it, so that no later incarnation of it is let in for being later than what the others have seen.
    pub(super) async fn refuse(&mut self) -> anyhow::Result<()> {
        self.file.volume.refused = true;
        self.write_now().await
    }

    async fn write_now(&mut self) -> anyhow::Result<()> {
        let ticket = self.write_all();
        loop {
            let written = self.disk.written().await;
            written.result.with_context(|| cannot_write(self.disk.path()))?;
            if written.ticket == ticket {
                return Ok(());
            }
        }
    }
}

impl Daemon {
    /// A peer has seen a later incarnation of this member, or a twin of this one.
    pub(super) fn stale(&mut self, peer: u32, seen: u64, text: &str) {
        if self.outside.volume.has_no_past() && seen < COUNTER_MAX {
            tracing::warn!(peer, text, "this disk has no past, but the member had one: starting over above it");
            self.outdone = Some(Outdone::By(seen));
            return;
        }
        let remedy = remedy(self.outside.volume.disk.path());
        self.outdone = Some(Outdone::Refused(format!("member {peer} refuses this process: {text}. {remedy}")));
    }
}

/// What becomes of a volume when a peer has seen a later incarnation of its member.
#[derive(Debug)]
pub(super) enum Outdone {
    /// It has no past: the member goes on above this incarnation.
    By(u64),
    /// It has forgotten something, and why that is known.
    Refused(String),
}

pub(super) fn remedy(state: &Path) -> String {
    format!(
        "This member may have made promises that {} does not know of. Restore the newer volume (or, if another process \
         runs with it, leave it at that one); or empty the data directory {} and start again: this member then learns \
         from the others",
        state.display(),
        directory(state).display()
    )
}

/// What to do about a disk that fails. Nothing was promised that is not on it.
fn cannot_write(state: &Path) -> String {
    format!(
        "cannot write the state file {}, and a member that cannot keep its word gives none: it ends, and the others go \
         on. Is the disk full, read-only or broken? Make room or mend it and start again; if it is lost, start with an \
         empty data directory instead of {}: this member then learns from the others",
        state.display(),
        directory(state).display()
    )
}

fn directory(state: &Path) -> PathBuf {
    state.parent().map(Path::to_path_buf).unwrap_or_default()
}
