//! Quorum: the election only proposes; a [`Reign`] decides which member may claim to lead.
//!
//! Every member keeps a connection to every other member, whatever links the algorithm uses. The leader reports to all
//! members that it leads. A member without a connection to the leader believes a member that has heard the leader
//! itself. No round is held while a member leads: a better member asks the leader to hand over instead.

use algorithms::drive::{Effect, Effects};
use algorithms::{Epoch, Input, NodeId, Outbox, Protocol, View};
use serde::{Deserialize, Serialize};

use super::{Authority, AuthorityCommand, AuthorityEvent, Belief, BeliefRecord, Guarantee, Heard, Reach};
use crate::attempts::Reservation;
use crate::messages::{Claim, Context, News};
use crate::reign::{ClusterMark, Msg, Reign, ReignCommand, ReignEvent, ReignTimer, Vote, VoterRecord};
use crate::settings::Settings;
use types::{Cause, ClusterId, Membership};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Quorum {
    reign: Reign,
    /// Effects of the reign that are not carried out yet; empty between two steps.
    effects: Effects<Reign>,
    belief: Belief,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct QuorumRecord {
    pub belief: BeliefRecord,
    /// The last grant; `None` if it is not known.
    pub vote: Option<Vote>,
    /// What this voter knows of the cluster's id.
    pub cluster: Option<ClusterMark>,
}

impl Protocol for Quorum {
    type Link = NodeId;
    type Message = Msg;
    type Timer = ReignTimer;
    type Command = AuthorityCommand;
    type Event = AuthorityEvent;
    type Durable = QuorumRecord;
    type Settings = Settings;

    fn start(ctx: &Context<'_>, stored: Option<QuorumRecord>, out: &mut impl Outbox<Self>) -> Self {
        let QuorumRecord { mut belief, vote, cluster } = stored.unwrap_or_default();
        let mut effects = Effects::default();
        belief.followed = belief.followed.max(vote.as_ref().map_or(Epoch(0), |vote| vote.epoch));
        let voter = VoterRecord { incarnation: belief.incarnation, vote, cluster };
        let mut reign = Reign::start(ctx, Some(voter), &mut effects);
        reign.saw(belief.followed);
        let belief = Belief::start(ctx, reign.incarnation(), belief);
        let mut quorum = Quorum { reign, effects, belief };
        quorum.carry_out(ctx, out);
        quorum
    }

    fn step(&mut self, ctx: &Context<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Message { from, message } => self.step_reign(ctx, Input::Message { from, message }, out),
            Input::Timer(timer) => self.step_reign(ctx, Input::Timer(timer), out),
            Input::PeerUp(peer) => self.step_reign(ctx, Input::PeerUp(peer), out),
            Input::PeerDown(peer) => self.step_reign(ctx, Input::PeerDown(peer), out),
            Input::Stored(record) => self.belief.stored(record.belief),
            Input::Command(command) => self.command(ctx, command, out),
        }
    }

    fn lasts_until(event: &AuthorityEvent) -> Option<ReignTimer> {
        match *event {
            AuthorityEvent::Lease { until, .. } => Some(ReignTimer::Lease(until)),
            _ => None,
        }
    }
}

impl Authority for Quorum {
    const GUARANTEE: Guarantee = Guarantee::Majority;

    fn belief(&self) -> &Belief {
        &self.belief
    }

    fn record(&self) -> QuorumRecord {
        let VoterRecord { vote, cluster, .. } = self.reign.record();
        QuorumRecord { belief: self.belief.record(), vote, cluster }
    }

    fn electable(&self, ctx: &Context<'_>) -> bool {
        self.reign.electable(ctx)
    }

    fn knows_the_past(&self) -> bool {
        !self.reign.is_blank()
    }

    fn plausible(&self, news: &News) -> bool {
        let near = news.leader.is_none_or(|claim| self.reign.is_near(claim.epoch));
        near && self.attempts().plausible(news.next_attempt_min.0)
    }

    /// Epochs of a reign are no attempts.
    fn latest(&self, news: &News) -> u64 {
        news.next_attempt_min.0
    }

    fn cluster_id(&self) -> Option<ClusterId> {
        self.reign.cluster_id()
    }

    fn membership(&self, ctx: &Context<'_>) -> Option<Membership> {
        Some(self.reign.membership(ctx))
    }

    fn reseat(&mut self, old: &View, new: &View) {
        self.reign.reseat(old, new);
    }

    fn reign(&self) -> Option<&Reign> {
        Some(&self.reign)
    }

    fn vote(record: &QuorumRecord) -> Option<Vote> {
        record.vote.clone()
    }
}

