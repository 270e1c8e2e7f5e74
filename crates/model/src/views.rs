//! Locks in views at a few members, for one lock and one client at each of some members: every interleaving of messages,
//! beats, the clock, crashes, restarts, broken connections and changes of the leader.
//!
//! Time is discrete and the same everywhere: a tick advances all countdowns together, and a timer that is due fires within
//! the tick. A member's own tenancy, the ttl of a session and a client's right have one length, the leader's tenancy and the
//! wait after a restart are a tick longer. Beats fire whenever the budget allows.
//!
//! Connections keep the order of messages. One that breaks loses what is under way, and both ends see that at some later
//! time; then it may come back. A crash loses what is under way to the process; what it has sent arrives before its end
//! is seen. Clients outlive the process of their member and act until their right is over.
//!
//! The reign around the leader is an oracle: the lease ends at any time, then any member may lead in the next epoch. The
//! leader before it may not know for any time; only its readings of the clock tell it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use algorithms::drive::Driver;
use algorithms::{Data, Mutex, Protocol, Uid, View};
use locks::service::{ServiceCommand, ServiceEvent};
use locks::views::{Msg, Views, ViewsSettings, ViewsTimer};
use stateright::{Model, Property};
use types::Token;

use crate::mistake::Mistake;

mod client;
pub mod properties;
mod steps;
mod walk;

pub use client::{Client, ClientAct};
pub use walk::{Broken, Phases};

/// What the model must know of the service beside the `Protocol`; a planted bug wraps a [`Views`] and passes it on.
pub trait Subject:
    Protocol<
        Link = types::NodeId,
        Message = Msg<Self::Machine>,
        Timer = ViewsTimer<<Self::Machine as Protocol>::Timer>,
        Command = ServiceCommand,
        Event = ServiceEvent,
        Durable = (),
        Settings = ViewsSettings,
    >
{
    type Machine: Mutex<Link: Data>;

    fn views(&self) -> &Views<Self::Machine>;
}

impl<M: Mutex<Link: Data>> Subject for Views<M> {
    type Machine = M;

    fn views(&self) -> &Views<M> {
        self
    }
}

/// Ticks of a member's tenancy, of a session and of a client's right, unless a model says otherwise; the leader waits one
/// more.
pub const PROMISE: u8 = 2;

/// How often each kind of event may happen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Budget {
    pub ticks: u8,
    pub beats: u8,
    /// Requests of the client of each member.
    pub acquires: [u8; 3],
    pub keep_alives: u8,
    pub opens: u8,
    pub crashes: u8,
    pub restarts: u8,
    pub cuts: u8,
    /// Beats and acknowledgements that are lost alone.
    pub losses: u8,
    pub lease_ends: u8,
    pub elections: u8,
    /// What every machine does wrong, from its first step on.
    pub mistake: Mistake,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Item<X> {
    Message(X),
    /// The connection has ended.
    Closed,
}

type Node<P> = Arc<Driver<P, Option<u8>>>;

type Wires<P> = BTreeMap<(usize, usize), VecDeque<Item<<P as Protocol>::Message>>>;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State<P: Subject> {
    /// `None`: crashed. The value of a timer is its remaining ticks; `None` where the model does not count.
    pub(crate) nodes: Vec<Option<Node<P>>>,
    /// By sender and receiver.
    pub(crate) wires: Wires<P>,
    /// Pairs without a connection.
    pub(crate) down: BTreeSet<(usize, usize)>,
    pub(crate) left: Budget,
    /// The member whose lease holds.
    pub(crate) leased: Option<usize>,
    pub(crate) epoch: u64,
    pub(crate) clients: Vec<Client>,
    /// The largest token that was granted, and how many were.
    pub(crate) largest: Option<Token>,
    pub(crate) grants: u8,
    pub(crate) token_fell: bool,
    /// Names every stream that was ever opened.
    pub(crate) streams: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    Deliver {
        from: usize,
        to: usize,
    },
    /// The beat or acknowledgement that would be next is lost.
    Lose {
        from: usize,
        to: usize,
    },
    Tick,
    Beat(usize),
    Client(usize, ClientAct),
    Crash(usize),
    Restart(usize),
    Cut(usize, usize),
    Connect(usize, usize),
    LeaseEnds,
    Elect(usize),
    /// A former leader learns that it leads no more.
    OfficeEnds(usize),
}

