//! Reigns with one rule broken each. A bug stands between the machine and its driver: it changes what goes in and what
//! comes out.

use std::fmt::Debug;
use std::hash::Hash;

use algorithms::{Ctx, Epoch, Input, NodeId, Outbox, Protocol, Span};
use member::reign::{Clock, Fact, Msg, Order, Reign, Tenure, Vote};
use model::effects::{Effect, Effects};
use model::reign::Subject;

pub(crate) trait Bug: Clone + Eq + Hash + Debug + Default + Send + Sync + 'static {
    fn start(ctx: &Ctx<'_>, stored: Option<Tenure>, out: &mut Effects<Reign>) -> Reign {
        Reign::start(ctx, stored, out)
    }

    fn step(&mut self, reign: &mut Reign, ctx: &Ctx<'_>, input: Input<Reign>, out: &mut Effects<Reign>) {
        reign.step(ctx, input, out);
    }
}

/// A grant is not written down.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Unwritten;

impl Bug for Unwritten {
    fn step(&mut self, reign: &mut Reign, ctx: &Ctx<'_>, input: Input<Reign>, out: &mut Effects<Reign>) {
        reign.step(ctx, input, out);
        out.0.retain(|effect| !matches!(effect, Effect::Persist(_)));
    }
}

/// The lease counts from the answer, not from the question.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct FromReply;

impl Bug for FromReply {
    fn step(&mut self, reign: &mut Reign, ctx: &Ctx<'_>, input: Input<Reign>, out: &mut Effects<Reign>) {
        reign.step(ctx, input, out);
        out.0.retain(|effect| !matches!(effect, Effect::SetTimer(Clock::Lease(_), _)));
        let won = out.0.iter().find_map(|effect| match *effect {
            Effect::Announce(Fact::Leading { until, .. } | Fact::Extended { until, .. }) => Some(until),
            _ => None,
        });
        out.0.extend(won.map(|slot| Effect::SetTimer(Clock::Lease(slot), Span::exactly(ctx.settings.timing.reign()))));
    }
}

/// An answer to an earlier attempt at the same epoch counts for this one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct AnyAttempt {
    last: Option<(Epoch, u64)>,
}

impl Bug for AnyAttempt {
    fn step(&mut self, reign: &mut Reign, ctx: &Ctx<'_>, mut input: Input<Reign>, out: &mut Effects<Reign>) {
        if let Input::Message { message: Msg::Ack { epoch, k, .. }, .. } = &mut input
            && let Some((_, last)) = self.last.filter(|(of, _)| of == epoch)
        {
            *k = last;
        }
        reign.step(ctx, input, out);
        for effect in &out.0 {
            if let Effect::Send(_, Msg::Bid { epoch, k, .. }) = *effect {
                self.last = Some((epoch, k));
            }
        }
    }
}

/// An answer to an earlier life counts for this one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct AnyLife;

impl Bug for AnyLife {
    fn step(&mut self, reign: &mut Reign, ctx: &Ctx<'_>, mut input: Input<Reign>, out: &mut Effects<Reign>) {
        if let Input::Message { message: Msg::Ack { life, .. }, .. } = &mut input {
            *life = reign.holder().life;
        }
        reign.step(ctx, input, out);
    }
}

/// A restarted voter is ready at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct NoSettling;

impl Bug for NoSettling {
    fn start(ctx: &Ctx<'_>, stored: Option<Tenure>, out: &mut Effects<Reign>) -> Reign {
        let mut reign = Reign::start(ctx, stored, out);
        out.0.retain(|effect| !matches!(effect, Effect::SetTimer(..)));
        reign.step(ctx, Input::Timer(Clock::Settle), out);
        reign
    }
}

/// A voter that lost its disk believes that nothing was ever granted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Guesses;

impl Bug for Guesses {
    fn start(ctx: &Ctx<'_>, stored: Option<Tenure>, out: &mut Effects<Reign>) -> Reign {
        let nothing = Vote { epoch: Epoch(0), holder: None, longest_lease: ctx.settings.timing.lease };
        let stored = stored.unwrap_or_default();
        Reign::start(ctx, Some(Tenure { vote: stored.vote.or(Some(nothing)), ..stored }), out)
    }
}

/// A bid for a later epoch ends a running promise.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Fickle;

impl Bug for Fickle {
    fn step(&mut self, reign: &mut Reign, ctx: &Ctx<'_>, input: Input<Reign>, out: &mut Effects<Reign>) {
        if let Input::Message { message: Msg::Bid { epoch, .. }, .. } = input
            && epoch > reign.granted().0
        {
            reign.step(ctx, Input::Timer(Clock::Promise), out);
        }
        reign.step(ctx, input, out);
    }
}

/// A pre-check that was begun before this member promised somebody else still leads to a bid.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct AsksOnce;

impl Bug for AsksOnce {
    fn step(&mut self, reign: &mut Reign, ctx: &Ctx<'_>, input: Input<Reign>, out: &mut Effects<Reign>) {
        if let Input::Message { message: Msg::PreOk { .. }, .. } = input {
            reign.step(ctx, Input::Timer(Clock::Promise), out);
        }
        reign.step(ctx, input, out);
    }
}

/// Grants any epoch, also one it has granted before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct AnyEpoch;

