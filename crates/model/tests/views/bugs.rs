//! Bugs of locks in views, each of which breaks one rule.

use algorithms::drive::Effect;
use algorithms::{Ctx, Data, Input, Mutex};
use locks::service::{ServiceCommand, ServiceEvent};
use locks::views::messages::ViewsMsg;
use locks::views::seat::Phase;
use locks::views::{Msg, Views, ViewsSettings, ViewsTimer};
use locks::wire::{ToClerk, ToClient};
use types::Token;

use crate::wrapper::{Bug, Planted, one_of, start, step};

type List<M> = Vec<Effect<Views<M>>>;
type Context<'a> = Ctx<'a, ViewsSettings>;

/// The service with one of the bugs below, or as it ships.
pub(crate) type Service<M> = Planted<Views<M>, ViewsBug>;

one_of! {
    ViewsBug[M: Mutex<Link: Data>] for Views<M>:
    NoSettling, FloorFromAnswers, AcksItself, AcksOldBeats, KeepsLapsed, ClosedIsSilent, DropsEarly, KeepsView,
    LosesRelease, TakesAnyThaw, AnswersAtOnce,
}

/// A restarted member answers Freeze at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct NoSettling;

impl<M: Mutex<Link: Data>> Bug<Views<M>> for NoSettling {
    fn start(ctx: &Context<'_>, stored: Option<()>, out: &mut List<M>) -> Views<M> {
        let mut views = start(ctx, stored, out);
        step(&mut views, ctx, Input::Timer(ViewsTimer::Settle), out);
        views
    }
}

/// The tokens of a view begin above what was reported as held, not above those of all earlier views.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct FloorFromAnswers {
    /// The largest token that Thaw named.
    reported: Option<Token>,
    /// What was granted here, and as what.
    granted: Option<(Token, Token)>,
}

impl FloorFromAnswers {
    fn reads<M: Mutex<Link: Data>>(&mut self, message: &Msg<M>) {
        if let ViewsMsg::Thaw { holders, .. } = message {
            self.reported = holders.iter().map(|holding| holding.token).max();
        }
    }
}

impl<M: Mutex<Link: Data>> Bug<Views<M>> for FloorFromAnswers {
    fn step(&mut self, views: &mut Views<M>, ctx: &Context<'_>, mut input: Input<Views<M>>, out: &mut List<M>) {
        if let Input::Message { message, .. } = &input {
            self.reads::<M>(message);
        }
        if let Input::Command(ServiceCommand::Message { message: ToClerk::Release { token, .. }, .. }) = &mut input
            && let Some((real, said)) = self.granted
            && said == *token
        {
            *token = real;
        }
        step(views, ctx, input, out);
        let view = views.seat().view;
        for effect in out {
            match effect {
                Effect::Send { message, .. } => self.reads::<M>(message),
                Effect::Announce(ServiceEvent::Tell { message: ToClient::Granted { token, .. }, .. }) => {
                    let count = view.count(*token).unwrap_or(0);
                    let said =
                        self.reported.map_or(Token::new(view.epoch, count), |known| Token(known.0 + u64::from(count)));
                    self.granted = Some((*token, said));
                    *token = said;
                }
                _ => {}
            }
        }
    }
}

/// A leader acknowledges its own beats without a reading of the clock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct AcksItself;

impl<M: Mutex<Link: Data>> Bug<Views<M>> for AcksItself {
    fn step(&mut self, views: &mut Views<M>, ctx: &Context<'_>, input: Input<Views<M>>, out: &mut List<M>) {
        // A beat of its own follows from a command or a timer.
        let reading = matches!(input, Input::Command(ServiceCommand::LeaseHolds));
        let own_beat = matches!(input, Input::Command(_) | Input::Timer(_)) && !reading;
        step(views, ctx, input, out);
        if own_beat && views.owes() {
            let mut own = Vec::new();
            step(views, ctx, Input::Command(ServiceCommand::LeaseHolds), &mut own);
            own.retain(|effect| {
                !matches!(
                    effect,
                    Effect::Send { message: ViewsMsg::BeatAck { .. }, .. }
                        | Effect::SetTimer(ViewsTimer::Silence(_), _)
                )
            });
            out.extend(own);
        }
    }
}

/// A leader acknowledges beats of earlier views.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct AcksOldBeats;