impl Quorum {
    fn command(&mut self, ctx: &Context<'_>, command: AuthorityCommand, out: &mut impl Outbox<Self>) {
        let command = match command {
            AuthorityCommand::Saw(attempt) => {
                return match self.belief.see(ctx, attempt) {
                    Reservation::Enough => {}
                    Reservation::Store => out.store(self.record()),
                    Reservation::Persist => out.persist(self.record()),
                };
            }
            AuthorityCommand::Heard { from, news, reach } => {
                self.command(ctx, AuthorityCommand::Saw(news.next_attempt_min), out);
                return self.heard(ctx, from, news, reach, out);
            }
            AuthorityCommand::MayLeap => return self.belief.may_leap(),
            AuthorityCommand::LeaderGone => return self.drop_leader(Cause::LeaderLost, out),
            AuthorityCommand::Won { .. } if self.leader().is_none() => ReignCommand::Want,
            AuthorityCommand::OtherWon { .. } if self.leader().is_none() => ReignCommand::Yield,
            AuthorityCommand::TakeOver => ReignCommand::Claim,
            AuthorityCommand::Reelect { better: Some(to) } if self.belief.leads(ctx) => {
                ReignCommand::Transfer { to, returns: true }
            }
            AuthorityCommand::Reelect { .. } => ReignCommand::Affirm,
            AuthorityCommand::StepDown { successor: Some(to) } => ReignCommand::Transfer { to, returns: false },
            AuthorityCommand::StepDown { successor: None } => ReignCommand::StepDown,
            AuthorityCommand::Transfer(to) => ReignCommand::Transfer { to, returns: true },
            AuthorityCommand::Keep(keep) => ReignCommand::Keep(keep),
            AuthorityCommand::Closed(holder) => ReignCommand::Closed(holder),
            AuthorityCommand::Attached(attached) => ReignCommand::Attached(attached),
            AuthorityCommand::Change(change) => ReignCommand::Change(change),
            AuthorityCommand::Bootstrap => ReignCommand::Bootstrap,
            // The election only proposes, and a leader leads until it steps down or its lease ends.
            AuthorityCommand::Election(_)
            | AuthorityCommand::Won { .. }
            | AuthorityCommand::OtherWon { .. }
            | AuthorityCommand::Halted
            | AuthorityCommand::LeaderResigns
            | AuthorityCommand::LeaderLeftOut => return,
        };
        self.step_reign(ctx, Input::Command(command), out);
    }

    fn step_reign(&mut self, ctx: &Context<'_>, input: Input<Reign>, out: &mut impl Outbox<Self>) {
        self.reign.step(ctx, input, &mut self.effects);
        self.carry_out(ctx, out);
    }

    /// Events of the reign are announced in the order of its effects: no voter is released before the announcement that
    /// this member leads no more.
    fn carry_out(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let mut change = None;
        while let Some(effect) = self.effects.pop() {
            match effect {
                Effect::Send { to, message, .. } => out.send(to, message),
                Effect::SetTimer(timer, after) => out.set_timer(timer, after),
                Effect::CancelTimer(timer) => out.cancel_timer(timer),
                Effect::Persist(VoterRecord { vote, cluster, .. }) => {
                    out.persist(QuorumRecord { vote, cluster, ..self.record() });
                }
                Effect::Store(VoterRecord { vote, cluster, .. }) => {
                    out.store(QuorumRecord { vote, cluster, ..self.record() });
                }
                Effect::Announce(event) => change = self.announce(ctx, event, out).or(change),
            }
        }
        match change {
            // The successor reports itself to the other members: an election now would only delay it.
            None | Some(Cause::HandedOver | Cause::Bumped) => {}
            Some(Cause::LeaseEnded | Cause::SupportersLost | Cause::Superseded) => {
                out.announce(AuthorityEvent::TellAll);
                out.announce(AuthorityEvent::OpenElection);
            }
            Some(_) => out.announce(AuthorityEvent::TellAll),
        }
    }

    /// Returns why this member began or ceased to lead, if it did.
    fn announce(&mut self, ctx: &Context<'_>, event: ReignEvent, out: &mut impl Outbox<Self>) -> Option<Cause> {
        match event {
            ReignEvent::Leading { epoch, until, no_child, locks } => {
                out.announce(AuthorityEvent::Lease { until, no_child });
                let cause = if self.belief.leads(ctx) { Cause::Bumped } else { Cause::Elected };
                let claim = Claim { epoch, uid: ctx.me };
                self.belief.follow(claim, ctx.me.id);
                out.announce(AuthorityEvent::Follows { leader: Some(claim), cause });
                out.announce(AuthorityEvent::Reigns { epoch, locks });
                return Some(cause);
            }
            ReignEvent::Lost { cause } => {
                self.drop_leader(cause.into(), out);
                return Some(cause.into());
            }
            ReignEvent::Extended { until, no_child } => out.announce(AuthorityEvent::Lease { until, no_child }),
            ReignEvent::SuccessionFailed => out.announce(AuthorityEvent::SuccessionFailed),
            ReignEvent::StopChildren => out.announce(AuthorityEvent::StopChildren),
            ReignEvent::Granted { epoch, holder, list } => {
                out.announce(AuthorityEvent::Granted { epoch, holder, list });
            }
            ReignEvent::List(event) => out.announce(AuthorityEvent::List(event)),
            ReignEvent::Named(id) => out.announce(AuthorityEvent::Named(id)),
            ReignEvent::PromiseEnded { epoch, holder } => out.announce(AuthorityEvent::PromiseEnded { epoch, holder }),
        }
        None
    }

    fn drop_leader(&mut self, cause: Cause, out: &mut impl Outbox<Self>) {
        self.belief.drop_leader();
        out.announce(AuthorityEvent::Follows { leader: None, cause });
    }

    fn heard(&mut self, ctx: &Context<'_>, from: NodeId, news: News, reach: Reach, out: &mut impl Outbox<Self>) {
        match self.belief.hear(ctx, from, news, reach) {
            Heard::Nothing => {}
            Heard::Lost(cause) => {
                out.announce(AuthorityEvent::Follows { leader: None, cause });
                out.announce(AuthorityEvent::OpenElection);
            }
            Heard::Follows { claim, new_epoch } => {
                self.reign.saw(claim.epoch);
                if new_epoch {
                    out.persist(self.record());
                }
                self.step_reign(ctx, Input::Command(ReignCommand::Yield), out);
                out.announce(AuthorityEvent::Decided(self.attempts().max_seen()));
                out.announce(AuthorityEvent::Follows { leader: Some(claim), cause: Cause::Heard });
            }
        }
    }
}
