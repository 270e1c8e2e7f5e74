//! What is wrong with a run.

use std::collections::BTreeMap;

use algorithms::catalog::mutex::{Links, Row};
use algorithms::theory::Range;
use algorithms::{Access, NodeId};

use crate::run::{Entry, FLOOR, Plan, Problem, Run, Schedule, Subject, plain, shuffled, writers};

/// All problems of one run, each with a line for people.
pub(crate) fn audit(row: &Row, plan: &Plan<'_>, run: &Run) -> Vec<(Problem, String)> {
    let mut problems = Vec::new();
    if run.overlap {
        problems.push((Problem::Overlap, "two sections overlap".to_owned()));
    }
    if !run.starved.is_empty() {
        problems.push((Problem::Starved, format!("positions {:?} wait for ever", run.starved)));
    }
    for (later, entry) in run.entries.iter().enumerate() {
        if entry.token <= FLOOR {
            problems.push((Problem::Token, format!("token {} is not above the floor", entry.token)));
        }
        for earlier in &run.entries[..later] {
            problems.extend(compare(row, earlier, entry));
        }
    }
    // A request that was not served has not cost all of its messages.
    if run.starved.is_empty() {
        problems.extend(price(row, plan, run));
    }
    problems
}

/// What is wrong with two sections, the first of which began earlier.
fn compare(row: &Row, earlier: &Entry, later: &Entry) -> Option<(Problem, String)> {
    let exclude = !row.shared || earlier.access.excludes(later.access);
    if earlier.token > later.token || exclude && earlier.token == later.token {
        return Some((Problem::Token, format!("token {} after {}", later.token, earlier.token)));
    }
    if !exclude || !row.fair {
        return None;
    }
    let before = later.asked[later.at] <= earlier.asked[later.at];
    if before {
        return Some((Problem::Unfair, format!("{later:?} happened before {earlier:?}")));
    }
    let ordered = earlier.stamp.is_some() && earlier.stamp < later.stamp;
    (!ordered).then(|| (Problem::Order, format!("{:?} entered before {:?}", earlier.stamp, later.stamp)))
}

/// Did a request that happened before another one enter after it? Every row may be asked.
pub(crate) fn is_unfair(run: &Run) -> bool {
    let entries = run.entries.iter().enumerate();
    let mut pairs = entries.flat_map(|(at, later)| run.entries[..at].iter().map(move |earlier| (earlier, later)));
    pairs.any(|(earlier, later)| {
        earlier.access.excludes(later.access) && later.asked[later.at] <= earlier.asked[later.at]
    })
}

/// The messages of a run beside the sum of what theory says about its entries.
fn price(row: &Row, plan: &Plan<'_>, run: &Run) -> Vec<(Problem, String)> {
    let n = plan.view.len();
    let mut total = Range::exactly(0);
    let mut kinds: BTreeMap<&str, Range> = BTreeMap::new();
    let wants_all_the_time =
        plan.schedule == Schedule::Synchronous && plan.requests.iter().all(|list| list.len() == plan.requests[0].len());
    // The member that begins inside has paid for its entry before; its remaining messages are at most those of a whole entry.
    for at in run.entries.iter().map(|entry| entry.at).chain(plan.holder) {
        let cost = (row.cost)(n, at);
        let of = |range: Range, sum: Range| {
            let min = if plan.holder.is_some() { 0 } else { sum.min + range.min };
            Range { min, max: sum.max + range.max }
        };
        let saturated = cost.saturated.filter(|_| wants_all_the_time && plan.holder.is_none());
        total = of(saturated.unwrap_or(cost.messages), total);
        for (kind, range) in cost.kinds {
            let sum = kinds.entry(kind).or_insert(Range::exactly(0));
            *sum = of(range, *sum);
        }
    }
    let mut problems = Vec::new();
    if !total.contains(run.messages()) {
        problems.push((Problem::Cost, format!("{} messages, theory says {total:?}", run.messages())));
    }
    for (kind, count) in &run.counts {
        let range = kinds.get(kind.name).copied().unwrap_or(Range::exactly(0));
        if !range.contains(*count) && !run.entries.is_empty() {
            problems.push((Problem::Cost, format!("{count} {}, theory says {range:?}", kind.name)));
        }
    }
    problems
}

/// Many runs of one subject in the place of a row, and how often each problem was met.
#[derive(Default, Debug)]
pub(crate) struct Survey {
    pub(crate) runs: usize,
    pub(crate) entries: usize,
    pub(crate) found: BTreeMap<Problem, usize>,
    /// The first run with a problem.
    pub(crate) first: Option<String>,
}

impl Survey {
    pub(crate) fn has(&self, problem: Problem) -> bool {
        self.found.contains_key(&problem)
    }

    fn add(&mut self, row: &Row, subject: &dyn Subject, plan: &Plan<'_>) {
        let run = subject.run(plan, None);
        self.runs += 1;
        self.entries += run.entries.len();
        for (problem, line) in audit(row, plan, &run) {
            *self.found.entry(problem).or_default() += 1;
            self.first.get_or_insert_with(|| {
                let ids: Vec<NodeId> = plan.view.members().iter().map(|member| member.id).collect();
                format!(
                    "{}: {problem:?}: {line}; ids {ids:?}, requests {:?}, holder {:?}, {:?}, {:?}, seed {}",
                    row.name, plan.requests, plan.holder, plan.schedule, plan.links, plan.seed
                )
            });
        }
    }
}

/// Every size, full and partial contention, with and without a holder at the start, several schedules. `until`: ends at
/// the first run with this problem.
pub(crate) fn survey(row: &Row, subject: &dyn Subject, links: Links, seeds: u64, until: Option<Problem>) -> Survey {
    let mut survey = Survey::default();
    for n in 1..=8 {
        let view = shuffled(row.topology, n);
        let all = mixed(row, &vec![3; n]);
        let some: Vec<usize> = (0..n).map(|at| [2, 0, 3, 1][at % 4]).collect();
        let some = mixed(row, &some);
        for requests in [&all, &some] {
            let holders = std::iter::once(None).chain((0..n).map(Some));
            let synchronous = holders.map(|holder| Plan { holder, links, ..plain(&view, requests) });
            let random = (0..seeds).map(|seed| {
                let holder = Some(seed as usize % (2 * n)).filter(|&at| at < n);
                let gossip = (seed % 3) as usize * n;
                Plan { holder, schedule: Schedule::Random, links, gossip, seed, ..plain(&view, requests) }
            });
            for plan in synchronous.chain(random) {
                survey.add(row, subject, &plan);
                if until.is_some_and(|problem| survey.has(problem)) {
                    return survey;
                }
            }
        }
    }
    survey
}

/// Writers; where there are readers, two of three are.
pub(crate) fn mixed(row: &Row, counts: &[usize]) -> Vec<Vec<Access>> {
    let mut requests = writers(counts);
    if row.shared {
        for (nth, access) in requests.iter_mut().flatten().enumerate() {
            *access = if nth % 3 == 1 { Access::Exclusive } else { Access::Shared };
        }
    }
    requests
}
