//! Every election of the catalog as one machine: [`AnyElection`]. Drivers that run whole members are compiled once instead of
//! once for each row; [`Settings::algorithm`](crate::Settings::algorithm) names the row.
//!
//! Its messages, timers and records are those of the textbook machine inside it. Encoded, they are the same bytes: which
//! algorithm runs is known from the config, so the reader of bytes asks [`Algorithm::read_message`].

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{AnyElection, AnyMessage, AnyRecord, AnyTimer};
use crate::protocol::{Ctx, Election, Input, Outbox, Span};
use crate::view::{Edge, Link, Side, TypedLink, View};
use types::{Epoch, NodeId, Topology};

/// A textbook machine of the catalog: its messages, timers and records as those of [`AnyElection`], and back.
pub(super) trait Listed: Election<Link: TypedLink> {
    fn any_message(message: Self::Message) -> AnyMessage;
    fn any_timer(timer: Self::Timer) -> AnyTimer;
    fn any_record(record: Self::Durable) -> AnyRecord;
    /// `None` if it belongs to another algorithm, here and below.
    fn own_message(message: AnyMessage) -> Option<Self::Message>;
    fn own_timer(timer: AnyTimer) -> Option<Self::Timer>;
    fn own_record(record: AnyRecord) -> Option<Self::Durable>;
}

/// A link by its number: on a ring 0 is the left and 1 the right, elsewhere it is the id of the node at the far end. The view
/// tells which.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct LinkNumber(pub u32);

impl Link for LinkNumber {
    fn far_end(self, me: usize, view: &View) -> Option<(usize, Self)> {
        match view.topology() {
            Topology::Ring => far_end::<Side>(self, me, view),
            Topology::Mesh => far_end::<NodeId>(self, me, view),
            Topology::Graph => far_end::<Edge>(self, me, view),
        }
    }
}

fn far_end<L: TypedLink>(link: LinkNumber, me: usize, view: &View) -> Option<(usize, LinkNumber)> {
    let (there, theirs) = L::numbered(link.0)?.far_end(me, view)?;
    Some((there, LinkNumber(theirs.number())))
}

/// The outbox of any machine, as a textbook machine sees it.
pub(super) struct Typed<'a, O>(pub(super) &'a mut O);

impl<E: Listed, O: Outbox<AnyElection>> Outbox<E> for Typed<'_, O> {
    fn send(&mut self, to: E::Link, message: E::Message) {
        self.0.send(LinkNumber(to.number()), E::any_message(message));
    }
    fn forward(&mut self, to: E::Link, message: E::Message) {
        self.0.forward(LinkNumber(to.number()), E::any_message(message));
    }
    fn set_timer(&mut self, timer: E::Timer, after: Span) {
        self.0.set_timer(E::any_timer(timer), after);
    }
    fn cancel_timer(&mut self, timer: E::Timer) {
        self.0.cancel_timer(E::any_timer(timer));
    }
    fn persist(&mut self, record: E::Durable) {
        self.0.persist(E::any_record(record));
    }
    fn store(&mut self, record: E::Durable) {
        self.0.store(E::any_record(record));
    }
    fn announce(&mut self, event: E::Event) {
        self.0.announce(event);
    }
}

pub(super) fn start<E: Listed>(ctx: &Ctx<'_>, stored: Option<AnyRecord>, out: &mut impl Outbox<AnyElection>) -> E {
    let own = |record| E::own_record(record).expect("a record is read as one of the algorithm that runs");
    E::start(ctx, stored.map(own), &mut Typed(out))
}

pub(super) fn step<E: Listed>(
    machine: &mut E,
    ctx: &Ctx<'_>,
    input: Input<AnyElection>,
    out: &mut impl Outbox<AnyElection>,
) {
    if let Some(input) = own_input(input) {
        machine.step(ctx, input, &mut Typed(out));
    }
}

pub(super) fn vote<E: Listed>(me: NodeId, to: LinkNumber, message: &E::Message) -> Option<(Epoch, NodeId)> {
    E::vote(me, E::Link::numbered(to.0)?, message)
}

/// `None` for an input that no driver of this algorithm has: a message or timer of another one.
fn own_input<E: Listed>(input: Input<AnyElection>) -> Option<Input<E>> {
    Some(match input {
        Input::Message { from, message } => {
            Input::Message { from: E::Link::numbered(from.0)?, message: E::own_message(message)? }
        }
        Input::Timer(timer) => Input::Timer(E::own_timer(timer)?),
        Input::PeerUp(peer) => Input::PeerUp(peer),
        Input::PeerDown(peer) => Input::PeerDown(peer),
        Input::Command(command) => Input::Command(command),
        Input::Stored(record) => Input::Stored(E::own_record(record)?),
    })
}

/// Decodes a value of whatever type it is asked for.
pub trait Reader {
    type Error;
    fn read<T: DeserializeOwned>(self) -> Result<T, Self::Error>;
}

/// The machine of a row as members run it: a synchronous one inside a synchroniser.
macro_rules! live {
    (election $machine:ty) => { $machine };
    (rounds $machine:ty) => { Synchronised<$machine> };
}

/// Prints and encodes an enum as the value inside its variant.
macro_rules! transparent {
    ($any:ident: $($variant:ident)*) => {
        impl Debug for $any {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $($any::$variant(inner) => inner.fmt(f)),* }
            }
        }
    };
    ($any:ident encoded: $($variant:ident)*) => {
        transparent!($any: $($variant)*);

        impl Serialize for $any {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self { $($any::$variant(inner) => inner.serialize(serializer)),* }
            }
        }
    };
}

