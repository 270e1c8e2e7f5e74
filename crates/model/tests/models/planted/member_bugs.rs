//! Bugs of whole members, each of which breaks one rule.

use algorithms::drive::Effect;
use algorithms::{Ctx, Election, Input, Protocol};
use member::reign::{Msg, ReignTimer};
use member::{Authority, Cause, Command, Context, Envelope, Event, Member, Quorum, Record, Timer};

use crate::wrapper::{Bug, start, step};

type Members<E> = Member<E, Quorum>;

/// Keeps no record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct NoDisk;

impl<M: Protocol> Bug<M> for NoDisk {
    fn start(ctx: &Ctx<'_, M::Settings>, stored: Option<M::Durable>, out: &mut Vec<Effect<M>>) -> M {
        let machine = start(ctx, stored, out);
        out.retain(|effect| !matches!(effect, Effect::Persist(_) | Effect::Store(_)));
        machine
    }

    fn step(&mut self, machine: &mut M, ctx: &Ctx<'_, M::Settings>, input: Input<M>, out: &mut Vec<Effect<M>>) {
        step(machine, ctx, input, out);
        out.retain(|effect| !matches!(effect, Effect::Persist(_) | Effect::Store(_)));
    }
}

/// Begins without its record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct DropsRecord;

impl<M: Protocol> Bug<M> for DropsRecord {
    fn start(ctx: &Ctx<'_, M::Settings>, _: Option<M::Durable>, out: &mut Vec<Effect<M>>) -> M {
        start(ctx, None, out)
    }
}

/// Begins without the record of its algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct DropsAlgorithmRecord;

impl<E: Election, A: Authority> Bug<Member<E, A>> for DropsAlgorithmRecord {
    fn start(
        ctx: &Context<'_>,
        stored: Option<Record<A::Durable, E::Durable>>,
        out: &mut Vec<Effect<Member<E, A>>>,
    ) -> Member<E, A> {
        start(ctx, stored.map(|record| Record { algorithm: None, ..record }), out)
    }
}

/// A leader does not wait for its children.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct LeavesChildren;

impl<E: Election, A: Authority> Bug<Member<E, A>> for LeavesChildren {
    fn step(
        &mut self,
        member: &mut Member<E, A>,
        ctx: &Context<'_>,
        input: Input<Member<E, A>>,
        out: &mut Vec<Effect<Member<E, A>>>,
    ) {
        if let Input::Command(Command::StepDown(_) | Command::Transfer { .. }) = input {
            step(member, ctx, Input::Command(Command::Attached(false)), out);
        }
        step(member, ctx, input, out);
    }
}

/// A bid ends the promise to the last holder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct EndsPromises;

impl<E: Election> Bug<Members<E>> for EndsPromises {
    fn step(
        &mut self,
        member: &mut Members<E>,
        ctx: &Context<'_>,
        input: Input<Members<E>>,
        out: &mut Vec<Effect<Members<E>>>,
    ) {
        if let Input::Message { message: Envelope::Authority(Msg::Bid { .. } | Msg::Probe { .. }), .. }
        | Input::PeerDown(_) = input
        {
            step(member, ctx, Input::Timer(Timer::Authority(ReignTimer::Promise)), out);
        }
        step(member, ctx, input, out);
    }
}

/// Does not notice that its lease ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct LeadsOn;

impl<E: Election> Bug<Members<E>> for LeadsOn {
    fn step(
        &mut self,
        member: &mut Members<E>,
        ctx: &Context<'_>,
        input: Input<Members<E>>,
        out: &mut Vec<Effect<Members<E>>>,
    ) {
        if !matches!(input, Input::Timer(Timer::Authority(ReignTimer::Lease(_)))) {
            step(member, ctx, input, out);
        }
    }
}

/// Names another cause than the right one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct WrongCause;

impl<E: Election, A: Authority> Bug<Member<E, A>> for WrongCause {
    fn step(
        &mut self,
        member: &mut Member<E, A>,
        ctx: &Context<'_>,
        input: Input<Member<E, A>>,
        out: &mut Vec<Effect<Member<E, A>>>,
    ) {
        step(member, ctx, input, out);
        for effect in out {
            if let Effect::Announce(Event::Became { cause, .. }) = effect {
                *cause = match *cause {
                    Cause::SteppedDown => Cause::LeaseEnded,
                    Cause::LeaseEnded => Cause::SteppedDown,
                    other => other,
                };
            }
        }
    }
}
