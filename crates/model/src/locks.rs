//! The lock service of a few voters, with the shipped machine of the clients' sessions: every interleaving of requests,
//! changes of the reign, crashes, broken connections and the clock.
//!
//! The reign around the machines is abstract. A member bids for the next epoch, voters that are not bound grant it, and with
//! the grants of a majority the member leads for as long as its lease runs, counted from the bid. A voter that has granted
//! is bound while that bid or lease runs. A leader need not notice at once that its lease has ended: until then it goes on
//! in its office, and its messages are on their way. One rule binds the daemon here: it ends the office before it fires the
//! timer of a session for which the lease ended first ([`Breach::LateExpiry`] breaks it).
//!
//! Time is discrete and the same everywhere: a tick advances all countdowns together. The client's right to act is shorter
//! than the time to live at the clerk. Timers that only delay something (flush, requeue, the wait of a request) fire at any
//! time.
//!
//! Connections are FIFO. What is in flight on a broken one is lost; between a client and a member, what the client sent
//! before it moved to another connection may arrive late. A message that is sent before a member has seen the end of a
//! connection is lost with it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use algorithms::drive::Driver;
use algorithms::{Epoch, NodeId, Protocol, View};
use locks::LockName;
use locks::central::{Central, CentralMsg, CentralTimer};
use locks::service::{Grantee, LockSettings, ServiceCommand, ServiceEvent, StreamId};
use locks::session::Session;
use locks::wire::{Mode, RequestId, SendNumber, SessionId, ToClerk, ToClient};
use stateright::{Model, Property};
use types::Token;

mod choices;
mod clients;
pub mod properties;
mod reigns;
mod starts;
mod steps;

pub use starts::{Script, Setup};

/// What the model must know of the service beside the `Protocol`; a planted bug wraps a [`Central`] and passes it on.
pub trait Subject:
    Protocol<
        Link = NodeId,
        Message = CentralMsg,
        Timer = CentralTimer,
        Command = ServiceCommand,
        Event = ServiceEvent,
        Durable = (),
        Settings = LockSettings,
    >
{
    fn central(&self) -> &Central;
}

impl Subject for Central {
    fn central(&self) -> &Central {
        self
    }
}

/// How often each kind of event may happen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Budget {
    /// Requests of each client: the first ones of [`LockModel::requests`].
    pub requests: [u8; 2],
    pub releases: u8,
    pub withdrawals: u8,
    pub keep_alives: u8,
    /// How often each client opens another connection, to any member that believes to lead.
    pub moves: [u8; 2],
    /// How often each member bids.
    pub bids: [u8; 4],
    pub renewals: u8,
    /// Leaders that give their leadership up.
    pub step_downs: u8,
    pub crashes: u8,
    pub restarts: u8,
    /// Connections between two members that break and come back.
    pub breaks: u8,
    /// Changes of the voters: the next ones of [`LockModel::lists`].
    pub changes: u8,
}

impl Budget {
    pub const NOTHING: Budget = Budget::each(0);

    fn has_bids(&self) -> bool {
        self.bids.iter().any(|&bids| bids > 0)
    }

    const fn each(n: u8) -> Budget {
        Budget {
            requests: [n; 2],
            releases: n,
            withdrawals: n,
            keep_alives: n,
            moves: [n; 2],
            bids: [n; 4],
            renewals: n,
            step_downs: n,
            crashes: n,
            restarts: n,
            breaks: n,
            changes: n,
        }
    }
}

/// A rule that the daemon, or the client's driver, owes the machines and breaks: a planted bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Breach {
    /// The right to act counts from the arrival of an answer, not from the send time of what is answered.
    RightFromArrival,
    /// The daemon does not look at the lease when a client's message was read.
    AlwaysLeased,
    /// A session expires at a leader whose lease has ended, before that leader has noticed.
    LateExpiry,
    /// A member that restarts reports the label of the copy that it had before, and has no table.
    RestartKeepsLabel,
    /// The voters are changed without [`ServiceEvent::VotersMayChange`].
    HastyChanges,
}

/// Ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// How long a client may act behind the send time of an answered message.
    pub right: u8,
    /// Of a session at the clerk; also the longest one.
    pub ttl: u8,
    pub lease: u8,
}

/// What must be seen in a model besides what all models show, so that it is not vacuous.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shows {
    LaterClerks,
    Heirs,
    Reservations,
}

#[derive(Clone, Debug)]
pub struct LockModel<P: Subject> {
    view: View,
    settings: LockSettings,
    times: Times,
    pub budget: Budget,
    breach: Option<Breach>,
    /// What the clients ask for, one after the other.
    pub requests: [Vec<(LockName, Mode)>; 2],
    /// The sets of voters, each in force after the one before it. Positions of members.
    lists: Vec<Vec<usize>>,
    /// A turn of the daemon's loop ends at any time, not behind every input.
    pub long_turns: bool,
    /// The random word of every step. The service draws nothing: a planted bug is chosen by it.
    dice: u64,
    /// What must be seen.
    pub shows: Shows,
    /// Check this property alone.
    pub only: Option<&'static str>,
    initial: State<P>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State<P: Subject> {
    nodes: Vec<Arc<Node<P>>>,
    /// On their way, by (to, from).
    wires: BTreeMap<(usize, usize), VecDeque<Item>>,
    clients: [Arc<Client>; 2],
    streams: BTreeMap<StreamId, Stream>,
    /// The number of the next stream.
    opened: u64,
    /// The largest epoch that was ever bid for.
    epoch: Epoch,
    bid: Option<Reign>,
    lease: Option<Reign>,
    /// The place in [`LockModel::lists`] of the voters in force.
    list: usize,
    left: Budget,
    /// The largest token that a client has acted with, of every lock.
    acted: BTreeMap<LockName, (Token, SessionId)>,
    /// Requests that a clerk has heard to be over.
    ended: BTreeSet<(Epoch, SessionId, RequestId)>,
    flaws: BTreeSet<Flaw>,
}

/// A wrong step: seen when it happens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Flaw {
    /// A session was extended, or a request answered, without a lease.
    NoLease,
    /// The office was opened without the copies of a majority and before all sessions had expired.
    TooEarly,
    /// A clerk has a request that it has heard to be over, or has taken a lock away that it gave.
    Revived,
    TokenWentBack,
}

