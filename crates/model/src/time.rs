//! Time and chance in a model: there is no clock, every timer keeps its remaining time.

use std::time::Duration;

use algorithms::Span;

/// A word that makes a machine draw face `face` of `faces`, whichever uniform mapping it uses on the high bits.
pub(crate) fn dice(face: usize, faces: usize) -> u64 {
    let width = u64::MAX / faces as u64;
    width * face as u64 + width / 2
}

/// The timers that can be due next when nothing else happens: no other timer is certain to be earlier.
pub(crate) fn earliest<T>(set: Vec<(T, Span)>) -> impl Iterator<Item = T> {
    let limit = set.iter().map(|(_, span)| span.max).min();
    set.into_iter().filter(move |(_, span)| Some(span.min) <= limit).map(|(timer, _)| timer)
}

/// The remaining time of a timer after some time.
pub(crate) fn after(span: Span, elapsed: Duration) -> Span {
    Span { min: span.min.saturating_sub(elapsed), max: span.max.saturating_sub(elapsed) }
}
