//! The core: the state machine, its inputs and its outputs.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::drive::Counts;
use crate::settings::{Ranks, Settings};
use crate::view::{Link, View};
use types::{Epoch, NodeId, Uid, Wins};

/// Plain values: they are sent, stored, compared and hashed by the model checker.
pub trait Data: Clone + Eq + Hash + Debug + Serialize + Send + Sync + 'static {}
impl<T: Clone + Eq + Hash + Debug + Serialize + Send + Sync + 'static> Data for T {}

/// What a machine may read besides its own state. It belongs to the driver and is lent for one step.
#[derive(Debug)]
pub struct Ctx<'a, S = Settings> {
    pub me: Uid,
    pub view: &'a View,
    pub settings: &'a S,
    /// One fresh random word per step: all the randomness a machine ever gets.
    pub dice: u64,
}

impl<S> Clone for Ctx<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Ctx<'_, S> {}

impl<S: Ranks> Ctx<'_, S> {
    #[inline]
    pub fn beats(&self, a: Uid, b: Uid) -> bool {
        self.settings.wins().beats(a, b)
    }

    pub fn wins(&self) -> Wins {
        self.settings.wins()
    }
}

/// A pure state machine. The same compiled code runs in the daemon, the simulator, the model checker and the tests.
pub trait Protocol: Clone + Eq + Hash + Debug + Sized + Send + Sync + 'static {
    type Link: Link;
    type Message: Message;
    /// Named timers: setting one again replaces it.
    type Timer: Copy + Ord + Hash + Debug + Send + Sync + 'static;
    type Command: Clone + Eq + Hash + Debug + Send + Sync + 'static;
    type Event: Clone + Eq + Hash + Debug + Send + Sync + 'static;
    /// The record that must survive a crash: always the whole record, never a delta. `()` where nothing must.
    type Durable: Data;
    /// The operator's settings, as far as this machine may know them.
    type Settings;

    /// Effects at the start are carried out like all others.
    fn start(ctx: &Ctx<'_, Self::Settings>, stored: Option<Self::Durable>, out: &mut impl Outbox<Self>) -> Self;
    fn step(&mut self, ctx: &Ctx<'_, Self::Settings>, input: Input<Self>, out: &mut impl Outbox<Self>);

    /// The timer that ends the announced leadership, if there is one: drivers announce the event with its deadline.
    fn lasts_until(_: &Self::Event) -> Option<Self::Timer> {
        None
    }
}

/// Messages are counted by kind, the announcement of the result separately from the election itself.
pub trait Message: Data {
    const KINDS: &'static [Kind];

    /// Index into [`Message::KINDS`].
    fn kind(&self) -> usize;

    /// Counts all messages in it that theory counts: of most messages, itself.
    fn count(&self, counts: &mut Counts) {
        counts.add_one(self.kind());
    }
}

/// The kinds of a message by its variants, in the order in which theory counts them. Variants with `|` between them are of
/// one kind.
macro_rules! kinds {
    ($message:ident { $($variant:ident $(| $same:ident)*: $kind:ident($name:literal)),+ $(,)? }) => {
        impl $crate::protocol::Message for $message {
            const KINDS: &'static [$crate::protocol::Kind] = &[$($crate::protocol::Kind::$kind($name)),+];

            #[inline]
            fn kind(&self) -> usize {
                enum Index { $($variant),+ }
                match self { $($message::$variant { .. } $(| $message::$same { .. })* => Index::$variant as usize),+ }
            }
        }
    };
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    pub name: &'static str,
    /// Coordinator, selected, elected, announce, leader: announces a result that is already decided.
    pub announcement: bool,
    /// Only a node that wants to be elected sends it. For algorithms without rounds: an observer knows by nothing else which
    /// nodes began an election.
    pub candidacy: bool,
}

impl Kind {
    pub const fn election(name: &'static str) -> Self {
        Kind { name, announcement: false, candidacy: false }
    }

    pub const fn candidacy(name: &'static str) -> Self {
        Kind { name, announcement: false, candidacy: true }
    }

    /// A message of a mutual exclusion: none of them announces a result.
    pub const fn mutex(name: &'static str) -> Self {
        Kind::election(name)
    }

    pub const fn announcement(name: &'static str) -> Self {
        Kind { name, announcement: true, candidacy: false }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input<P: Protocol> {
    /// `from` is the receiver's own name of the link on which the message arrived.
    Message {
        from: P::Link,
        message: P::Message,
    },
    Timer(P::Timer),
    PeerUp(NodeId),
    PeerDown(NodeId),
    Command(P::Command),
    /// A record given to [`Outbox::store`] is on the disk now.
    Stored(P::Durable),
}

/// Takes the effects of a step. Effects happen in call order; a driver may crash the node between any two of them.
pub trait Outbox<P: Protocol> {
    /// A new message: hop count 0.
    fn send(&mut self, to: P::Link, message: P::Message);
    /// Passes on the present message: hop count + 1, so hop limits need no field in any message.
    fn forward(&mut self, to: P::Link, message: P::Message);
    fn set_timer(&mut self, timer: P::Timer, after: Span);
    fn cancel_timer(&mut self, timer: P::Timer);
    /// A barrier: no later effect happens before the record is on the disk.
    fn persist(&mut self, record: P::Durable);
    /// Written in the background: no effect waits; [`Input::Stored`] reports that the record is on the disk.
    fn store(&mut self, record: P::Durable);
    fn announce(&mut self, event: P::Event);
}

/// How long a timer waits: the driver draws a point of the span.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Span {
    pub min: Duration,
    pub max: Duration,
}

impl Span {
    pub fn exactly(after: Duration) -> Self {
        Span { min: after, max: after }
    }

    /// Between `after` and half as much again: peers that started together then act at different moments.
    pub fn jittered(after: Duration) -> Self {
        Span { min: after, max: after + after / 2 }
    }

    /// The point that a uniformly random word picks.
    pub fn draw(self, dice: u64) -> Duration {
        let width = self.max.saturating_sub(self.min).as_nanos() as u64;
        if width == 0 { self.min } else { self.min + Duration::from_nanos(dice % (width + 1)) }
    }
}

/// The one command of an election machine: begin, because the leader is gone or the operator asked for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Campaign;

/// What an election machine announces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Outcome {
    Won,
    /// Another node won; `None` where the algorithm is anonymous and cannot know which.
    Follow(Option<Uid>),
    /// This attempt cannot succeed. The next one begins when the watchdog of the member fires: an election opened at
    /// once would meet the same obstacle.
    GaveUp,
    /// A continuous machine has withdrawn its last decision.
    Halted,
}

pub trait Election: Protocol<Command = Campaign, Event = Outcome, Settings = Settings> {
    const FEATURES: Features = Features::PLAIN;

    /// Those of the algorithm that runs with these settings.
    fn features(_: &Settings) -> Features {
        Self::FEATURES
    }

    /// The algorithm's own number of the decision that it announced last, where it numbers its decisions and never lets
    /// two winners share a number. A classic leader then leads in this epoch.
    fn term(&self) -> Option<Epoch> {
        None
    }

    /// The vote of the sender that this message gives, as (term, candidate), for checkers.
    fn vote(_me: NodeId, _to: Self::Link, _: &Self::Message) -> Option<(Epoch, NodeId)> {
        None
    }

    /// Leadership is to go to this node ([`Features::hands_over`]).
    fn hand_over(&mut self, _: &Ctx<'_>, _to: NodeId, _: &mut impl Outbox<Self>) {}

    /// The nodes that this node knows to take part, for algorithms that keep such a list to the end of an election.
    fn active_list(&self) -> Option<&BTreeSet<Uid>> {
        None
    }

    /// The published state vector, for algorithms whose correctness is stated over one.
    fn state_vector(&self) -> Option<StateVector> {
        None
    }
}

/// An election machine without timers and records: it is told to begin and gets messages, nothing else. It starts in its
/// default state, asleep.
pub trait MessageDriven: Clone + Eq + Hash + Debug + Default + Send + Sync + 'static {
    type Link: Link;
    type Message: Message;

    /// Only the first call has an effect: a message may have woken the node before.
    fn begin(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>);
    fn message(&mut self, ctx: &Ctx<'_>, from: Self::Link, message: Self::Message, out: &mut impl Outbox<Self>);
}

impl<M: MessageDriven> Protocol for M {
    type Link = <M as MessageDriven>::Link;
    type Message = <M as MessageDriven>::Message;
    type Timer = ();
    type Command = Campaign;
    type Event = Outcome;
    type Durable = ();
    type Settings = Settings;

    fn start(_: &Ctx<'_>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        M::default()
    }

    #[inline]
    fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Campaign) => self.begin(ctx, out),
            Input::Message { from, message } => self.message(ctx, from, message, out),
            Input::Timer(()) | Input::PeerUp(_) | Input::PeerDown(_) | Input::Stored(()) => {}
        }
    }
}

