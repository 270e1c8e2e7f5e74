//! A member whose disk keeps nothing.

use algorithms::{Ctx, Election, Input, NodeId, Outbox, Protocol, Span, View};
use member::{Command, Envelope, Event, Member, NodeSet, Record, Timer};
use model::members::{Class, Subject};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Forgetful<E: Election>(Member<E>);

impl<E: Election> Protocol for Forgetful<E> {
    type Link = NodeId;
    type Message = Envelope<E::Link, E::Message>;
    type Timer = Timer<E::Timer>;
    type Command = Command;
    type Event = Event;
    type Durable = Record;

    fn start(ctx: &Ctx<'_>, stored: Option<Record>, out: &mut impl Outbox<Self>) -> Self {
        Forgetful(Member::start(ctx, stored, &mut NoDisk(out)))
    }

    fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        let input = match input {
            Input::Message { from, message } => Input::Message { from, message },
            Input::Timer(timer) => Input::Timer(timer),
            Input::PeerUp(peer) => Input::PeerUp(peer),
            Input::PeerDown(peer) => Input::PeerDown(peer),
            Input::Command(command) => Input::Command(command),
            Input::Stored(record) => Input::Stored(record),
        };
        self.0.step(ctx, input, &mut NoDisk(out));
    }
}

impl<E: Election> Subject for Forgetful<E> {
    fn links(&self, view: &View) -> NodeSet {
        self.0.links(view)
    }

    fn class(timer: Self::Timer) -> Class {
        <Member<E> as Subject>::class(timer)
    }
}

struct NoDisk<'a, O>(&'a mut O);

impl<E: Election, O: Outbox<Forgetful<E>>> Outbox<Member<E>> for NoDisk<'_, O> {
    fn send(&mut self, to: NodeId, message: Envelope<E::Link, E::Message>) {
        self.0.send(to, message);
    }
    fn forward(&mut self, to: NodeId, message: Envelope<E::Link, E::Message>) {
        self.0.forward(to, message);
    }
    fn set_timer(&mut self, timer: Timer<E::Timer>, after: Span) {
        self.0.set_timer(timer, after);
    }
    fn cancel_timer(&mut self, timer: Timer<E::Timer>) {
        self.0.cancel_timer(timer);
    }
    fn persist(&mut self, _: Record) {}
    fn store(&mut self, _: Record) {}
    fn announce(&mut self, event: Event) {
        self.0.announce(event);
    }
}
