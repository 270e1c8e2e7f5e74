//! A lease in one place, as a store outside the cluster would give it. The first member plays the store: it grants one
//! lease at a time, each under a new epoch that is on its disk before it is granted.

use algorithms::{Epoch, Input, Kind, Message, NodeId, Outbox, Protocol, Span};
use member::{Authority, Belief, Cause, Claim, Context, Guarantee, Heard, LeaseTimer};
use member::{AuthorityCommand as Command, AuthorityEvent as Event, BeliefRecord, Reservation, Settings};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct OutsideLease {
    belief: Belief,
    /// The timer of the lease in hand, and that of the lease asked for with its request. It is asked for until granted.
    lease: Option<LeaseTimer>,
    asked: Option<(LeaseTimer, u64)>,
    has_child: bool,
    /// The store: the last epoch granted, and the holder whose lease runs; after a restart it may be any.
    granted: Epoch,
    taken: Option<(NodeId, u64)>,
}

/// The store is asked and grants, naming incarnation and request; a leader is asked to leave.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) enum Msg {
    Ask(u64, u64),
    Granted(Epoch, u64, u64),
    PleaseLeave,
}

impl Message for Msg {
    const KINDS: &'static [Kind] = &[Kind::election("lease")];
    fn kind(&self) -> usize {
        0
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Timer {
    Lease(LeaseTimer),
    Ask,
    Taken,
}

impl Protocol for OutsideLease {
    type Link = NodeId;
    type Message = Msg;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;
    type Durable = (BeliefRecord, Epoch);
    type Settings = Settings;

    fn start(ctx: &Context<'_>, stored: Option<Self::Durable>, out: &mut impl Outbox<Self>) -> Self {
        let (stored, granted) = stored.unwrap_or_default();
        let belief = Belief::start(ctx, stored.incarnation.next(ctx.dice), stored);
        let (lease, asked, taken, has_child) = (None, None, Some((NodeId(0), 0)), false);
        let authority = OutsideLease { belief, lease, asked, has_child, granted, taken };
        out.persist(authority.record());
        out.set_timer(Timer::Taken, Span::exactly(ctx.settings.timing.lease));
        authority
    }

    fn step(&mut self, ctx: &Context<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Message { from, message: Msg::Ask(run, request) } => self.asked(ctx, (from, run), request, out),
            Input::Message { message: Msg::Granted(epoch, run, request), .. } if run == self.incarnation().counter => {
                self.granted(ctx, Claim { epoch, uid: ctx.me }, request, out);
            }
            Input::Timer(Timer::Taken) => self.taken = None,
            Input::Timer(Timer::Lease(lease)) if self.lease == Some(lease) => self.lose(Cause::LeaseEnded, out),
            Input::Timer(Timer::Ask) if self.asked.is_some() || self.lease.is_some() => self.ask(ctx, out),
            Input::Command(Command::Saw(attempt)) if self.belief.see(ctx, attempt) != Reservation::Enough => {
                out.persist(self.record());
            }
            Input::Command(Command::Won { .. }) if self.leader().is_none() => self.ask(ctx, out),
            Input::Command(Command::OtherWon { .. }) => self.asked = None,
            Input::Command(Command::Heard { from, news, reach }) => {
                let heard = self.belief.hear(ctx, from, news, reach);
                self.heard(heard, out);
            }
            Input::Command(Command::LeaderGone) => self.lose(Cause::LeaderLost, out),
            Input::Command(Command::TakeOver) => {
                self.leader().into_iter().for_each(|claim| out.send(claim.uid.id, Msg::PleaseLeave));
            }
            Input::Message { message: Msg::PleaseLeave, .. } | Input::Command(Command::StepDown { .. }) => {
                self.leave(out);
            }
            Input::Command(Command::Attached(attached)) => self.has_child = attached,
            _ => {}
        }
    }

    fn lasts_until(event: &Event) -> Option<Timer> {
        if let Event::Lease { until, .. } = event { Some(Timer::Lease(*until)) } else { None }
    }
}

impl Authority for OutsideLease {
    const GUARANTEE: Guarantee = Guarantee::Lease;
    fn belief(&self) -> &Belief {
        &self.belief
    }
    fn record(&self) -> Self::Durable {
        (self.belief.record(), self.granted)
    }
}

impl OutsideLease {
    fn asked(&mut self, ctx: &Context<'_>, holder: (NodeId, u64), request: u64, out: &mut impl Outbox<Self>) {
        let free = self.taken.is_none_or(|taken| taken == holder);
        if free && self.taken.replace(holder).is_none() {
            self.granted = self.granted.next();
            out.persist(self.record());
        }
        if free {
            out.set_timer(Timer::Taken, Span::exactly(ctx.settings.timing.lease));
            out.send(holder.0, Msg::Granted(self.granted, holder.1, request));
        }
    }

    /// The lease counts from before the question.
    fn ask(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let (timer, lease) = (self.lease.map_or(LeaseTimer::A, LeaseTimer::other), ctx.settings.timing.reign());
        self.asked = Some((timer, ctx.dice));
        out.set_timer(Timer::Lease(timer), Span::exactly(lease));
        out.send(ctx.view.members()[0].id, Msg::Ask(self.incarnation().counter, ctx.dice));
        out.set_timer(Timer::Ask, Span::jittered(lease / 4));
    }

    fn granted(&mut self, ctx: &Context<'_>, claim: Claim, request: u64, out: &mut impl Outbox<Self>) {
        let Some((until, _)) = self.asked.take_if(|asked| asked.1 == request) else { return };
        out.cancel_timer(Timer::Lease(until.other()));
        let new = self.lease.replace(until).is_none();
        if self.belief.follow(claim, ctx.me.id) {
            out.persist(self.record());
        }
        out.announce(Event::Lease { until, no_child: !self.has_child });
        if new {
            out.announce(Event::Follows { leader: Some(claim), cause: Cause::Elected });
            out.announce(Event::TellAll);
        }
    }

    fn heard(&mut self, heard: Heard, out: &mut impl Outbox<Self>) {
        match heard {
            Heard::Nothing => {}
            Heard::Lost(cause) => self.lose(cause, out),
            Heard::Follows { claim, .. } => {
                out.persist(self.record());
                self.asked = None;
                out.announce(Event::Decided(self.attempts().max_seen()));
                out.announce(Event::Follows { leader: Some(claim), cause: Cause::Heard });
            }
        }
    }

    /// If it has to wait for a child it is asked again.
    fn leave(&mut self, out: &mut impl Outbox<Self>) {
        match self.lease {
            Some(_) if self.has_child => out.announce(Event::StopChildren),
            Some(_) => self.lose(Cause::SteppedDown, out),
            None => {}
        }
    }

    fn lose(&mut self, cause: Cause, out: &mut impl Outbox<Self>) {
        (self.lease, self.asked) = (None, None);
        self.belief.drop_leader();
        out.announce(Event::Follows { leader: None, cause });
        out.announce(Event::TellAll);
        out.announce(Event::OpenElection);
    }
}