/// What a member must know of its election.
#[allow(clippy::struct_excessive_bools)] // independent of each other
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Features {
    /// One machine for the whole run of the process: it has its own attempts and is never reset. Others get a fresh machine
    /// per round: the papers' "no failure during the election" holds inside each round.
    pub continuous: bool,
    /// Its decisions have numbers of their own ([`Election::term`]).
    pub has_terms: bool,
    /// Nodes form groups that merge. Each group has a leader, so there may be several leaders for a moment, even among nodes
    /// that can all talk to each other.
    pub groups: bool,
    /// No id decides which node wins, but chance: a further election would not help the best one.
    pub chance_decides: bool,
    /// Members vote that may not be elected. The machine then hears of every member, whether it stands or not, and
    /// whether its own member stands by [`Input::PeerUp`] and [`Input::PeerDown`] of itself.
    pub votes: bool,
    /// A leader can hand over to a chosen node ([`Election::hand_over`]).
    pub hands_over: bool,
    /// The machine counts with ids: it cannot tell members with priorities apart.
    pub plain_ids: bool,
}

impl Features {
    /// Of most algorithms.
    pub const PLAIN: Features = Features {
        continuous: false,
        has_terms: false,
        groups: false,
        chance_decides: false,
        votes: false,
        hands_over: false,
        plain_ids: false,
    };
}

