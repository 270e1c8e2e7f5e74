//! The reign: who may *claim* to lead. Whatever election chose the candidate, it leads only while a majority of the
//! voters has promised it a lease, each promise on disk before it is given. So two leaders never overlap, whatever the
//! network, the disks and the pauses do, as long as clocks run within `max_drift` of each other.
//!
//! A candidate first asks whether a majority *would* grant it (`PreAsk`, binds nobody), then bids for a new epoch. A
//! voter grants an epoch once, and never while its promise to somebody else runs. The leader applies for the next lease
//! when a third of the present one is gone. There is no time in the state: the lease timer is set before the bid is
//! sent, the promise timer after it was received, and the lease is the shorter of the two.
//!
//! After a restart a voter waits until every promise it may have made is over; one that lost its disk asks a majority
//! of the others first what was granted. Asserted in simulator and model: while a lease runs, a majority is bound to its
//! holder ([`Reign::binds`]).
//!
//! It is a [`Protocol`] of its own, so that the checker explores it without any election around it.

mod candidate;
mod leader;
mod types;
mod voter;

use std::time::Duration;

use algorithms::{Ctx, Epoch, Incarnation, Input, NodeId, Outbox, Protocol, Span};

use crate::types::NodeSet;
pub use types::{Clock, Fact, Holder, Msg, Order, Released, Slot, Tenure, Vote};

/// No message may push the epoch further than this at once: it would run out.
const MAX_LEAP: u64 = 1 << 40;
/// Nor ever beyond this: a token has 48 bits for it.
const MAX_EPOCH: u64 = 1 << 47;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent facts, each with its own timer or rule
pub struct Reign {
    me: Holder,
    epoch: Epoch,
    holder: Option<Holder>,
    longest_lease: Duration,
    /// The promise to `holder` runs.
    promised: bool,
    /// Nobody acts on the holder's leadership but its own process: so it said in its latest attempt.
    bare: bool,
    latest: u64,
    /// A promise of an earlier life may still run.
    settling: bool,
    /// The disk was lost: nothing is granted before others have told.
    blank: Option<Reads>,
    /// Who was told no, and is told when that changes.
    refused: NodeSet,
    /// The largest epoch anybody refused with.
    seen: Epoch,
    /// The election chose this member.
    wants: bool,
    /// Has just given up a bid: two candidates that asked again at once would go on in step for ever.
    resting: bool,
    lead: Option<Epoch>,
    /// A voter has this epoch on record for another, or for nobody: only a later one gets its promise.
    outvoted: bool,
    /// The timer of the lease in hand, and the attempt that won it.
    slot: Slot,
    won: u64,
    supporters: NodeSet,
    /// A supporter may have heard since that nobody but this process acts on its leadership: it is free when their
    /// connection closes, where closing frees.
    exposed: bool,
    check: Option<Check>,
    bid: Option<Bid>,
    k: u64,
    /// Whom the leader hands over to, and for how many more renewals it waits; or whom it has handed over to.
    target: Option<NodeId>,
    patience: u8,
    attached: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Reads {
    /// Know what was granted.
    told: NodeSet,
    /// Do not know, or never granted anything.
    fresh: NodeSet,
    epoch: Epoch,
}

/// A pre-check under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Check {
    oks: NodeSet,
    /// The sitting leader, when this is to become its successor.
    after: Option<Released>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Bid {
    epoch: Epoch,
    k: u64,
    acks: NodeSet,
    refusals: NodeSet,
    after: Option<Released>,
    slot: Slot,
    bare: bool,
}

impl Protocol for Reign {
    type Link = NodeId;
    type Message = Msg;
    type Timer = Clock;
    type Command = Order;
    type Event = Fact;
    type Durable = Tenure;

