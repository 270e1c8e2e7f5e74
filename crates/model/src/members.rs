//! Whole members: a failure detector, rounds and an authority around an election, with connections that break.
//!
//! A connection is FIFO and never duplicates; when it breaks, the closing side loses what it had not read, and the far
//! side reads what was sent before it learns of the end. Time is abstracted: a timer fires when nothing is under way
//! and no other timer is certain to be due before it. A heartbeat fires under the same condition, and only where it
//! changes anything; leases and promises run only while some member does not follow a leader it has promised a lease
//! to: so the model comes to rest. Every other event costs a [`Budget`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::{self, Debug};
use std::hash::Hash;
use std::sync::Arc;

use algorithms::catalog::{Elects, Row};
use algorithms::drive::Driver;
use algorithms::{Epoch, Input, NodeId, Span, Uid, View};
use member::{Command, Context, Event, FullPos, NodeSet, Role, Settings, Standing, Timing};
use stateright::{Model, Property};

use crate::extent::Extent;
use crate::mistake::Mistake;
use crate::time::dice;
pub use subject::{Class, Referee, Subject};

mod node;
pub mod properties;
mod state;
mod steps;
mod subject;
pub mod walk;

/// How often each kind of event may happen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Budget {
    /// Crashes between any two effects.
    pub crashes: u8,
    /// Restarts with the record that was on the disk.
    pub restarts: u8,
    /// Suspicions of a peer that lives and is connected.
    pub suspicions: u8,
    /// Timers that fire although it is not their turn.
    pub early: u8,
    /// Requests of the operator for an election.
    pub elects: u8,
    /// Heartbeats while something is under way.
    pub beats: u8,
    /// Writes that stay in flight while other things happen.
    pub slow_writes: u8,
    /// A leader is told to step down.
    pub step_downs: u8,
    /// A leader is told to hand over.
    pub transfers: u8,
    /// A child attaches to a leader.
    pub children: u8,
    /// What every machine does wrong, from its first step on.
    pub mistake: Mistake,
    /// An operator gives a member the best priority of all.
    pub priorities: u8,
}

impl Budget {
    pub const NOTHING: Budget = Budget {
        crashes: 0,
        restarts: 0,
        suspicions: 0,
        early: 0,
        elects: 0,
        beats: 0,
        slow_writes: 0,
        step_downs: 0,
        transfers: 0,
        children: 0,
        mistake: Mistake::NONE,
        priorities: 0,
    };
}

/// What it allows, for the label of a case.
impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.crashes, "crashes"),
            (self.restarts, "restarts"),
            (self.suspicions, "false suspicions"),
            (self.early, "early timers"),
            (self.elects, "elects"),
            (self.beats, "early beats"),
            (self.slow_writes, "slow writes"),
            (self.step_downs, "step-downs"),
            (self.transfers, "transfers"),
            (self.children, "children"),
            (self.priorities, "changed priorities"),
        ];
        all.iter().filter(|(times, _)| *times > 0).try_for_each(|(times, what)| write!(f, ", {times} {what}"))
    }
}

