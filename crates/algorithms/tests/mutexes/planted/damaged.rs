//! Mistakes in what a machine of the catalog sends: a layer around it that changes or drops messages.

use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;

use algorithms::mutex::{central, maekawa, raymond, suzuki_kasami};
use algorithms::{Input, Mutex, MutexSettings, NodeId, Outbox, Protocol, Section, Span, Stage, Token, Want};

use super::Context;

pub(crate) trait Damage<M: Protocol>: Clone + Eq + Hash + Debug + Send + Sync + 'static {
    /// What is sent instead; `None` for nothing.
    fn send(when: When<M::Link>, to: M::Link, message: M::Message) -> Option<M::Message>;
}

/// What a machine does when it sends a message.
#[derive(Clone, Copy)]
pub(crate) struct When<L> {
    /// The member whose message it handles.
    cause: Option<L>,
    /// The member to which it has just sent another message in this step.
    before: Option<L>,
}

/// A machine of the catalog behind a mistake.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Damaged<M, D>(M, PhantomData<D>);

struct Layer<'a, M: Protocol, D, O> {
    out: &'a mut O,
    when: When<M::Link>,
    damage: PhantomData<D>,
}

impl<'a, M: Protocol, D, O> Layer<'a, M, D, O> {
    fn new(out: &'a mut O, cause: Option<M::Link>) -> Self {
        Layer { out, when: When { cause, before: None }, damage: PhantomData }
    }
}

impl<M: Mutex, D: Damage<M>, O: Outbox<Damaged<M, D>>> Outbox<M> for Layer<'_, M, D, O> {
    fn send(&mut self, to: M::Link, message: M::Message) {
        if let Some(message) = D::send(self.when, to, message) {
            self.out.send(to, message);
            self.when.before = Some(to);
        }
    }
    fn forward(&mut self, to: M::Link, message: M::Message) {
        self.send(to, message);
    }
    fn set_timer(&mut self, timer: M::Timer, after: Span) {
        self.out.set_timer(timer, after);
    }
    fn cancel_timer(&mut self, timer: M::Timer) {
        self.out.cancel_timer(timer);
    }
    fn persist(&mut self, (): ()) {}
    fn store(&mut self, (): ()) {}
    fn announce(&mut self, event: Section) {
        self.out.announce(event);
    }
}

impl<M: Mutex, D: Damage<M>> Protocol for Damaged<M, D> {
    type Link = M::Link;
    type Message = M::Message;
    type Timer = M::Timer;
    type Command = Want;
    type Event = Section;
    type Durable = ();
    type Settings = MutexSettings;

    fn start(ctx: &Context<'_>, _: Option<()>, out: &mut impl Outbox<Self>) -> Self {
        Damaged(M::start(ctx, None, &mut Layer::<M, D, _>::new(out, None)), PhantomData)
    }

    fn step(&mut self, ctx: &Context<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        let cause = if let Input::Message { from, .. } = &input { Some(*from) } else { None };
        let input = match input {
            Input::Message { from, message } => Input::Message { from, message },
            Input::Timer(timer) => Input::Timer(timer),
            Input::PeerUp(id) => Input::PeerUp(id),
            Input::PeerDown(id) => Input::PeerDown(id),
            Input::Command(want) => Input::Command(want),
            Input::Stored(()) => Input::Stored(()),
        };
        self.0.step(ctx, input, &mut Layer::<M, D, _>::new(out, cause));
    }
}

impl<M: Mutex, D: Damage<M>> Mutex for Damaged<M, D> {
    const SHARED: bool = M::SHARED;

    fn stage(&self) -> Stage {
        self.0.stage()
    }
}

/// Maekawa without INQUIRE: two members keep half of the votes each.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NoInquire;

impl Damage<maekawa::Maekawa> for NoInquire {
    fn send(_: When<NodeId>, _: NodeId, message: maekawa::Msg) -> Option<maekawa::Msg> {
        (!matches!(message, maekawa::Msg::Inquire { .. })).then_some(message)
    }
}

/// Maekawa as first published: a waiting request that an earlier one overtakes is not told.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct AsPublished;

impl Damage<maekawa::Maekawa> for AsPublished {
    fn send(when: When<NodeId>, to: NodeId, message: maekawa::Msg) -> Option<maekawa::Msg> {
        (!matches!(message, maekawa::Msg::Failed { .. }) || when.cause == Some(to)).then_some(message)
    }
}

/// The token is not asked for again when it is sent to the first of several.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NotAgain;

impl Damage<raymond::Raymond> for NotAgain {
    fn send(when: When<NodeId>, to: NodeId, message: raymond::Msg) -> Option<raymond::Msg> {
        (message != raymond::Msg::Request || when.before != Some(to)).then_some(message)
    }
}

/// Requests without numbers: only the first one of a member is new.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NoNumbers;

impl Damage<suzuki_kasami::SuzukiKasami> for NoNumbers {
    fn send(_: When<NodeId>, _: NodeId, message: suzuki_kasami::Msg) -> Option<suzuki_kasami::Msg> {
        Some(match message {
            suzuki_kasami::Msg::Request { .. } => suzuki_kasami::Msg::Request { number: 1 },
            token @ suzuki_kasami::Msg::Token { .. } => token,
        })
    }
}

/// A release does not tell the clerk which token was taken.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NoToken;

impl Damage<central::Central> for NoToken {
    fn send(_: When<NodeId>, _: NodeId, message: central::Msg) -> Option<central::Msg> {
        Some(if let central::Msg::Release(_) = message { central::Msg::Release(Token(0)) } else { message })
    }
}
