//! Peterson and Dolev-Klawe-Rodeh: phases in which at most half of the active nodes stay active.
//!
//! Both keep the same nodes active in each phase. They differ in how they notice the end, and so in their cost.

use super::{Bounds, Case, Expectation, Range, floor_log2};
use types::Uid;

fn worst(n: usize) -> f64 {
    (2 * n * floor_log2(n) as usize + n) as f64
}

pub fn peterson_bounds(n: usize) -> Bounds {
    Bounds { best: if n == 1 { 1.0 } else { 3.0 * n as f64 - 1.0 }, mean: None, worst: worst(n) }
}

pub fn dolev_klawe_rodeh_bounds(n: usize) -> Bounds {
    Bounds { best: if n == 1 { 1.0 } else { 3.0 * n as f64 }, mean: None, worst: worst(n) }
}

/// The phases of one ring, as if no winner ended them early.
struct Phases {
    /// Per position, the phase (from 1) in which the node becomes a relay; `usize::MAX` for the one that never does.
    relay_in: Vec<usize>,
    /// The phase that one active node enters alone.
    count: usize,
    /// Which message (from 1) brings the best id back to its owner, if the second message of a phase is the better
    /// of the two: each phase brings every node exactly two.
    home: usize,
}

impl Phases {
    /// A node of Peterson's sends one message at the start and one for each message that it gets, except for the one
    /// that makes it a relay.
    fn sent(&self, at: usize, got: usize) -> usize {
        1 + got - usize::from(self.relay_in[at] <= got / 2)
    }
}

fn phases(case: &Case<'_>) -> Phases {
    let (n, best) = (case.n(), case.best());
    let mut relay_in = vec![usize::MAX; n];
    let mut active: Vec<(usize, Uid)> = case.ids.iter().copied().enumerate().collect();
    let mut home = None;
    for phase in 1.. {
        let m = active.len();
        let holder = active.iter().position(|&(_, tid)| tid == case.ids[best]).expect("the best id stays active");
        // Hops that the best id has made from its owner when it reaches the next active node and the one after it.
        let start = (active[holder].0 + n - best) % n;
        let hop = |from: usize, to: usize| (active[to % m].0 + n - active[from % m].0 - 1) % n + 1;
        let first = start + hop(holder, holder + 1);
        let second = first + hop(holder + 1, holder + 2);
        if home.is_none() && second >= n {
            home = Some(2 * phase - usize::from(first >= n));
        }
        if m == 1 {
            return Phases { relay_in, count: phase, home: home.expect("a lap alone brings it home") };
        }
        let tid = |at: usize| active[at % m].1;
        let mut next = Vec::with_capacity(m / 2);
        for at in 0..m {
            let (mine, ntid, nntid) = (tid(at), tid(at + m - 1), tid(at + m - 2));
            if case.wins.beats(mine, ntid) || case.wins.beats(nntid, ntid) {
                relay_in[active[at].0] = phase;
            } else {
                next.push((active[at].0, ntid));
            }
        }
        active = next;
    }
    unreachable!("the phases end with one active node")
}

/// Peterson's data flow, ended where the owner of the best id stops: per position from the winner on, the messages that
/// each node gets before silence.
fn received(case: &Case<'_>, phases: &Phases) -> Vec<usize> {
    let (n, best) = (case.n(), case.best());
    // The last message that the winner answers is the one before its own id.
    let mut got = vec![phases.home - 1];
    for i in 1..n {
        got.push(phases.sent((best + i - 1) % n, got[i - 1]));
    }
    got
}

pub fn peterson(case: &Case<'_>) -> Option<Expectation> {
    case.fault_free()?;
    let (n, best) = (case.n(), case.best());
    let phases = phases(case);
    let got = received(case, &phases);
    // Messages that the winner drops were sent all the same, so they are counted at the senders.
    let messages = (0..n).map(|i| phases.sent((best + i) % n, got[i])).sum();
    let announcement = ("elected", Range::exactly(n));
    Some(Expectation::new(&[("tid", Range::exactly(messages))], Some(announcement), None))
}

/// The number of phases that some node of Peterson's algorithm enters.
pub fn peterson_phases(case: &Case<'_>) -> usize {
    let (n, best) = (case.n(), case.best());
    let phases = phases(case);
    let got = received(case, &phases);
    (0..n).map(|i| (1 + got[i] / 2).min(phases.relay_in[(best + i) % n])).max().unwrap_or(0)
}

/// Two messages per link and phase, and one in the last: n(2(p-1) + 1).
pub fn dolev_klawe_rodeh(case: &Case<'_>) -> Option<Expectation> {
    case.fault_free()?;
    let n = case.n();
    let messages = n * (2 * (phases(case).count - 1) + 1);
    let announcement = ("elected", Range::exactly(n));
    Some(Expectation::new(&[("tid", Range::exactly(messages))], Some(announcement), None))
}
