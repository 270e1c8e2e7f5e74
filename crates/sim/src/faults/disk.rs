//! The disks of a fault run. Writes are done one after the other; a crash loses some of the last ones.

use std::collections::VecDeque;
use std::time::Duration;

use algorithms::Input;

use super::plan::US;
use super::schedule::Own;
use super::subject::Subject;
use super::world::World;

#[derive(Debug)]
pub(crate) struct Disk<S: Subject> {
    /// What a start of the process reads.
    pub record: Option<S::Durable>,
    /// Not yet done, and whether effects wait for it.
    writes: VecDeque<(S::Durable, bool)>,
    /// When the first of them began.
    begun: u64,
    /// No write ends.
    pub hangs: bool,
    /// The first write would have ended by now.
    held: bool,
    /// When it last began to answer again.
    pub answers_since: u64,
}

impl<S: Subject> Default for Disk<S> {
    fn default() -> Self {
        Disk { record: None, writes: VecDeque::new(), begun: 0, hangs: false, held: false, answers_since: 0 }
    }
}

impl<S: Subject> Disk<S> {
    pub(super) fn writes_under_way(&self) -> usize {
        self.writes.len()
    }

    /// The process ends. Of the writes under way the first `survive` are done.
    pub(super) fn lose_writes(&mut self, survive: usize) {
        for (record, _) in self.writes.drain(..).take(survive) {
            self.record = Some(record);
        }
        self.held = false;
    }

    /// The first write is done, unless the disk hangs.
    fn finish(&mut self) -> Option<(S::Durable, bool)> {
        if self.hangs {
            self.held = true;
            return None;
        }
        let (record, barrier) = self.writes.pop_front()?;
        self.record = Some(record.clone());
        Some((record, barrier))
    }
}

impl<S: Subject> World<'_, S> {
    pub(super) fn write(&mut self, node: usize, record: S::Durable, barrier: bool) {
        let disk = &mut self.processes[node].disk;
        disk.writes.push_back((record, barrier));
        if disk.writes.len() == 1 {
            self.begin_write(node);
        }
    }

    fn begin_write(&mut self, node: usize) {
        self.processes[node].disk.begun = self.now;
        let at = self.now + self.rng.between(100 * US, self.plan.fsync_max) + self.plan.fsync_delay[node];
        self.schedule_own(at, node, Own::Written);
    }

    pub(super) fn written(&mut self, node: usize) {
        let process = &mut self.processes[node];
        let Some((record, barrier)) = process.disk.finish() else { return };
        if let Some(vote) = S::vote(&record) {
            self.invariants.ask(|invariant| invariant.recorded(node, &vote));
        }
        let process = &mut self.processes[node];
        process.settings.from_driver.write_time = Duration::from_nanos(self.now - process.disk.begun);
        if process.disk.writes_under_way() > 0 {
            self.begin_write(node);
        }
        if barrier {
            if let Some(driver) = &mut self.processes[node].driver {
                driver.written();
            }
            self.after_step(node);
        } else {
            self.input(node, Input::Stored(record));
        }
    }

    pub(super) fn hang_disk(&mut self, node: usize) {
        self.stats.hangs += u64::from(!self.processes[node].disk.hangs);
        self.processes[node].disk.hangs = true;
    }

    pub(super) fn free_disk(&mut self, node: usize) {
        let (now, process) = (self.now, &mut self.processes[node]);
        if std::mem::take(&mut process.disk.hangs) {
            process.disk.answers_since = now;
        }
        if std::mem::take(&mut process.disk.held) {
            // Not here: a paused process notices nothing before it runs again.
            self.schedule_own(now, node, Own::Written);
        }
    }
}
