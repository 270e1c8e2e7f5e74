//! The reign: which member may *claim* to lead. Whatever election chose the candidate, it leads only while a majority
//! of the voters has promised it a lease, each promise on disk before it is given. So two leaders never overlap,
//! whatever faults of the network, of the disks and pauses occur, as long as clocks run within `max_drift` of each
//! other.
//!
//! A candidate first asks whether a majority *would* grant it an epoch (`Probe`, which binds no voter), then bids for a
//! new epoch. A voter grants an epoch once, and never while its promise to another holder runs. The leader applies for
//! the next lease when a third of the present lease has passed. There is no time in the state: the lease timer is set
//! before the bid is sent, the promise timer after the bid is received, and the lease is the shorter of the two.
//!
//! After a restart a voter waits until every promise it may have made is over; a voter that lost its disk first asks a
//! majority of the other voters what was granted. Asserted in simulator and model: while a lease runs, a majority is
//! bound to its holder ([`Reign::binds`]).
//!
//! It is a [`Protocol`] of its own, so that the checker explores it without any election around it. Voter, candidate
//! and leader own their state; this file, `exchange.rs` and `leading.rs` pass messages, timers and commands to them.

mod candidate;
mod exchange;
mod leader;
mod leading;
mod lists;
mod lock_memory;
mod naming;
mod types;
mod voter;

use std::sync::Arc;

use algorithms::{Epoch, Input, NodeId, Outbox, Protocol, Span, View};

use crate::messages::Context;
use crate::positions::{FullPos, NodeSet};
use crate::settings::Settings;
use ::types::{ClusterId, Incarnation, MemberList};
use candidate::Candidate;
use exchange::Offered;
use leader::Leader;
use lists::Lists;
use naming::Naming;
pub use types::{
    ClusterMark, Holder, ListEvent, LockPast, LossCause, Msg, NamingMsg, ReignCommand, ReignEvent, ReignTimer,
    Released, Vote, VoterRecord,
};
use voter::Voter;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Reign {
    me: Holder,
    voter: Voter,
    candidate: Candidate,
    leader: Option<Leader>,
    lists: Lists,
    /// While this member leads: what the voters have said of the cluster's id.
    naming: Option<Naming>,
    /// No better member may take over from this member.
    keeps: bool,
    /// A child process depends on this member's leadership.
    has_child: bool,
    /// This process has led. Always false where there is no lock service.
    has_led: bool,
}

impl Protocol for Reign {
    type Link = NodeId;
    type Message = Msg;
    type Timer = ReignTimer;
    type Command = ReignCommand;
    type Event = ReignEvent;
    type Durable = VoterRecord;
    type Settings = Settings;

    fn start(ctx: &Context<'_>, stored: Option<VoterRecord>, out: &mut impl Outbox<Self>) -> Self {
        let mut record = stored.unwrap_or_default();
        record.incarnation = record.incarnation.next(ctx.dice);
        let me = Holder { id: ctx.me.id, incarnation: record.incarnation };
        let voter = Voter::start(ctx, record);
        let lists = Lists::start(Arc::clone(voter.list()));
        out.persist(voter.record());
        out.set_timer(ReignTimer::Settle, Span::exactly(voter.longest_lease()));
        let candidate = Candidate::start(me);
        Reign {
            me,
            voter,
            candidate,
            leader: None,
            lists,
            naming: None,
            keeps: false,
            has_child: false,
            has_led: false,
        }
    }

    fn step(&mut self, ctx: &Context<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Message { from, message } => self.message(ctx, from, message, out),
            Input::Timer(ReignTimer::Promise) => {
                self.voter.promise_ends(out);
                self.free(ctx, out);
            }
            Input::Timer(ReignTimer::Settle) => self.settled(ctx, out),
            Input::Timer(ReignTimer::Lease(lease)) => self.lease_ends(lease, out),
            Input::Timer(ReignTimer::Renew) => self.renew(ctx, out),
            Input::Timer(ReignTimer::Retry) => self.retry(ctx, out),
            Input::Timer(ReignTimer::Leap) => self.voter.may_leap(),
            Input::Timer(ReignTimer::Change) => self.revert(ctx, out),
            Input::PeerUp(peer) => {
                self.forget_answer(ctx, peer);
                self.greet(ctx, peer, out);
                self.ask_again(ctx, peer, out);
            }
            Input::PeerDown(peer) => {
                self.lists.forget(peer);
                self.lose_supporter(ctx, peer, out);
            }
            Input::Command(command) => self.command(ctx, command, out),
            Input::Stored(_) => {}
        }
    }

    fn lasts_until(event: &ReignEvent) -> Option<ReignTimer> {
        match *event {
            ReignEvent::Leading { until, .. } | ReignEvent::Extended { until, .. } => Some(ReignTimer::Lease(until)),
            _ => None,
        }
    }
}

