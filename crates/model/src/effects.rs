//! An outbox that keeps the effects of one step in order, so that a crash can be put between any two of them.

use std::time::Duration;

use algorithms::{Outbox, Protocol, Span};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect<P: Protocol> {
    Send(P::Link, P::Message),
    SetTimer(P::Timer, Span),
    CancelTimer(P::Timer),
    Persist(P::Durable),
    Store(P::Durable),
    Announce(P::Event),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Effects<P: Protocol>(pub Vec<Effect<P>>);

impl<P: Protocol> Outbox<P> for Effects<P> {
    fn send(&mut self, to: P::Link, message: P::Message) {
        self.0.push(Effect::Send(to, message));
    }
    fn forward(&mut self, to: P::Link, message: P::Message) {
        self.0.push(Effect::Send(to, message));
    }
    fn set_timer(&mut self, timer: P::Timer, after: Span) {
        self.0.push(Effect::SetTimer(timer, after));
    }
    fn cancel_timer(&mut self, timer: P::Timer) {
        self.0.push(Effect::CancelTimer(timer));
    }
    fn persist(&mut self, record: P::Durable) {
        self.0.push(Effect::Persist(record));
    }
    fn store(&mut self, record: P::Durable) {
        self.0.push(Effect::Store(record));
    }
    fn announce(&mut self, event: P::Event) {
        self.0.push(Effect::Announce(event));
    }
}

/// A word that makes a machine draw face `face` of `faces`, whichever uniform mapping it uses on the high bits.
pub(crate) fn dice(face: usize, faces: usize) -> u64 {
    let width = u64::MAX / faces as u64;
    width * face as u64 + width / 2
}

/// The timers that can be due next when nothing else happens: none of the others is sure to be earlier.
pub(crate) fn earliest<T>(set: Vec<(T, Span)>) -> impl Iterator<Item = T> {
    let limit = set.iter().map(|(_, span)| span.max).min();
    set.into_iter().filter(move |(_, span)| Some(span.min) <= limit).map(|(timer, _)| timer)
}

/// What is left of a timer after some time. The model has no clock: it keeps what is left.
pub(crate) fn after(span: Span, elapsed: Duration) -> Span {
    Span { min: span.min.saturating_sub(elapsed), max: span.max.saturating_sub(elapsed) }
}
