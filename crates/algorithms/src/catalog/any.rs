//! Every election of the catalog as one machine: [`AnyElection`](super::AnyElection). Drivers that run whole members are compiled
//! once instead of once for each row; [`Settings::algorithm`](crate::Settings::algorithm) names the row. Mutual exclusions share
//! the translation: `any_mutex.rs`.
//!
//! Its messages, timers and records are those of the textbook machine inside it. Encoded, they are the same bytes: which
//! algorithm runs is known from the config, so the reader of bytes asks [`Algorithm::read_message`](super::Algorithm::read_message).

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::protocol::{Ctx, Election, Input, Outbox, Protocol, Span};
use crate::view::{Edge, Link, Side, TypedLink, View};
use types::{Epoch, NodeId, Topology};

/// A textbook machine of a registry: its messages, timers and records as those of [`Listed::Any`], and back.
pub(super) trait Listed: Protocol<Link: TypedLink> {
    /// All machines of its registry as one.
    type Any: Protocol<Link = LinkNumber, Command = Self::Command, Event = Self::Event, Settings = Self::Settings>;

    fn any_message(message: Self::Message) -> <Self::Any as Protocol>::Message;
    fn any_timer(timer: Self::Timer) -> <Self::Any as Protocol>::Timer;
    fn any_record(record: Self::Durable) -> <Self::Any as Protocol>::Durable;
    /// `None` if it belongs to another algorithm, here and below.
    fn own_message(message: <Self::Any as Protocol>::Message) -> Option<Self::Message>;
    fn own_timer(timer: <Self::Any as Protocol>::Timer) -> Option<Self::Timer>;
    fn own_record(record: <Self::Any as Protocol>::Durable) -> Option<Self::Durable>;
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

impl<M: Listed, O: Outbox<M::Any>> Outbox<M> for Typed<'_, O> {
    fn send(&mut self, to: M::Link, message: M::Message) {
        self.0.send(LinkNumber(to.number()), M::any_message(message));
    }
    fn forward(&mut self, to: M::Link, message: M::Message) {
        self.0.forward(LinkNumber(to.number()), M::any_message(message));
    }
    fn set_timer(&mut self, timer: M::Timer, after: Span) {
        self.0.set_timer(M::any_timer(timer), after);
    }
    fn cancel_timer(&mut self, timer: M::Timer) {
        self.0.cancel_timer(M::any_timer(timer));
    }
    fn persist(&mut self, record: M::Durable) {
        self.0.persist(M::any_record(record));
    }
    fn store(&mut self, record: M::Durable) {
        self.0.store(M::any_record(record));
    }
    fn announce(&mut self, event: M::Event) {
        self.0.announce(event);
    }
}

pub(super) fn start<M: Listed>(
    ctx: &Ctx<'_, M::Settings>,
    stored: Option<<M::Any as Protocol>::Durable>,
    out: &mut impl Outbox<M::Any>,
) -> M {
    let own = |record| M::own_record(record).expect("a record is read as one of the algorithm that runs");
    M::start(ctx, stored.map(own), &mut Typed(out))
}

pub(super) fn step<M: Listed>(
    machine: &mut M,
    ctx: &Ctx<'_, M::Settings>,
    input: Input<M::Any>,
    out: &mut impl Outbox<M::Any>,
) {
    if let Some(input) = own_input(input) {
        machine.step(ctx, input, &mut Typed(out));
    }
}

pub(super) fn vote<E: Election<Link: TypedLink>>(
    me: NodeId,
    to: LinkNumber,
    message: &E::Message,
) -> Option<(Epoch, NodeId)> {
    E::vote(me, E::Link::numbered(to.0)?, message)
}

