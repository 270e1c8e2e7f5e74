//! The reign inside a member: the election only proposes, the reign decides who may claim.
//!
//! Members keep a connection to everybody, whatever links the algorithm uses. The leader tells everybody that it leads;
//! who has no connection to it believes whoever has. While somebody reigns no round is joined: a better member asks the
//! leader to hand over instead.

use std::marker::PhantomData;
use std::time::Duration;

use algorithms::{Ctx, Election, Epoch, Incarnation, Input, Life, NodeId, Outbox, Outcome, Protocol, Span, Uid};

use crate::member::Member;
use crate::reign::{Clock, Fact, Msg, Order, Reign, Tenure};
use crate::types::{Beat, Cause, Claim, Envelope, Event, NodeSet, Record, Role, Standing, Timer};

/// How long a winner that never came to reign is left out.
pub const FORGIVE: Duration = Duration::from_secs(5);

impl<E: Election> Member<E> {
    /// The reign of this life; it has chosen the same incarnation from the same dice.
    pub(crate) fn found_reign(&mut self, ctx: &Ctx<'_>, stored: &Record, out: &mut impl Outbox<Self>) {
        let tenure = Tenure { life: stored.incarnation, vote: stored.vote };
        let mut reign = Reign::start(ctx, Some(tenure), &mut self.throne(ctx, Cause::Started, out));
        reign.saw(self.followed);
        self.reign = Some(reign);
    }

    pub(crate) fn order(&mut self, ctx: &Ctx<'_>, order: Order, out: &mut impl Outbox<Self>) {
        self.govern(ctx, Input::Command(order), out);
    }

    /// Feeds the reign; nothing under classic safety.
    pub(crate) fn govern(&mut self, ctx: &Ctx<'_>, input: Input<Reign>, out: &mut impl Outbox<Self>) {
        let Some(mut reign) = self.reign.take() else { return };
        let cause = match input {
            Input::Command(Order::StepDown) => Cause::SteppedDown,
            Input::Message { message: Msg::Ready { .. }, .. } => Cause::HandedOver,
            _ => Cause::LeaseEnded,
        };
        let led = self.leads(ctx);
        reign.step(ctx, input, &mut self.throne(ctx, cause, out));
        self.reign = Some(reign);
        if led == self.leads(ctx) {
            return;
        }
        self.source = self.leads(ctx).then_some(self.at);
        if self.leads(ctx) {
            self.settled = true;
            self.stuck = None;
            self.passed_over = NodeSet::default();
        } else {
            out.cancel_timer(Timer::Handover);
            self.abstain_from_now(out);
        }
        self.winner = None;
        if cause != Cause::HandedOver {
            self.tell_all(ctx, out);
        }
        match cause {
            _ if self.leads(ctx) => {}
            // The others hear of the successor from itself: an election now would only get in its way. Who steps down
            // leaves it to its heir and the others.
            Cause::HandedOver if self.abstains => self.order(ctx, Order::Yield, out),
            Cause::LeaseEnded => self.open(ctx, out),
            _ => {}
        }
    }

