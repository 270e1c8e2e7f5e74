//! A reign of a few voters without any election around it: every interleaving of candidates, voters, lost and late
//! messages, crashes and the clock.
//!
//! Time is discrete and the same everywhere: a tick lets all countdowns go on together. The promises behind a lease, and
//! the wait after a restart, are a tick longer than the lease. What is due fires before anything else happens to that
//! member, and before the next tick. The timers that only try again fire whenever the budget allows.
//!
//! The network keeps no order. A message that is never delivered is lost; one that is delivered twice costs a
//! [`Budget`], as does everything else nobody is sure to do. Where voters take a closed connection for the end of a
//! leader ([`Realm::closing_frees`]) there are connections: what was sent before the end of one arrives before the far
//! side sees that end, or never, and nothing goes between the two ends until then. What the election around a reign would
//! say is anybody's guess: candidates are told to stand, to hand over, to step down at any time.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::Arc;

use algorithms::{Ctx, Epoch, Incarnation, Input, NodeId, OnClose, Protocol, Safety, Settings, Uid, View};
use member::reign::{Clock, Fact, Holder, Msg, Order, Reign, Slot, Tenure, Vote};
use stateright::{Model, Property};

mod choices;
pub mod properties;
mod starts;
mod steps;

/// What the model must know besides a reign being a machine; a planted bug wraps a [`Reign`] and passes it on.
pub trait Subject:
    Protocol<Link = NodeId, Message = Msg, Timer = Clock, Command = Order, Event = Fact, Durable = Tenure>
{
    fn reign(&self) -> &Reign;
}

impl Subject for Reign {
    fn reign(&self) -> &Reign {
        self
    }
}

/// How often what may happen at all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Budget {
    /// How often the election chooses each, for one attempt: it says no more until it says so again. Members differ in
    /// nothing else, so the first two stand for any two.
    pub wants: [u8; 3],
    pub transfers: u8,
    pub claims: u8,
    pub step_downs: u8,
    pub renewals: u8,
    pub retries: u8,
    /// Between any two effects.
    pub crashes: u8,
    /// With the record that was on the disk.
    pub restarts: u8,
    /// Restarts with an empty disk.
    pub wipes: u8,
    /// Messages that arrive once more.
    pub duplicates: u8,
    /// Ticks that one member's clock misses. The lease allows for one.
    pub stalls: u8,
    /// Connections that one end closes though both live.
    pub closes: u8,
    /// Children that act on a leader's word, and outlive its process.
    pub children: u8,
}

impl Budget {
    pub const NOTHING: Budget = Budget {
        wants: [0; 3],
        transfers: 0,
        claims: 0,
        step_downs: 0,
        renewals: 0,
        retries: 0,
        crashes: 0,
        restarts: 0,
        wipes: 0,
        duplicates: 0,
        stalls: 0,
        closes: 0,
        children: 0,
    };

    /// Two members want to lead, once each.
    pub const DUEL: Budget = Budget { wants: [1, 1, 0], ..Budget::NOTHING };
}

/// How the question before a bid is answered. It binds nobody, so that its answers must not matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PreCheck {
    /// By messages, as in life.
    Asked,
    /// By a yes of everybody, at any time. All that asking allows and more, with fewer states.
    Assumed,
}