impl Reign {
    /// This incarnation of this member.
    pub fn holder(&self) -> Holder {
        self.me
    }

    pub fn incarnation(&self) -> Incarnation {
        self.me.incarnation
    }

    /// May this member be a candidate now?
    pub fn electable(&self, ctx: &Context<'_>) -> bool {
        self.known_list().may_lead(ctx.me.id) && self.is_settled() && self.voter.epoch() < Epoch::MAX
    }

    /// Does this voter know what was granted, and is every promise of an earlier incarnation over?
    pub fn is_settled(&self) -> bool {
        !self.voter.is_settling() && !self.voter.is_blank()
    }

    /// Has this voter no record on its disk, and not learnt yet what was granted?
    pub fn is_blank(&self) -> bool {
        self.voter.is_blank()
    }

    pub fn leads(&self) -> Option<Epoch> {
        self.leader.as_ref().map(Leader::epoch)
    }

    /// The last epoch granted, and to which holder.
    pub fn granted(&self) -> (Epoch, Option<Holder>) {
        (self.voter.epoch(), self.voter.holder())
    }

    /// True if this voter cannot currently grant an epoch to any holder but `to`. Invariant: while a lease runs, a
    /// majority is bound to its holder. A voter recovering a lost disk grants nothing until it has settled, so it counts
    /// as bound to every holder.
    pub fn binds(&self, to: Holder) -> bool {
        self.voter.binds(to)
    }

    /// The record that must be on the disk.
    pub fn record(&self) -> VoterRecord {
        self.voter.record()
    }

    /// The id that the voters of this cluster have agreed on. It may not be on the disk yet: [`ReignEvent::Named`] says when.
    pub fn cluster_id(&self) -> Option<ClusterId> {
        self.voter.mark().filter(|mark| mark.agreed).map(|mark| mark.id)
    }

    /// Does this voter's disk belong to another cluster than its leader's? Then it grants nothing more.
    pub fn is_foreign(&self) -> bool {
        self.voter.is_foreign()
    }

    /// Another member claimed this epoch: the next bid goes above it.
    pub fn saw(&mut self, epoch: Epoch) {
        if self.voter.is_near(epoch) {
            self.candidate.saw(epoch);
        }
    }

    /// Can the epoch after this one still be bid for?
    pub fn is_near(&self, epoch: Epoch) -> bool {
        self.voter.is_near(epoch)
    }

    fn message(&mut self, ctx: &Context<'_>, from: NodeId, message: Msg, out: &mut impl Outbox<Self>) {
        let Some(at) = FullPos::of(ctx.view, from) else { return self.guest(ctx, from, &message, out) };
        match message {
            Msg::Probe { request, holder, after, list } if holder.id == from => {
                self.probed(ctx, at, (request, holder, after), &list, out);
            }
            Msg::ProbeOk { request } => self.probe_ok(ctx, at, request, out),
            Msg::ProbeDenied { epoch, list } => {
                self.saw(epoch);
                self.hear(ctx, &list, out);
            }
            Msg::Bid { epoch, request, holder, after, no_child, list } if holder.id == from => {
                self.bidden(ctx, at, &Offered { epoch, request, holder, after, no_child }, &list, out);
            }
            Msg::Ack { epoch, request, incarnation, locks } if incarnation == self.me.incarnation => {
                self.ack(ctx, at, (epoch, request, locks), out);
            }
            Msg::Refuse { epoch, request, list } => self.refused(ctx, at, (epoch, request), &list, out),
            Msg::Release(released) if released.holder.id == from => self.release(ctx, released, out),
            Msg::Abandon(released) if released.holder.id == from => self.abandoned(ctx, released, out),
            Msg::Offer { epoch } => self.offer(ctx, from, epoch, out),
            Msg::Ready { epoch, write_time } => self.ready(ctx, from, (epoch, write_time), out),
            Msg::Handover(released) if released.holder.id == from => self.handover(ctx, released, out),
            Msg::Free => self.ask_again(ctx, from, out),
            Msg::Survey { incarnation } => self.surveyed(from, incarnation, out),
            Msg::SurveyReply { incarnation, epoch, cluster, list, bootstrap } if incarnation == self.me.incarnation => {
                if self.hear(ctx, &list, out) {
                    self.begin(bootstrap);
                    self.voter.survey_reply(at, epoch, cluster);
                    self.learn(ctx, out);
                }
            }
            Msg::List { list, blank, in_force } => self.listed(ctx, from, (&list, blank, in_force), out),
            Msg::Naming(message) => self.naming(ctx, at, message, out),
            // The named holder is not the sender, or the answer is for an earlier incarnation.
            Msg::Probe { .. }
            | Msg::Bid { .. }
            | Msg::Ack { .. }
            | Msg::Release(_)
            | Msg::Abandon(_)
            | Msg::Handover(_)
            | Msg::SurveyReply { .. } => {}
        }
    }

