//! The reign of a few voters without any election around it: every interleaving of candidates, voters, lost and late
//! messages, crashes, slow writes and the clock.
//!
//! Time is discrete and the same everywhere: a tick advances all countdowns together. The promises behind a lease, and
//! the wait after a restart, are a tick longer than the lease. A due timer fires before anything else happens to that
//! member, and before the next tick. Timers for retries fire whenever the budget allows.
//!
//! A write takes no time, unless the budget allows it to stay in flight: then the member continues, time passes, and
//! all effects behind the write wait until it completes. A claim runs until the deadline it was announced with.
//!
//! The network keeps no order. A message that is never delivered is lost; a message that is delivered twice costs a
//! [`Budget`], as does every other event that is not certain. Where voters take a closed connection for the end of a
//! leader ([`QuorumModel::closing_frees`]) there are connections: a message sent before the end of one arrives before
//! the far side sees that end, or never, and no message passes between the two ends until then. The election around a
//! reign may give any result: candidates are told to stand, to hand over, to step down at any time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use algorithms::drive::Driver;
use algorithms::{Epoch, Input, NodeId, Protocol, Uid, View};
use member::reign::{Holder, LossCause, Msg, Reign, ReignCommand, ReignEvent, ReignTimer, Vote, VoterRecord};
use member::{Context, Incarnation, LeaseTimer, OnClose, Settings};
use stateright::{Model, Property};
use types::{Change, MemberList};

use crate::extent::Extent;
use crate::mistake::Mistake;

mod choices;
mod node;
pub mod properties;
mod starts;
mod steps;

pub use starts::{Script, voter};

/// What the model must know of a reign beside the `Protocol`; a planted bug wraps a [`Reign`] and passes it on.
pub trait Subject:
    Protocol<
        Link = NodeId,
        Message = Msg,
        Timer = ReignTimer,
        Command = ReignCommand,
        Event = ReignEvent,
        Durable = VoterRecord,
        Settings = Settings,
    >
{
    fn reign(&self) -> &Reign;
}

impl Subject for Reign {
    fn reign(&self) -> &Reign {
        self
    }
}

/// How often each kind of event may happen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Budget {
    /// How often the election chooses each member, for one attempt: after the attempt the choice is over until the next
    /// one. Members differ in nothing else, so the first two represent any two.
    pub wants: [u8; 5],
    pub transfers: u8,
    pub claims: u8,
    pub step_downs: u8,
    pub renewals: u8,
    pub retries: u8,
    /// Crashes between any two effects.
    pub crashes: u8,
    /// Restarts with the record that was on the disk.
    pub restarts: u8,
    /// Restarts with an empty disk.
    pub wipes: u8,
    /// Messages that arrive once more.
    pub duplicates: u8,
    /// Ticks that one member's clock misses. The lease allows for one.
    pub stalls: u8,
    /// Connections that one end closes while both members live.
    pub closes: u8,
    /// Children that act on a leader's announcement, and outlive its process.
    pub children: u8,
    /// Writes that stay in flight for any time.
    pub slow_writes: u8,
    /// Orders of the operator to change the list: see [`QuorumModel::changes`].
    pub changes: u8,
    /// Pending lists that take too long.
    pub reverts: u8,
    /// What every machine does wrong, from its first step on.
    pub mistake: Mistake,
}

impl Budget {
    pub const NOTHING: Budget = Budget {
        wants: [0; 5],
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
        slow_writes: 0,
        changes: 0,
        reverts: 0,
        mistake: Mistake::NONE,
    };

    /// Two members want to lead, once each.
    pub const DUEL: Budget = Budget { wants: [1, 1, 0, 0, 0], ..Budget::NOTHING };
}

/// How the probe before a bid is answered. It binds no voter, so its answers must not matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probes {
    /// By messages, as in a cluster.
    Asked,
    /// By a yes of every voter, at any time. Permits all that asking permits and more, with fewer states.
    Assumed,
}

#[derive(Clone, Debug)]
pub struct QuorumModel<P: Subject> {
    view: View,
    settings: Settings,
    pub budget: Budget,
    pub probes: Probes,
    /// If false, refusals are lost. A refusal only matters to a candidate that tries again.
    pub refusals: bool,
    /// The orders that the operator may give to a leader, each at any time.
    pub changes: Vec<Change>,
    /// Ticks of a lease. The promises behind it last one more: see [`member::Timing::reign`].
    lease: u8,
    /// The list that the voters begin with.
    first: Arc<MemberList>,
    /// Check this property alone.
    pub only: Option<&'static str>,
    initial: State<P>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State<P: Subject> {
    nodes: Vec<Arc<Node<P>>>,
    flying: BTreeSet<Flight>,
    /// Connections that have ended at one end, and whose other end has not seen it.
    ends: BTreeSet<End>,
    left: Budget,
    /// The nonce of the next incarnation.
    starts: u64,
    /// Every (epoch, holder) that was announced to lead.
    announced_leaders: BTreeSet<(Epoch, Holder)>,
    ballots: BTreeSet<Ballot>,
    /// Every list that a leader announced to be in force, in the order of their stamps.
    in_force: BTreeSet<Arc<MemberList>>,
    /// Every list that was on a disk or in a bid.
    lists: BTreeSet<Arc<MemberList>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "one for each mistake, independent of each other")]
