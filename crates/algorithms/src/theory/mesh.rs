//! Full meshes: the two forms of Bully.

use super::{Bounds, Case, Expectation, Range};

pub fn bully_bounds(n: usize) -> Bounds {
    // Nobody dead. Best: the best node itself starts; worst: the worst one does, and everybody joins in.
    let m = n as f64 - 1.0;
    Bounds { best: 0.0, mean: None, worst: m * (m + 1.0) }
}

/// Textbook Bully on a synchronous mesh: everybody at least as good as the worst initiator takes part once.
pub fn bully(case: &Case<'_>) -> Option<Expectation> {
    if !case.synchronous {
        return None;
    }
    let dead_best = match case.dead {
        [] => false,
        [one] if *one == case.best() => true,
        _ => return None,
    };
    let m = case.initiators.iter().filter(|&&at| !case.is_dead(at)).map(|&at| case.betters(at)).max()?;
    let asked = m * (m + 1) / 2;
    let answered = if dead_best { m * (m - 1) / 2 } else { asked };
    let told = case.n() - 1 - usize::from(dead_best);
    Some(Expectation {
        kinds: vec![
            ("election", Range::exactly(asked)),
            ("answer", Range::exactly(answered)),
            ("coordinator", Range::exactly(told)),
        ],
        election: Range::exactly(asked + answered),
        announcement: Range::exactly(told),
        rounds: None,
    })
}

pub fn bully_1982_bounds(n: usize) -> Bounds {
    // The best node itself runs it: three calls and three replies for each other one.
    let calls = 6.0 * (n as f64 - 1.0);
    Bounds { best: calls, mean: None, worst: f64::INFINITY }
}

/// Calls and replies when the best living node is the only one to start and at most the best of all is dead.
pub fn bully_1982(case: &Case<'_>) -> Option<Expectation> {
    let dead_best = match case.dead {
        [] => 0,
        [one] if *one == case.best() => 1,
        _ => return None,
    };
    let [only] = case.initiators else { return None };
    if !case.synchronous || case.betters(*only) != dead_best {
        return None;
    }
    let others = case.n() - 1 - dead_best;
    let each = Range::exactly(others);
    Some(Expectation {
        kinds: vec![
            ("are-you-up", Range::exactly(dead_best)),
            ("enter-election", each),
            ("set-coordinator", each),
            ("new-state", each),
        ],
        election: Range::exactly(dead_best + 6 * others),
        announcement: Range::exactly(0),
        rounds: None,
    })
}
