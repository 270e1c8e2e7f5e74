//! What happens next in a fault run: events in the order of their moments, and events that wait for paused processes.

use std::collections::{BinaryHeap, VecDeque};

use member::reign::Holder;

use crate::bare::queue::Due;

use super::network::{ConnId, Parcel};
use super::plan::Action;
use super::subject::Subject;

#[derive(Clone, Debug)]
pub(super) enum What<S: Subject> {
    Plan(Action),
    Parcel(Parcel<S::Message>),
    Up {
        node: usize,
        start: u32,
        peer: usize,
        conn: ConnId,
        holder: Option<Holder>,
    },
    /// Nothing happens if that process has ended.
    Own {
        node: usize,
        start: u32,
        event: Own<S>,
    },
}

/// What one start of a process waits for.
#[derive(Clone, Debug)]
pub(super) enum Own<S: Subject> {
    /// Timers may be due.
    Wake,
    /// A message to itself.
    Message(S::Message),
    Dial(usize),
    Unreachable(usize),
    Written,
    ChildStopped,
}

impl<S: Subject> What<S> {
    /// The node that would notice; `None` for actions of the plan.
    pub(super) fn node(&self) -> Option<usize> {
        match self {
            What::Up { node, .. } | What::Own { node, .. } => Some(*node),
            What::Parcel(parcel) => Some(parcel.to),
            What::Plan(_) => None,
        }
    }

    pub(super) fn is_wake(&self) -> bool {
        matches!(self, What::Own { event: Own::Wake, .. })
    }
}

pub(super) struct Schedule<S: Subject> {
    heap: BinaryHeap<Due<What<S>>>,
    /// Counts the events: of those of one moment the one that was added first comes first.
    seq: u64,
    /// By node: events that came while its process was paused.
    deferred: Vec<VecDeque<What<S>>>,
}

impl<S: Subject> Schedule<S> {
    pub(super) fn new(nodes: usize) -> Self {
        Schedule { heap: BinaryHeap::new(), seq: 0, deferred: (0..nodes).map(|_| VecDeque::new()).collect() }
    }

    /// Timers come before all other events of the same moment.
    pub(super) fn add(&mut self, at: u64, what: What<S>) {
        self.seq += 1;
        let class = if what.is_wake() { 0 } else { 1 << 63 };
        self.heap.push(Due { at, seq: class | self.seq, what });
    }

    /// The next event with its moment, which is not after `end`.
    pub(super) fn next_until(&mut self, end: u64) -> Option<(u64, What<S>)> {
        self.heap.peek().filter(|due| due.at <= end)?;
        self.heap.pop().map(|due| (due.at, due.what))
    }

    /// The node's process is paused and notices this when it runs again.
    pub(super) fn defer(&mut self, node: usize, what: What<S>) {
        self.deferred[node].push_back(what);
    }

    pub(super) fn take_deferred(&mut self, node: usize) -> VecDeque<What<S>> {
        std::mem::take(&mut self.deferred[node])
    }
}
