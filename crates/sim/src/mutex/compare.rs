//! All mutual exclusions beside each other: what they cost, how long they wait, what stops them.

use algorithms::Uid;
use algorithms::catalog::mutex::{ROWS, Row};

use super::report::MutexReport;
use super::{Contention, MutexExperiment};

/// The runs of one algorithm.
#[derive(Clone, Debug)]
pub struct Comparison {
    pub row: &'static Row,
    /// One request at a time.
    pub single: MutexReport,
    /// Every member asks again the moment it is out.
    pub saturated: MutexReport,
    /// Members that tell each other of their requests: for the order of entries.
    pub random: MutexReport,
    /// The crash of how many members, one at a time and outside its section, keeps another member out for ever.
    pub fatal_crashes: usize,
}

impl Comparison {
    pub fn violations(&self) -> impl Iterator<Item = &String> {
        [&self.single, &self.saturated, &self.random].into_iter().flat_map(|report| &report.violations)
    }
}

/// Runs every row of the catalog with the same ids, requests and seed.
pub fn compare(ids: &[Uid], requests: u64, seed: u64) -> Result<Vec<Comparison>, String> {
    ROWS.iter().map(|row| one(row, ids, requests, seed)).collect()
}

fn one(row: &'static Row, ids: &[Uid], requests: u64, seed: u64) -> Result<Comparison, String> {
    let plan = MutexExperiment { seed, ..MutexExperiment::new(row, ids.to_vec(), requests) };
    let with = |contention: Contention| MutexExperiment { contention, ..plan.clone() };
    let random = MutexExperiment { tells: 50, schedule: crate::Schedule::Random, ..with(Contention::Random) };
    Ok(Comparison {
        row,
        single: with(Contention::Single).run()?,
        saturated: plan.run()?,
        random: random.run()?,
        fatal_crashes: fatal_crashes(&plan)?,
    })
}

/// Every member dies once, in a run of its own, before any request; then all others ask once, one after the other.
fn fatal_crashes(plan: &MutexExperiment) -> Result<usize, String> {
    let members = plan.ids.len();
    let mut fatal = 0;
    for dead in 0..members {
        let others = (0..members).filter(|&at| at != dead);
        // So far apart that each is served before the next one asks.
        let pause = 8 + 4 * members as u64;
        let script = others.enumerate().map(|(nth, at)| (at, 1 + nth as u64 * pause)).collect();
        let plan = MutexExperiment { contention: Contention::Script(script), crashes: vec![(dead, 0)], ..plan.clone() };
        let report = plan.run()?;
        fatal += usize::from(report.seen.entries < report.requests);
    }
    Ok(fatal)
}
