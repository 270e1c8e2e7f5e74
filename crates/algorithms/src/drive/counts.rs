//! How many messages of each kind were sent: counted by drivers, never by machines, because a model compares the
//! machines' state.

use crate::protocol::{Kind, Message};

/// Room for the kinds of any message type; a fixed array costs no allocation and no lookup.
const KINDS_MAX: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts([u64; KINDS_MAX]);

impl Counts {
    #[inline]
    pub fn add<M: Message>(&mut self, message: &M) {
        const { assert!(M::KINDS.len() <= KINDS_MAX, "more kinds of messages than counters") };
        message.count(self);
    }

    #[inline]
    pub fn add_one(&mut self, kind: usize) {
        self.0[kind] += 1;
    }

    /// `kinds`: [`Message::KINDS`] of the messages that were counted.
    pub fn by_kind(self, kinds: &'static [Kind]) -> impl Iterator<Item = (Kind, u64)> {
        kinds.iter().copied().zip(self.0)
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