impl Bug for AnyEpoch {
    fn step(&mut self, reign: &mut Reign, ctx: &Ctx<'_>, input: Input<Reign>, out: &mut Effects<Reign>) {
        let (granted, holder) = reign.granted();
        if let Input::Message { from, message: Msg::Bid { epoch, k, holder: bidder, after, bare } } = input
            && epoch <= granted
            && holder != Some(bidder)
        {
            // As if it were the next one; then the number is put right in what is said and written.
            let (mut other, mut effects) = (reign.clone(), Effects(Vec::new()));
            let message = Msg::Bid { epoch: granted.next(), k, holder: bidder, after, bare };
            other.step(ctx, Input::Message { from, message }, &mut effects);
            if effects.0.iter().any(|effect| matches!(effect, Effect::Send(_, Msg::Ack { .. }))) {
                effects.0.iter_mut().for_each(|effect| renumber(effect, epoch));
                *reign = other;
                *out = effects;
                return;
            }
        }
        reign.step(ctx, input, out);
    }
}

fn renumber(effect: &mut Effect<Reign>, to: Epoch) {
    match effect {
        Effect::Send(_, Msg::Ack { epoch, .. }) | Effect::Announce(Fact::Granted { epoch, .. }) => *epoch = to,
        Effect::Persist(Tenure { vote: Some(vote), .. }) => vote.epoch = to,
        _ => {}
    }
}

/// Frees its voters before it says that it leads no more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct FreesFirst;

impl Bug for FreesFirst {
    fn step(&mut self, reign: &mut Reign, ctx: &Ctx<'_>, input: Input<Reign>, out: &mut Effects<Reign>) {
        reign.step(ctx, input, out);
        let (last, mut first): (Vec<_>, Vec<_>) = std::mem::take(&mut out.0)
            .into_iter()
            .partition(|effect| matches!(effect, Effect::Announce(Fact::Lost) | Effect::CancelTimer(Clock::Lease(_))));
        first.extend(last);
        out.0 = first;
    }
}

/// Counts late answers to a bid it has abandoned.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Resumes {
    abandoned: Option<Box<Reign>>,
}

impl Bug for Resumes {
    fn step(&mut self, reign: &mut Reign, ctx: &Ctx<'_>, input: Input<Reign>, out: &mut Effects<Reign>) {
        if let (Some(old), Input::Message { message: Msg::Ack { .. }, .. }) = (&self.abandoned, &input) {
            let (mut old, mut effects) = (old.clone(), Effects(Vec::new()));
            old.step(ctx, input.clone(), &mut effects);
            if old.leads().is_some() {
                (*reign, *out, self.abandoned) = (*old, effects, None);
                return;
            }
        }
        let before = reign.clone();
        reign.step(ctx, input, out);
        if before.leads().is_none() && out.0.iter().any(|effect| matches!(effect, Effect::Send(_, Msg::Release(_)))) {
            self.abandoned = Some(Box::new(before));
            out.0.retain(|effect| !matches!(effect, Effect::CancelTimer(Clock::Lease(_))));
        }
    }
}

/// Does not notice that its lease ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Stays;

impl Bug for Stays {
    fn step(&mut self, reign: &mut Reign, ctx: &Ctx<'_>, input: Input<Reign>, out: &mut Effects<Reign>) {
        if !matches!(input, Input::Timer(Clock::Lease(_))) {
            reign.step(ctx, input, out);
        }
    }
}

/// A leader keeps counting a voter whose connection it has closed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct CountsAll;

impl Bug for CountsAll {
    fn step(&mut self, reign: &mut Reign, ctx: &Ctx<'_>, input: Input<Reign>, out: &mut Effects<Reign>) {
        if !matches!(input, Input::PeerDown(_)) {
            reign.step(ctx, input, out);
        }
    }
}

/// A voter takes a connection that it closed itself for the end of the leader.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct ClosesFrees;

impl Bug for ClosesFrees {
    fn step(&mut self, reign: &mut Reign, ctx: &Ctx<'_>, input: Input<Reign>, out: &mut Effects<Reign>) {
        if let (Input::PeerDown(peer), Some(holder)) = (&input, reign.granted().1)
            && *peer == holder.id
        {
            reign.step(ctx, Input::Command(Order::Closed(holder)), out);
        }
        reign.step(ctx, input, out);
    }
}

/// Nobody is told of a leader's children.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Childless;

impl Bug for Childless {
    fn step(&mut self, reign: &mut Reign, ctx: &Ctx<'_>, mut input: Input<Reign>, out: &mut Effects<Reign>) {
        if let Input::Message { message: Msg::Bid { bare, .. }, .. } = &mut input {
            *bare = true;
        }
        reign.step(ctx, input, out);
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Planted<B: Bug> {
    reign: Reign,
    bug: B,
}

impl<B: Bug> Protocol for Planted<B> {
    type Link = NodeId;
    type Message = Msg;
    type Timer = Clock;
    type Command = Order;
    type Event = Fact;
    type Durable = Tenure;

    fn start(ctx: &Ctx<'_>, stored: Option<Tenure>, out: &mut impl Outbox<Self>) -> Self {
        let mut effects = Effects(Vec::new());
        let reign = B::start(ctx, stored, &mut effects);
        pass_on(effects, out);
        Planted { reign, bug: B::default() }
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
        let mut effects = Effects(Vec::new());
        self.bug.step(&mut self.reign, ctx, input, &mut effects);
        pass_on(effects, out);
    }
}

impl<B: Bug> Subject for Planted<B> {
    fn reign(&self) -> &Reign {
        &self.reign
    }
}

fn pass_on<B: Bug>(effects: Effects<Reign>, out: &mut impl Outbox<Planted<B>>) {
    for effect in effects.0 {
        match effect {
            Effect::Send(to, message) => out.send(to, message),
            Effect::SetTimer(timer, after) => out.set_timer(timer, after),
            Effect::CancelTimer(timer) => out.cancel_timer(timer),
            Effect::Persist(record) => out.persist(record),
            Effect::Store(record) => out.store(record),
            Effect::Announce(event) => out.announce(event),
        }
    }
}
