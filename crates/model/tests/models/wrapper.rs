//! A machine with one rule broken: the bug stands between the machine and its driver, and changes what goes in and what
//! comes out. All bugs of a machine are one type, `one_of!` them, and the [`Mistake`] of the model chooses: a checker is
//! compiled for this type alone, and the machine as it ships is examined in it as well, with no bug.

use std::fmt::Debug;
use std::hash::Hash;

use algorithms::drive::{Effect, Effects};
use algorithms::{Ctx, Input, NodeId, Outbox, Protocol, View};
use member::reign::Reign;
use member::{NodeSet, Standing};
use model::members::Class;
use model::mistake::Mistake;

pub(crate) trait Bug<M: Protocol>: Clone + Eq + Hash + Debug + Default + Send + Sync + 'static {
    fn start(ctx: &Ctx<'_, M::Settings>, stored: Option<M::Durable>, out: &mut Vec<Effect<M>>) -> M {
        start(ctx, stored, out)
    }

    fn step(&mut self, machine: &mut M, ctx: &Ctx<'_, M::Settings>, input: Input<M>, out: &mut Vec<Effect<M>>) {
        step(machine, ctx, input, out);
    }
}

/// As the machine does it.
pub(crate) fn start<M: Protocol>(
    ctx: &Ctx<'_, M::Settings>,
    stored: Option<M::Durable>,
    out: &mut Vec<Effect<M>>,
) -> M {
    let mut effects = Effects::default();
    let machine = M::start(ctx, stored, &mut effects);
    out.extend(std::iter::from_fn(|| effects.pop()));
    machine
}

/// As the machine does it.
pub(crate) fn step<M: Protocol>(
    machine: &mut M,
    ctx: &Ctx<'_, M::Settings>,
    input: Input<M>,
    out: &mut Vec<Effect<M>>,
) {
    let mut effects = Effects::default();
    machine.step(ctx, input, &mut effects);
    out.extend(std::iter::from_fn(|| effects.pop()));
}

/// One of the bugs of a machine, or none.
pub(crate) trait Bugs<M: Protocol>: Clone + Eq + Hash + Debug + Send + Sync + 'static {
    fn chosen(mistake: Mistake) -> Self;
    fn start(&self, ctx: &Ctx<'_, M::Settings>, stored: Option<M::Durable>, out: &mut Vec<Effect<M>>) -> M;
    fn step(&mut self, machine: &mut M, ctx: &Ctx<'_, M::Settings>, input: Input<M>, out: &mut Vec<Effect<M>>);
}

/// An enum of these bugs of a machine, beside `Sound`. In brackets: the type parameters of the machine.
macro_rules! one_of {
    ($name:ident[$($parameters:tt)*] for $machine:ty: $($bug:ident),+ $(,)?) => {
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        pub(crate) enum $name {
            Sound,
            $($bug($bug)),+
        }

        $(impl From<$bug> for $name {
            fn from(bug: $bug) -> Self {
                $name::$bug(bug)
            }
        })+

        impl $name {
            fn all() -> Vec<Self> {
                vec![$name::Sound, $($name::$bug(<$bug>::default())),+]
            }

            /// The number that chooses this bug.
            pub(crate) fn mistake(&self) -> model::mistake::Mistake {
                let place = Self::all().iter().position(|bug| bug == self);
                model::mistake::Mistake::at(place.expect("a bug as it begins"))
            }
        }

        impl<$($parameters)*> $crate::wrapper::Bugs<$machine> for $name {
            fn chosen(mistake: model::mistake::Mistake) -> Self {
                Self::all().swap_remove(mistake.place())
            }

            fn start(
                &self,
                ctx: &algorithms::Ctx<'_, <$machine as algorithms::Protocol>::Settings>,
                stored: Option<<$machine as algorithms::Protocol>::Durable>,
                out: &mut Vec<algorithms::drive::Effect<$machine>>,
            ) -> $machine {
                match self {
                    $name::Sound => $crate::wrapper::start(ctx, stored, out),
                    $($name::$bug(_) => <$bug as $crate::wrapper::Bug<$machine>>::start(ctx, stored, out)),+
                }
            }

            fn step(
                &mut self,
                machine: &mut $machine,
                ctx: &algorithms::Ctx<'_, <$machine as algorithms::Protocol>::Settings>,
                input: algorithms::Input<$machine>,
                out: &mut Vec<algorithms::drive::Effect<$machine>>,
            ) {
                match self {
                    $name::Sound => $crate::wrapper::step(machine, ctx, input, out),
                    $($name::$bug(bug) => $crate::wrapper::Bug::<$machine>::step(bug, machine, ctx, input, out)),+
                }
            }
        }
    };
}
pub(crate) use one_of;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Planted<M, B> {
    machine: M,
    bug: B,
}

impl<M: Protocol, B: Bugs<M>> Protocol for Planted<M, B> {
    type Link = M::Link;
    type Message = M::Message;
    type Timer = M::Timer;
    type Command = M::Command;
    type Event = M::Event;
    type Durable = M::Durable;
    type Settings = M::Settings;

    fn start(ctx: &Ctx<'_, M::Settings>, stored: Option<M::Durable>, out: &mut impl Outbox<Self>) -> Self {
        let (mistake, dice) = Mistake::split(ctx.dice);
        let (bug, mut effects) = (B::chosen(mistake), Vec::new());
        let machine = bug.start(&Ctx { dice, ..*ctx }, stored, &mut effects);
        pass_on(effects, out);
        Planted { machine, bug }
    }

    fn step(&mut self, ctx: &Ctx<'_, M::Settings>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        let input = match input {
            Input::Message { from, message } => Input::Message { from, message },
            Input::Timer(timer) => Input::Timer(timer),
            Input::PeerUp(peer) => Input::PeerUp(peer),
            Input::PeerDown(peer) => Input::PeerDown(peer),
            Input::Command(command) => Input::Command(command),
            Input::Stored(record) => Input::Stored(record),
        };
        let mut effects = Vec::new();
        let ctx = Ctx { dice: Mistake::split(ctx.dice).1, ..*ctx };
        self.bug.step(&mut self.machine, &ctx, input, &mut effects);
        pass_on(effects, out);
    }

    fn lasts_until(event: &M::Event) -> Option<M::Timer> {
        M::lasts_until(event)
    }
}

