//! Named timers of all nodes: setting one again replaces it, so an entry of the heap may be stale.

use std::collections::{BTreeMap, BinaryHeap};

use super::queue::Due;

#[derive(Debug)]
pub(crate) struct Timers<T> {
    heap: BinaryHeap<Due<(u32, T)>>,
    /// The entry of the heap that is valid.
    set: BTreeMap<(u32, T), u64>,
    seq: u64,
}

impl<T: Copy + Ord> Timers<T> {
    pub(crate) fn new() -> Self {
        Timers { heap: BinaryHeap::new(), set: BTreeMap::new(), seq: 0 }
    }

    pub(crate) fn set(&mut self, node: u32, timer: T, at: u64) {
        self.seq += 1;
        self.set.insert((node, timer), self.seq);
        self.heap.push(Due { at, seq: self.seq, what: (node, timer) });
    }

    pub(crate) fn cancel(&mut self, node: u32, timer: T) {
        self.set.remove(&(node, timer));
    }

    /// When the next timer fires.
    pub(crate) fn next_at(&mut self) -> Option<u64> {
        loop {
            let due = self.heap.peek()?;
            if self.set.get(&due.what) == Some(&due.seq) {
                return Some(due.at);
            }
            self.heap.pop();
        }
    }

    /// The node and timer that fire next.
    pub(crate) fn next(&self) -> Option<(u32, T)> {
        let live = self.heap.iter().filter(|due| self.set.get(&due.what) == Some(&due.seq));
        live.min_by_key(|due| (due.at, due.seq)).map(|due| due.what)
    }

    /// Removes and returns the next timer that is due by `now`.
    #[inline]
    pub(crate) fn pop_due(&mut self, now: u64) -> Option<(u32, T)> {
        if self.heap.is_empty() || self.next_at()? > now {
            return None;
        }
        let due = self.heap.pop()?;
        self.set.remove(&due.what);
        Some(due.what)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.heap.capacity() * size_of::<Due<(u32, T)>>() + self.set.len() * size_of::<((u32, T), u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_set_again_fires_once_at_the_new_time_and_a_cancelled_one_never() {
        let mut timers = Timers::new();
        timers.set(1, 'a', 10);
        timers.set(1, 'b', 15);
        timers.set(1, 'a', 20);
        timers.cancel(1, 'b');
        assert_eq!(timers.next_at(), Some(20));
        assert_eq!(timers.pop_due(19), None);
        assert_eq!(timers.pop_due(20), Some((1, 'a')));
        assert_eq!(timers.next_at(), None);
    }
}
