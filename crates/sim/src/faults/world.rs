//! The discrete-event world of a fault run: processes, connections and a clock that jumps from event to event.

use std::hash::{Hash, Hasher};

use algorithms::drive::{Driver, Effect};
use algorithms::{Ctx, Input, NodeId, View};
use member::{Command, Event, ListEvent, NodeSet, Role, Settings};

use crate::bare::queue::Mix;
use crate::rng::Rng;

use super::invariants::InvariantSet;
use super::network::{Network, Parcel, Transit};
use super::pace::Pace;
use super::plan::{MS, Plan};
use super::process::{Child, Process};
use super::report::Stats;
use super::schedule::{Own, Schedule, What};
use super::subject::Subject;
use super::trace::Trace;

/// A dial without an answer is given up after this.
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
    pub(super) invariants: InvariantSet,
    pub(super) trace: Trace,
    pub(super) stats: Stats,
    pub(super) rng: Rng,
    schedule: Schedule<S>,
    digest: Mix,
    pace: Pace,
    /// Connections or processes changed since the invariants were last checked.
    pub(super) dirty: bool,
    /// By node: when one of its connections last became or ceased to be undisturbed.
    pub(super) changed: Vec<u64>,
    /// The members that ever lost their disk.
    pub(super) wiped: NodeSet,
    /// The planted mistake of [`super::FaultOptions::slewed_leases`].
    pub(super) slewed_leases: bool,
    /// All faults ended long enough ago.
    pub(super) agreed: bool,
}

impl<'a, S: Subject> World<'a, S> {
    pub(crate) fn new(
        view: &'a View,
        settings: &'a Settings,
        plan: &'a Plan,
        invariants: InvariantSet,
        trace: Trace,
        rng: Rng,
    ) -> Self {
        let nodes = view.len();
        let mut world = World {
            view,
            settings,
            plan,
            now: 0,
            processes: (0..nodes).map(|_| Process::new(nodes, settings.clone())).collect(),
            network: Network::new(nodes, plan.delay_max),
            invariants,
            trace,
            stats: Stats::default(),
            rng,
            schedule: Schedule::new(nodes),
            digest: Mix::default(),
            pace: Pace::default(),
            dirty: false,
            changed: vec![0; nodes],
            wiped: NodeSet::default(),
            slewed_leases: false,
            agreed: false,
        };
        for (at, action) in &plan.actions {
            world.schedule(*at, What::Plan(action.clone()));
        }
        world
    }

    /// Runs until `end`, or until the first broken invariant.
    pub(crate) fn run_until(&mut self, end: u64) {
        while self.invariants.violations.is_empty()
            && let Some((at, what)) = self.schedule.next_until(end)
        {
            self.now = at;
            self.stats.events += 1;
            self.digest.write_u64(at);
            self.digest.write_usize(what.node().unwrap_or(usize::MAX));
            self.handle(what);
            self.look();
            self.check_pace();
        }
        self.now = end;
    }

    /// False if the members do without end what takes no time.
    fn check_pace(&mut self) -> bool {
        let too_fast = self.pace.check(self.now, self.stats.events + self.stats.steps);
        let ends = too_fast.is_none();
        if self.invariants.violations.is_empty() {
            self.invariants.violations.extend(too_fast);
        }
        ends
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest.finish()
    }

    pub(super) fn schedule(&mut self, at: u64, what: What<S>) {
        self.schedule.add(at, what);
    }

