//! A whole run, for drawings and exports.

use std::fmt::Debug;

use algorithms::mutex::clock::Stamp;
use algorithms::{Kind, Token};

use super::watch::MutexObserver;
use crate::observe::Passage;

/// The name of messages of the application.
const APPLICATION: Kind = Kind::mutex("application");

/// A run from its first to its last event. Messages beyond the limit are counted only.
#[derive(Clone, Debug)]
pub struct MutexRecording {
    pub messages: Vec<Passage>,
    /// In the order in which they happened.
    pub events: Vec<MutexEvent>,
    pub dropped: u64,
    limit: usize,
    /// Events of the step in progress: they have no clock yet.
    open: usize,
}

#[derive(Clone, PartialEq, Debug)]
pub struct MutexEvent {
    pub at: u64,
    pub member: usize,
    pub what: MutexWhat,
    /// The Lamport clock of the machine after the step to which the event belongs.
    pub clock: Option<u64>,
    /// The timestamp of its request, from the request to the exit.
    pub stamp: Option<Stamp>,
}

/// Messages are positions in [`MutexRecording::messages`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MutexWhat {
    Sent(usize),
    Received(usize),
    Asked,
    Entered(Token),
    Left,
    Crashed,
}

impl MutexRecording {
    pub fn new(limit: usize) -> Self {
        MutexRecording { messages: Vec::new(), events: Vec::new(), dropped: 0, limit, open: 0 }
    }

    fn event(&mut self, at: u64, member: usize, what: MutexWhat) {
        if self.dropped == 0 {
            self.events.push(MutexEvent { at, member, what, clock: None, stamp: None });
        }
    }

    fn send(&mut self, at: u64, from: usize, to: usize, kind: Kind, text: String) -> usize {
        if self.messages.len() >= self.limit {
            self.dropped += 1;
            return usize::MAX;
        }
        self.messages.push(Passage { sent: at, from, to, kind, text, arrived: None });
        let tag = self.messages.len() - 1;
        self.event(at, from, MutexWhat::Sent(tag));
        tag
    }
}

impl MutexObserver for MutexRecording {
    type Tag = usize;

    fn sent(&mut self, at: u64, from: usize, to: usize, kind: Kind, message: &dyn Debug) -> usize {
        self.send(at, from, to, kind, format!("{message:?}"))
    }

    fn told(&mut self, at: u64, from: usize, to: usize) -> usize {
        self.send(at, from, to, APPLICATION, "a message of the application".into())
    }

    fn repeated(&mut self, at: u64, tag: usize) -> usize {
        let Some(Passage { from, to, kind, text, .. }) = self.messages.get(tag).cloned() else { return tag };
        self.send(at, from, to, kind, format!("{text}, a copy"))
    }

    fn delivered(&mut self, at: u64, tag: usize) {
        if let Some(message) = self.messages.get_mut(tag) {
            message.arrived = Some((at, true));
            let to = message.to;
            self.event(at, to, MutexWhat::Received(tag));
        }
    }

    fn lost(&mut self, at: u64, tag: usize) {
        if let Some(message) = self.messages.get_mut(tag) {
            message.arrived = Some((at, false));
        }
    }

    fn asked(&mut self, at: u64, member: usize) {
        self.event(at, member, MutexWhat::Asked);
    }

    fn entered(&mut self, at: u64, member: usize, token: Token) {
        self.event(at, member, MutexWhat::Entered(token));
    }

    fn left(&mut self, at: u64, member: usize) {
        self.event(at, member, MutexWhat::Left);
    }

    fn crashed(&mut self, at: u64, member: usize) {
        self.event(at, member, MutexWhat::Crashed);
        self.open = self.events.len();
    }

    fn step_over(&mut self, _: usize, clock: Option<u64>, stamp: Option<Stamp>) {
        for event in &mut self.events[self.open..] {
            event.clock = clock;
            event.stamp = stamp;
        }
        self.open = self.events.len();
    }
}
