//! Mutual exclusions of the catalog, in every interleaving: members ask when they like, leave when they like, and every
//! message may take any time. No member fails: the papers' machines live in one view.
//!
//! A search that ends proves more than its properties say one by one: no run sends more messages than theory allows, so
//! every run ends, and where it ends no member waits. So every request is served, if messages arrive.

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use algorithms::catalog::mutex::{Links, Row};
use algorithms::drive::{Driver, Effect};
use algorithms::mutex::clock::Stamp;
use algorithms::theory::Range;
use algorithms::{Access, Ctx, Input, Link, Mutex, MutexSettings, Section, Span, Token, Topology, Uid, View, Want};
use stateright::{Model, Property};

use crate::mistake::Mistake;
use crate::properties::Properties;
use crate::queues::take;

#[derive(Clone, Debug)]
pub struct Sections<M> {
    row: &'static Row,
    view: View,
    /// The requests of each position, one after the other.
    requests: Vec<Vec<Access>>,
    /// Which positions may be inside when the view begins: a start for each.
    holders: Vec<Option<usize>>,
    pub links: Links,
    /// What every machine does wrong.
    pub mistake: Mistake,
    machine: PhantomData<fn() -> M>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State<M: Mutex> {
    holder: Option<usize>,
    nodes: Vec<Arc<Node<M>>>,
    /// Messages under way by receiver and its name of the link; empty queues are not kept.
    links: BTreeMap<(usize, M::Link), VecDeque<M::Message>>,
    /// The largest token of a writer, and of any member.
    tokens: (Token, Token),
    /// A member entered with a token that is not above all that it must be above.
    token_went_back: bool,
    /// The latest timestamp with which a writer entered, and any member, where requests have timestamps.
    stamps: (Option<Stamp>, Option<Stamp>),
    /// A member entered before one with an earlier timestamp that it excludes.
    out_of_order: bool,
    sent: u16,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Node<M: Mutex> {
    driver: Driver<M, Span>,
    /// How many requests it has made.
    asked: usize,
    waits: bool,
    inside: Option<Access>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Action<L, T> {
    Asks(usize),
    Exits(usize),
    /// The message at this place of the link arrives.
    Receives(usize, L, usize),
    Fires(usize, T),
}

/// A token that was given before the view began.
const FLOOR: Token = Token(7);

impl<M: Mutex> Sections<M> {
    /// Every member has these requests; a view under no holder.
    pub fn new(row: &'static Row, requests: &[Vec<Access>]) -> Self {
        let members = (1..=requests.len() as u32).map(Uid::plain).collect();
        let view = if row.topology == Topology::Ring { View::ring(members) } else { View::mesh(members) };
        Sections {
            row,
            view,
            requests: requests.to_vec(),
            holders: vec![None],
            links: row.links,
            mistake: Mistake::NONE,
            machine: PhantomData,
        }
    }

    /// The view begins with each of its members inside, one after the other.
    #[must_use]
    pub fn under_every_holder(mut self) -> Self {
        self.holders = (0..self.view.len()).map(Some).collect();
        self
    }

    fn settings(&self, holder: Option<usize>) -> MutexSettings {
        MutexSettings {
            holder: holder.map(|at| self.view.members()[at].id),
            floor: FLOOR,
            clock: 0,
            idle_hold: Duration::from_millis(1),
            machine: None,
        }
    }

    fn start(&self, holder: Option<usize>) -> State<M> {
        let settings = self.settings(holder);
        let dice = self.mistake.join(0);
        let nodes = self.view.members().iter().enumerate().map(|(at, &me)| {
            let driver = Driver::start(&Ctx { me, view: &self.view, settings: &settings, dice }, None);
            Arc::new(Node { driver, asked: 0, waits: false, inside: (holder == Some(at)).then_some(Access::Exclusive) })
        });
        let mut state = State {
            holder,
            nodes: nodes.collect(),
            links: BTreeMap::new(),
            tokens: (FLOOR, FLOOR),
            token_went_back: false,
            stamps: (None, None),
            out_of_order: false,
            sent: 0,
        };
        for node in 0..state.nodes.len() {
            self.carry_out(&mut state, node);
        }
        state
    }

    fn step(&self, state: &mut State<M>, node: usize, input: Input<M>) {
        let settings = self.settings(state.holder);
        let ctx =
            Ctx { me: self.view.members()[node], view: &self.view, settings: &settings, dice: self.mistake.join(0) };
        Arc::make_mut(&mut state.nodes[node]).driver.step(&ctx, input);
        self.carry_out(state, node);
    }

    fn carry_out(&self, state: &mut State<M>, node: usize) {
        while let Some(effect) = Arc::make_mut(&mut state.nodes[node]).driver.next_effect(|_, span| span) {
            match effect {
                Effect::Send { to, message, .. } => {
                    state.sent = state.sent.saturating_add(1);
                    if let Some((to, link)) = to.far_end(node, &self.view) {
                        state.links.entry((to, link)).or_default().push_back(message);
                    }
                }
                Effect::Announce(Section::Enter(token)) => self.enter(state, node, token),
                Effect::SetTimer(..) | Effect::CancelTimer(_) | Effect::Persist(()) | Effect::Store(()) => {}
            }
        }
    }

    fn enter(&self, state: &mut State<M>, node: usize, token: Token) {
        let at = Arc::make_mut(&mut state.nodes[node]);
        let access = self.access(node, at.asked.saturating_sub(1));
        (at.waits, at.inside) = (false, Some(access));
        state.token_went_back |= !rises(&mut state.tokens, token, access);
        let stamp = at.driver.machine().stamp();
        state.out_of_order |= !rises(&mut state.stamps, stamp, access);
    }

    /// A row without readers treats all as writers.
    fn access(&self, node: usize, nth: usize) -> Access {
        let access = self.requests[node].get(nth).copied().unwrap_or_default();
        if M::SHARED { access } else { Access::Exclusive }
    }

    /// What all requests of the model cost together.
    fn cost(&self, state: &State<M>) -> Range {
        let entries = self.requests.iter().enumerate().flat_map(|(at, list)| list.iter().map(move |_| at));
        let mut sum = Range::exactly(0);
        for at in entries.chain(state.holder) {
            let cost = (self.row.cost)(self.view.len(), at).messages;
            // The holder has paid for its entry before the view began; its exit is at most a whole entry.
            let min = if state.holder == Some(at) { 0 } else { cost.min };
            sum = Range { min: sum.min + min, max: sum.max + cost.max };
        }
        sum
    }
}

/// Is the value of a section larger than those of all earlier ones that exclude it? The largest are kept of writers, and of
/// all.
fn rises<T: Copy + Ord>((writers, all): &mut (T, T), value: T, access: Access) -> bool {
    let before = if access == Access::Shared { *writers } else { *all };
    if access == Access::Exclusive {
        *writers = value.max(*writers);
    }
    *all = value.max(*all);
    value > before
}

impl<M: Mutex> State<M> {
    fn waits(&self) -> bool {
        self.nodes.iter().any(|node| node.waits)
    }

    fn inside(&self) -> impl Iterator<Item = Access> {
        self.nodes.iter().filter_map(|node| node.inside)
    }

    /// Nothing happens unless a member asks.
    fn is_quiet(&self) -> bool {
        let timers = self.waits() && self.nodes.iter().any(|node| node.driver.timers().iter().next().is_some());
        self.links.is_empty() && self.inside().next().is_none() && !timers
    }

    fn is_over(&self, model: &Sections<M>) -> bool {
        self.is_quiet() && self.nodes.iter().zip(&model.requests).all(|(node, list)| node.asked == list.len())
    }
}

impl<M: Mutex> Model for Sections<M> {
    type State = State<M>;
    type Action = Action<M::Link, M::Timer>;

    fn init_states(&self) -> Vec<State<M>> {
        self.holders.iter().map(|&holder| self.start(holder)).collect()
    }

    fn actions(&self, state: &State<M>, actions: &mut Vec<Self::Action>) {
        for (at, node) in state.nodes.iter().enumerate() {
            if node.inside.is_some() {
                actions.push(Action::Exits(at));
            } else if !node.waits && node.asked < self.requests[at].len() {
                actions.push(Action::Asks(at));
            }
        }
        for (&(to, link), queue) in &state.links {
            let places = if self.links == Links::Fifo { 1 } else { queue.len() };
            actions.extend((0..places).map(|place| Action::Receives(to, link, place)));
        }
        // An idle token is passed on only while a member waits: else the model would go around for ever.
        if state.waits() && state.links.is_empty() {
            for (at, node) in state.nodes.iter().enumerate() {
                actions.extend(node.driver.timers().iter().map(|(timer, _)| Action::Fires(at, timer)));
            }
        }
    }

    fn next_state(&self, state: &State<M>, action: Self::Action) -> Option<State<M>> {
        let mut next = state.clone();
        match action {
            Action::Asks(at) => {
                let node = Arc::make_mut(&mut next.nodes[at]);
                let access = self.access(at, node.asked);
                (node.asked, node.waits) = (node.asked + 1, true);
                self.step(&mut next, at, Input::Command(Want::Request(access)));
            }
            Action::Exits(at) => {
                Arc::make_mut(&mut next.nodes[at]).inside = None;
                self.step(&mut next, at, Input::Command(Want::Exit));
            }
            Action::Receives(at, from, place) => {
                let message = take(&mut next.links, &(at, from), place)?;
                self.step(&mut next, at, Input::Message { from, message });
            }
            Action::Fires(at, timer) => {
                Arc::make_mut(&mut next.nodes[at]).driver.timers_mut().cancel(timer);
                self.step(&mut next, at, Input::Timer(timer));
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = Properties::of(self);
        all.always(EXCLUSION, |_, state| {
            let inside: Vec<Access> = state.inside().collect();
            inside.len() < 2 || inside.iter().all(|access| *access == Access::Shared)
        });
        all.always(SERVED, |_, state| !state.is_quiet() || !state.waits());
        all.always(TOKENS, |_, state| !state.token_went_back);
        all.always(COST, |model, state| {
            let (cost, sent) = (model.cost(state), u64::from(state.sent));
            sent <= cost.max && (sent >= cost.min || !state.is_over(model))
        });
        all.sometimes("every request was served", |model, state| state.is_over(model));
        all.sometimes("two members wait", |_, state| state.nodes.iter().filter(|node| node.waits).count() > 1);
        if self.row.fair {
            all.always(ORDER, |_, state| !state.out_of_order);
        }
        all.sometimes_if(M::SHARED, "readers are inside together", |_, state| state.inside().count() > 1);
        all.0
    }
}

pub const EXCLUSION: &str = "M1: sections that exclude each other do not overlap";
pub const SERVED: &str = "M5: when all is quiet no member waits";
pub const TOKENS: &str = "M2: tokens of sections that exclude each other rise";
pub const ORDER: &str = "M4: sections that exclude each other follow the timestamps of their requests";
pub const COST: &str = "M8: no run costs more than theory says, and no complete run less";
