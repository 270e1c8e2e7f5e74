//! Election machines of the catalog on reliable FIFO links, in every interleaving.
//!
//! Any member may start an election, at any moment or never: so one search covers all sets of initiators and all late
//! starts. When no further event is possible without another start, the election must be over.
//!
//! A crashed node may restart with the record on its disk, as often as the model allows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use algorithms::catalog::{Elects, Row};
use algorithms::drive::{Driver, Effect};
use algorithms::{
    Campaign, Ctx, Election, Epoch, Input, Link, NodeId, Outcome, Protocol, Settings, Span, Status, Topology, Uid,
    View, Wins,
};
use stateright::{Model, Property};

use crate::extent::{Extent, rehearse};
use crate::mistake::Mistake;
use crate::time::dice;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timers {
    /// A timer may fire this many times although messages are under way or another timer is due before it: there is no
    /// bound on delays.
    Anytime(u8),
    /// Only when no message is under way, the shortest first: delays are small compared with all timeouts.
    WhenQuiet,
}

#[derive(Clone, Debug)]
pub struct Bare<E> {
    /// All cyclic orders of a ring; the one order of a mesh.
    views: Vec<View>,
    settings: Settings,
    elects: Elects,
    needs_all: bool,
    pub timers: Timers,
    /// How many nodes may start an election: all, unless that gives too many states.
    pub max_starts: usize,
    /// How many nodes may crash, between any two effects.
    pub crashes: u8,
    /// How many crashed nodes restart, with the record on their disk.
    pub restarts: u8,
    /// Where chance decides, an election may take for ever: it is followed up to this many messages.
    pub max_sent: u16,
    /// Where decisions have terms, an election may take any number of them: it is followed up to this one.
    pub max_term: u64,
    /// What every machine does wrong.
    pub mistake: Mistake,
    machine: PhantomData<fn() -> E>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State<E: Election> {
    view: usize,
    nodes: Vec<Arc<Node<E>>>,
    /// Messages under way by receiver and its name of the link; empty queues are not kept.
    links: BTreeMap<(usize, E::Link), VecDeque<E::Message>>,
    crashes_left: u8,
    restarts_left: u8,
    /// Timers that may still fire out of turn.
    early_left: u8,
    /// A node crashed between two effects of one step.
    torn: bool,
    /// Counted only where chance decides.
    sent: u16,
    /// Every (term, winner) announced, where decisions have terms.
    winners_of_terms: BTreeSet<(Epoch, usize)>,
    /// Every vote that was sent: (voter, term, candidate).
    votes: BTreeSet<(usize, Epoch, NodeId)>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Node<E: Election> {
    /// `None`: crashed.
    driver: Option<Driver<E, Span>>,
    disk: Option<E::Durable>,
    /// Background writes not yet on the disk.
    writes: VecDeque<E::Durable>,
    /// Has not started an election itself.
    asleep: bool,
    outcome: Option<Outcome>,
    ever_won: bool,
    /// At most two are counted.
    decisions: u8,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Action<L, T> {
    Step { node: usize, cause: Cause<L, T>, face: usize, extent: Extent },
    Crash(usize),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cause<L, T> {
    Starts,
    Receives(L),
    Fires(T),
    FiresEarly(T),
    /// A background write is on the disk.
    Stored,
    Restarts,
}

type Step<E> = (usize, Cause<<E as Protocol>::Link, <E as Protocol>::Timer>);

/// A path; from four nodes on with a triangle at its beginning. The death of the last node but one divides it.
pub(crate) fn links_with_cut(n: usize) -> Vec<(usize, usize)> {
    let path = (1..n).map(|at| (at - 1, at));
    path.chain((n > 3).then_some((0, 2))).collect()
}

/// Every set of links that connects the members 1 to n.
pub fn connected_graphs(n: usize) -> Vec<View> {
    let pairs: Vec<(usize, usize)> = (0..n).flat_map(|b| (0..b).map(move |a| (a, b))).collect();
    let chosen = |set: usize| pairs.iter().enumerate().filter(move |(at, _)| set >> at & 1 == 1).map(|(_, &pair)| pair);
    let uids = || (1..=n as u32).map(Uid::plain).collect();
    let graphs = (0..1_usize << pairs.len()).map(|set| View::graph(uids(), &chosen(set).collect::<Vec<_>>()));
    graphs.filter(|view| view.distances(0, |_| true).iter().all(Option::is_some)).collect()
}

impl<E: Election> Bare<E> {
    pub fn new(row: &'static Row, n: usize, wins: Wins) -> Self {
        let settings = Settings { wins, ..Settings::of(row) };
        let views = match row.topology {
            Topology::Ring => rings(n),
            Topology::Mesh => vec![View::mesh((1..=n as u32).map(Uid::plain).collect())],
            Topology::Graph => connected_graphs(n),
        };
        Bare {
            views,
            settings,
            elects: row.elects,
            needs_all: row.needs_all,
            timers: Timers::WhenQuiet,
            max_starts: n,
            crashes: 0,
            restarts: 0,
            max_sent: 12 * n as u16,
            max_term: u64::MAX,
            mistake: Mistake::NONE,
            machine: PhantomData,
        }
    }

    fn faces(&self) -> usize {
        if self.elects == Elects::Anyone { self.views[0].len() } else { 1 }
    }

    /// In most meshes timers detect crashes; a ring waits for ever, safely.
    fn detects_crashes(&self) -> bool {
        self.views[0].topology() == Topology::Mesh && !self.needs_all
    }

    fn start(&self, view: usize) -> State<E> {
        let blank = Node {
            driver: None,
            disk: None,
            writes: VecDeque::new(),
            asleep: true,
            outcome: None,
            ever_won: false,
            decisions: 0,
        };
        let mut state = State {
            view,
            nodes: (0..self.views[view].len()).map(|_| Arc::new(blank.clone())).collect(),
            links: BTreeMap::new(),
            crashes_left: self.crashes,
            restarts_left: 0,
            early_left: if let Timers::Anytime(times) = self.timers { times } else { 0 },
            torn: false,
            sent: 0,
            winners_of_terms: BTreeSet::new(),
            votes: BTreeSet::new(),
        };
        for node in 0..state.nodes.len() {
            self.run(&mut state, node, Cause::Restarts, 0);
            self.carry_out(&mut state, node, Extent::Whole);
        }
        state.restarts_left = self.restarts;
        state
    }

    fn ctx(&self, view: usize, node: usize, face: usize) -> Ctx<'_> {
        let view = &self.views[view];
        let dice = self.mistake.join(dice(face, self.faces()));
        Ctx { me: view.members()[node], view, settings: &self.settings, dice }
    }

    /// Feeds the machine; its effects are not yet carried out.
    fn run(&self, state: &mut State<E>, node: usize, cause: Cause<E::Link, E::Timer>, face: usize) {
        let ctx = self.ctx(state.view, node, face);
        if let Cause::Fires(timer) = cause {
            state.pass(state.nodes[node].timer(timer).map_or(Duration::ZERO, |span| span.min));
        }
        let received = if let Cause::Receives(link) = cause { Some((link, state.take(node, link))) } else { None };
        state.early_left -= u8::from(matches!(cause, Cause::FiresEarly(_)));
        let at = Arc::make_mut(&mut state.nodes[node]);
        if cause == Cause::Restarts {
            state.restarts_left = state.restarts_left.saturating_sub(1);
            at.driver = Some(Driver::start(&ctx, at.disk.clone()));
            (at.asleep, at.outcome) = (true, None);
            return;
        }
        let driver = at.driver.as_mut().expect("only the living take steps");
        match cause {
            Cause::Starts => {
                at.asleep = false;
                driver.step(&ctx, Input::Command(Campaign));
            }
            Cause::Receives(_) => {
                let (from, message) = received.expect("a message was taken");
                driver.step(&ctx, Input::Message { from, message });
            }
            Cause::Fires(timer) | Cause::FiresEarly(timer) => driver.fire(&ctx, timer),
            Cause::Stored => {
                let record = at.writes.pop_front().expect("a write is under way");
                at.disk = Some(record.clone());
                driver.step(&ctx, Input::Stored(record));
            }
            Cause::Restarts => unreachable!("a start is no input"),
        }
    }

    /// The number of effects of this step.
    fn effects(&self, state: &State<E>, node: usize, cause: Cause<E::Link, E::Timer>, face: usize) -> usize {
        let mut next = state.clone();
        self.run(&mut next, node, cause, face);
        let driver = Arc::make_mut(&mut next.nodes[node]).driver.as_mut();
        driver.map_or(0, |driver| rehearse(driver, |_, span| span).len())
    }

    fn carry_out(&self, state: &mut State<E>, node: usize, extent: Extent) {
        let view = &self.views[state.view];
        let mut done = 0;
        while extent.limit() != Some(done) {
            let at = Arc::make_mut(&mut state.nodes[node]);
            let Some(driver) = &mut at.driver else { break };
            let Some(effect) = driver.next_effect(|_, span| span) else { break };
            done += 1;
            match effect {
                Effect::Send { to, message, .. } => {
                    state.sent += u16::from(self.elects == Elects::Anyone);
                    let vote = E::vote(view.members()[node].id, to, &message);
                    state.votes.extend(vote.map(|(term, candidate)| (node, term, candidate)));
                    let end = to.far_end(node, view);
                    if let Some((to, link)) = end.filter(|&(to, _)| state.nodes[to].driver.is_some()) {
                        state.links.entry((to, link)).or_default().push_back(message);
                    }
                }
                Effect::Persist(record) => {
                    at.disk = Some(record);
                    driver.written();
                }
                Effect::Store(record) => at.writes.push_back(record),
                Effect::Announce(outcome) => {
                    if let (Outcome::Won, Some(term)) = (outcome, driver.machine().term()) {
                        state.winners_of_terms.insert((term, node));
                    }
                    at.announce(outcome);
                }
                Effect::SetTimer(..) | Effect::CancelTimer(_) => {}
            }
        }
    }
}

impl<E: Election> Model for Bare<E> {
    type State = State<E>;
    type Action = Action<E::Link, E::Timer>;

    fn init_states(&self) -> Vec<State<E>> {
        (0..self.views.len()).map(|view| self.start(view)).collect()
    }

    fn actions(&self, state: &State<E>, actions: &mut Vec<Self::Action>) {
        let may_start = state.starts() < self.max_starts;
        let starts = state.living().filter(|(_, node)| may_start && node.asleep).map(|(at, _)| (at, Cause::Starts));
        let restarts = (0..state.nodes.len()).filter(|&at| state.restarts_left > 0 && state.nodes[at].driver.is_none());
        let restarts = restarts.map(|at| (at, Cause::Restarts));
        for (node, cause) in state.progress().into_iter().chain(state.early()).chain(starts).chain(restarts) {
            for face in 0..self.faces() {
                actions.push(Action::Step { node, cause, face, extent: Extent::Whole });
                if state.crashes_left > 0 {
                    let effects = self.effects(state, node, cause, face);
                    let extents = (1..effects).map(Extent::Crash);
                    actions.extend(extents.map(|extent| Action::Step { node, cause, face, extent }));
                }
            }
        }
        if state.crashes_left > 0 {
            actions.extend(state.living().map(|(at, _)| Action::Crash(at)));
        }
    }

    fn next_state(&self, state: &State<E>, action: Self::Action) -> Option<State<E>> {
        let mut next = state.clone();
        match action {
            Action::Crash(node) => next.crash(node),
            Action::Step { node, cause, face, extent } => {
                self.run(&mut next, node, cause, face);
                self.carry_out(&mut next, node, extent);
                if let Extent::Crash(_) = extent {
                    next.torn = true;
                    next.crash(node);
                }
            }
        }
        Some(next)
    }

    fn within_boundary(&self, state: &State<E>) -> bool {
        let within = |node: &Node<E>| {
            let term = node.driver.as_ref().and_then(|driver| driver.machine().term());
            term.is_none_or(|term| term.0 <= self.max_term)
        };
        state.sent <= self.max_sent && state.nodes.iter().all(|node| within(node))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(self).0
    }
}

/// All cyclic orders: the first member keeps its place.
pub(crate) fn rings(n: usize) -> Vec<View> {
    let mut orders = vec![vec![1]];
    for next in 2..=n as u32 {
        let places = |order: Vec<u32>| {
            (1..=order.len()).map(move |place| {
                let mut longer = order.clone();
                longer.insert(place, next);
                longer
            })
        };
        orders = orders.into_iter().flat_map(places).collect();
    }
    orders.into_iter().map(|order| View::ring(order.into_iter().map(Uid::plain).collect())).collect()
}

pub mod properties;
mod state;