fn pass_on<M: Protocol, B: Bugs<M>>(effects: Vec<Effect<M>>, out: &mut impl Outbox<Planted<M, B>>) {
    for effect in effects {
        match effect {
            Effect::Send { to, message, .. } => out.send(to, message),
            Effect::SetTimer(timer, after) => out.set_timer(timer, after),
            Effect::CancelTimer(timer) => out.cancel_timer(timer),
            Effect::Persist(record) => out.persist(record),
            Effect::Store(record) => out.store(record),
            Effect::Announce(event) => out.announce(event),
        }
    }
}

impl<B: Bugs<Reign>> model::reign::Subject for Planted<Reign, B> {
    fn reign(&self) -> &Reign {
        &self.machine
    }
}

impl<M: model::members::Subject, B: Bugs<M>> model::members::Subject for Planted<M, B> {
    const LEASES: bool = M::LEASES;

    fn features(settings: &member::Settings) -> algorithms::Features {
        M::features(settings)
    }

    fn links(&self, view: &View) -> NodeSet {
        self.machine.links(view)
    }

    fn standing(&self) -> Standing {
        self.machine.standing()
    }

    fn is_steady(&self, leader: NodeId) -> bool {
        self.machine.is_steady(leader)
    }

    fn class(timer: M::Timer) -> Class {
        M::class(timer)
    }

    fn is_handover(message: &M::Message) -> bool {
        M::is_handover(message)
    }
}

impl<M: algorithms::Election, B: Bugs<M>> algorithms::Election for Planted<M, B> {
    const FEATURES: algorithms::Features = algorithms::Features { hands_over: false, ..M::FEATURES };

    fn term(&self) -> Option<algorithms::Epoch> {
        self.machine.term()
    }

    fn vote(me: NodeId, to: M::Link, message: &M::Message) -> Option<(algorithms::Epoch, NodeId)> {
        M::vote(me, to, message)
    }
}

impl<M: model::views::Subject, B: Bugs<M>> model::views::Subject for Planted<M, B> {
    type Machine = M::Machine;

    fn views(&self) -> &locks::views::Views<M::Machine> {
        self.machine.views()
    }
}
