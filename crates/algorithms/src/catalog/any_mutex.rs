//! Every mutual exclusion that may run live as one machine: [`AnyMutex`]. The lock service around the machines is compiled once
//! instead of once for each row; [`MutexSettings::machine`](crate::MutexSettings::machine) names the row.
//!
//! Messages and timers are those of the textbook machine inside. Encoded, messages are the same bytes: which algorithm runs is
//! known from the config, so the reader of bytes asks [`LiveMutex::read_message`].

use super::LinkNumber;
use super::mutex::{AnyMutex, AnyMutexMessage, AnyMutexTimer};
use crate::mutex::{Mutex, MutexSettings, Section};
use crate::protocol::{Ctx, Input, Outbox, Span};
use crate::view::TypedLink;
use types::Topology;

/// A live machine of the catalog: its messages and timers as those of [`AnyMutex`], and back.
pub(super) trait Listed: Mutex {
    fn any_message(message: Self::Message) -> AnyMutexMessage;
    fn any_timer(timer: Self::Timer) -> AnyMutexTimer;
    /// `None` if it belongs to another algorithm, here and below.
    fn own_message(message: AnyMutexMessage) -> Option<Self::Message>;
    fn own_timer(timer: AnyMutexTimer) -> Option<Self::Timer>;
}

impl TypedLink for LinkNumber {
    /// Of most machines. A ring's is told by [`Mutex::topology`].
    const TOPOLOGY: Topology = Topology::Mesh;

    fn number(self) -> u32 {
        self.0
    }

    fn numbered(number: u32) -> Option<Self> {
        Some(LinkNumber(number))
    }
}

/// The outbox of any machine, as a textbook machine sees it.
pub(super) struct Typed<'a, O>(&'a mut O);

impl<M: Listed, O: Outbox<AnyMutex>> Outbox<M> for Typed<'_, O> {
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
    fn persist(&mut self, (): ()) {
        self.0.persist(());
    }
    fn store(&mut self, (): ()) {
        self.0.store(());
    }
    fn announce(&mut self, event: Section) {
        self.0.announce(event);
    }
}

pub(super) fn start<M: Listed>(ctx: &Ctx<'_, MutexSettings>, out: &mut impl Outbox<AnyMutex>) -> M {
    M::start(ctx, None, &mut Typed(out))
}

/// Does nothing for an input that no driver of this algorithm has: a message or timer of another one.
pub(super) fn step<M: Listed>(
    machine: &mut M,
    ctx: &Ctx<'_, MutexSettings>,
    input: Input<AnyMutex>,
    out: &mut impl Outbox<AnyMutex>,
) {
    if let Some(input) = own_input(input) {
        machine.step(ctx, input, &mut Typed(out));
    }
}

fn own_input<M: Listed>(input: Input<AnyMutex>) -> Option<Input<M>> {
    Some(match input {
        Input::Message { from, message } => {
            Input::Message { from: M::Link::numbered(from.0)?, message: M::own_message(message)? }
        }
        Input::Timer(timer) => Input::Timer(M::own_timer(timer)?),
        Input::PeerUp(peer) => Input::PeerUp(peer),
        Input::PeerDown(peer) => Input::PeerDown(peer),
        Input::Command(command) => Input::Command(command),
        Input::Stored(()) => Input::Stored(()),
    })
}

/// Enums with a variant for each live row; everything is passed on to the machine in the variant. Expanded in the catalog of
/// mutual exclusions, whose imports it uses.
macro_rules! any_mutex {
    ($($variant:ident: $machine:ty;)*) => {
        /// The name of a row that may run live.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum LiveMutex { $($variant),* }

        #[derive(Clone, PartialEq, Eq, Hash)]
        pub enum AnyMutex { $($variant($machine)),* }

        #[derive(Clone, PartialEq, Eq, Hash)]
        pub enum AnyMutexMessage { $($variant(<$machine as Protocol>::Message)),* }

        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum AnyMutexTimer { $($variant(<$machine as Protocol>::Timer)),* }

        transparent!(AnyMutex: $($variant)*);
        transparent!(AnyMutexTimer: $($variant)*);
        transparent!(AnyMutexMessage encoded: $($variant)*);

        $(impl any_mutex::Listed for $machine {
            fn any_message(message: Self::Message) -> AnyMutexMessage {
                AnyMutexMessage::$variant(message)
            }
            fn any_timer(timer: Self::Timer) -> AnyMutexTimer {
                AnyMutexTimer::$variant(timer)
            }
            fn own_message(message: AnyMutexMessage) -> Option<Self::Message> {
                if let AnyMutexMessage::$variant(message) = message { Some(message) } else { None }
            }
            fn own_timer(timer: AnyMutexTimer) -> Option<Self::Timer> {
                if let AnyMutexTimer::$variant(timer) = timer { Some(timer) } else { None }
            }
        })*

        impl LiveMutex {
            pub fn read_message<R: Reader>(self, reader: R) -> Result<AnyMutexMessage, R::Error> {
                match self { $(LiveMutex::$variant => reader.read().map(AnyMutexMessage::$variant)),* }
            }
        }

        impl Message for AnyMutexMessage {
            /// Every algorithm has its own.
            const KINDS: &'static [Kind] = &[];

            /// Index into the kinds of its algorithm.
            fn kind(&self) -> usize {
                match self { $(AnyMutexMessage::$variant(message) => message.kind()),* }
            }
        }

        impl Protocol for AnyMutex {
            type Link = LinkNumber;
            type Message = AnyMutexMessage;
            type Timer = AnyMutexTimer;
            type Command = Want;
            type Event = Section;
            type Durable = ();
            type Settings = MutexSettings;

            fn start(ctx: &Ctx<'_, MutexSettings>, _: Option<()>, out: &mut impl Outbox<Self>) -> Self {
                match ctx.settings.machine.expect("the settings of a lock name its algorithm") {
                    $(LiveMutex::$variant => AnyMutex::$variant(any_mutex::start(ctx, out))),*
                }
            }

            fn step(&mut self, ctx: &Ctx<'_, MutexSettings>, input: Input<Self>, out: &mut impl Outbox<Self>) {
                match self { $(AnyMutex::$variant(machine) => any_mutex::step(machine, ctx, input, out)),* }
            }
        }

        impl Mutex for AnyMutex {
            fn topology(machine: Option<LiveMutex>) -> Topology {
                match machine {
                    $(Some(LiveMutex::$variant) => <$machine>::topology(machine),)*
                    None => Topology::Mesh,
                }
            }

            fn shares(machine: Option<LiveMutex>) -> bool {
                match machine {
                    $(Some(LiveMutex::$variant) => <$machine>::SHARED,)*
                    None => false,
                }
            }

            fn stage(&self) -> Stage {
                match self { $(AnyMutex::$variant(machine) => machine.stage()),* }
            }

            fn clock(&self) -> Option<u64> {
                match self { $(AnyMutex::$variant(machine) => machine.clock()),* }
            }

            fn stamp(&self) -> Option<Stamp> {
                match self { $(AnyMutex::$variant(machine) => machine.stamp()),* }
            }

            fn heard(&mut self, time: u64) {
                match self { $(AnyMutex::$variant(machine) => machine.heard(time)),* }
            }
        }
    };
}