/// `None` for an input that no driver of this algorithm has: a message or timer of another one.
fn own_input<M: Listed>(input: Input<M::Any>) -> Option<Input<M>> {
    Some(match input {
        Input::Message { from, message } => {
            Input::Message { from: M::Link::numbered(from.0)?, message: M::own_message(message)? }
        }
        Input::Timer(timer) => Input::Timer(M::own_timer(timer)?),
        Input::PeerUp(peer) => Input::PeerUp(peer),
        Input::PeerDown(peer) => Input::PeerDown(peer),
        Input::Command(command) => Input::Command(command),
        Input::Stored(record) => Input::Stored(M::own_record(record)?),
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

/// The machines of a registry as one: enums with a variant for each row; everything is passed on to the machine in the variant.
/// Expanded in the registries, whose imports it uses. `by` is the field of the settings that names the row; a registry of
/// machines that keep nothing has the record `()`.
macro_rules! any_machine {
    (
        $any:ident named $name:ident by $field:ident,
        $message:ident, $timer:ident, $record:tt, $command:ty, $event:ty, $settings:ty;
        $($variant:ident: $machine:ty;)*
    ) => {
        /// The name of a row.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name { $($variant),* }

        #[derive(Clone, PartialEq, Eq, Hash)]
        pub enum $any { $($variant($machine)),* }

        #[derive(Clone, PartialEq, Eq, Hash)]
        pub enum $message { $($variant(<$machine as Protocol>::Message)),* }

        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $timer { $($variant(<$machine as Protocol>::Timer)),* }

        transparent!($any: $($variant)*);
        transparent!($timer: $($variant)*);
        transparent!($message encoded: $($variant)*);

        $(impl Listed for $machine {
            type Any = $any;

            fn any_message(message: Self::Message) -> $message {
                $message::$variant(message)
            }
            fn any_timer(timer: Self::Timer) -> $timer {
                $timer::$variant(timer)
            }
            fn own_message(message: $message) -> Option<Self::Message> {
                if let $message::$variant(message) = message { Some(message) } else { None }
            }
            fn own_timer(timer: $timer) -> Option<Self::Timer> {
                if let $timer::$variant(timer) = timer { Some(timer) } else { None }
            }
            any_machine!(record $record $variant);
        })*

        impl $name {
            pub fn read_message<R: Reader>(self, reader: R) -> Result<$message, R::Error> {
                match self { $($name::$variant => reader.read().map($message::$variant)),* }
            }
        }

        impl Message for $message {
            /// Every algorithm has its own.
            const KINDS: &'static [Kind] = &[];

            /// Index into the kinds of its algorithm.
            fn kind(&self) -> usize {
                match self { $($message::$variant(message) => message.kind()),* }
            }

            fn count(&self, counts: &mut Counts) {
                match self { $($message::$variant(message) => message.count(counts)),* }
            }
        }

        impl Protocol for $any {
            type Link = LinkNumber;
            type Message = $message;
            type Timer = $timer;
            type Command = $command;
            type Event = $event;
            type Durable = $record;
            type Settings = $settings;

            fn start(ctx: &Ctx<'_, $settings>, stored: Option<$record>, out: &mut impl Outbox<Self>) -> Self {
                match ctx.settings.$field.expect("the settings name the algorithm") {
                    $($name::$variant => $any::$variant(start(ctx, stored, out))),*
                }
            }

            fn step(&mut self, ctx: &Ctx<'_, $settings>, input: Input<Self>, out: &mut impl Outbox<Self>) {
                match self { $($any::$variant(machine) => step(machine, ctx, input, out)),* }
            }
        }
    };
    (record () $variant:ident) => {
        fn any_record((): ()) {}
        fn own_record((): ()) -> Option<()> {
            Some(())
        }
    };
    (record $record:ident $variant:ident) => {
        fn any_record(record: Self::Durable) -> $record {
            $record::$variant(record)
        }
        fn own_record(record: $record) -> Option<Self::Durable> {
            if let $record::$variant(record) = record { Some(record) } else { None }
        }
    };
}

/// [`AnyElection`], and what it alone has: records, and the facts of a row that are constants of its machine.
macro_rules! any_election {
    ($($method:ident $variant:ident: $machine:ty;)*) => {
        any_machine! {
            AnyElection named Algorithm by algorithm,
            AnyMessage, AnyTimer, AnyRecord, Campaign, Outcome, Settings;
            $($variant: live!($method $machine);)*
        }

        #[derive(Clone, PartialEq, Eq, Hash)]
        pub enum AnyRecord { $($variant(<live!($method $machine) as Protocol>::Durable)),* }

        transparent!(AnyRecord encoded: $($variant)*);

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

            pub fn read_record<R: Reader>(self, reader: R) -> Result<AnyRecord, R::Error> {
                match self { $(Algorithm::$variant => reader.read().map(AnyRecord::$variant)),* }
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
