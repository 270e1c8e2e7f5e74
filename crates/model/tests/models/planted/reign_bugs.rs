//! Bugs of a reign, each of which breaks one rule.

use algorithms::drive::Effect;
use algorithms::{Epoch, Input, Span};
use member::Context;
use member::reign::{LockPast, Msg, NamingMsg, Reign, ReignCommand, ReignEvent, ReignTimer, Vote, VoterRecord};

use crate::wrapper::{Bug, start, step};

type List = Vec<Effect<Reign>>;

/// A grant is not written down.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Unwritten;

impl Bug<Reign> for Unwritten {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        step(reign, ctx, input, out);
        out.retain(|effect| !matches!(effect, Effect::Persist(_)));
    }
}

/// The lease counts from the answer, not from the question.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct FromReply;

impl Bug<Reign> for FromReply {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        step(reign, ctx, input, out);
        out.retain(|effect| !matches!(effect, Effect::SetTimer(ReignTimer::Lease(_), _)));
        let won = out.iter().enumerate().find_map(|(at, effect)| match *effect {
            Effect::Announce(ReignEvent::Leading { until, .. } | ReignEvent::Extended { until, .. }) => {
                Some((at, until))
            }
            _ => None,
        });
        if let Some((at, lease)) = won {
            out.insert(at, Effect::SetTimer(ReignTimer::Lease(lease), Span::exactly(ctx.settings.timing.reign())));
        }
    }
}

/// An answer to an earlier request for the same epoch counts for this one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct AnyRequest {
    last: Option<(Epoch, u64)>,
}

impl Bug<Reign> for AnyRequest {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, mut input: Input<Reign>, out: &mut List) {
        if let Input::Message { message: Msg::Ack { epoch, request, .. }, .. } = &mut input
            && let Some((_, last)) = self.last.filter(|(of, _)| of == epoch)
        {
            *request = last;
        }
        step(reign, ctx, input, out);
        for effect in &*out {
            if let Effect::Send { message: Msg::Bid { epoch, request, .. }, .. } = *effect {
                self.last = Some((epoch, request));
            }
        }
    }
}

/// An answer to an earlier incarnation counts for this one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct AnyIncarnation;

impl Bug<Reign> for AnyIncarnation {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, mut input: Input<Reign>, out: &mut List) {
        if let Input::Message { message: Msg::Ack { incarnation, .. }, .. } = &mut input {
            *incarnation = reign.holder().incarnation;
        }
        step(reign, ctx, input, out);
    }
}

/// A restarted voter is ready at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct NoSettling;

impl Bug<Reign> for NoSettling {
    fn start(ctx: &Context<'_>, stored: Option<VoterRecord>, out: &mut List) -> Reign {
        let mut reign = start(ctx, stored, out);
        out.retain(|effect| !matches!(effect, Effect::SetTimer(..)));
        step(&mut reign, ctx, Input::Timer(ReignTimer::Settle), out);
        reign
    }
}

/// A voter that lost its disk believes that nothing was ever granted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Guesses;

impl Bug<Reign> for Guesses {
    fn start(ctx: &Context<'_>, stored: Option<VoterRecord>, out: &mut List) -> Reign {
        let longest_lease = ctx.settings.timing.lease;
        let nothing = Vote {
            epoch: Epoch(0),
            holder: None,
            longest_lease,
            list: std::sync::Arc::default(),
            locks: LockPast::default(),
        };
        let stored = stored.unwrap_or_default();
        start(ctx, Some(VoterRecord { vote: stored.vote.or(Some(nothing)), ..stored }), out)
    }
}

/// A bid for a later epoch ends a running promise.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Fickle;

impl Bug<Reign> for Fickle {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        if let Input::Message { message: Msg::Bid { epoch, .. }, .. } = input
            && epoch > reign.granted().0
        {
            step(reign, ctx, Input::Timer(ReignTimer::Promise), out);
        }
        step(reign, ctx, input, out);
    }
}

/// A probe that was begun before this member promised another holder still leads to a bid.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct AsksOnce;

impl Bug<Reign> for AsksOnce {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        if let Input::Message { message: Msg::ProbeOk { .. }, .. } = input {
            step(reign, ctx, Input::Timer(ReignTimer::Promise), out);
        }
        step(reign, ctx, input, out);
    }
}

/// Grants any epoch, also one it has granted before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct AnyEpoch;