/// Garcia-Molina's S(i): the subject of assertions 1 and 2, and with groups of assertions 3 and 4.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StateVector {
    pub s: Status,
    pub c: Option<NodeId>,
    /// The task definition, as an opaque number.
    pub d: u64,
    /// The group, where the algorithm has groups.
    pub g: Option<Group>,
}

/// The name of a group of nodes; no two groups ever have the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Group {
    pub coordinator: NodeId,
    /// How often the coordinator had started.
    pub start: u64,
    pub number: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Status {
    #[default]
    Down,
    Election,
    Reorganization,
    Normal,
}

/// A synchronous algorithm on a unidirectional ring: in each round it reads the messages that its left neighbour sent
/// in the round before, and may send to the right. A synchroniser turns it into a [`Protocol`]; the simulator runs it
/// directly.
pub trait Rounds: Clone + Eq + Hash + Debug + Send + Sync + 'static {
    type Message: Message;

    /// Do all nodes take part from round 0 on, whichever nodes start an election?
    const ALL_START: bool = false;

    fn new(ctx: &Ctx<'_>) -> Self;

    /// `awake`: this node starts an election in this round. Messages pushed to `out` are read by the right neighbour in
    /// round `r + 1`.
    fn round(
        &mut self,
        ctx: &Ctx<'_>,
        r: u64,
        awake: bool,
        inbox: &[Self::Message],
        out: &mut Vec<Self::Message>,
    ) -> Next;
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Next {
    /// Nothing to do before round `until` unless a message arrives: lets the simulator skip silent rounds.
    Quiet {
        until: u64,
    },
    Go,
    /// Decided; keeps taking part as a relay.
    Decided(Outcome),
}