#[derive(Clone, Debug)]
pub struct ViewsModel<P: Subject> {
    view: View,
    settings: ViewsSettings,
    /// Ticks of a member's tenancy.
    promise: u8,
    mistake: Mistake,
    /// Events that must be seen: names of `sometimes` properties.
    pub expects: Vec<&'static str>,
    /// Check this property alone.
    pub only: Option<&'static str>,
    initial: State<P>,
}

impl<P: Subject> ViewsModel<P> {
    /// Three members in the first view, led by this one; a client with a session at each.
    pub fn led(leader: usize, budget: Budget) -> Self {
        Self::lasting(PROMISE, leader, budget)
    }

    /// With a tenancy of so many ticks.
    pub fn lasting(promise: u8, leader: usize, budget: Budget) -> Self {
        let view = View::mesh((1..=3).map(Uid::plain).collect());
        let clients = (0..view.len()).map(|_| Client::new(promise)).collect();
        let initial = State {
            nodes: vec![None; view.len()],
            wires: BTreeMap::new(),
            down: BTreeSet::from([(0, 1), (0, 2), (1, 2)]),
            left: Budget { restarts: 3, opens: 3, ..budget },
            leased: None,
            epoch: 0,
            clients,
            largest: None,
            grants: 0,
            token_fell: false,
            streams: 0,
        };
        let (settings, mistake) = (ViewsSettings::default(), budget.mistake);
        let mut model = ViewsModel { view, settings, promise, mistake, expects: Vec::new(), only: None, initial };
        let mut state = model.initial.clone();
        for node in 0..3 {
            model.perform(&mut state, Action::Restart(node));
        }
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            model.perform(&mut state, Action::Connect(one, other));
        }
        state.left.elections = 1;
        model.perform(&mut state, Action::Elect(leader));
        model.deliver_all(&mut state);
        for client in 0..3 {
            model.perform(&mut state, Action::Client(client, ClientAct::Open));
            model.deliver_all(&mut state);
        }
        state.left = budget;
        model.initial = state;
        model
    }

    /// Clients ask in this order before the model begins; what follows from it has happened.
    #[must_use]
    pub fn asked_by(mut self, clients: &[usize]) -> Self {
        let mut state = self.initial.clone();
        let budget = state.left;
        state.left.acquires = [1; 3];
        for &client in clients {
            self.perform(&mut state, Action::Client(client, ClientAct::Acquire));
            self.deliver_all(&mut state);
        }
        state.left = budget;
        self.initial = state;
        self
    }

    /// These have happened before the model begins.
    #[must_use]
    pub fn after(mut self, actions: &[Action]) -> Self {
        let mut state = self.initial.clone();
        let budget = state.left;
        state.left = Budget { acquires: [9; 3], keep_alives: 99, opens: 9, cuts: 9, ..budget };
        for &action in actions {
            self.perform(&mut state, action);
        }
        state.left = budget;
        self.initial = state;
        self
    }

    /// From now on only this may happen.
    #[must_use]
    pub fn with(mut self, budget: Budget) -> Self {
        self.initial.left = budget;
        self
    }

    /// All messages that are under way have arrived.
    #[must_use]
    pub fn at_rest(mut self) -> Self {
        let mut state = self.initial.clone();
        self.deliver_all(&mut state);
        self.initial = state;
        self
    }

    #[must_use]
    pub fn expecting(mut self, seen: &[&'static str]) -> Self {
        self.expects = seen.to_vec();
        self
    }

    fn deliver_all(&self, state: &mut State<P>) {
        while let Some((&(from, to), _)) = state.wires.iter().next() {
            self.perform(state, Action::Deliver { from, to });
        }
    }
}

impl<P: Subject> Model for ViewsModel<P> {
    type State = State<P>;
    type Action = Action;

    fn init_states(&self) -> Vec<State<P>> {
        vec![self.initial.clone()]
    }

    fn actions(&self, state: &State<P>, actions: &mut Vec<Action>) {
        Self::choices(state, actions);
    }

    fn next_state(&self, state: &State<P>, action: Action) -> Option<State<P>> {
        let mut next = state.clone();
        self.perform(&mut next, action);
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = properties::of(self).only(self.only);
        all.retain(|property| {
            property.expectation != stateright::Expectation::Sometimes || self.expects.contains(&property.name)
        });
        all
    }
}