impl Bug<Reign> for AnyEpoch {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        let (granted, holder) = reign.granted();
        if let Input::Message { from, message: Msg::Bid { epoch, request, holder: bidder, after, no_child, list } } =
            &input
            && *epoch <= granted
            && holder != Some(*bidder)
        {
            // As if it were the next one; then the number is put right in what is said and written.
            let (mut other, mut effects) = (reign.clone(), Vec::new());
            let (list, holder, epoch) = (std::sync::Arc::clone(list), *bidder, *epoch);
            let (request, after, no_child) = (*request, *after, *no_child);
            let message = Msg::Bid { epoch: granted.next(), request, holder, after, no_child, list };
            step(&mut other, ctx, Input::Message { from: *from, message }, &mut effects);
            if effects.iter().any(|effect| matches!(effect, Effect::Send { message: Msg::Ack { .. }, .. })) {
                for effect in &mut effects {
                    renumber(effect, epoch);
                }
                *reign = other;
                *out = effects;
                return;
            }
        }
        step(reign, ctx, input, out);
    }
}

fn renumber(effect: &mut Effect<Reign>, to: Epoch) {
    match effect {
        Effect::Send { message: Msg::Ack { epoch, .. }, .. } | Effect::Announce(ReignEvent::Granted { epoch, .. }) => {
            *epoch = to;
        }
        Effect::Persist(VoterRecord { vote: Some(vote), .. }) => vote.epoch = to,
        _ => {}
    }
}

/// Frees its voters before it says that it leads no more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct FreesFirst;

impl Bug<Reign> for FreesFirst {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        step(reign, ctx, input, out);
        let (last, mut first): (Vec<_>, Vec<_>) = std::mem::take(out).into_iter().partition(|effect| {
            matches!(effect, Effect::Announce(ReignEvent::Lost { .. }) | Effect::CancelTimer(ReignTimer::Lease(_)))
        });
        first.extend(last);
        *out = first;
    }
}

/// Counts late answers to a bid it has abandoned.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Resumes {
    abandoned: Option<Box<Reign>>,
}

impl Bug<Reign> for Resumes {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        if let (Some(old), Input::Message { message: Msg::Ack { .. }, .. }) = (&self.abandoned, &input) {
            let (mut old, mut effects) = (old.clone(), Vec::new());
            step(&mut *old, ctx, input.clone(), &mut effects);
            if old.leads().is_some() {
                (*reign, *out, self.abandoned) = (*old, effects, None);
                return;
            }
        }
        let before = reign.clone();
        step(reign, ctx, input, out);
        if before.leads().is_none()
            && out.iter().any(|effect| matches!(effect, Effect::Send { message: Msg::Release(_), .. }))
        {
            self.abandoned = Some(Box::new(before));
            out.retain(|effect| !matches!(effect, Effect::CancelTimer(ReignTimer::Lease(_))));
        }
    }
}

/// Does not notice that its lease ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Stays;

impl Bug<Reign> for Stays {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        if !matches!(input, Input::Timer(ReignTimer::Lease(_))) {
            step(reign, ctx, input, out);
        }
    }
}

/// A leader keeps counting a voter whose connection it has closed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct CountsAll;

impl Bug<Reign> for CountsAll {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        if !matches!(input, Input::PeerDown(_)) {
            step(reign, ctx, input, out);
        }
    }
}

/// A voter takes a connection that it closed itself for the end of the leader.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct ClosesFrees;

impl Bug<Reign> for ClosesFrees {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        if let (Input::PeerDown(peer), Some(holder)) = (&input, reign.granted().1)
            && *peer == holder.id
        {
            step(reign, ctx, Input::Command(ReignCommand::Closed(holder)), out);
        }
        step(reign, ctx, input, out);
    }
}

/// No voter is told of a leader's children.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Childless;

impl Bug<Reign> for Childless {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, mut input: Input<Reign>, out: &mut List) {
        if let Input::Message { message: Msg::Bid { no_child, .. }, .. } = &mut input {
            *no_child = true;
        }
        step(reign, ctx, input, out);
    }
}

/// A leader proposes an id of its own without asking which id the voters know.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct AsksNoVoter;

impl Bug<Reign> for AsksNoVoter {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, mut input: Input<Reign>, out: &mut List) {
        if let Input::Message { message: Msg::Naming(NamingMsg::Answer { mark, .. }), .. } = &mut input {
            *mark = None;
        }
        step(reign, ctx, input, out);
    }
}
