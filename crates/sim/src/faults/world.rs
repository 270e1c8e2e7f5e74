//! The discrete-event world of a fault run: processes, connections and a clock that jumps from event to event.

use std::collections::{BinaryHeap, VecDeque};
use std::hash::{Hash, Hasher};

use algorithms::{Ctx, Input, NodeId, Settings, Span, View};
use member::reign::Holder;
use member::{Command, Event, NodeSet};

use crate::bare::queue::{Due, Mix};
use crate::rng::Rng;

use super::invariants::InvariantSet;
use super::network::{ConnId, Network, Parcel, Transit};
use super::plan::{Action, MS, Plan, US};
use super::process::{Effect, Effects, Process};
use super::subject::Subject;
use super::trace::Trace;

/// A dial that nobody answers is given up after this.
pub(crate) const DIAL_TIMEOUT: u64 = 1000 * MS;
/// The pause between dials grows from the first to the second.
pub(crate) const BACKOFF_MIN: u64 = 20 * MS;
pub(crate) const BACKOFF_MAX: u64 = 1000 * MS;

pub(crate) struct World<'a, S: Subject> {
    pub(super) view: &'a View,
    pub(super) settings: &'a Settings,
    pub(super) plan: &'a Plan,
    pub(super) now: u64,
    pub(super) processes: Vec<Process<S>>,
    pub(super) network: Network<S::Message>,
    pub(super) court: InvariantSet,
    pub(super) trace: Trace,
    pub(super) stats: Stats,
    pub(super) rng: Rng,
    heap: BinaryHeap<Due<What<S>>>,
    /// What came while a process was paused.
    deferred: Vec<VecDeque<What<S>>>,
    seq: u64,
    digest: Mix,
    /// Connections or processes changed since the court last looked.
    pub(super) dirty: bool,
    /// By node: when one of its connections last became or ceased to be undisturbed.
    pub(super) changed: Vec<u64>,
    /// Who ever lost its disk.
    pub(super) wiped: NodeSet,
}

/// What a run did, in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    pub events: u64,
    pub steps: u64,
    pub messages: u64,
    pub kills: u64,
    pub starts: u64,
    pub pauses: u64,
    pub cuts: u64,
    /// Times somebody became leader.
    pub reigns: u64,
    /// From the heal to the last change of anybody's standing.
    pub settled_after_ms: u64,
}

#[derive(Clone, Debug)]
pub(super) enum What<S: Subject> {
    Timer {
        node: usize,
        boot: u32,
        timer: S::Timer,
        due: u64,
    },
    Parcel(Parcel<S::Message>),
    /// A message to oneself.
    Own {
        node: usize,
        boot: u32,
        message: S::Message,
    },
    Up {
        node: usize,
        boot: u32,
        peer: usize,
        conn: ConnId,
        life: Option<Holder>,
    },
    Dial {
        node: usize,
        boot: u32,
        peer: usize,
    },
    Unreachable {
        node: usize,
        boot: u32,
        peer: usize,
    },
    Written {
        node: usize,
        boot: u32,
    },
    Plan(Action),
}

impl<S: Subject> What<S> {
    /// Who would notice; nobody for what the plan does.
    fn node(&self) -> Option<usize> {
        match self {
            What::Timer { node, .. }
            | What::Own { node, .. }
            | What::Up { node, .. }
            | What::Dial { node, .. }
            | What::Unreachable { node, .. }
            | What::Written { node, .. } => Some(*node),
            What::Parcel(parcel) => Some(parcel.to),
            What::Plan(_) => None,
        }
    }
}

impl<'a, S: Subject> World<'a, S> {
    pub(crate) fn new(
        view: &'a View,
        settings: &'a Settings,
        plan: &'a Plan,
        court: InvariantSet,
        trace: Trace,
        rng: Rng,
    ) -> Self {
        let nodes = view.len();
        let mut world = World {
            view,
            settings,
            plan,
            now: 0,
            processes: (0..nodes).map(|_| Process::new(nodes)).collect(),
            network: Network::new(nodes, plan.delay_max),
            court,
            trace,
            stats: Stats::default(),
            rng,
            heap: BinaryHeap::new(),
            deferred: (0..nodes).map(|_| VecDeque::new()).collect(),
            seq: 0,
            digest: Mix::default(),
            dirty: false,
            changed: vec![0; nodes],
            wiped: NodeSet::default(),
        };
        for (at, action) in &plan.actions {
            world.schedule(*at, What::Plan(action.clone()));
        }
        world
    }