struct Node<P: Subject> {
    /// `None`: crashed. The value of a timer is its remaining ticks; `None` where the model does not count.
    driver: Option<Driver<P, Option<u8>>>,
    disk: Option<VoterRecord>,
    /// The record that the driver waits for.
    in_flight: Option<VoterRecord>,
    /// How many disks it has lost.
    lost_disks: u8,
    /// The request whose probe is assumed to succeed.
    asked: Option<u64>,
    claim: Option<Claim>,
    /// Claims of earlier incarnations, and of leaders whose child still runs, whose leases would still run.
    past: BTreeMap<Holder, PastClaim>,
    /// A child acts on its leadership.
    child: Child,
    /// The last epoch it bid for as the successor of a leader that released its leadership.
    succeeds: Option<Epoch>,
    /// Connections to be closed when the earlier effects have been carried out.
    closing: VecDeque<usize>,
    /// Losses that the machine knows of and that are not announced yet: the cause that each must name, if there is one.
    losses: VecDeque<Option<LossCause>>,
    /// Has announced a handover, and has not sent the message yet.
    owes_handover: bool,
    /// Announced a loss with a cause that does not fit.
    wrong_cause: bool,
    /// The disk's epoch was smaller than before.
    went_back: bool,
    /// The disk's list was older than before.
    list_went_back: bool,
}

/// An announced leadership whose end was not announced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Claim {
    epoch: Epoch,
    until: LeaseTimer,
    /// Ticks until the deadline of the announcement.
    left: u8,
    extended: bool,
    handed_over: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
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
    /// The incarnation whose connection it was.
    holder: Holder,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct PastClaim {
    /// Ticks of its lease.
    left: u8,
    /// May a client or a child act on it?
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
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Ballot {
    epoch: Epoch,
    voter: usize,
    /// The number of the disk, counted from its first one.
    disk: u8,
    holder: Holder,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Time passes, except by the clock of a member that stalls.
    Tick {
        stalled: Option<usize>,
    },
    Step {
        node: usize,
        cause: Cause,
        extent: Extent,
    },
    /// `written`: the write in flight, if there is one, reached the disk.
    Crash {
        node: usize,
        written: bool,
    },
}

#[derive(Clone, PartialEq, Debug)]
pub enum Cause {
    /// `again`: the message stays in flight, and may arrive once more.
    Receives {
        from: usize,
        message: Msg,
        again: bool,
    },
    Fires(ReignTimer),
    /// The probe succeeds.
    Assented,
    Told(ReignCommand),
    /// The write in flight is on the disk.
    Written,
    /// Closes this end of the connection to that member.
    Closes(usize),
    /// Sees that the other end was closed.
    Sees(usize, Holder),
    Restarts,
    RestartsBlank,
}

impl<P: Subject> QuorumModel<P> {
    /// A number that no other start has makes another incarnation.
    fn ctx(&self, node: usize, start: u64) -> Context<'_> {
        let dice = self.budget.mistake.join(start << 16);
        Context { me: self.view.members()[node], view: &self.view, settings: &self.settings, dice }
    }

    fn id(&self, node: usize) -> NodeId {
        self.view.members()[node].id
    }

    /// Do voters take a closed connection for the end of a leader?
    pub fn closing_frees(&self) -> bool {
        self.settings.on_close == OnClose::Immediate
    }

    fn position(&self, id: NodeId) -> usize {
        self.view.position(id).expect("a member of the model")
    }
}

impl<P: Subject> Model for QuorumModel<P> {
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
        properties::of(self).only(self.only)
    }
}

impl<P: Subject> State<P> {
    fn living(&self) -> impl Iterator<Item = (usize, &Node<P>, &Driver<P, Option<u8>>)> {
        let nodes = self.nodes.iter().map(Arc::as_ref).enumerate();
        nodes.filter_map(|(at, node)| node.driver.as_ref().map(|driver| (at, node, driver)))
    }

    /// The incarnation of a member that runs.
    fn holder(&self, node: usize) -> Holder {
        let driver = self.nodes[node].driver.as_ref().expect("it lives");
        driver.machine().reign().holder()
    }
}

impl<P: Subject> Node<P> {
    fn timers(&self) -> impl Iterator<Item = (ReignTimer, Option<u8>)> + '_ {
        self.driver.iter().flat_map(|driver| driver.timers().iter())
    }

    fn is_due(&self) -> bool {
        self.timers().any(|(_, left)| left == Some(0))
    }

    /// Does anything change with time?
    fn counts(&self) -> bool {
        self.timers().any(|(_, left)| left.is_some()) || !self.past.is_empty() || self.running().is_some()
    }

    /// The claim of this incarnation, until its deadline.
    fn running(&self) -> Option<Claim> {
        self.claim.filter(|claim| claim.left > 0)
    }
}