/// Enums with a variant for each row; everything is passed on to the machine in the variant. Expanded in the catalog, whose
/// imports it uses.
macro_rules! any_election {
    ($($method:ident $variant:ident: $machine:ty;)*) => {
        /// The name of a row.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Algorithm { $($variant),* }

        #[derive(Clone, PartialEq, Eq, Hash)]
        pub enum AnyElection { $($variant(live!($method $machine))),* }

        #[derive(Clone, PartialEq, Eq, Hash)]
        pub enum AnyMessage { $($variant(<live!($method $machine) as Protocol>::Message)),* }

        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum AnyTimer { $($variant(<live!($method $machine) as Protocol>::Timer)),* }

        #[derive(Clone, PartialEq, Eq, Hash)]
        pub enum AnyRecord { $($variant(<live!($method $machine) as Protocol>::Durable)),* }

        transparent!(AnyElection: $($variant)*);
        transparent!(AnyTimer: $($variant)*);
        transparent!(AnyMessage encoded: $($variant)*);
        transparent!(AnyRecord encoded: $($variant)*);

        $(impl Listed for live!($method $machine) {
            fn any_message(message: Self::Message) -> AnyMessage {
                AnyMessage::$variant(message)
            }
            fn any_timer(timer: Self::Timer) -> AnyTimer {
                AnyTimer::$variant(timer)
            }
            fn any_record(record: Self::Durable) -> AnyRecord {
                AnyRecord::$variant(record)
            }
            fn own_message(message: AnyMessage) -> Option<Self::Message> {
                if let AnyMessage::$variant(message) = message { Some(message) } else { None }
            }
            fn own_timer(timer: AnyTimer) -> Option<Self::Timer> {
                if let AnyTimer::$variant(timer) = timer { Some(timer) } else { None }
            }
            fn own_record(record: AnyRecord) -> Option<Self::Durable> {
                if let AnyRecord::$variant(record) = record { Some(record) } else { None }
            }
        })*

        impl Algorithm {
            pub const fn features(self) -> Features {
                match self { $(Algorithm::$variant => <live!($method $machine)>::FEATURES),* }
            }

            /// Of the links that its machine uses.
            pub const fn topology(self) -> Topology {
                match self { $(Algorithm::$variant => <<live!($method $machine) as Protocol>::Link>::TOPOLOGY),* }
            }

            /// The kinds of its messages, as theory counts them.
            pub const fn kinds(self) -> &'static [Kind] {
                match self { $(Algorithm::$variant => <<live!($method $machine) as Protocol>::Message>::KINDS),* }
            }

            pub fn read_message<R: Reader>(self, reader: R) -> Result<AnyMessage, R::Error> {
                match self { $(Algorithm::$variant => reader.read().map(AnyMessage::$variant)),* }
            }

            pub fn read_record<R: Reader>(self, reader: R) -> Result<AnyRecord, R::Error> {
                match self { $(Algorithm::$variant => reader.read().map(AnyRecord::$variant)),* }
            }
        }

        impl Message for AnyMessage {
            /// Every algorithm has its own: [`Algorithm::kinds`].
            const KINDS: &'static [Kind] = &[];

            /// Index into [`Algorithm::kinds`] of its algorithm.
            fn kind(&self) -> usize {
                match self { $(AnyMessage::$variant(message) => message.kind()),* }
            }

            fn count(&self, counts: &mut Counts) {
                match self { $(AnyMessage::$variant(message) => message.count(counts)),* }
            }
        }

        impl Protocol for AnyElection {
            type Link = LinkNumber;
            type Message = AnyMessage;
            type Timer = AnyTimer;
            type Command = Campaign;
            type Event = Outcome;
            type Durable = AnyRecord;
            type Settings = Settings;

            fn start(ctx: &Ctx<'_>, stored: Option<AnyRecord>, out: &mut impl Outbox<Self>) -> Self {
                match ctx.settings.algorithm.expect("the settings of a member name its algorithm") {
                    $(Algorithm::$variant => AnyElection::$variant(start(ctx, stored, out))),*
                }
            }

            fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
                match self { $(AnyElection::$variant(machine) => step(machine, ctx, input, out)),* }
            }
        }

        impl Election for AnyElection {
            fn features(settings: &Settings) -> Features {
                settings.algorithm.map_or(Features::PLAIN, Algorithm::features)
            }

            fn term(&self) -> Option<Epoch> {
                match self { $(AnyElection::$variant(machine) => machine.term()),* }
            }

            fn vote(me: NodeId, to: LinkNumber, message: &AnyMessage) -> Option<(Epoch, NodeId)> {
                match message {
                    $(AnyMessage::$variant(message) => vote::<live!($method $machine)>(me, to, message)),*
                }
            }

            fn hand_over(&mut self, ctx: &Ctx<'_>, to: NodeId, out: &mut impl Outbox<Self>) {
                match self { $(AnyElection::$variant(machine) => machine.hand_over(ctx, to, &mut Typed(out))),* }
            }

            fn active_list(&self) -> Option<&BTreeSet<Uid>> {
                match self { $(AnyElection::$variant(machine) => machine.active_list()),* }
            }

            fn state_vector(&self) -> Option<StateVector> {
                match self { $(AnyElection::$variant(machine) => machine.state_vector()),* }
            }
        }
    };
}