    /// Runs until `end`, or until the first broken invariant.
    pub(crate) fn run_until(&mut self, end: u64) {
        while self.court.violations.is_empty() && self.heap.peek().is_some_and(|due| due.at <= end) {
            let Some(due) = self.heap.pop() else { break };
            self.now = due.at;
            self.stats.events += 1;
            self.digest.write_u64(due.at);
            self.digest.write_usize(due.what.node().unwrap_or(usize::MAX));
            self.handle(due.what);
            self.look();
        }
        self.now = end;
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest.finish()
    }

    /// Timers come before anything else of the same moment.
    pub(super) fn schedule(&mut self, at: u64, what: What<S>) {
        self.seq += 1;
        let class = if matches!(what, What::Timer { .. }) { 0 } else { 1 << 63 };
        self.heap.push(Due { at, seq: class | self.seq, what });
    }

    pub(super) fn id(&self, node: usize) -> NodeId {
        self.view.members()[node].id
    }

    pub(super) fn handle(&mut self, what: What<S>) {
        if let What::Parcel(parcel) = &what
            && self.network.is_cut(parcel.from, parcel.to)
        {
            return self.network.hold(parcel.clone());
        }
        if let Some(node) = what.node().filter(|&node| self.processes[node].paused) {
            return self.deferred[node].push_back(what);
        }
        match what {
            What::Plan(action) => self.act(&action),
            What::Parcel(parcel) => self.arrive(parcel),
            What::Up { node, boot, peer, conn, life } => {
                self.processes[node].lives[peer] = life;
                self.up(node, boot, peer, conn);
            }
            What::Timer { node, boot, timer, due } => {
                let process = &mut self.processes[node];
                if process.boot == boot && process.timers.get(&timer) == Some(&due) {
                    process.timers.remove(&timer);
                    self.input(node, Input::Timer(timer));
                }
            }
            What::Own { node, boot, message } => {
                if self.lives(node, boot) {
                    let from = self.id(node);
                    self.input(node, Input::Message { from, message });
                }
            }
            What::Dial { node, boot, peer } => {
                if self.lives(node, boot) {
                    self.dial(node, peer);
                }
            }
            What::Unreachable { node, boot, peer } => {
                if self.lives(node, boot) {
                    self.unreachable(node, peer);
                }
            }
            What::Written { node, boot } => {
                if self.lives(node, boot) {
                    self.written(node);
                }
            }
        }
    }

    fn lives(&self, node: usize, boot: u32) -> bool {
        self.processes[node].boot == boot && self.processes[node].machine.is_some()
    }

    pub(super) fn input(&mut self, node: usize, input: Input<S>) {
        let process = &mut self.processes[node];
        let Some(machine) = &mut process.machine else { return };
        self.stats.steps += 1;
        self.trace.line(self.now, self.view, node, || format!("<- {}", brief(&input)));
        let (view, settings) = (self.view, self.settings);
        let ctx = Ctx { me: view.members()[node], view, settings, dice: self.rng.word() };
        machine.step(&ctx, input, &mut Effects(&mut process.effects, &mut process.timers));
        self.after_step(node);
    }

    /// Carries out what can be, then dials whom the machine now wants.
    pub(super) fn after_step(&mut self, node: usize) {
        self.carry_out(node);
        self.note_settled(node);
        self.judge_state();
        self.judge_reigns();
        self.plan_dials(node);
    }

    fn carry_out(&mut self, node: usize) {
        while !self.processes[node].blocked {
            if self.processes[node].doom == Some(0) && !self.processes[node].effects.is_empty() {
                return self.kill(node);
            }
            let Some(effect) = self.processes[node].effects.pop_front() else { return };
            if let Some(left) = &mut self.processes[node].doom {
                *left -= 1;
            }
            self.effect(node, effect);
        }
    }

    fn effect(&mut self, node: usize, effect: Effect<S>) {
        let boot = self.processes[node].boot;
        match effect {
            Effect::Send(to, message) => self.send(node, to, message),
            Effect::SetTimer(timer, span) => {
                let due = self.now + self.drawn(node, span);
                self.processes[node].timers.insert(timer, due);
                self.schedule(due, What::Timer { node, boot, timer, due });
            }
            Effect::CancelTimer(timer) => {
                self.processes[node].timers.remove(&timer);
            }
            Effect::Persist(record) => {
                self.processes[node].blocked = true;
                self.write(node, record, true);
            }
            Effect::Store(record) => self.write(node, record, false),
            Effect::Announce(event) => self.announce(node, event),
        }
    }

