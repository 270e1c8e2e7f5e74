//! Bugs of a reign that show only while a write is in flight, in what becomes of children, or in the cause of a loss.

use algorithms::Input;
use algorithms::drive::Effect;
use member::Context;
use member::reign::{LossCause, Msg, Reign, ReignCommand, ReignEvent, ReignTimer};

use crate::wrapper::{Bug, step};

type List = Vec<Effect<Reign>>;

/// Effects that this rule names happen before all others of their step.
fn first(out: &mut List, rule: impl Fn(&Effect<Reign>) -> bool) {
    let (mut sooner, later): (Vec<_>, Vec<_>) = std::mem::take(out).into_iter().partition(rule);
    sooner.extend(later);
    *out = sooner;
}

fn writes(out: &List) -> bool {
    out.iter().any(|effect| matches!(effect, Effect::Persist(_)))
}

/// A voter answers before its grant is on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct AckBeforeWrite;

impl Bug<Reign> for AckBeforeWrite {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        step(reign, ctx, input, out);
        first(out, |effect| matches!(effect, Effect::Send { message: Msg::Ack { .. }, .. }));
    }
}

/// Bids do not wait for the bidder's own write, and its lease counts from after it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct LeaseFromWrite;

impl Bug<Reign> for LeaseFromWrite {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        step(reign, ctx, input, out);
        if writes(out) {
            first(out, |effect| !matches!(effect, Effect::SetTimer(ReignTimer::Lease(_), _)));
            first(out, |effect| matches!(effect, Effect::Send { message: Msg::Bid { .. }, .. }));
        }
    }
}

/// No bug: the lease counts from after the bidder's write, but the bids wait for it as well.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct LeaseBehindWrite;

impl Bug<Reign> for LeaseBehindWrite {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        step(reign, ctx, input, out);
        let bids = |effect: &Effect<Reign>| matches!(effect, Effect::Send { message: Msg::Bid { .. }, .. });
        if let (true, Some(bid)) = (writes(out), out.iter().position(bids)) {
            let behind = out.split_off(bid);
            first(out, |effect| !matches!(effect, Effect::SetTimer(ReignTimer::Lease(_), _)));
            out.extend(behind);
        }
    }
}

/// No bug: a promise counts from before the voter's write, but not from before the bid.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct PromiseBeforeWrite;

impl Bug<Reign> for PromiseBeforeWrite {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        step(reign, ctx, input, out);
        if writes(out) {
            first(out, |effect| matches!(effect, Effect::SetTimer(ReignTimer::Promise, _)));
        }
    }
}

/// A bidder counts the answer of a voter that it lost since it asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct CountsLateAnswers;

impl Bug<Reign> for CountsLateAnswers {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        if reign.leads().is_some() || !matches!(input, Input::PeerDown(_)) {
            step(reign, ctx, input, out);
        }
    }
}

/// A leader that is told to step down does not wait for its children.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct LeavesChildren;

impl Bug<Reign> for LeavesChildren {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        if let Input::Command(ReignCommand::StepDown) | Input::Message { message: Msg::Ready { .. }, .. } = input {
            step(reign, ctx, Input::Command(ReignCommand::Attached(false)), out);
        }
        step(reign, ctx, input, out);
    }
}

fn rename(out: &mut List, from: LossCause, to: LossCause) {
    for effect in out {
        if let Effect::Announce(ReignEvent::Lost { cause }) = effect
            && *cause == from
        {
            *cause = to;
        }
    }
}

/// Says that its lease ended when it was told to step down.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct BlamesLease;

impl Bug<Reign> for BlamesLease {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        step(reign, ctx, input, out);
        rename(out, LossCause::SteppedDown, LossCause::LeaseEnded);
    }
}

/// Says that it stepped down when its lease ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct BlamesOperator;

impl Bug<Reign> for BlamesOperator {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        step(reign, ctx, input, out);
        rename(out, LossCause::LeaseEnded, LossCause::SteppedDown);
    }
}

/// Says that too few voters stayed connected when its lease ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct BlamesConnections;

impl Bug<Reign> for BlamesConnections {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        step(reign, ctx, input, out);
        rename(out, LossCause::LeaseEnded, LossCause::SupportersLost);
    }
}

/// Says that it handed over, and does not tell the successor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct HandsOverSilently;

impl Bug<Reign> for HandsOverSilently {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        step(reign, ctx, input, out);
        out.retain(|effect| !matches!(effect, Effect::Send { message: Msg::Handover(_), .. }));
    }
}