    fn throne<'a, O: Outbox<Self>>(&'a mut self, ctx: &Ctx<'_>, cause: Cause, out: &'a mut O) -> Throne<'a, E, O> {
        Throne {
            out,
            me: ctx.me,
            leader: &mut self.leader,
            announced: &mut self.announced,
            followed: &mut self.followed,
            incarnation: self.incarnation,
            ceiling: self.ceiling,
            cause,
            member: PhantomData,
        }
    }

    /// What the election found is only a proposal.
    pub(crate) fn proposal(&mut self, ctx: &Ctx<'_>, outcome: Outcome, out: &mut impl Outbox<Self>) {
        let winner = match outcome {
            Outcome::Won => Some(ctx.me.id),
            Outcome::Follow(uid) => uid.map(|uid| uid.id),
            Outcome::GaveUp | Outcome::Halted => return,
        };
        self.settled = true;
        self.winner = winner.and_then(|id| ctx.view.position(id));
        if self.leader.is_none() {
            self.order(ctx, if outcome == Outcome::Won { Order::Want } else { Order::Yield }, out);
        }
    }

    /// The winner of the last round has not come to reign in all this time: the next round is without it.
    pub(crate) fn pass_over(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let Some(winner) = self.winner.take().filter(|&at| at != self.at && self.reign.is_some()) else { return };
        self.passed_over.insert(winner);
        out.set_timer(Timer::Forgive, Span::exactly(FORGIVE));
        if E::LIFE == Life::Continuous {
            self.drive(ctx, Input::PeerDown(ctx.view.members()[winner].id), 0, out);
        }
    }

    pub(crate) fn forgive(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        for at in std::mem::take(&mut self.passed_over).iter() {
            if E::LIFE == Life::Continuous && self.contacts.is_up(at) {
                self.drive(ctx, Input::PeerUp(ctx.view.members()[at].id), 0, out);
            }
        }
    }

    /// Somebody told whom it follows.
    pub(crate) fn heard_of_reign(&mut self, ctx: &Ctx<'_>, from: usize, beat: Beat, out: &mut impl Outbox<Self>) {
        if self.leads(ctx) {
            return;
        }
        let led = self.leader.and_then(|claim| ctx.view.position(claim.uid.id));
        let Some(claim) = beat.leader else {
            if self.source == Some(from) || led == Some(from) {
                self.drop_leader(ctx.view);
                // Only from itself is it a resignation: whoever else told of it may have lost it.
                let cause = if led == Some(from) { Cause::LeaderResigned } else { Cause::LeaderLost };
                self.publish(ctx, cause, out);
                self.open(ctx, out);
            }
            return;
        };
        let Some(at) = ctx.view.position(claim.uid.id).filter(|&at| ctx.view.members()[at] == claim.uid) else {
            return;
        };
        // Its own word counts for more than what others say of it, and hearsay of hearsay could go in circles.
        let hearsay = at != from && (self.contacts.is_up(at) || !beat.firsthand);
        let old = claim.epoch < self.followed || claim.uid == ctx.me || self.leader == Some(claim);
        if hearsay || old || !self.plausible(claim.epoch) {
            return;
        }
        if let Some(reign) = &mut self.reign {
            reign.saw(claim.epoch);
        }
        if claim.epoch > self.followed {
            self.followed = claim.epoch;
            out.persist(self.record());
        }
        self.leader = Some(claim);
        self.source = Some(from);
        self.settled = true;
        self.stuck = None;
        self.winner = None;
        self.passed_over = NodeSet::default();
        self.abstain_from_now(out);
        self.order(ctx, Order::Yield, out);
        self.publish(ctx, Cause::Heard, out);
    }

    /// An election while somebody reigns: the leader hands over to a better member, or opens the next epoch itself.
    pub(crate) fn reelect(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let better = self.heir(ctx).filter(|&heir| ctx.beats(heir, ctx.me) && self.leads(ctx));
        self.order(ctx, better.map_or(Order::Affirm, |heir| Order::Transfer(heir.id)), out);
    }

    /// The best of the others that stand.
    pub fn heir(&self, ctx: &Ctx<'_>) -> Option<Uid> {
        let standing = self.contacts.connected().filter(|&at| self.contacts.get(at).stands);
        let uids = standing.map(|at| ctx.view.members()[at]);
        ctx.wins().best(uids.filter(|uid| ctx.settings.may_lead(uid.id)))
    }

    /// Steps down under quorum: the best of the others is made ready first; if that takes too long, without it.
    pub(crate) fn abdicate(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if !self.leads(ctx) {
            return;
        }
        self.abstains = true;
        let order = self.heir(ctx).map_or(Order::StepDown, |heir| Order::Transfer(heir.id));
        self.give_way(ctx, order, out);
    }

    /// And insists, should it still lead after a while: its children may have to stop first.
    pub(crate) fn give_way(&mut self, ctx: &Ctx<'_>, order: Order, out: &mut impl Outbox<Self>) {
        self.order(ctx, order, out);
        if self.leads(ctx) {
            out.set_timer(Timer::Handover, Span::exactly(2 * ctx.settings.timing.answer_timeout));
        }
    }
}

/// The outbox lent to the reign: its facts become the member's standing in the very place they are announced, so that
/// nobody is released before it is said that this member leads no more.
struct Throne<'a, E, O> {
    out: &'a mut O,
    me: Uid,
    leader: &'a mut Option<Claim>,
    announced: &'a mut Standing,
    followed: &'a mut Epoch,
    incarnation: Incarnation,
    ceiling: Epoch,
    cause: Cause,
    member: PhantomData<fn() -> E>,
}

impl<E: Election, O: Outbox<Member<E>>> Throne<'_, E, O> {
    fn record(&self, tenure: Tenure) -> Record {
        Record { incarnation: self.incarnation, ceiling: self.ceiling, followed: *self.followed, vote: tenure.vote }
    }

    fn became(&mut self, epoch: Option<Epoch>, cause: Cause) {
        *self.leader = epoch.map(|epoch| Claim { epoch, uid: self.me });
        *self.followed = (*self.followed).max(epoch.unwrap_or_default());
        let role = if epoch.is_some() { Role::Leader } else { Role::Candidate };
        // What it leads in, whatever it has heard: that is what its token says.
        let shown = epoch.unwrap_or(*self.followed);
        *self.announced = Standing { role, leader: epoch.map(|_| self.me.id), epoch: shown };
        self.out.announce(Event::Became { now: *self.announced, cause });
    }
}

impl<E: Election, O: Outbox<Member<E>>> Outbox<Reign> for Throne<'_, E, O> {
    fn send(&mut self, to: NodeId, message: Msg) {
        self.out.send(to, Envelope::Reign(message));
    }
    fn forward(&mut self, to: NodeId, message: Msg) {
        self.out.send(to, Envelope::Reign(message));
    }
    fn set_timer(&mut self, timer: Clock, after: Span) {
        self.out.set_timer(Timer::Reign(timer), after);
    }
    fn cancel_timer(&mut self, timer: Clock) {
        self.out.cancel_timer(Timer::Reign(timer));
    }
    fn persist(&mut self, tenure: Tenure) {
        let record = self.record(tenure);
        self.out.persist(record);
    }
    fn store(&mut self, tenure: Tenure) {
        let record = self.record(tenure);
        self.out.store(record);
    }
    fn announce(&mut self, fact: Fact) {
        match fact {
            Fact::Leading { epoch, until, bare } => {
                self.out.announce(Event::Lease { until, bare });
                let again = self.leader.is_some_and(|claim| claim.uid == self.me);
                self.became(Some(epoch), if again { Cause::Bumped } else { Cause::Elected });
            }
            Fact::Extended { until, bare } => self.out.announce(Event::Lease { until, bare }),
            Fact::StopChildren => self.out.announce(Event::StopChildren),
            Fact::Lost => self.became(None, self.cause),
            Fact::Granted { epoch, holder } => self.out.announce(Event::Granted { epoch, holder }),
            Fact::PromiseEnded { epoch, holder } => self.out.announce(Event::PromiseEnded { epoch, holder }),
        }
    }
}