#[derive(Clone, Debug)]
pub struct Members<P: Subject> {
    view: View,
    settings: Settings,
    elects: Elects,
    budget: Budget,
    /// Check this property alone.
    only: Option<&'static str>,
    initial: State<P>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State<P: Subject> {
    nodes: Vec<Arc<Node<P>>>,
    /// What each member has yet to read, by (receiver, sender); empty queues are not kept.
    wires: BTreeMap<(usize, usize), VecDeque<Item<P::Message>>>,
    /// Pairs with a connection, the smaller position first.
    connected: BTreeSet<(usize, usize)>,
    left: Budget,
    /// A member crashed between two effects of one step.
    torn: bool,
    /// Every (epoch, leader) that a leader has announced.
    announced_leaders: BTreeSet<(Epoch, NodeId)>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Node<P: Subject> {
    /// `None`: crashed.
    driver: Option<Driver<P, Span>>,
    disk: Option<P::Durable>,
    /// The record that the driver waits for, while its write is slow.
    in_flight: Option<SlowWrite<P::Durable>>,
    /// Background writes not yet on the disk.
    writes: VecDeque<Background<P::Durable>>,
    /// Peers for which this process was told of a failed dial.
    unreachable: NodeSet,
    standing: Option<Standing>,
    /// The lease that was announced last.
    lease: Option<Lease<P::Timer>>,
    /// How long the lease of a crashed process would still run.
    past_lease: Option<Span>,
    child: Child,
    /// Losses of leadership that the machine knows of and that are not announced yet: did the lease end?
    losses: VecDeque<bool>,
    /// Has announced a handover, and has not sent the message yet.
    owes_handover: bool,
    /// The largest epoch announced by earlier processes.
    past: Option<Epoch>,
    broken: Broken,
}

/// What a member must not do, and did.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own")]
struct Broken {
    /// Announced a smaller epoch than before.
    went_back: bool,
    /// Announced itself leader of an epoch of an earlier process.
    repeated: bool,
    /// Announced a loss with a cause that does not fit.
    wrong_cause: bool,
    /// Gave leadership away while a child acted on it.
    left_child: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct SlowWrite<D> {
    record: D,
    /// Timers that may fire before it completes.
    patience: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Background<D> {
    record: D,
    /// A later record is on the disk already.
    superseded: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Lease<T> {
    timer: T,
    left: Span,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Child {
    None,
    /// Waits until a majority knows of it.
    Waits,
    Acts,
    /// Was told to stop.
    Stops,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Item<M> {
    Up,
    Frame(M),
    Down,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Action<T> {
    Step {
        node: usize,
        cause: Cause<T>,
        face: usize,
        extent: Extent,
    },
    Connect(usize, usize),
    /// `written`: the write in flight, if there is one, reached the disk.
    Crash {
        node: usize,
        written: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cause<T> {
    /// Reads the next item from this peer.
    Reads(usize),
    Fires(T),
    /// Out of turn.
    FiresEarly(T),
    /// A dial of this dead peer failed.
    NotReached(usize),
    /// A background write is on the disk.
    Stored,
    /// The write in flight is on the disk.
    Written,
    Elect,
    StepDown,
    Transfer(usize),
    ChildAttaches,
    ChildEnds,
    /// An operator gives this member this priority.
    Priority(u32),
    Restart,
}

impl<P: Subject> Members<P> {
    /// All members have just started and none is connected.
    pub fn cold(row: &'static Row, n: usize, budget: Budget) -> Self {
        let uids = (1..=n as u32).map(Uid::plain).collect();
        let view = View::of(row.topology, uids, &crate::bare::links_with_cut(n));
        // Every heartbeat of a leader asks for an answer: otherwise members would differ by which one asked last, and never
        // come to rest.
        let timing = Timing::default();
        let timing = Timing { suspect_after: timing.heartbeat * 4, ..timing };
        let settings = Settings { election: algorithms::Settings::of(row), timing, ..Settings::default() };
        let initial = State::blank(n);
        let mut model = Members { view, settings, elects: row.elects, budget, only: None, initial };
        let mut state = model.initial.clone();
        for node in 0..n {
            model.run(&mut state, node, Cause::Restart, 0);
            model.carry_out(&mut state, node, Extent::Whole);
        }
        state.left = budget;
        model.initial = state;
        model
    }

    /// The first election is over: the model begins at rest.
    pub fn settled(row: &'static Row, n: usize, budget: Budget) -> Self {
        const MANY: usize = 10_000;
        let different = |action| match action {
            // Members that draw the same number would never differ.
            Action::Step { node, cause, extent, .. } => Action::Step { node, cause, face: node, extent },
            other => other,
        };
        let model = Self::cold(row, n, Budget { mistake: budget.mistake, ..Budget::NOTHING });
        let mut state = model.initial.clone();
        for step in 0.. {
            assert!(step < MANY, "the first election never comes to rest");
            let Some(action) = model.progress(&state).into_iter().next() else { break };
            state = model.perform(&state, different(action));
        }
        state.left = budget;
        state.announced_leaders.clear();
        Members { budget, initial: state, ..model }
    }

    fn faces(&self) -> usize {
        if self.elects == Elects::Anyone { self.view.len() } else { 1 }
    }

    fn ctx(&self, node: usize, face: usize) -> Context<'_> {
        let dice = self.budget.mistake.join(dice(face % self.faces(), self.faces()));
        Context { me: self.view.members()[node], view: &self.view, settings: &self.settings, dice }
    }

    /// Checks this property only.
    #[must_use]
    pub fn only(mut self, property: &'static str) -> Self {
        self.only = Some(property);
        self
    }

    fn id(&self, node: usize) -> NodeId {
        self.view.members()[node].id
    }
}

impl<P: Subject> Model for Members<P> {
    type State = State<P>;
    type Action = Action<P::Timer>;

    fn init_states(&self) -> Vec<State<P>> {
        vec![self.initial.clone()]
    }

    fn actions(&self, state: &State<P>, actions: &mut Vec<Self::Action>) {
        let mut steps = self.progress(state);
        steps.extend(self.faults(state, &steps));
        for step in steps {
            let Action::Step { node, cause, .. } = step else {
                actions.push(step);
                continue;
            };
            for face in 0..self.faces() {
                let extents = self.extents(state, node, cause, face).into_iter();
                actions.extend(extents.map(|extent| Action::Step { node, cause, face, extent }));
            }
        }
    }

    fn next_state(&self, state: &State<P>, action: Self::Action) -> Option<State<P>> {
        Some(self.perform(state, action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(self).only(self.only)
    }
}

fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}