    /// For the present process of this node.
    pub(super) fn schedule_own(&mut self, at: u64, node: usize, event: Own<S>) {
        let start = self.processes[node].start;
        self.schedule(at, What::Own { node, start, event });
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
            return self.schedule.defer(node, what);
        }
        if let Some(node) = what.node() {
            // The kernel's timer may be late, but a process compares the clock before it looks at any event.
            self.fire_due(node);
        }
        match what {
            What::Plan(action) => self.act(&action),
            What::Parcel(parcel) => self.arrive(parcel),
            What::Up { node, start, peer, conn, holder } => {
                self.processes[node].dials.holders[peer] = holder;
                self.up(node, start, peer, conn);
            }
            What::Own { node, start, event } if self.lives(node, start) => self.happens(node, event),
            // Meant for an earlier process start.
            What::Own { .. } => {}
        }
    }

    fn happens(&mut self, node: usize, event: Own<S>) {
        match event {
            Own::Wake => {
                self.processes[node].wakes_at = None;
                self.fire_due(node);
                self.plan_wake(node);
            }
            Own::Message(message) => self.input(node, Input::Message { from: self.id(node), message }),
            Own::Dial(peer) => self.dial(node, peer),
            Own::Unreachable(peer) => self.unreachable(node, peer),
            Own::Written => self.written(node),
            Own::ChildStopped => self.detach(node),
        }
    }

    fn lives(&self, node: usize, start: u32) -> bool {
        self.processes[node].start == start && self.processes[node].driver.is_some()
    }

    /// Fires timers in the order of their moments.
    fn fire_due(&mut self, node: usize) {
        while let Some(timer) = self.processes[node].driver.as_mut().and_then(|driver| driver.pop_due(self.now)) {
            self.input(node, Input::Timer(timer));
            if !self.check_pace() {
                return;
            }
        }
    }

    pub(super) fn input(&mut self, node: usize, input: Input<S>) {
        let (view, process) = (self.view, &mut self.processes[node]);
        let Some(driver) = &mut process.driver else { return };
        self.stats.steps += 1;
        self.trace.line(self.now, self.view, node, || format!("<- {}", brief(&input)));
        let settings = &process.settings;
        let ctx = Ctx { me: view.members()[node], view, settings, dice: self.rng.word() };
        driver.step(&ctx, input);
        self.after_step(node);
    }

    /// Carries out the effects that need not wait, then dials the members that the machine now wants.
    pub(super) fn after_step(&mut self, node: usize) {
        self.carry_out(node);
        self.note_settled(node);
        self.check_state();
        self.check_reigns();
        self.plan_dials(node);
        self.plan_wake(node);
    }

    /// Wakes a process when its next timer is due, by a timer of the kernel. If NTP slows the kernel's clock, that is too
    /// late; if NTP makes it fast, the process sets the timer again.
    fn plan_wake(&mut self, node: usize) {
        let process = &mut self.processes[node];
        let Some(due) = process.driver.as_ref().and_then(Driver::next_due) else { return };
        let due = due.max(self.now);
        let slowed = if self.slewed_leases { 0 } else { process.slew_ppm.min(0).unsigned_abs() };
        let wake = due + (due - self.now) / 1_000_000 * slowed;
        if process.wakes_at.is_none_or(|at| wake < at) {
            process.wakes_at = Some(wake);
            self.schedule_own(wake, node, Own::Wake);
        }
    }

    fn carry_out(&mut self, node: usize) {
        loop {
            let slew = if self.slewed_leases { self.processes[node].slew_ppm } else { 0 };
            let drift = i128::from(self.plan.drift_ppm[node] + slew);
            let (now, rng, process) = (self.now, &mut self.rng, &mut self.processes[node]);
            let Some(driver) = &mut process.driver else { return };
            if process.doom == Some(0) && driver.owes_effects() && !driver.is_blocked() {
                return self.kill(node);
            }
            // A span as the node's clock of leases measures it.
            let effect = driver.next_effect(|_, span| {
                let after = i128::from(span.draw(rng.word()).as_nanos() as u64);
                now + (after - after * drift / 1_000_000) as u64
            });
            let Some(effect) = effect else { return };
            if let Some(left) = &mut process.doom {
                *left -= 1;
            }
            match effect {
                Effect::Send { to, message, .. } => self.send(node, to, message),
                Effect::Persist(record) => self.write(node, record, true),
                Effect::Store(record) => self.write(node, record, false),
                Effect::Announce(event) => self.announce(node, event),
                Effect::SetTimer(..) | Effect::CancelTimer(_) => {}
            }
        }
    }

    fn send(&mut self, node: usize, to: NodeId, message: S::Message) {
        let Some(peer) = self.view.position(to) else { return };
        self.stats.messages += 1;
        if peer == node {
            return self.schedule_own(self.now, node, Own::Message(message));
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

    fn announce(&mut self, node: usize, event: Event) {
        self.trace.line(self.now, self.view, node, || format!("** {event:?}"));
        event.hash(&mut self.digest);
        match event {
            Event::Became { now, cause } => {
                let led = self.processes[node].standing.is_some_and(|before| before.role == Role::Leader);
                self.stats.reigns += u64::from(now.role == Role::Leader);
                self.stats.accessions += u64::from(now.role == Role::Leader && !led);
                if self.now >= self.plan.heal_at {
                    self.stats.settled_after_ms = (self.now - self.plan.heal_at) / MS;
                }
                self.check_announcement(node, now, cause);
                self.became(node, now);
            }
            Event::Suspects(peer) => {
                if let Some(peer) = self.view.position(peer) {
                    self.hang_up(node, peer);
                }
            }
            Event::Lease { no_child, .. } => {
                let process = &mut self.processes[node];
                let until = process.driver.as_ref().and_then(|driver| driver.deadline_of(&event));
                process.lease_until = until.unwrap_or(0);
                if !no_child {
                    process.let_child_act();
                }
            }
            Event::Granted { epoch, holder, list } => self.check_grant(node, epoch, holder, list),
            Event::List(event) => {
                self.stats.lists += u64::from(matches!(event, ListEvent::InForce(_)));
                let members = self.view.members();
                self.invariants.ask(|invariant| invariant.listed(node, &event, members));
            }
            Event::Named(id) => self.invariants.ask(|invariant| invariant.named(id)),
            Event::StopChildren => self.stop_child(node),
            Event::ChildrenGivenUp => self.processes[node].child = Child::None,
            Event::PromiseEnded { .. } | Event::Reigns { .. } | Event::Mode(_) | Event::Rests(_) => {}
        }
    }

    pub(super) fn resume(&mut self, node: usize) {
        self.processes[node].paused = false;
        self.dirty = true;
        let waiting = self.schedule.take_deferred(node);
        self.processes[node].wakes_at = None;
        self.fire_due(node);
        self.plan_wake(node);
        for what in waiting.into_iter().filter(|what| !what.is_wake()) {
            self.handle(what);
        }
    }

    /// Events that waited for a paused process that is killed are handled without it.
    pub(super) fn forget_deferred(&mut self, node: usize) {
        for what in self.schedule.take_deferred(node) {
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
