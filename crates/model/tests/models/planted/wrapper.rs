//! A machine with one rule broken: the bug stands between the machine and its driver, and changes what goes in and what
//! comes out.

use std::fmt::Debug;
use std::hash::Hash;

use algorithms::drive::{Effect, Effects};
use algorithms::{Ctx, Input, NodeId, Outbox, Protocol, View};
use member::reign::Reign;
use member::{NodeSet, Standing};
use model::members::Class;

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

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Planted<M, B> {
    machine: M,
    bug: B,
}

impl<M: Protocol, B: Bug<M>> Protocol for Planted<M, B> {
    type Link = M::Link;
    type Message = M::Message;
    type Timer = M::Timer;
    type Command = M::Command;
    type Event = M::Event;
    type Durable = M::Durable;
    type Settings = M::Settings;

    fn start(ctx: &Ctx<'_, M::Settings>, stored: Option<M::Durable>, out: &mut impl Outbox<Self>) -> Self {
        let mut effects = Vec::new();
        let machine = B::start(ctx, stored, &mut effects);
        pass_on(effects, out);
        Planted { machine, bug: B::default() }
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
        self.bug.step(&mut self.machine, ctx, input, &mut effects);
        pass_on(effects, out);
    }

    fn lasts_until(event: &M::Event) -> Option<M::Timer> {
        M::lasts_until(event)
    }
}

fn pass_on<M: Protocol, B: Bug<M>>(effects: Vec<Effect<M>>, out: &mut impl Outbox<Planted<M, B>>) {
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

impl<B: Bug<Reign>> model::reign::Subject for Planted<Reign, B> {
    fn reign(&self) -> &Reign {
        &self.machine
    }
}

impl<M: model::members::Subject, B: Bug<M>> model::members::Subject for Planted<M, B> {
    const LEASES: bool = M::LEASES;
    const TERMS: bool = M::TERMS;

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

impl<M: algorithms::Election, B: Bug<M>> algorithms::Election for Planted<M, B> {
    const LIFE: algorithms::Life = M::LIFE;
    const HAS_TERMS: bool = M::HAS_TERMS;
    const CHANCE_DECIDES: bool = M::CHANCE_DECIDES;
    const VOTES: bool = M::VOTES;

    fn term(&self) -> Option<algorithms::Epoch> {
        self.machine.term()
    }

    fn vote(me: NodeId, to: M::Link, message: &M::Message) -> Option<(algorithms::Epoch, NodeId)> {
        M::vote(me, to, message)
    }
}

impl<M: model::views::Subject, B: Bug<M>> model::views::Subject for Planted<M, B> {
    type Machine = M::Machine;

    fn views(&self) -> &locks::views::Views<M::Machine> {
        self.machine.views()
    }
}
