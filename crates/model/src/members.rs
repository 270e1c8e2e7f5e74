//! Whole members: a failure detector, rounds and claims around an election, with connections that break.
//!
//! A connection is FIFO and never duplicates; when it breaks, what its closing side had not read is lost and the far
//! side reads what was sent before it learns of the end. Time is abstracted: a timer fires when nothing is under way and
//! no other is sure to be due before it. A heartbeat fires in the same quiet, and only where it changes anything, so
//! that the model comes to rest. What does not follow from that costs a [`Budget`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use algorithms::catalog::{Elects, Row};
use algorithms::{Ctx, Election, Epoch, Input, Life, NodeId, Protocol, Settings, Span, Topology, Uid, View};
use member::{Command, Event, Member, NodeSet, Record, Standing, Timer};
use stateright::{Model, Property};

use crate::effects::dice;

pub mod properties;
mod steps;
pub mod walk;

/// What the model must know of a member besides its being a machine; a planted bug wraps a [`Member`] and passes it on.
pub trait Subject: Protocol<Link = NodeId, Command = Command, Event = Event, Durable = Record> {
    fn links(&self, view: &View) -> NodeSet;
    fn class(timer: Self::Timer) -> Class;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    Beat,
    /// The detector's timer of this peer.
    Silence(NodeId),
    /// Of an algorithm that is never done: it goes on checking for ever. Looked at while the members disagree.
    Upkeep,
    Other,
}

impl<E: Election> Subject for Member<E> {
    fn links(&self, view: &View) -> NodeSet {
        Member::links(self, view)
    }

    fn class(timer: Timer<E::Timer>) -> Class {
        match timer {
            Timer::Beat => Class::Beat,
            Timer::Silence(peer) => Class::Silence(peer),
            Timer::Inner(_) if E::LIFE == Life::Continuous => Class::Upkeep,
            _ => Class::Other,
        }
    }
}

/// How often what may happen at all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Budget {
    /// Between any two effects.
    pub crashes: u8,
    /// With the record that was on the disk.
    pub restarts: u8,
    /// Of a peer that lives and is connected.
    pub suspicions: u8,
    /// Timers that fire although it is not their turn.
    pub early: u8,
    /// The operator's wish for an election.
    pub elects: u8,
    /// Heartbeats while something is under way.
    pub beats: u8,
}

#[derive(Clone, Debug)]
pub struct Members<P: Subject> {
    view: View,
    settings: Settings,
    elects: Elects,
    budget: Budget,
    initial: State<P>,
    subject: PhantomData<fn() -> P>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State<P: Subject> {
    nodes: Vec<Arc<Node<P>>>,
    /// What each member has yet to read, by (receiver, sender); empty queues are not kept.
    wires: BTreeMap<(usize, usize), VecDeque<Item<P::Message>>>,
    /// Pairs with a connection, the smaller position first.
    connected: BTreeSet<(usize, usize)>,
    left: Budget,
    /// Somebody crashed between two effects of one step.
    torn: bool,
    /// Every (epoch, leader) that a leader has announced.
    crowned: BTreeSet<(Epoch, NodeId)>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Node<P: Subject> {
    /// `None`: crashed.
    member: Option<P>,
    disk: Option<Record>,
    timers: BTreeMap<P::Timer, Span>,
    /// Background writes not yet on the disk.
    writes: VecDeque<Record>,
    /// Peers whose failed dial this life was told of.
    unreachable: NodeSet,
    standing: Option<Standing>,
    /// The largest epoch announced in earlier lives.
    past: Option<Epoch>,
    /// Announced a smaller epoch than before.
    went_back: bool,
    /// Announced itself leader of an epoch of an earlier life.
    repeated: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Item<M> {
    Up,
    Frame(M),
    Down,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Action<T> {
    /// `torn`: the member crashes after that many effects.
    Step {
        node: usize,
        cause: Cause<T>,
        face: usize,
        torn: Option<usize>,
    },
    Connect(usize, usize),
    Crash(usize),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cause<T> {
    /// Reads what comes next from this peer.
    Reads(usize),
    Fires(T),
    /// Out of turn.
    FiresEarly(T),
    /// A dial of this dead peer failed.
    NotReached(usize),
    /// A background write is on the disk.
    Written,
    Elect,
    Restart,
}

impl<P: Subject> Members<P> {
    /// All members have just started and nobody is connected.
    pub fn cold(row: &'static Row, n: usize, budget: Budget) -> Self {
        let uids = (1..=n as u32).map(Uid::plain).collect();
        let view = match row.topology {
            Topology::Mesh => View::mesh(uids),
            Topology::Ring => View::ring(uids),
            Topology::Graph => View::graph(uids, &crate::bare::circle(n)),
        };
        let mut settings = Settings { wins: row.wins, ..Settings::default() };
        settings.timing.coordinator_timeout = settings.timing.answer_timeout * row.coordinator_factor;
        let initial = State::blank(n);
        let mut model = Members { view, settings, elects: row.elects, budget, initial, subject: PhantomData };
        let mut state = model.initial.clone();
        for node in 0..n {
            let effects = model.run(&mut state, node, Cause::Restart, 0);
            model.carry_out(&mut state, node, effects.0);
        }
        state.left = budget;
        model.initial = state;
        model
    }

    /// The first election is over: the model begins where all is at rest.
    pub fn settled(row: &'static Row, n: usize, budget: Budget) -> Self {
        const MANY: usize = 10_000;
        let different = |action| match action {
            // Members that draw alike would never be told apart.
            Action::Step { node, cause, torn, .. } => Action::Step { node, cause, face: node, torn },
            other => other,
        };
        let model = Self::cold(row, n, Budget::default());
        let mut state = model.initial.clone();
        for step in 0.. {
            assert!(step < MANY, "the first election never comes to rest");
            let Some(action) = model.progress(&state).into_iter().next() else { break };
            state = model.perform(&state, different(action));
        }
        state.left = budget;
        state.crowned.clear();
        Members { budget, initial: state, ..model }
    }

    fn faces(&self) -> usize {
        if self.elects == Elects::Anyone { self.view.len() } else { 1 }
    }

    fn ctx(&self, node: usize, face: usize) -> Ctx<'_> {
        let dice = dice(face % self.faces(), self.faces());
        Ctx { me: self.view.members()[node], view: &self.view, settings: &self.settings, dice }
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
                actions.push(Action::Step { node, cause, face, torn: None });
                if state.left.crashes > 0 {
                    let effects = self.run(&mut state.clone(), node, cause, face).0.len();
                    actions.extend((1..effects).map(|k| Action::Step { node, cause, face, torn: Some(k) }));
                }
            }
        }
    }

    fn next_state(&self, state: &State<P>, action: Self::Action) -> Option<State<P>> {
        Some(self.perform(state, action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(self)
    }
}

fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}
