//! Runs a range of seeds on all cores. Runs share nothing, so the order in which they end does not matter.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use algorithms::catalog::Row;

use super::{FaultOptions, FaultReport, run_faults};

/// The results of a range of seeds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ManyReport {
    pub algorithm: &'static str,
    pub runs: u64,
    /// Broken runs, by seed; at most [`ManyReport::KEPT`] of them, the lowest seeds first.
    pub broken: Vec<FaultReport>,
    pub broken_count: u64,
    pub events: u64,
    pub kills: u64,
    pub reigns: u64,
    pub slowest_settle_ms: u64,
    /// Digest of all runs, in the order of the seeds.
    pub digest: u64,
}

impl ManyReport {
    pub const KEPT: usize = 10;
}

/// Runs all seeds; `progress` gets the number of finished runs, from any thread.
pub fn run_many(
    row: &'static Row,
    seeds: Range<u64>,
    options: &FaultOptions,
    progress: impl Fn(u64) + Sync,
) -> ManyReport {
    let next = AtomicU64::new(seeds.start);
    let done = AtomicU64::new(0);
    let total = Mutex::new(ManyReport { algorithm: row.name, ..ManyReport::default() });
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let report = run_faults(row, seed, options);
            add(&mut total.lock().expect("no thread panics"), report);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut total = total.into_inner().expect("no thread panics");
    total.broken.sort_by_key(|report| report.seed);
    total.broken.truncate(ManyReport::KEPT);
    total
}

fn add(total: &mut ManyReport, report: FaultReport) {
    total.runs += 1;
    total.events += report.stats.events;
    total.kills += report.stats.kills;
    total.reigns += report.stats.reigns;
    total.slowest_settle_ms = total.slowest_settle_ms.max(report.stats.settled_after_ms);
    // Each run's digest is bound to its seed, so that adding them in any order gives the same sum.
    total.digest = total.digest.wrapping_add(report.digest.wrapping_mul(report.seed.wrapping_mul(2) | 1));
    if !report.ok() {
        total.broken_count += 1;
        total.broken.push(report);
        if total.broken.len() > 16 * ManyReport::KEPT {
            total.broken.sort_by_key(|report| report.seed);
            total.broken.truncate(ManyReport::KEPT);
        }
    }
}