    fn command(&mut self, ctx: &Context<'_>, command: ReignCommand, out: &mut impl Outbox<Self>) {
        match command {
            ReignCommand::Want if self.leader.is_none() => {
                self.candidate.want();
                self.ask(ctx, out);
            }
            ReignCommand::Want => {}
            ReignCommand::Yield => self.candidate.withdraw(),
            ReignCommand::StepDown => self.step_down(ctx, out),
            ReignCommand::Affirm => {
                if let Some(leader) = &mut self.leader {
                    leader.outvote();
                }
                self.renew(ctx, out);
            }
            ReignCommand::Transfer { to, returns } => self.transfer(ctx, to, returns, out),
            ReignCommand::Keep(keep) => self.keeps = keep,
            ReignCommand::Claim => self.claim(ctx, out),
            ReignCommand::Closed(holder) => {
                if self.voter.closed_there(ctx, holder, out) {
                    self.free(ctx, out);
                }
            }
            ReignCommand::Attached(attached) => self.attach(ctx, attached, out),
            ReignCommand::Change(change) => self.change(ctx, &change, out),
            ReignCommand::Bootstrap => {
                self.begin(true);
                self.learn(ctx, out);
            }
        }
    }

    /// The operator's word, by itself or in another voter's answer.
    fn begin(&mut self, bootstrap: bool) {
        if bootstrap && self.voter.is_blank() {
            self.lists.begin();
        }
    }

    /// A voter that lost its disk asks what was granted.
    fn surveyed(&self, from: NodeId, incarnation: Incarnation, out: &mut impl Outbox<Self>) {
        let epoch = (!self.voter.is_blank()).then_some(self.voter.epoch());
        let bootstrap = self.lists.is_told_to_begin() || epoch == Some(Epoch(0));
        let (cluster, list) = (self.voter.mark(), Arc::clone(self.told_list()));
        out.send(from, Msg::SurveyReply { incarnation, epoch, cluster, list, bootstrap });
    }

    /// A message of a member that is not in the view: it may learn the list, and its list is heard of. Nothing of it is
    /// counted.
    fn guest(&mut self, ctx: &Context<'_>, from: NodeId, message: &Msg, out: &mut impl Outbox<Self>) {
        match message {
            Msg::Probe { list, .. } => {
                self.hear(ctx, list, out);
                self.deny(from, out);
            }
            Msg::Bid { request, list, .. } => {
                self.hear(ctx, list, out);
                self.refuse(from, *request, out);
            }
            Msg::Survey { incarnation } => self.surveyed(from, *incarnation, out),
            Msg::List { list, blank, in_force } => self.listed(ctx, from, (list, *blank, *in_force), out),
            Msg::ProbeDenied { list, .. } | Msg::Refuse { list, .. } | Msg::SurveyReply { list, .. } => {
                self.hear(ctx, list, out);
            }
            _ => {}
        }
    }

    /// The view has changed: positions of members change, and members that are gone are dropped.
    pub fn reseat(&mut self, old: &View, new: &View) {
        self.voter.reseat(old, new);
        self.candidate.reseat(old, new);
        self.reseat_answers(old, new);
        if let Some(leader) = &mut self.leader {
            leader.reseat(old, new);
        }
    }
}

/// Sends to every other voter of the list.
fn tell(ctx: &Context<'_>, list: &MemberList, message: &Msg, out: &mut impl Outbox<Reign>) {
    for peer in list.voters().filter(|&peer| peer != ctx.me.id) {
        out.send(peer, message.clone());
    }
}

/// More than half of all voters of the list, dead or alive.
fn is_majority(ctx: &Context<'_>, list: &MemberList, of: &NodeSet) -> bool {
    list.is_majority(|id| is_in(ctx, of, id))
}

/// Have so many voters refused that no majority remains?
fn is_hopeless(ctx: &Context<'_>, list: &MemberList, refusals: &NodeSet) -> bool {
    2 * list.voters().filter(|&id| is_in(ctx, refusals, id)).count() >= list.voters().count()
}

fn is_in(ctx: &Context<'_>, set: &NodeSet, id: NodeId) -> bool {
    FullPos::of(ctx.view, id).is_some_and(|at| set.contains(at))
}
