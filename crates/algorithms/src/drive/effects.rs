//! The effects of a machine, in call order: the one outbox.

use std::collections::VecDeque;

use crate::protocol::{Outbox, Protocol, Span};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Effect<P: Protocol> {
    /// `hops`: how often this message was passed on before; 0 for a new one.
    Send {
        to: P::Link,
        message: P::Message,
        hops: u16,
    },
    SetTimer(P::Timer, Span),
    CancelTimer(P::Timer),
    /// A barrier: nothing after it happens before the record is on the disk.
    Persist(P::Durable),
    /// Written in the background: no effect waits.
    Store(P::Durable),
    Announce(P::Event),
}

impl<P: Protocol> Effect<P> {
    /// The timer that this effect sets or cancels.
    pub(super) fn timer(&self) -> Option<P::Timer> {
        match self {
            Effect::SetTimer(timer, _) | Effect::CancelTimer(timer) => Some(*timer),
            _ => None,
        }
    }
}

/// Keeps effects in call order until they are carried out.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Effects<P: Protocol> {
    queue: VecDeque<Effect<P>>,
    /// The hops of the present message.
    hops: u16,
}

impl<P: Protocol> Default for Effects<P> {
    fn default() -> Self {
        Effects { queue: VecDeque::new(), hops: 0 }
    }
}

impl<P: Protocol> Effects<P> {
    /// The present input is a message that was passed on this often.
    pub fn received(&mut self, hops: u16) {
        self.hops = hops;
    }

    pub fn pop(&mut self) -> Option<Effect<P>> {
        self.queue.pop_front()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Effect<P>> {
        self.queue.iter()
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl<P: Protocol> Outbox<P> for Effects<P> {
    fn send(&mut self, to: P::Link, message: P::Message) {
        self.queue.push_back(Effect::Send { to, message, hops: 0 });
    }
    fn forward(&mut self, to: P::Link, message: P::Message) {
        self.queue.push_back(Effect::Send { to, message, hops: self.hops.saturating_add(1) });
    }
    fn set_timer(&mut self, timer: P::Timer, after: Span) {
        self.queue.push_back(Effect::SetTimer(timer, after));
    }
    fn cancel_timer(&mut self, timer: P::Timer) {
        self.queue.push_back(Effect::CancelTimer(timer));
    }
    fn persist(&mut self, record: P::Durable) {
        self.queue.push_back(Effect::Persist(record));
    }
    fn store(&mut self, record: P::Durable) {
        self.queue.push_back(Effect::Store(record));
    }
    fn announce(&mut self, event: P::Event) {
        self.queue.push_back(Effect::Announce(event));
    }
}