    fn start(ctx: &Ctx<'_>, stored: Option<Tenure>, out: &mut impl Outbox<Self>) -> Self {
        let stored = stored.unwrap_or_default();
        let lease = ctx.settings.timing.lease;
        let life = Incarnation { counter: stored.life.counter + 1, nonce: ctx.dice };
        let vote = stored.vote;
        let reign = Reign {
            me: Holder { id: ctx.me.id, life },
            epoch: vote.map_or(Epoch(0), |vote| vote.epoch),
            holder: vote.and_then(|vote| vote.holder),
            longest_lease: vote.map_or(lease, |vote| vote.longest_lease.max(lease)),
            promised: false,
            bare: false,
            latest: 0,
            settling: true,
            blank: vote.is_none().then(Reads::default),
            refused: NodeSet::default(),
            seen: Epoch(0),
            wants: false,
            resting: false,
            lead: None,
            outvoted: false,
            slot: Slot::A,
            won: 0,
            supporters: NodeSet::default(),
            exposed: false,
            check: None,
            bid: None,
            k: 0,
            target: None,
            patience: 0,
            attached: false,
        };
        out.persist(reign.tenure());
        out.set_timer(Clock::Settle, Span::exactly(reign.longest_lease));
        reign
    }

    fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Message { from, message } => self.message(ctx, from, message, out),
            Input::Timer(Clock::Promise) => self.promise_ends(ctx, out),
            Input::Timer(Clock::Settle) => self.settled(ctx, out),
            Input::Timer(Clock::Lease(slot)) => self.lease_ends(slot, out),
            Input::Timer(Clock::Renew) => self.renew(ctx, out),
            Input::Timer(Clock::Retry) => self.retry(ctx, out),
            Input::PeerUp(peer) => self.ask_again(ctx, peer, out),
            Input::PeerDown(peer) => self.lose_supporter(ctx, peer, out),
            Input::Command(order) => self.order(ctx, order, out),
            Input::Stored(_) => {}
        }
    }
}

impl Reign {
    /// This life of this member.
    pub fn holder(&self) -> Holder {
        self.me
    }

    /// May it be a candidate now?
    pub fn electable(&self, ctx: &Ctx<'_>) -> bool {
        ctx.settings.may_lead(ctx.me.id) && self.is_settled()
    }

    /// Does it know what was granted, and is every promise of an earlier life over?
    pub fn is_settled(&self) -> bool {
        !self.settling && self.blank.is_none()
    }

    /// Has it lost its disk, or never had one, and not been told yet what was granted?
    pub fn is_blank(&self) -> bool {
        self.blank.is_some()
    }

    pub fn leads(&self) -> Option<Epoch> {
        self.lead
    }

    /// The last epoch granted, and to whom.
    pub fn granted(&self) -> (Epoch, Option<Holder>) {
        (self.epoch, self.holder)
    }

    /// Can this voter not grant anybody else an epoch, whoever that holder is now? The invariant of the reign: while a
    /// lease runs, a majority is bound to its holder. One that lost its disk is bound to all until it has settled.
    pub fn binds(&self, to: Holder) -> bool {
        let recorded = self.holder == Some(to);
        (recorded && (self.promised || self.settling)) || (self.blank.is_some() && self.settling)
    }

    pub(crate) fn tenure(&self) -> Tenure {
        let Reign { epoch, holder, longest_lease, .. } = *self;
        let vote = self.blank.is_none().then_some(Vote { epoch, holder, longest_lease });
        Tenure { life: self.me.life, vote }
    }