    /// A span as this node's clock measures it.
    fn drawn(&mut self, node: usize, span: Span) -> u64 {
        let after = i128::from(span.draw(self.rng.word()).as_nanos() as u64);
        let true_time = after - after * i128::from(self.plan.drift_ppm[node]) / 1_000_000;
        true_time as u64
    }

    fn send(&mut self, node: usize, to: NodeId, message: S::Message) {
        let Some(peer) = self.view.position(to) else { return };
        self.stats.messages += 1;
        if peer == node {
            let boot = self.processes[node].boot;
            return self.schedule(self.now, What::Own { node, boot, message });
        }
        let Some(conn) = self.network.end(node, peer) else {
            return self.trace.line(self.now, self.view, node, || format!("-> {to} not connected: {message:?}"));
        };
        self.trace.line(self.now, self.view, node, || format!("-> {to} {message:?}"));
        self.post(Parcel { conn, from: node, to: peer, what: Transit::Data(message) });
    }

    pub(super) fn post(&mut self, parcel: Parcel<S::Message>) {
        let (from, to) = (parcel.from, parcel.to);
        let at = match parcel.what {
            Transit::Data(_) => self.network.arrival(self.now, from, to, &mut self.rng),
            Transit::Fin => self.network.fin_arrival(self.now, from, to, &mut self.rng),
        };
        self.schedule(at, What::Parcel(parcel));
    }

    fn write(&mut self, node: usize, record: S::Durable, barrier: bool) {
        let process = &mut self.processes[node];
        process.disk.writes.push_back((record, barrier));
        if process.disk.writes.len() == 1 {
            self.next_write(node);
        }
    }

    fn next_write(&mut self, node: usize) {
        let boot = self.processes[node].boot;
        let at = self.now + self.rng.between(100 * US, self.plan.fsync_max);
        self.schedule(at, What::Written { node, boot });
    }

    fn written(&mut self, node: usize) {
        let disk = &mut self.processes[node].disk;
        let Some((record, barrier)) = disk.writes.pop_front() else { return };
        disk.record = Some(record.clone());
        if !disk.writes.is_empty() {
            self.next_write(node);
        }
        if barrier {
            self.processes[node].blocked = false;
            self.after_step(node);
        } else {
            self.input(node, Input::Stored(record));
        }
    }

    fn announce(&mut self, node: usize, event: Event) {
        self.trace.line(self.now, self.view, node, || format!("** {event:?}"));
        event.hash(&mut self.digest);
        match event {
            Event::Became { now, cause } => {
                self.processes[node].standing = Some(now);
                if now.role != member::Role::Leader {
                    self.processes[node].lease_until = 0;
                }
                self.stats.reigns += u64::from(now.role == member::Role::Leader);
                if self.now >= self.plan.heal_at {
                    self.stats.settled_after_ms = (self.now - self.plan.heal_at) / MS;
                }
                self.judge_announcement(node, now, cause);
            }
            Event::Suspects(peer) => {
                if let Some(peer) = self.view.position(peer) {
                    self.hang_up(node, peer);
                }
            }
            Event::Lease { until: slot, .. } => {
                let process = &mut self.processes[node];
                let due = S::lease_timer(slot).and_then(|timer| process.timers.get(&timer).copied());
                process.lease_until = due.unwrap_or(0);
            }
            Event::Granted { epoch, holder } => self.judge_grant(node, epoch, holder),
            Event::PromiseEnded { .. } | Event::StopChildren => {}
        }
    }

    pub(super) fn resume(&mut self, node: usize) {
        self.processes[node].paused = false;
        self.dirty = true;
        let waiting = std::mem::take(&mut self.deferred[node]);
        let (timers, others): (VecDeque<_>, VecDeque<_>) =
            waiting.into_iter().partition(|what| matches!(what, What::Timer { .. }));
        for what in timers.into_iter().chain(others) {
            self.handle(what);
        }
    }

    /// What waited for a paused process that is killed goes on without it.
    pub(super) fn forget_deferred(&mut self, node: usize) {
        for what in std::mem::take(&mut self.deferred[node]) {
            self.handle(what);
        }
    }

    pub(super) fn command(&mut self, node: usize, command: Command) {
        if self.processes[node].runs() {
            self.input(node, Input::Command(command));
        }
    }
}

fn brief<S: Subject>(input: &Input<S>) -> String {
    match input {
        Input::Message { from, message } => format!("{from} {message:?}"),
        other => format!("{other:?}"),
    }
}
