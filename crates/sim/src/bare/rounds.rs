//! Runs synchronous machines round by round, without a synchroniser, and skips silent rounds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use algorithms::drive::Counts;
use algorithms::{Ctx, Message, Next, Rounds};

use super::{Setup, Trail, Verdict};
use crate::clock::Stopwatch;
use crate::observe::{Observer, ROUND};
use crate::rng::Rng;

struct Ring<'a, R: Rounds, O: Observer> {
    setup: &'a Setup,
    machines: Vec<R>,
    verdicts: Vec<Verdict>,
    undecided: usize,
    counts: Counts,
    /// What the right neighbours read next round, grouped by receiver because nodes run in order.
    sent: Vec<(u32, R::Message, O::Tag)>,
    /// When each node next wants to run without a message; entries of an earlier request are stale.
    alarms: BinaryHeap<Reverse<(u64, u32)>>,
    wish: Vec<u64>,
    inbox: Vec<R::Message>,
    outbox: Vec<R::Message>,
    observer: O,
    rng: Rng,
    steps: u64,
    crashed: usize,
}

pub(crate) fn run_rounds<R: Rounds, O: Observer>(setup: &Setup, observer: O) -> (Trail, O) {
    let mut ring: Ring<'_, R, O> = Ring::new(setup, observer);
    let started = Stopwatch::start();
    let (mut round, mut last_delivery, mut peak) = (0, 0, 0);
    let mut arriving = Vec::new();
    ring.crash_due(0);
    for node in 0..setup.view.len() {
        ring.run(node, 0, setup.initiators.contains(node));
    }
    while ring.steps <= setup.step_limit {
        let Some(next) = ring.next_round(round) else { break };
        round = next;
        ring.crash_due(round);
        std::mem::swap(&mut arriving, &mut ring.sent);
        // The last node's right neighbour is the first.
        arriving.sort_by_key(|&(to, ..)| to);
        peak = peak.max(arriving.len());
        if !arriving.is_empty() {
            last_delivery = round;
        }
        ring.round(round, &mut arriving);
    }
    ring.trail(&started, last_delivery, peak)
}

impl<'a, R: Rounds, O: Observer> Ring<'a, R, O> {
    fn new(setup: &'a Setup, observer: O) -> Self {
        let nodes = setup.view.len();
        let mut rng = Rng::new(setup.seed);
        let machines = (0..nodes)
            .map(|me| {
                let (view, dice) = (&setup.view, rng.word());
                R::new(&Ctx { me: view.members()[me], view, settings: &setup.settings, dice })
            })
            .collect();
        Ring {
            setup,
            machines,
            verdicts: vec![Verdict::Undecided; nodes],
            undecided: nodes,
            counts: Counts::default(),
            sent: Vec::new(),
            alarms: BinaryHeap::new(),
            wish: vec![u64::MAX; nodes],
            inbox: Vec::new(),
            outbox: Vec::new(),
            observer,
            rng,
            steps: 0,
            crashed: 0,
        }
    }

    /// The next round in which anything can happen; `None` when the run is over.
    fn next_round(&mut self, round: u64) -> Option<u64> {
        if !self.sent.is_empty() {
            return Some(round + 1);
        }
        while let Some(&Reverse((at, node))) = self.alarms.peek() {
            if self.wish[node as usize] == at {
                // Decided nodes that only wait do not prolong a run.
                return (self.undecided > 0).then_some(at);
            }
            self.alarms.pop();
        }
        None
    }

    /// Runs every node with a message or a due alarm, in order of position.
    fn round(&mut self, round: u64, arriving: &mut Vec<(u32, R::Message, O::Tag)>) {
        let mut arriving = arriving.drain(..).peekable();
        let mut due = Vec::new();
        while let Some(&Reverse((at, node))) = self.alarms.peek() {
            if at > round {
                break;
            }
            self.alarms.pop();
            if self.wish[node as usize] == at {
                self.wish[node as usize] = u64::MAX;
                due.push(node);
            }
        }
        due.sort_unstable();
        let mut due = due.into_iter().peekable();
        while let Some(node) = arriving.peek().map(|m| m.0).into_iter().chain(due.peek().copied()).min() {
            due.next_if_eq(&node);
            self.inbox.clear();
            while let Some((_, message, tag)) = arriving.next_if(|m| m.0 == node) {
                if self.verdicts[node as usize] == Verdict::Dead {
                    self.observer.lost(round * ROUND, tag);
                } else {
                    self.observer.delivered(round * ROUND, tag);
                    self.inbox.push(message);
                }
            }
            self.run(node as usize, round, false);
        }
    }

    fn run(&mut self, me: usize, round: u64, awake: bool) {
        if self.verdicts[me] == Verdict::Dead {
            return;
        }
        self.steps += 1;
        if awake {
            self.observer.woke(round * ROUND, me);
        }
        let (view, dice) = (&self.setup.view, self.rng.word());
        let ctx = Ctx { me: view.members()[me], view, settings: &self.setup.settings, dice };
        let next = self.machines[me].round(&ctx, round, awake, &self.inbox, &mut self.outbox);
        self.inbox.clear();
        let to = view.clockwise(me);
        for message in self.outbox.drain(..) {
            self.counts.add(&message);
            let tag = self.observer.sent(round * ROUND, me, to, R::Message::KINDS[message.kind()], &message);
            self.sent.push((to as u32, message, tag));
        }
        self.plan(me, round, next);
    }

    fn plan(&mut self, me: usize, round: u64, next: Next) {
        self.wish[me] = match next {
            Next::Quiet { until } => until.max(round + 1),
            Next::Go => round + 1,
            Next::Decided(outcome) => {
                let verdict = Verdict::of(outcome);
                let before = std::mem::replace(&mut self.verdicts[me], verdict);
                if before == verdict {
                    u64::MAX
                } else {
                    self.observer.decided(round * ROUND, me, outcome);
                    self.undecided -= usize::from(before.undecided());
                    self.undecided += usize::from(verdict.undecided());
                    // The node gets one more round to report whether it has anything left to do.
                    round + 1
                }
            }
        };
        if self.wish[me] != u64::MAX {
            self.alarms.push(Reverse((self.wish[me], me as u32)));
        }
    }

    fn crash_due(&mut self, round: u64) {
        while let Some(&(node, _)) = self.setup.crashes.get(self.crashed).filter(|crash| crash.1 <= round) {
            self.crashed += 1;
            let before = std::mem::replace(&mut self.verdicts[node], Verdict::Dead);
            self.undecided -= usize::from(before.undecided());
            self.observer.crashed(round * ROUND, node);
        }
    }

    fn trail(self, started: &Stopwatch, rounds: u64, peak_in_flight: usize) -> (Trail, O) {
        let (wall, busy) = (started.wall(), started.busy());
        let nodes = self.machines.len();
        let bytes = nodes * (size_of::<R>() + size_of::<Verdict>() + 8)
            + size_of_val(self.setup.view.members())
            + 2 * self.sent.capacity() * size_of::<(u32, R::Message, O::Tag)>()
            + self.alarms.capacity() * size_of::<(u64, u32)>();
        let gave_up = self.steps > self.setup.step_limit;
        let (verdicts, counts, steps) = (self.verdicts, self.counts, self.steps);
        (
            Trail { verdicts, counts, rounds, steps, peak_in_flight, bytes, wall, busy, gave_up, active: None },
            self.observer,
        )
    }
}
