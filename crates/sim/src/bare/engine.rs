//! Runs asynchronous machines, with unit delays or random ones.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::hint::black_box;

use algorithms::drive::Counts;
use algorithms::{Campaign, Ctx, Election, Input, Uid};

use super::queue::{Delays, Fifo, Flight, Queue};
use super::timers::Timers;
use super::wire::{Net, Wire};
use super::{Setup, Trail, Verdict};
use crate::clock::Stopwatch;
use crate::observe::{Blind, Observer, ROUND};
use crate::rng::{Rng, word_at};

/// How many receivers are fetched from memory at a time, before their messages are delivered.
const BATCH: usize = 128;

/// With so few messages a batch brings no gain.
const FEW: usize = 16;

/// If more than one node in this many gets a message, memory is read in order anyway.
const DENSE: usize = 2;

/// A node's id right before the head of its machine: one cache line per delivery, not two.
#[derive(Debug)]
#[repr(C)]
struct Node<P> {
    uid: Uid,
    machine: P,
}

/// All nodes of a run and the net between them.
pub(crate) struct Engine<'a, P: Election, Q, O> {
    setup: &'a Setup,
    nodes: Vec<Node<P>>,
    pub(crate) net: Net<P, Q, O>,
    steps: u64,
    /// Crashes that have happened, of `setup.crashes`.
    crashed: usize,
}

impl<'a, P, Q, O> Engine<'a, P, Q, O>
where
    P: Election,
    O: Observer,
    Q: Queue<P::Link, P::Message, O::Tag>,
{
    pub(crate) fn new(setup: &'a Setup, queue: Q, observer: O) -> Self {
        let nodes = setup.view.len();
        let mut net = Net {
            queue,
            timers: Timers::new(),
            stored: Vec::new(),
            counts: Counts::default(),
            verdicts: vec![Verdict::Undecided; nodes],
            undecided: nodes,
            observer,
            now: 0,
        };
        let nodes = (0..nodes)
            .map(|me| {
                let (uid, dice) = (setup.view.members()[me], word_at(setup.seed, u64::MAX - me as u64));
                let ctx = Ctx { me: uid, view: &setup.view, settings: &setup.settings, dice };
                let machine = P::start(&ctx, None, &mut Wire { net: &mut net, view: &setup.view, me, dice });
                Node { uid, machine }
            })
            .collect();
        Engine { setup, nodes, net, steps: 0, crashed: 0 }
    }

    pub(crate) fn machine(&self, node: usize) -> &P {
        &self.nodes[node].machine
    }

    // Both are called once in the loop and are small; out of line they cost a third of a message.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    fn step(&mut self, me: usize, input: Input<P>) {
        self.steps += 1;
        // A function of the step's number, not of a generator's state: a machine that ignores it pays nothing.
        let (view, dice) = (&self.setup.view, word_at(self.setup.seed, self.steps));
        let node = &mut self.nodes[me];
        let ctx = Ctx { me: node.uid, view, settings: &self.setup.settings, dice };
        node.machine.step(&ctx, input, &mut Wire { net: &mut self.net, view, me, dice });
    }

    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub(crate) fn deliver(&mut self, flight: Flight<P::Link, P::Message, O::Tag>) {
        let to = flight.to as usize;
        // Without crashes the verdicts are not touched.
        if self.crashed > 0 && self.net.dead(to) {
            self.net.observer.lost(self.net.now, flight.tag);
            return;
        }
        self.net.observer.delivered(self.net.now, flight.tag);
        self.step(to, Input::Message { from: flight.link, message: flight.message });
    }

    pub(crate) fn wake(&mut self, node: usize) {
        if !self.net.dead(node) {
            self.net.observer.woke(self.net.now, node);
            self.step(node, Input::Command(Campaign));
        }
    }

    /// Every node whose round has come dies before anything else happens in the round.
    pub(crate) fn crash_due(&mut self) {
        while let Some(&(node, round)) = self.setup.crashes.get(self.crashed) {
            if round.saturating_mul(ROUND) > self.net.now {
                break;
            }
            self.crashed += 1;
            self.net.kill(node);
        }
    }

    /// Timers that are due and writes that are done come before any message.
    pub(crate) fn fire_due(&mut self) {
        while self.fire_next() {}
        for (node, record) in std::mem::take(&mut self.net.stored) {
            if !self.net.dead(node as usize) {
                self.step(node as usize, Input::Stored(record));
            }
        }
    }

    /// Fires one timer; false if none is due.
    pub(crate) fn fire_next(&mut self) -> bool {
        let Some((node, timer)) = self.net.timers.pop_due(self.net.now) else { return false };
        if !self.net.dead(node as usize) {
            self.net.observer.timer(self.net.now, node as usize, &timer);
            self.step(node as usize, Input::Timer(timer));
        }
        true
    }

    /// No message is in flight, and no undecided node waits for a timer: a continuous machine would run for ever.
    fn over(&mut self) -> bool {
        self.net.queue.len() == 0
            && self.net.stored.is_empty()
            && (self.net.undecided == 0 || self.net.timers.next_at().is_none())
    }

    fn trail(self, started: &Stopwatch, rounds: u64, peak_in_flight: usize) -> (Trail, O) {
        let (wall, busy) = (started.wall(), started.busy());
        let view_bytes = size_of_val(self.setup.view.members());
        let bytes = self.nodes.capacity() * size_of::<Node<P>>()
            + self.net.verdicts.capacity() * size_of::<Verdict>()
            + self.net.queue.bytes()
            + self.net.timers.bytes()
            + view_bytes;
        let gave_up = self.steps > self.setup.step_limit;
        let first = (0..self.nodes.len()).find(|&node| !self.net.dead(node));
        let list = first.and_then(|node| self.machine(node).active_list());
        let active = list.map(|list| list.iter().copied().collect());
        let Net { verdicts, counts, observer, .. } = self.net;
        (
            Trail { verdicts, counts, rounds, steps: self.steps, peak_in_flight, bytes, wall, busy, gave_up, active },
            observer,
        )
    }
}

