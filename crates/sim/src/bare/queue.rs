//! Messages in flight: a ring buffer if all take one round, a heap if delays are random.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};

use crate::observe::ROUND;
use crate::rng::Rng;

/// A message on its way. `link` is the receiver's name of the link on which it arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight<L, M, T> {
    pub to: u32,
    pub link: L,
    pub message: M,
    pub tag: T,
}

/// Where the outbox puts messages.
pub(crate) trait Queue<L, M, T> {
    fn push(&mut self, now: u64, flight: Flight<L, M, T>);
    fn len(&self) -> usize;
    fn bytes(&self) -> usize;
}

/// Unit delays: a message sent in round r arrives in round r + 1, in the order of sending.
#[derive(Debug)]
pub(crate) struct Fifo<L, M, T>(pub VecDeque<Flight<L, M, T>>);

impl<L, M, T> Queue<L, M, T> for Fifo<L, M, T> {
    #[inline]
    fn push(&mut self, _: u64, flight: Flight<L, M, T>) {
        self.0.push_back(flight);
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Flight<L, M, T>>()
    }
}

/// Random delays of up to one round; messages of one link never overtake each other.
#[derive(Debug)]
pub(crate) struct Delays<L, M, T> {
    heap: BinaryHeap<Due<Flight<L, M, T>>>,
    /// When the latest message of each link arrives, by receiver and the receiver's name of the link.
    latest: HashMap<(u32, L), u64, BuildHasherDefault<Mix>>,
    rng: Rng,
    seq: u64,
}

impl<L: Copy + Eq + Hash, M, T> Delays<L, M, T> {
    pub(crate) fn new(rng: Rng) -> Self {
        Delays { heap: BinaryHeap::new(), latest: HashMap::default(), rng, seq: 0 }
    }

    pub(crate) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|due| due.at)
    }

    pub(crate) fn pop(&mut self) -> Option<Flight<L, M, T>> {
        self.heap.pop().map(|due| due.what)
    }
}

impl<L: Copy + Eq + Hash, M, T> Queue<L, M, T> for Delays<L, M, T> {
    fn push(&mut self, now: u64, flight: Flight<L, M, T>) {
        let drawn = now + self.rng.between(1, ROUND);
        let latest = self.latest.entry((flight.to, flight.link)).or_insert(0);
        *latest = drawn.max(*latest);
        self.seq += 1;
        self.heap.push(Due { at: *latest, seq: self.seq, what: flight });
    }

    fn len(&self) -> usize {
        self.heap.len()
    }

    fn bytes(&self) -> usize {
        self.heap.capacity() * size_of::<Due<Flight<L, M, T>>>()
            + self.latest.capacity() * (size_of::<((u32, L), u64)>() + 1)
    }
}

/// An event at a time; the earliest is the greatest, as `BinaryHeap` requires.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due<W> {
    pub at: u64,
    pub seq: u64,
    pub what: W,
}

impl<W> PartialEq for Due<W> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.seq) == (other.at, other.seq)
    }
}

impl<W> Eq for Due<W> {}

impl<W> PartialOrd for Due<W> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<W> Ord for Due<W> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.seq).cmp(&(self.at, self.seq))
    }
}

/// A multiplicative hash: links are small numbers, and a simulation has no attackers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word as u64);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_one_link_keep_their_order_and_take_at_most_a_round() {
        let mut queue: Delays<u8, usize, ()> = Delays::new(Rng::new(3));
        for sent in 0..1000 {
            let link = (sent % 2) as u8;
            queue.push(sent as u64 * 1000, Flight { to: 0, link, message: sent, tag: () });
        }
        let mut last = [None; 2];
        while let Some(at) = queue.next_at() {
            let flight = queue.pop().expect("peeked");
            let sent_at = flight.message as u64 * 1000;
            assert!(at > sent_at && at <= sent_at + ROUND);
            assert!(last[flight.link as usize].replace(flight.message) < Some(flight.message));
        }
    }
}
