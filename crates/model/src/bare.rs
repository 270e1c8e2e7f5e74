//! Election machines of the catalog on reliable FIFO links, in every interleaving.
//!
//! Any member may start by its own will, at any moment or never: so one search covers all sets of initiators and all
//! late starts. Whenever nothing is left to happen without another start, the election must be over.

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use algorithms::catalog::{Elects, Row};
use algorithms::{
    Campaign, Ctx, Election, Input, Life, Link, Outcome, Protocol, Settings, Span, Status, Topology, Uid, View, Wins,
};
use stateright::{Model, Property};

use crate::effects::{Effect, Effects, after, dice, earliest};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timers {
    /// So many times a timer fires although messages are under way or another is due before it: no bound on delays
    /// holds.
    Anytime(u8),
    /// Only when no message is under way, the shortest first: delays are small against all timeouts.
    WhenQuiet,
}

#[derive(Clone, Debug)]
pub struct Bare<E> {
    /// All cyclic orders of a ring; the one order of a mesh.
    views: Vec<View>,
    settings: Settings,
    elects: Elects,
    pub timers: Timers,
    /// How many nodes may start by their own will: all, unless that is too much to look at.
    pub max_starts: usize,
    /// How many nodes may crash, between any two effects.
    pub crashes: u8,
    /// Where chance decides an election may take for ever: it is followed up to this many messages.
    pub max_sent: u16,
    machine: PhantomData<fn() -> E>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State<E: Election> {
    view: usize,
    nodes: Vec<Arc<Node<E>>>,
    /// Messages under way by receiver and its name of the link; empty queues are not kept.
    links: BTreeMap<(usize, E::Link), VecDeque<E::Message>>,
    crashes_left: u8,
    /// Timers that may still fire out of turn.
    early_left: u8,
    /// Somebody crashed between two effects of one step.
    torn: bool,
    /// Counted only where chance decides.
    sent: u16,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Node<E: Election> {
    machine: E,
    alive: bool,
    /// Has not started by its own will.
    asleep: bool,
    timers: BTreeMap<E::Timer, Span>,
    outcome: Option<Outcome>,
    ever_won: bool,
    /// At most two are counted.
    decisions: u8,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Action<L, T> {
    /// `torn`: the node crashes after that many effects.
    Step {
        node: usize,
        cause: Cause<L, T>,
        face: usize,
        torn: Option<usize>,
    },
    Crash(usize),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cause<L, T> {
    Starts,
    Receives(L),
    Fires(T),
    FiresEarly(T),
}

type Step<E> = (usize, Cause<<E as Protocol>::Link, <E as Protocol>::Timer>);

/// The sparsest graph in which no single link matters.
pub(crate) fn circle(n: usize) -> Vec<(usize, usize)> {
    (0..n).map(|at| (at, (at + 1) % n)).filter(|(a, b)| a != b).collect()
}

impl<E: Election> Bare<E> {
    pub fn new(row: &'static Row, n: usize, wins: Wins) -> Self {
        let mut settings = Settings { wins, ..Settings::default() };
        settings.timing.coordinator_timeout = settings.timing.answer_timeout * row.coordinator_factor;
        let views = match row.topology {
            Topology::Ring => rings(n),
            Topology::Mesh => vec![View::mesh((1..=n as u32).map(Uid::plain).collect())],
            Topology::Graph => vec![View::graph((1..=n as u32).map(Uid::plain).collect(), &circle(n))],
        };
        Bare {
            views,
            settings,
            elects: row.elects,
            timers: Timers::WhenQuiet,
            max_starts: n,
            crashes: 0,
            max_sent: 12 * n as u16,
            machine: PhantomData,
        }
    }

    fn faces(&self) -> usize {
        if self.elects == Elects::Anyone { self.views[0].len() } else { 1 }
    }

    /// Crashes are detected by timers in a mesh; a ring waits for ever, safely.
    fn detects_crashes(&self) -> bool {
        self.views[0].topology() == Topology::Mesh
    }

    fn start(&self, view: usize) -> State<E> {
        let nodes = (0..self.views[view].len()).map(|node| {
            let machine = E::start(&self.ctx(view, node, 0), None, &mut Effects(Vec::new()));
            Arc::new(Node {
                machine,
                alive: true,
                asleep: true,
                timers: BTreeMap::new(),
                outcome: None,
                ever_won: false,
                decisions: 0,
            })
        });
        let early_left = if let Timers::Anytime(times) = self.timers { times } else { 0 };
        let nodes = nodes.collect();
        State { view, nodes, links: BTreeMap::new(), crashes_left: self.crashes, early_left, torn: false, sent: 0 }
    }

    fn ctx(&self, view: usize, node: usize, face: usize) -> Ctx<'_> {
        let view = &self.views[view];
        Ctx { me: view.members()[node], view, settings: &self.settings, dice: dice(face, self.faces()) }
    }

    fn run(&self, state: &mut State<E>, node: usize, cause: Cause<E::Link, E::Timer>, face: usize) -> Effects<E> {
        let mut out = Effects(Vec::new());
        let ctx = self.ctx(state.view, node, face);
        let input = match cause {
            Cause::Starts => Input::Command(Campaign),
            Cause::Fires(timer) => {
                let elapsed = state.nodes[node].timers.get(&timer).map_or(Duration::ZERO, |span| span.min);
                state.pass(elapsed);
                Input::Timer(timer)
            }
            Cause::FiresEarly(timer) => {
                state.early_left -= 1;
                Input::Timer(timer)
            }
            Cause::Receives(link) => Input::Message { from: link, message: state.take(node, link) },
        };
        let at = Arc::make_mut(&mut state.nodes[node]);
        match cause {
            Cause::Starts => at.asleep = false,
            Cause::Fires(timer) | Cause::FiresEarly(timer) => drop(at.timers.remove(&timer)),
            Cause::Receives(_) => {}
        }
        at.machine.step(&ctx, input, &mut out);
        out
    }

    fn carry_out(&self, state: &mut State<E>, node: usize, effects: impl IntoIterator<Item = Effect<E>>) {
        let view = &self.views[state.view];
        for effect in effects {
            match effect {
                Effect::Send(link, message) => {
                    state.sent += u16::from(self.elects == Elects::Anyone);
                    let end = link.far_end(node, view);
                    if let Some((to, link)) = end.filter(|&(to, _)| state.nodes[to].alive) {
                        state.links.entry((to, link)).or_default().push_back(message);
                    }
                }
                Effect::SetTimer(timer, span) => {
                    Arc::make_mut(&mut state.nodes[node]).timers.insert(timer, span);
                }
                Effect::CancelTimer(timer) => {
                    Arc::make_mut(&mut state.nodes[node]).timers.remove(&timer);
                }
                Effect::Announce(outcome) => Arc::make_mut(&mut state.nodes[node]).announce(outcome),
                // No election of the catalog keeps a record.
                Effect::Persist(_) | Effect::Store(_) => {}
            }
        }
    }
}

impl<E: Election> State<E> {
    /// What happens without anybody's will.
    fn progress(&self) -> Vec<Step<E>> {
        let steps: Vec<_> = self.links.keys().map(|&(node, link)| (node, Cause::Receives(link))).collect();
        if !steps.is_empty() || self.content() {
            return steps;
        }
        earliest(self.timers().collect()).map(|(at, timer)| (at, Cause::Fires(timer))).collect()
    }

    /// Timers that fire although it is not their turn.
    fn early(&self) -> Vec<Step<E>> {
        if self.early_left == 0 {
            return Vec::new();
        }
        let turn = self.progress();
        let out_of_turn = self.timers().filter(|&((at, timer), _)| !turn.contains(&(at, Cause::Fires(timer))));
        out_of_turn.map(|((at, timer), _)| (at, Cause::FiresEarly(timer))).collect()
    }

    fn take(&mut self, node: usize, link: E::Link) -> E::Message {
        let queue = self.links.get_mut(&(node, link)).expect("only queues with messages are kept");
        let message = queue.pop_front().expect("only queues with messages are kept");
        if queue.is_empty() {
            self.links.remove(&(node, link));
        }
        message
    }

    fn crash(&mut self, node: usize) {
        self.crashes_left -= 1;
        let dead = Arc::make_mut(&mut self.nodes[node]);
        dead.alive = false;
        dead.timers.clear();
        self.links.retain(|&(to, _), _| to != node);
    }

    fn living(&self) -> impl Iterator<Item = (usize, &Node<E>)> {
        self.nodes.iter().map(Arc::as_ref).enumerate().filter(|(_, node)| node.alive)
    }

    /// Everybody who lives has a leader.
    fn content(&self) -> bool {
        self.living().all(|(_, node)| matches!(node.outcome, Some(Outcome::Won | Outcome::Follow(_))))
    }

    fn timers(&self) -> impl Iterator<Item = ((usize, E::Timer), Span)> {
        self.living().flat_map(|(at, node)| node.timers.iter().map(move |(&timer, &span)| ((at, timer), span)))
    }

    fn pass(&mut self, elapsed: Duration) {
        for node in self.nodes.iter_mut().filter(|node| !node.timers.is_empty()) {
            Arc::make_mut(node).timers.values_mut().for_each(|span| *span = after(*span, elapsed));
        }
    }

    fn starts(&self) -> usize {
        self.nodes.iter().filter(|node| !node.asleep).count()
    }

    fn winners(&self) -> usize {
        self.nodes.iter().filter(|node| node.ever_won).count()
    }
}

impl<E: Election> Node<E> {
    fn announce(&mut self, outcome: Outcome) {
        self.decisions = (self.decisions + 1).min(2);
        self.ever_won |= outcome == Outcome::Won;
        self.outcome = Some(outcome);
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
        for (node, cause) in state.progress().into_iter().chain(state.early()).chain(starts) {
            for face in 0..self.faces() {
                actions.push(Action::Step { node, cause, face, torn: None });
                if state.crashes_left > 0 {
                    let effects = self.run(&mut state.clone(), node, cause, face).0.len();
                    actions.extend((1..effects).map(|k| Action::Step { node, cause, face, torn: Some(k) }));
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
            Action::Step { node, cause, face, torn } => {
                let effects = self.run(&mut next, node, cause, face).0;
                let kept = torn.unwrap_or(effects.len());
                self.carry_out(&mut next, node, effects.into_iter().take(kept));
                if torn.is_some() {
                    next.torn = true;
                    next.crash(node);
                }
            }
        }
        Some(next)
    }

    fn within_boundary(&self, state: &State<E>) -> bool {
        state.sent <= self.max_sent
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(self)
    }
}

/// All cyclic orders: the first member stays where it is.
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