impl<P: Election, O: Observer> Engine<'_, P, Fifo<P::Link, P::Message, O::Tag>, O> {
    /// Delivers the first `count` messages. If their receivers are too many for the cache and too far apart for the
    /// processor to prefetch, most of the time would be spent waiting for memory: a batch is read at once.
    fn deliver_round(&mut self, count: usize) {
        let scattered = count > FEW && count < self.nodes.len() / DENSE;
        let mut left = count;
        while left > 0 {
            let batch = if scattered { left.min(BATCH) } else { left };
            if scattered {
                let receivers = self.net.queue.0.iter().take(batch);
                black_box(receivers.fold(0, |seen, flight| seen ^ self.nodes[flight.to as usize].uid.id.0));
            }
            for _ in 0..batch {
                let flight = self.net.queue.0.pop_front().expect("counted");
                self.deliver(flight);
            }
            left -= batch;
        }
    }
}

/// The synchronous schedule: every message takes one round; all initiators start in round 0.
pub(crate) fn run_sync<P: Election, O: Observer>(setup: &Setup, observer: O) -> (Trail, O) {
    let starters = setup.initiators.count(setup.view.len());
    let queue = Fifo(VecDeque::with_capacity(starters));
    let mut engine: Engine<'_, P, Fifo<_, _, _>, O> = Engine::new(setup, queue, observer);
    let started = Stopwatch::start();
    engine.crash_due();
    for nth in 0..starters {
        engine.wake(setup.initiators.get(nth));
    }
    let (mut round, mut last_delivery, mut peak) = (0, 0, 0);
    while !engine.over() && engine.steps <= setup.step_limit {
        let in_flight = engine.net.queue.len();
        peak = peak.max(in_flight);
        round += 1;
        if in_flight == 0 && engine.net.stored.is_empty() {
            // Silence until the next timer.
            let due = engine.net.timers.next_at().expect("else the run is over");
            round = round.max(due.div_ceil(ROUND));
        }
        engine.net.now = round * ROUND;
        engine.crash_due();
        engine.fire_due();
        engine.deliver_round(in_flight);
        if in_flight > 0 {
            last_delivery = round;
        }
    }
    engine.trail(&started, last_delivery, peak)
}

/// The first message that an election of these nodes sends.
pub(crate) fn first_message<P: Election>(setup: &Setup) -> Option<Flight<P::Link, P::Message, ()>> {
    let mut engine: Engine<'_, P, Fifo<_, _, _>, Blind> = Engine::new(setup, Fifo(VecDeque::new()), Blind);
    (0..setup.view.len()).for_each(|node| engine.wake(node));
    engine.net.queue.0.pop_front()
}

/// The random schedule: every message takes a random part of a round, FIFO per link; initiators start at random
/// times of the first round.
pub(crate) fn run_random<P: Election, O: Observer>(setup: &Setup, observer: O) -> (Trail, O) {
    let mut rng = Rng::new(setup.seed ^ 0x7363_6865_6475_6c65);
    let mut wakes: BinaryHeap<Reverse<(u64, usize)>> = (0..setup.initiators.count(setup.view.len()))
        .map(|nth| Reverse((rng.below(ROUND), setup.initiators.get(nth))))
        .collect();
    let mut engine: Engine<'_, P, Delays<_, _, _>, O> = Engine::new(setup, Delays::new(rng), observer);
    let started = Stopwatch::start();
    let (mut last_delivery, mut peak) = (0, 0);
    engine.crash_due();
    while engine.steps <= setup.step_limit && !(wakes.is_empty() && engine.over()) {
        peak = peak.max(engine.net.queue.len());
        let timer = engine.net.timers.next_at().unwrap_or(u64::MAX);
        let wake = wakes.peek().map_or(u64::MAX, |wake| wake.0.0);
        let message = engine.net.queue.next_at().unwrap_or(u64::MAX);
        let next = timer.min(wake).min(message);
        if next != u64::MAX {
            engine.net.now = next;
        }
        engine.crash_due();
        if timer == next || !engine.net.stored.is_empty() {
            engine.fire_due();
        } else if let Some(Reverse((_, node))) = wakes.pop_if_at(next) {
            engine.wake(node);
        } else if let Some(flight) = engine.net.queue.pop() {
            last_delivery = next.div_ceil(ROUND);
            engine.deliver(flight);
        }
    }
    engine.trail(&started, last_delivery, peak)
}

trait PopIfAt {
    fn pop_if_at(&mut self, at: u64) -> Option<Reverse<(u64, usize)>>;
}

impl PopIfAt for BinaryHeap<Reverse<(u64, usize)>> {
    fn pop_if_at(&mut self, at: u64) -> Option<Reverse<(u64, usize)>> {
        if self.peek()?.0.0 == at { self.pop() } else { None }
    }
}