    fn message(&mut self, ctx: &Ctx<'_>, from: NodeId, message: Msg, out: &mut impl Outbox<Self>) {
        let Some(at) = ctx.view.position(from) else { return };
        match message {
            Msg::PreAsk { k, holder, after } if holder.id == from => self.pre_ask(ctx, at, k, holder, after, out),
            Msg::PreOk { k } => self.pre_ok(ctx, at, k, out),
            Msg::PreNo { epoch } => self.saw(epoch),
            Msg::Bid { epoch, k, holder, after, bare } if holder.id == from => {
                if self.grants(ctx, epoch, holder, after) {
                    self.grant(ctx, epoch, holder, out);
                    self.heard(k, bare);
                    out.send(from, Msg::Ack { epoch, k, life: holder.life });
                } else if ctx.settings.votes(ctx.me.id) {
                    self.refused.insert(at);
                    out.send(from, Msg::Refuse { epoch: self.epoch, k });
                }
            }
            Msg::Ack { epoch, k, life } if life == self.me.life => self.ack(ctx, at, epoch, k, out),
            Msg::Refuse { epoch, k } => self.refuse(ctx, at, epoch, k, out),
            Msg::Release(released) if released.holder.id == from => self.release(ctx, released, out),
            Msg::Offer { epoch } => self.offer(ctx, from, epoch, out),
            Msg::Ready { epoch } => self.ready(ctx, from, epoch, out),
            Msg::Handover(released) if released.holder.id == from => self.handover(ctx, released, out),
            Msg::Free => self.ask_again(ctx, from, out),
            Msg::Read { life } => {
                let epoch = self.blank.is_none().then_some(self.epoch);
                out.send(from, Msg::ReadR { life, epoch });
            }
            Msg::ReadR { life, epoch } if life == self.me.life => self.read(ctx, at, epoch, out),
            // The name of the holder is not the sender's own, or an answer to an earlier life.
            Msg::PreAsk { .. }
            | Msg::Bid { .. }
            | Msg::Ack { .. }
            | Msg::Release(_)
            | Msg::Handover(_)
            | Msg::ReadR { .. } => {}
        }
    }

    fn order(&mut self, ctx: &Ctx<'_>, order: Order, out: &mut impl Outbox<Self>) {
        match order {
            Order::Want if self.lead.is_none() => {
                self.wants = true;
                self.ask(ctx, out);
            }
            Order::Want => {}
            Order::Yield => {
                self.wants = false;
                self.target = self.target.filter(|_| self.lead.is_some());
            }
            Order::StepDown => self.step_down(ctx, out),
            Order::Affirm => {
                self.outvoted |= self.lead.is_some();
                self.renew(ctx, out);
            }
            Order::Transfer(to) => self.transfer(ctx, to, out),
            Order::Claim => self.claim(ctx, out),
            Order::Closed(holder) => self.closed_there(ctx, holder, out),
            Order::Attached(attached) => self.attach(ctx, attached, out),
        }
    }

    /// Somebody has granted or claimed this epoch: the next bid goes above it.
    pub fn saw(&mut self, epoch: Epoch) {
        if self.is_near(epoch) {
            self.seen = self.seen.max(epoch);
        }
    }

    /// Can the epoch after this one still be bid for, and granted by those who know no more than this member?
    fn is_near(&self, epoch: Epoch) -> bool {
        epoch.0 < self.epoch.0.saturating_add(MAX_LEAP).min(MAX_EPOCH)
    }

    /// To every other voter.
    fn tell(ctx: &Ctx<'_>, message: Msg, out: &mut impl Outbox<Self>) {
        for peer in voters(ctx).filter(|&peer| peer != ctx.me.id) {
            out.send(peer, message);
        }
    }
}

fn voters<'a>(ctx: &'a Ctx<'_>) -> impl Iterator<Item = NodeId> + 'a {
    ctx.view.members().iter().map(|uid| uid.id).filter(|&id| ctx.settings.votes(id))
}

/// More than half of all configured voters, whoever of them lives.
fn is_majority(ctx: &Ctx<'_>, of: &NodeSet) -> bool {
    2 * votes(ctx, of) > voters(ctx).count()
}

/// Have so many refused that the rest is no majority?
fn is_hopeless(ctx: &Ctx<'_>, refusals: &NodeSet) -> bool {
    2 * votes(ctx, refusals) >= voters(ctx).count()
}

/// How many of them are voters.
fn votes(ctx: &Ctx<'_>, of: &NodeSet) -> usize {
    of.iter().filter(|&at| ctx.settings.votes(ctx.view.members()[at].id)).count()
}
