//! The results of a run beside theory.

use algorithms::Kind;
use algorithms::theory::Range;
use algorithms::theory::mutex::Cost;

use super::audit::Observed;
use super::driver::Outcome;
use super::{Contention, MutexExperiment, TokenFault, check};
use crate::experiment::{KindCount, Schedule};

#[derive(Clone, Debug)]
pub struct MutexReport {
    pub algorithm: &'static str,
    pub members: usize,
    pub seed: u64,
    pub schedule: Schedule,
    pub contention: &'static str,
    pub fifo: bool,
    pub fault: Option<TokenFault>,
    /// Requests that were made.
    pub requests: u64,
    pub seen: Observed,
    /// Messages of the machines, without those of the application.
    pub messages: u64,
    pub by_kind: Vec<KindCount>,
    /// Messages of the application.
    pub told: u64,
    pub theory: MutexTheory,
    pub violations: Vec<String>,
}

/// What theory says about this run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MutexTheory {
    /// Of one entry, over all members that make requests; where every member always wants to enter, of that case.
    pub messages: Range,
    pub kinds: Vec<(&'static str, Range)>,
    pub client_delay: Range,
    pub sync_delay: Range,
    /// A request that happened before another one enters first.
    pub fair: bool,
}

impl MutexTheory {
    pub(crate) fn new(plan: &MutexExperiment) -> Self {
        let members = plan.ids.len();
        let positions: Vec<usize> = plan.requesters.clone().unwrap_or_else(|| (0..members).collect());
        let costs: Vec<Cost> = positions.iter().map(|&at| (plan.row.cost)(members, at)).collect();
        let saturated = plan.contention == Contention::Saturated && plan.requesters.is_none();
        let messages = |cost: &Cost| cost.saturated.filter(|_| saturated).unwrap_or(cost.messages);
        let kinds = costs.first().map(|cost| cost.kinds.len()).unwrap_or_default();
        MutexTheory {
            messages: spread(costs.iter().map(messages)),
            kinds: (0..kinds)
                .map(|nth| (costs[0].kinds[nth].0, spread(costs.iter().map(|c| c.kinds[nth].1))))
                .collect(),
            client_delay: spread(costs.iter().map(|cost| cost.client_delay)),
            sync_delay: spread(costs.iter().map(|cost| cost.sync_delay)),
            fair: plan.row.fair,
        }
    }
}

/// The smallest range that contains all of these.
fn spread(ranges: impl Iterator<Item = Range>) -> Range {
    ranges.reduce(|a, b| Range { min: a.min.min(b.min), max: a.max.max(b.max) }).unwrap_or(Range { min: 0, max: 0 })
}

impl MutexReport {
    pub(crate) fn new(plan: &MutexExperiment, kinds: &'static [Kind], outcome: &Outcome<'_>) -> Self {
        let by_kind: Vec<KindCount> = outcome
            .counts
            .by_kind(kinds)
            .map(|(kind, count)| KindCount { name: kind.name, count, announcement: kind.announcement })
            .collect();
        let mut report = MutexReport {
            algorithm: plan.row.name,
            members: plan.ids.len(),
            seed: plan.seed,
            schedule: plan.schedule,
            contention: plan.contention.name(),
            fifo: plan.fifo,
            fault: plan.fault,
            requests: outcome.asked,
            seen: outcome.audit.seen.clone(),
            messages: by_kind.iter().map(|kind| kind.count).sum(),
            by_kind,
            told: outcome.told,
            theory: MutexTheory::new(plan),
            violations: Vec::new(),
        };
        report.violations = check::violations(plan, &report, outcome);
        report
    }

    /// Messages of an entry on average.
    pub fn per_entry(&self, messages: u64) -> Option<f64> {
        (self.seen.entries > 0).then(|| messages as f64 / self.seen.entries as f64)
    }
}
