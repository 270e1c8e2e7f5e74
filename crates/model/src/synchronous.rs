//! Algorithms of synchronous rounds: a message sent in one round is read in the next. Only the round in which each node
//! wakes is open.

use std::marker::PhantomData;

use algorithms::catalog::{Elects, Row};
use algorithms::{Ctx, Next, Outcome, Rounds, Settings, Uid, View};
use stateright::{Model, Property};

use crate::bare::properties::{AGREEMENT, ALL_DECIDE, BEST_WINS, ONCE, ONE_WINNER};
use crate::bare::rings;
use crate::properties::Properties;

const CANDIDATE_WINS: &str = "only a node that started wins";

#[derive(Clone, Debug)]
pub struct Synchronous<R> {
    /// All cyclic orders.
    views: Vec<View>,
    settings: Settings,
    elects: Elects,
    /// No node wakes after this round, so that the model ends.
    latest: u64,
    machine: PhantomData<fn() -> R>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State<R: Rounds> {
    view: usize,
    round: u64,
    nodes: Vec<Node<R>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Node<R: Rounds> {
    machine: R,
    inbox: Vec<R::Message>,
    asleep: bool,
    quiet_until: u64,
    outcome: Option<Outcome>,
    decided_twice: bool,
}

/// One round, in which exactly these nodes wake.
#[derive(Clone, PartialEq, Debug)]
pub struct Wakes(Vec<usize>);

impl<R: Rounds> Synchronous<R> {
    pub fn new(row: &'static Row, n: usize, latest: u64) -> Self {
        let settings = Settings { wins: row.wins, ..Settings::default() };
        Synchronous { views: rings(n), settings, elects: row.elects, latest, machine: PhantomData }
    }

    fn ctx(&self, view: usize, node: usize) -> Ctx<'_> {
        let view = &self.views[view];
        Ctx { me: view.members()[node], view, settings: &self.settings, dice: 0 }
    }

    fn uid(&self, state: &State<R>, at: usize) -> Uid {
        self.views[state.view].members()[at]
    }

    fn agree(&self, state: &State<R>) -> bool {
        let mut leaders = state.nodes.iter().enumerate().filter_map(|(at, node)| match node.outcome {
            Some(Outcome::Won) => Some(self.uid(state, at)),
            Some(Outcome::Follow(leader)) => leader,
            _ => None,
        });
        let first = leaders.next();
        leaders.all(|leader| Some(leader) == first)
    }
}

impl<R: Rounds> State<R> {
    /// Nothing is under way, and no node acts unless another node wakes.
    fn over(&self) -> bool {
        self.round > 0 && self.nodes.iter().all(|node| node.inbox.is_empty() && node.quiet_until == u64::MAX)
    }

    fn winners(&self) -> impl Iterator<Item = usize> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter(|(_, node)| node.outcome == Some(Outcome::Won)).map(|(at, _)| at)
    }
}

impl<R: Rounds> Model for Synchronous<R> {
    type State = State<R>;
    type Action = Wakes;

    fn init_states(&self) -> Vec<State<R>> {
        let start = |view: usize| {
            let node = |at: usize| Node {
                machine: R::new(&self.ctx(view, at)),
                inbox: Vec::new(),
                asleep: true,
                quiet_until: 0,
                outcome: None,
                decided_twice: false,
            };
            State { view, round: 0, nodes: (0..self.views[view].len()).map(node).collect() }
        };
        (0..self.views.len()).map(start).collect()
    }

    fn actions(&self, state: &State<R>, actions: &mut Vec<Wakes>) {
        let may_wake = if state.round <= self.latest { state.nodes.len() } else { 0 };
        let asleep: Vec<usize> = (0..may_wake).filter(|&at| state.nodes[at].asleep).collect();
        for set in 0..1_usize << asleep.len() {
            let wakes: Vec<usize> =
                (0..asleep.len()).filter(|bit| set >> bit & 1 == 1).map(|bit| asleep[bit]).collect();
            // The first node to wake begins round 0.
            let pointless = wakes.is_empty() && (state.round == 0 || (asleep.is_empty() && state.over()));
            if !pointless {
                actions.push(Wakes(wakes));
            }
        }
    }

    fn next_state(&self, state: &State<R>, Wakes(wakes): Wakes) -> Option<State<R>> {
        let mut next = state.clone();
        let silent = state.nodes.iter().all(|node| node.inbox.is_empty());
        if silent && state.round > self.latest {
            next.round = state.nodes.iter().map(|node| node.quiet_until).min().unwrap_or(0).max(state.round);
        }
        let mut sent = vec![Vec::new(); next.nodes.len()];
        for (at, node) in next.nodes.iter_mut().enumerate() {
            let awake = wakes.contains(&at);
            node.asleep &= !awake;
            let inbox = std::mem::take(&mut node.inbox);
            let clockwise = self.views[state.view].clockwise(at);
            let ctx = self.ctx(state.view, at);
            let said = node.machine.round(&ctx, next.round, awake, &inbox, &mut sent[clockwise]);
            node.quiet_until = match said {
                Next::Quiet { until } => until,
                Next::Go | Next::Decided(_) => next.round + 1,
            };
            if let Next::Decided(outcome) = said {
                node.decided_twice |= node.outcome.is_some();
                node.outcome = Some(outcome);
            }
        }
        for (node, messages) in next.nodes.iter_mut().zip(sent) {
            node.inbox = messages;
        }
        next.round += 1;
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = Properties::of(self);
        all.always(ONE_WINNER, |_, state| state.winners().count() <= 1);
        all.always(AGREEMENT, Self::agree);
        all.always(ONCE, |_, state| state.nodes.iter().all(|node| !node.decided_twice));
        all.always(ALL_DECIDE, |_, state| !state.over() || state.nodes.iter().all(|node| node.outcome.is_some()));
        all.sometimes("a node wins", |_, state| state.winners().count() > 0);
        all.sometimes("one initiator suffices", |_, state| {
            state.over() && state.nodes.iter().filter(|node| !node.asleep).count() == 1
        });
        all.sometimes("all start", |_, state| state.over() && state.nodes.iter().all(|node| !node.asleep));
        match self.elects {
            Elects::BestCandidate => {
                all.always(CANDIDATE_WINS, |_, state| state.winners().all(|at| !state.nodes[at].asleep));
            }
            _ => all.always(BEST_WINS, |model, state| {
                let best = model.settings.wins.best(model.views[state.view].members().iter().copied());
                state.winners().all(|at| Some(model.uid(state, at)) == best)
            }),
        }
        all.0
    }
}