#[derive(Clone, Debug)]
pub struct Realm<P: Subject> {
    view: View,
    settings: Settings,
    pub budget: Budget,
    pub pre_check: PreCheck,
    /// Else a refusal is lost. It only matters to one that tries again.
    pub refusals: bool,
    /// Ticks of a lease. The promises behind it last one more: see [`algorithms::Timing::reign`].
    lease: u8,
    /// Look at this property alone.
    pub only: Option<&'static str>,
    initial: State<P>,
    subject: PhantomData<fn() -> P>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State<P: Subject> {
    nodes: Vec<Arc<Node<P>>>,
    flying: BTreeSet<Flight>,
    /// Connections that have ended at one end, and the other has not seen it.
    ends: BTreeSet<End>,
    left: Budget,
    /// The nonce of the next life.
    starts: u64,
    /// Who ever announced that it leads, and in which epoch.
    crowned: BTreeSet<(Epoch, Holder)>,
    ballots: BTreeSet<Ballot>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Node<P: Subject> {
    /// `None`: crashed.
    member: Option<P>,
    disk: Option<Tenure>,
    /// How many disks it has lost.
    lost_disks: u8,
    /// Ticks left; `None` where the model does not count.
    timers: BTreeMap<Clock, Option<u8>>,
    /// The attempt whose pre-check is assumed to succeed.
    asked: Option<u64>,
    claim: Option<Claim>,
    /// Claims of earlier lives whose leases would still run.
    past: BTreeMap<Holder, Ghost>,
    /// A child acts on its leadership.
    child: Child,
    /// The last epoch it bid for as the successor of a leader that let go.
    succeeds: Option<Epoch>,
    /// The disk's epoch was smaller than before.
    went_back: bool,
}

/// What the world was told, and has not been told to be over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Claim {
    epoch: Epoch,
    until: Slot,
    extended: bool,
    handed_over: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Flight {
    to: usize,
    from: usize,
    message: Msg,
}

/// The end of a connection, on its way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct End {
    to: usize,
    from: usize,
    /// Whose connection it was.
    life: Holder,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Ghost {
    /// Ticks of its lease.
    left: u8,
    /// May somebody act on it?
    acts: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Child {
    None,
    /// Waits until a majority knows of it.
    Waits,
    Acts,
}

/// A voter has answered a bid with yes, or made one itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Ballot {
    epoch: Epoch,
    voter: usize,
    /// On its first disk, its second, ...
    disk: u8,
    holder: Holder,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Action {
    /// Time passes, except by the clock of one who stalls.
    Tick {
        stalled: Option<usize>,
    },
    /// `torn`: the member crashes after that many effects.
    Step {
        node: usize,
        cause: Cause,
        torn: Option<usize>,
    },
    Crash(usize),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cause {
    /// `again`: it stays in flight, and may arrive once more.
    Receives {
        from: usize,
        message: Msg,
        again: bool,
    },
    Fires(Clock),
    /// The pre-check succeeds.
    Assented,
    Told(Order),
    /// This end of the connection to that member.
    Closes(usize),
    /// Sees that the other end was closed.
    Sees(usize, Holder),
    Restarts,
    RestartsBlank,
}

impl<P: Subject> Realm<P> {
    fn ctx(&self, node: usize, dice: u64) -> Ctx<'_> {
        Ctx { me: self.view.members()[node], view: &self.view, settings: &self.settings, dice }
    }

    fn id(&self, node: usize) -> NodeId {
        self.view.members()[node].id
    }

    /// Do voters take a closed connection for the end of a leader?
    pub fn closing_frees(&self) -> bool {
        self.settings.on_close == OnClose::Immediate
    }

    fn is_majority(&self, members: usize) -> bool {
        2 * members > self.view.len()
    }
}

impl<P: Subject> Model for Realm<P> {
    type State = State<P>;
    type Action = Action;

    fn init_states(&self) -> Vec<State<P>> {
        vec![self.initial.clone()]
    }

    fn actions(&self, state: &State<P>, actions: &mut Vec<Action>) {
        self.choices(state, actions);
    }

    fn next_state(&self, state: &State<P>, action: Action) -> Option<State<P>> {
        Some(self.perform(state, action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let all = properties::of(self);
        all.into_iter().filter(|property| self.only.is_none_or(|only| property.name == only)).collect()
    }
}

impl<P: Subject> State<P> {
    fn living(&self) -> impl Iterator<Item = (usize, &Node<P>, &P)> {
        let nodes = self.nodes.iter().map(Arc::as_ref).enumerate();
        nodes.filter_map(|(at, node)| node.member.as_ref().map(|member| (at, node, member)))
    }
}

impl<P: Subject> Node<P> {
    fn is_due(&self) -> bool {
        self.timers.values().any(|&left| left == Some(0))
    }

    /// The claim of this life, while its lease runs.
    fn running(&self) -> Option<(Claim, u8)> {
        let claim = self.claim?;
        let left = self.timers.get(&Clock::Lease(claim.until)).copied().flatten()?;
        (left > 0).then_some((claim, left))
    }
}