impl<M: Mutex<Link: Data>> Bug<Views<M>> for AcksOldBeats {
    fn step(&mut self, views: &mut Views<M>, ctx: &Context<'_>, input: Input<Views<M>>, out: &mut List<M>) {
        if let Input::Message { from, message: ViewsMsg::Beat { view, number, .. } } = &input
            && let Some(office) = views.office()
            && *view < office.view
        {
            out.push(Effect::Send { to: *from, message: ViewsMsg::BeatAck { view: *view, number: *number }, hops: 0 });
        }
        step(views, ctx, input, out);
    }
}

/// A lapsed tenancy is not final: sections are kept and reported.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct KeepsLapsed;

impl<M: Mutex<Link: Data>> Bug<Views<M>> for KeepsLapsed {
    fn step(&mut self, views: &mut Views<M>, ctx: &Context<'_>, input: Input<Views<M>>, out: &mut List<M>) {
        if !matches!(input, Input::Timer(ViewsTimer::Tenancy(_))) {
            step(views, ctx, input, out);
        }
    }
}

/// A closed connection counts as the silence of a tenancy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct ClosedIsSilent;

impl<M: Mutex<Link: Data>> Bug<Views<M>> for ClosedIsSilent {
    fn step(&mut self, views: &mut Views<M>, ctx: &Context<'_>, input: Input<Views<M>>, out: &mut List<M>) {
        let closed = if let Input::PeerDown(peer) = input { Some(peer) } else { None };
        step(views, ctx, input, out);
        if let Some(peer) = closed {
            step(views, ctx, Input::Timer(ViewsTimer::Silence(peer)), out);
        }
    }
}

/// Messages of the next view are dropped, not kept until it begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct DropsEarly;

impl<M: Mutex<Link: Data>> Bug<Views<M>> for DropsEarly {
    fn step(&mut self, views: &mut Views<M>, ctx: &Context<'_>, input: Input<Views<M>>, out: &mut List<M>) {
        let early = matches!(&input, Input::Message { message: ViewsMsg::InView { .. }, .. });
        if !(early && views.seat().phase == Phase::Frozen) {
            step(views, ctx, input, out);
        }
    }
}

/// A broken connection does not end the view.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct KeepsView;

impl<M: Mutex<Link: Data>> Bug<Views<M>> for KeepsView {
    fn step(&mut self, views: &mut Views<M>, ctx: &Context<'_>, input: Input<Views<M>>, out: &mut List<M>) {
        if !matches!(input, Input::PeerDown(_)) {
            step(views, ctx, input, out);
        }
    }
}

/// A release that comes between Frozen and Thaw is lost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct LosesRelease;

impl<M: Mutex<Link: Data>> Bug<Views<M>> for LosesRelease {
    fn step(&mut self, views: &mut Views<M>, ctx: &Context<'_>, input: Input<Views<M>>, out: &mut List<M>) {
        let release =
            matches!(&input, Input::Command(ServiceCommand::Message { message: ToClerk::Release { .. }, .. }));
        if !(release && views.seat().phase == Phase::Frozen) {
            step(views, ctx, input, out);
        }
    }
}

/// A frozen member takes the Thaw of any view.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct TakesAnyThaw;

impl<M: Mutex<Link: Data>> Bug<Views<M>> for TakesAnyThaw {
    fn step(&mut self, views: &mut Views<M>, ctx: &Context<'_>, mut input: Input<Views<M>>, out: &mut List<M>) {
        if let Input::Message { from, message: ViewsMsg::Thaw { view, .. } } = &mut input {
            (*from, *view) = (views.seat().leader, views.seat().view);
        }
        step(views, ctx, input, out);
    }
}

/// A client's message is answered before a beat that was sent after it is acknowledged: the right to act counts from the
/// client's send time, but the tenancy behind it began earlier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct AnswersAtOnce;

impl<M: Mutex<Link: Data>> Bug<Views<M>> for AnswersAtOnce {
    fn step(&mut self, views: &mut Views<M>, ctx: &Context<'_>, input: Input<Views<M>>, out: &mut List<M>) {
        let kept = match &input {
            Input::Command(ServiceCommand::Message { from, message: ToClerk::KeepAlive { number }, .. })
                if views.serves().is_some() =>
            {
                Some(ServiceEvent::Tell { to: *from, message: ToClient::Kept { number: *number } })
            }
            _ => None,
        };
        step(views, ctx, input, out);
        out.extend(kept.map(Effect::Announce));
    }
}
