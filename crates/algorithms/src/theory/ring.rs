//! Unidirectional rings, a lap per id or per initiator.

use super::{Bounds, Case, Expectation, Range, harmonic};

/// The bounds of an election with a constant cost.
fn always(messages: f64) -> Bounds {
    Bounds { best: messages, mean: Some(messages), worst: messages }
}

pub fn le_lann_bounds(n: usize) -> Bounds {
    always((n * n) as f64)
}

/// n ids times n hops, whatever the initiators; the last node to wake is the last to be done.
pub fn le_lann(case: &Case<'_>) -> Option<Expectation> {
    case.fault_free()?;
    let n = case.n();
    let last_wake = case.synchronous.then(|| (0..n).map(|at| case.wake_clockwise(at)).max().unwrap_or(0));
    let rounds = last_wake.map(|wake| Range::exactly(wake + n));
    Some(Expectation::new(&[("elect", Range::exactly(n * n))], None, rounds))
}

pub fn chang_roberts_bounds(n: usize) -> Bounds {
    let nf = n as f64;
    Bounds { best: 2.0 * nf - 1.0, mean: Some(nf * harmonic(n)), worst: nf * (nf + 1.0) / 2.0 }
}

/// Own probe first: every node's id travels to the next better node, whatever the initiators.
pub fn chang_roberts(case: &Case<'_>) -> Option<Expectation> {
    case.fault_free()?;
    let probes = case.distances_to_better(true).into_iter().sum();
    let announcement = ("selected", Range::exactly(case.n()));
    Some(Expectation::new(&[("probe", Range::exactly(probes))], Some(announcement), two_laps_of_the_best(case)))
}

/// The best node wakes, its id makes a lap, the announcement makes a lap.
fn two_laps_of_the_best(case: &Case<'_>) -> Option<Range> {
    case.synchronous.then(|| Range::exactly(case.wake_clockwise(case.best()) + 2 * case.n()))
}

pub fn chang_roberts_substitute_bounds(n: usize) -> Bounds {
    let nf = n as f64;
    Bounds { best: nf, mean: None, worst: nf * (nf + 1.0) / 2.0 }
}

/// Substitute: one initiator costs exactly d + n, all at once what own-probe-first costs, other sets lie between.
pub fn chang_roberts_substitute(case: &Case<'_>) -> Option<Expectation> {
    case.fault_free()?;
    let n = case.n();
    let all = || case.distances_to_better(true).into_iter().sum();
    let probes = match case.initiators {
        [_] => Range::exactly(case.wake_clockwise(case.best()) + n),
        _ if case.all_start() && case.synchronous => Range::exactly(all()),
        _ => Range::between(n, all()),
    };
    let announcement = ("selected", Range::exactly(n));
    Some(Expectation::new(&[("probe", probes)], Some(announcement), two_laps_of_the_best(case)))
}

/// Between one initiator and all of them.
pub fn lap_per_initiator_bounds(n: usize) -> Bounds {
    Bounds { best: n as f64, mean: None, worst: (n * n) as f64 }
}

pub fn ring_list(case: &Case<'_>) -> Option<Expectation> {
    lap_per_initiator(case, "election")
}

pub fn modified_ring_plain(case: &Case<'_>) -> Option<Expectation> {
    lap_per_initiator(case, "elect")
}

/// Each initiator costs a lap and an announcement lap, unless it starts so late that the election is over.
fn lap_per_initiator(case: &Case<'_>, kind: &'static str) -> Option<Expectation> {
    case.fault_free()?;
    let n = case.n();
    let all = n * case.initiators.len();
    let laps = if case.synchronous { Range::exactly(all) } else { Range::between(n, all) };
    let rounds = case.synchronous.then(|| Range::exactly(2 * n));
    Some(Expectation::new(&[(kind, laps)], Some(("coordinator", laps)), rounds))
}

/// With suppression, all starting at once: an initiator's ELECT travels to the next better *initiator*, and one lap of
/// COORDINATOR follows. ELECTs of late starters may still complete their lap.
pub fn modified_ring(case: &Case<'_>) -> Option<Expectation> {
    if !case.synchronous {
        return lap_per_initiator(case, "elect");
    }
    case.fault_free()?;
    let n = case.n();
    let better_initiator = |at: usize| {
        let hops = case.initiators.iter().filter(|&&by| case.wins.beats(case.ids[by], case.ids[at]));
        hops.map(|by| (by + n - at) % n).min().unwrap_or(n)
    };
    let elects = case.initiators.iter().map(|&at| better_initiator(at)).sum();
    let announcement = ("coordinator", Range::exactly(n));
    Some(Expectation::new(&[("elect", Range::exactly(elects))], Some(announcement), Some(Range::exactly(2 * n))))
}

pub fn itai_rodeh_bounds(n: usize) -> Bounds {
    Bounds { best: 2.0 * n as f64 - 1.0, mean: None, worst: f64::INFINITY }
}

/// Chance decides; but the winner's token makes n hops and every other token at least one.
pub fn itai_rodeh(case: &Case<'_>) -> Option<Expectation> {
    case.fault_free()?;
    let n = case.n();
    let announcement = ("announce", Range::exactly(n));
    Some(Expectation::new(&[("token", Range::at_least(2 * n - 1))], Some(announcement), None))
}
