//! How many effects of a step are carried out before a crash or a slow write of the node.

use algorithms::drive::{Driver, Effect};
use algorithms::{Protocol, Span};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// All effects happen, and every write completes at once.
    Whole,
    /// The node crashes after this many effects.
    Crash(usize),
    /// The effect with this number is a write that stays in flight: all effects behind it wait.
    SlowWrite(usize),
}

impl Extent {
    /// After how many effects it ends, if before the last one.
    pub(crate) fn limit(self) -> Option<usize> {
        match self {
            Extent::Whole => None,
            Extent::Crash(count) | Extent::SlowWrite(count) => Some(count),
        }
    }
}

/// The effects that a driver would return if every write completed at once.
pub(crate) fn rehearse<P: Protocol, W: Copy + Ord>(
    driver: &mut Driver<P, W>,
    when: impl Fn(P::Timer, Span) -> W + Copy,
) -> Vec<Effect<P>> {
    let mut effects = Vec::new();
    while let Some(effect) = driver.next_effect(when) {
        if let Effect::Persist(_) = effect {
            driver.written();
        }
        effects.push(effect);
    }
    effects
}

/// The extents that leave one of these writes in flight.
pub(crate) fn slow_writes<P: Protocol>(effects: &[Effect<P>]) -> impl Iterator<Item = Extent> + '_ {
    let writes = effects.iter().enumerate().filter(|(_, effect)| matches!(effect, Effect::Persist(_)));
    writes.map(|(at, _)| Extent::SlowWrite(at + 1))
}