/// A bid or, after it has won, a lease.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Reign {
    epoch: Epoch,
    at: usize,
    holder: Grantee,
    /// Ticks.
    left: u8,
    /// The voters that granted it: did each have a copy of the table?
    granted: BTreeMap<usize, bool>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Node<P: Subject> {
    /// `None`: it has crashed.
    driver: Option<Driver<P, Option<u8>>>,
    /// Of its process.
    life: u64,
    /// On its disk.
    granted: Option<(Epoch, Grantee)>,
    /// On its disk: every epoch was granted to the holder above.
    only_holder: bool,
    /// The office that it was told of.
    office: Option<Office>,
    /// The label of the copy that it had before its last crash; kept for a planted bug only.
    lost: Option<locks::central::Label>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Office {
    epoch: Epoch,
    first: bool,
    /// Ticks until every session of an earlier clerk has expired.
    wait: u8,
    may_change: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Item {
    Message(CentralMsg),
    Down,
    Up,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Stream {
    client: usize,
    node: usize,
    up: VecDeque<ToClerk>,
    down: VecDeque<ToClient>,
    /// The client has closed its end.
    closed: bool,
    /// The member's process is gone.
    gone: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Client {
    session: Session,
    /// Of its present connection.
    stream: Option<StreamId>,
    /// Ticks for which it may act.
    right: u8,
    /// Messages without an answer, and the right that an answer gives.
    sent: BTreeMap<SendNumber, u8>,
    /// Requests that it has made.
    asked: u8,
    /// Requests that it waits for.
    waits: BTreeMap<RequestId, LockName>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    Tick,
    Fires(usize, CentralTimer),
    /// A member reads what another one sent.
    Reads {
        node: usize,
        from: usize,
    },
    /// A member reads what a client sent, or the end of the stream.
    Hears(StreamId),
    /// What a client sent on a connection that it has left is lost.
    Vanishes(StreamId),
    TurnEnds(usize),
    /// A client reads.
    Listens(usize),
    Asks(usize),
    Releases(usize, RequestId),
    Withdraws(usize, RequestId),
    KeepsAlive(usize),
    Moves(usize, usize),
    Bids(usize),
    /// A voter grants the bid, or the lease: then it hears of the bid after it has won.
    Grants {
        voter: usize,
        won: bool,
    },
    /// A voter that was restarted is told of its grant by the renewal of the lease.
    Confirms(usize),
    Wins,
    Renews,
    /// A leader notices that its lease has ended.
    Notices(usize),
    StepsDown(usize),
    Crashes(usize),
    Restarts(usize),
    Breaks(usize, usize),
    /// The next voters come into force.
    Changes,
}

impl<P: Subject> Model for LockModel<P> {
    type State = State<P>;
    type Action = Action;

    fn init_states(&self) -> Vec<State<P>> {
        vec![self.initial.clone()]
    }

    fn actions(&self, state: &State<P>, actions: &mut Vec<Action>) {
        // Behind a wrong step everything may be wrong, which only a search for one property wants to see.
        if state.flaws.is_empty() || self.only.is_some() {
            self.choices(state, actions);
        }
    }

    fn next_state(&self, state: &State<P>, action: Action) -> Option<State<P>> {
        Some(self.perform(state, &action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(self).only(self.only)
    }
}

impl<P: Subject> LockModel<P> {
    fn id(&self, node: usize) -> NodeId {
        self.view.members()[node].id
    }

    fn position(&self, id: NodeId) -> usize {
        self.view.position(id).expect("a member of the model")
    }

    /// The ids of the voters in force.
    fn voters(&self, state: &State<P>) -> Vec<NodeId> {
        self.lists[state.list].iter().map(|&at| self.id(at)).collect()
    }

    fn is_majority(&self, state: &State<P>, has: impl Fn(usize) -> bool) -> bool {
        let list = &self.lists[state.list];
        2 * list.iter().filter(|&&at| has(at)).count() > list.len()
    }
}

impl<P: Subject> State<P> {
    /// Does this member lead, by the clock?
    fn is_leased(&self, node: usize) -> bool {
        self.lease.as_ref().is_some_and(|lease| {
            let at = &self.nodes[node];
            lease.at == node && at.office.is_some_and(|office| office.epoch == lease.epoch)
        })
    }

    /// The clerk whose lease runs.
    fn clerk(&self) -> Option<(usize, &Central)> {
        let at = self.lease.as_ref()?.at;
        let central = self.central(at)?;
        central.clerk().filter(|_| self.is_leased(at)).map(|_| (at, central))
    }

    fn central(&self, node: usize) -> Option<&Central> {
        self.nodes[node].driver.as_ref().map(|driver| driver.machine().central())
    }

    fn node(&mut self, node: usize) -> &mut Node<P> {
        Arc::make_mut(&mut self.nodes[node])
    }

    fn client(&mut self, client: usize) -> &mut Client {
        Arc::make_mut(&mut self.clients[client])
    }
}

impl<P: Subject> Node<P> {
    fn timers(&self) -> impl Iterator<Item = (CentralTimer, Option<u8>)> + '_ {
        self.driver.iter().flat_map(|driver| driver.timers().iter())
    }
}

impl Client {
    /// The locks that it may act on now.
    fn acts(&self) -> impl Iterator<Item = (&LockName, Token)> {
        self.session.holds().filter(|_| self.right > 0).map(|(_, name, token)| (name, token))
    }
}
