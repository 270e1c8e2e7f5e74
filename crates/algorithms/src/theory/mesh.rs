//! Full meshes: the two forms of Bully. Here `synchronous` means that timers are long compared to messages.

use super::{Bounds, Case, Expectation, Range};

pub fn bully_bounds(n: usize) -> Bounds {
    // No node is dead. Best: the best node itself starts; worst: the worst one does, and all nodes join in.
    let m = n as f64 - 1.0;
    Bounds { best: 0.0, mean: None, worst: m * (m + 1.0) }
}

/// Textbook Bully on a synchronous mesh: every node at least as good as the worst initiator takes part once.
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
    let told = ("coordinator", Range::exactly(case.n() - 1 - usize::from(dead_best)));
    let (asked, answered) = if dead_best {
        (Range::exactly(asked), Range::exactly(m * (m - 1) / 2))
    } else if case.initiators.contains(&case.best()) {
        // The best node wins at once: a node that its COORDINATOR reaches before an ELECTION asks no other node.
        let at_once = case.initiators.iter().map(|&at| case.betters(at)).sum();
        (Range::between(at_once, asked), Range::between(at_once, asked))
    } else {
        (Range::exactly(asked), Range::exactly(asked))
    };
    Some(Expectation::new(&[("election", asked), ("answer", answered)], Some(told), None))
}

pub fn bully_1982_bounds(n: usize) -> Bounds {
    // The best node itself runs it: three calls and three replies for each other node.
    let calls = 6.0 * (n as f64 - 1.0);
    Bounds { best: calls, mean: None, worst: f64::INFINITY }
}

/// Calls and replies when only the best living node starts and at most the best of all is dead.
///
/// Published for members that are up. A member that is still down recovers when it is called, so it asks its betters
/// first: a new cluster costs the upper end.
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
    // The k-th worse member has k living betters, and the dead one.
    let recovering = others * (others + 1) / 2;
    let kinds = [
        ("are-you-up", Range::between(dead_best, dead_best + recovering + others * dead_best)),
        ("enter-election", each),
        ("set-coordinator", each),
        ("new-state", each),
        ("reply", Range::between(3 * others, 3 * others + recovering)),
    ];
    Some(Expectation::new(&kinds, None, None))
}
