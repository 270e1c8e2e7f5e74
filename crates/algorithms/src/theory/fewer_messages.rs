//! Franklin's algorithm, Algorithm B of Dolev, Klawe and Rodeh, and the literal modified ring.

use super::{Bounds, Case, Expectation, Range, floor_log2};
use types::Uid;

pub fn franklin_bounds(n: usize) -> Bounds {
    let best = if n == 1 { 2 } else { 4 * n };
    // Published with the announcement: n more.
    Bounds { best: best as f64, mean: None, worst: (2 * n * floor_log2(n) as usize + 2 * n) as f64 }
}

/// Two messages per link and phase; the active nodes of a phase are the local maxima of the phase before.
pub fn franklin(case: &Case<'_>) -> Option<Expectation> {
    case.fault_free()?;
    let announcement = ("elected", Range::exactly(case.n()));
    let messages = Range::exactly(2 * case.n() * franklin_phases(case));
    Some(Expectation::new(&[("id", messages)], Some(announcement), None))
}

/// The last phase is the one that a node enters alone.
fn franklin_phases(case: &Case<'_>) -> usize {
    let mut active: Vec<Uid> = case.ids.to_vec();
    let mut phases = 1;
    while active.len() > 1 {
        let m = active.len();
        let stays = |at: &usize| {
            let neighbours = [active[(at + 1) % m], active[(at + m - 1) % m]];
            neighbours.iter().all(|&id| case.wins.beats(active[*at], id))
        };
        active = (0..m).filter(stays).map(|at| active[at]).collect();
        phases += 1;
    }
    phases
}

pub fn dolev_klawe_rodeh_b_bounds(n: usize) -> Bounds {
    let nf = n as f64;
    Bounds { best: if n == 1 { 1.0 } else { 2.0 * nf }, mean: None, worst: (1.5 * nf * log2(n) + nf).ceil() }
}

/// Without the library of mathematics, which would be a third of a mebibyte in the memory of every node, for this alone.
fn log2(n: usize) -> f64 {
    let whole = n.max(1).ilog2();
    let (mut log, mut bit) = (f64::from(whole), 0.5);
    let mut rest = n as f64 / (1_u64 << whole) as f64;
    while rest > 1.0 && bit > f64::EPSILON {
        rest *= rest;
        if rest >= 2.0 {
            rest /= 2.0;
            log += bit;
        }
        bit /= 2.0;
    }
    log
}

/// Published is 1.5 n log2 n + O(n); the linear part is the measured one.
pub fn dolev_klawe_rodeh_b(case: &Case<'_>) -> Option<Expectation> {
    case.fault_free()?;
    let n = case.n();
    let Bounds { best, worst, .. } = dolev_klawe_rodeh_b_bounds(n);
    let announcement = ("elected", Range::exactly(n));
    // Every node sends M1 at least once.
    let kinds = [("m1", Range::between(n, worst as usize)), ("m2", Range::between(0, worst as usize - n))];
    let mut expected = Expectation::new(&kinds, Some(announcement), None);
    expected.election = Range::between(best as usize, worst as usize);
    Some(expected)
}

pub fn modified_ring_literal_bounds(n: usize) -> Bounds {
    Bounds { best: n as f64, mean: None, worst: (n * n + n * (n - 1) / 2) as f64 }
}

/// Each initiator's token travels to the best node and makes a lap from there; late ones may end at the winner, and the
/// latest never start.
pub fn modified_ring_literal(case: &Case<'_>) -> Option<Expectation> {
    case.fault_free()?;
    let (n, best) = (case.n(), case.best());
    let journey = |&at: &usize| (best + n - at) % n + n;
    let all: usize = case.initiators.iter().map(journey).sum();
    let exact = case.synchronous || case.initiators.len() == 1;
    let tokens = if exact { Range::exactly(all) } else { Range::between(n, all) };
    let rounds = case.synchronous.then(|| Range::exactly(case.wake_clockwise(best) + 2 * n));
    Some(Expectation::new(&[("elect", tokens)], Some(("coordinator", Range::exactly(n))), rounds))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_logarithm_is_that_of_the_library() {
        for n in (1..5_000).chain([1 << 20, 9_999_999, 10_000_000]) {
            assert!((super::log2(n) - (n as f64).log2()).abs() < 1e-12, "{n}");
        }
        assert_eq!(super::log2(1 << 20), 20.0);
    }
}
