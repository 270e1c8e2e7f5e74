//! Observing a run of a mutual exclusion, at no cost without an observer.

use std::fmt::Debug;

use algorithms::mutex::clock::Stamp;
use algorithms::{Kind, Token};

use crate::observe::Blind;

/// Gets every event of a run. Times are ticks of [`crate::ROUND`] to the round; members are positions.
pub trait MutexObserver {
    /// Travels with a message, so that its arrival can be matched with its send.
    type Tag: Copy + Debug;

    fn sent(&mut self, _at: u64, _from: usize, _to: usize, _kind: Kind, _message: &dyn Debug) -> Self::Tag;
    /// A message of the application, which no machine sent.
    fn told(&mut self, _at: u64, _from: usize, _to: usize) -> Self::Tag;
    /// The fault of this run sends the message once more.
    fn repeated(&mut self, _at: u64, tag: Self::Tag) -> Self::Tag {
        tag
    }
    fn delivered(&mut self, _at: u64, _tag: Self::Tag) {}
    /// The fault of this run took the message, or its receiver is dead.
    fn lost(&mut self, _at: u64, _tag: Self::Tag) {}
    fn asked(&mut self, _at: u64, _member: usize) {}
    fn entered(&mut self, _at: u64, _member: usize, _token: Token) {}
    fn left(&mut self, _at: u64, _member: usize) {}
    fn crashed(&mut self, _at: u64, _member: usize) {}
    /// The step is over: the clock and the timestamp that its machine shows now belong to all events of the step.
    fn step_over(&mut self, _member: usize, _clock: Option<u64>, _stamp: Option<Stamp>) {}
}

impl MutexObserver for Blind {
    type Tag = ();

    #[inline]
    fn sent(&mut self, _: u64, _: usize, _: usize, _: Kind, _: &dyn Debug) {}

    #[inline]
    fn told(&mut self, _: u64, _: usize, _: usize) {}
}
