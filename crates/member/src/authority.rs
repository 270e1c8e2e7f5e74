//! Who may claim to lead. An election finds a winner; an authority decides whether the winner leads.
//!
//! [`Classic`]: the winner leads. [`Quorum`]: the winner leads while a majority of the voters has promised it a lease.
//! A further authority, such as a lease in a store outside the cluster, is one more implementation of [`Authority`]:
//! nothing else in this crate knows which authority runs.

mod belief;
mod classic;
mod quorum;

use std::time::Duration;

use algorithms::{Epoch, Features, NodeId, Protocol, Topology, Uid, View};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use belief::{Belief, BeliefRecord, Heard};
pub use classic::Classic;
pub use quorum::{Quorum, QuorumRecord};

use crate::attempts::{Attempt, Attempts};
use crate::messages::{Claim, Context, LeaseTimer, News};
use crate::reign::{Holder, ListEvent, LockPast, Reign, Vote};
use crate::settings::Settings;
use types::{Cause, Change, ClusterId, Incarnation, Membership, Stamp};

/// A state machine. The member around it passes it commands ([`AuthorityCommand`]) and carries out its events
/// ([`AuthorityEvent`]) in order.
pub trait Authority:
    Protocol<
        Link = NodeId,
        Message: DeserializeOwned,
        Durable: DeserializeOwned,
        Command = AuthorityCommand,
        Event = AuthorityEvent,
        Settings = Settings,
    >
{
    const GUARANTEE: Guarantee;
    /// Is the winner of an election only a proposal? Then no election is held while a member leads, and a winner that
    /// does not come to lead is passed over for a while.
    const ELECTION_PROPOSES: bool = !matches!(Self::GUARANTEE, Guarantee::Component);
    /// Is every member connected to every other, whatever links the algorithm uses?
    const LINKS_ALL: bool = Self::ELECTION_PROPOSES;

    fn belief(&self) -> &Belief;

    /// What this member must have on its disk.
    fn record(&self) -> Self::Durable;

    fn incarnation(&self) -> Incarnation {
        self.belief().incarnation()
    }

    /// The leader that this member follows; this member itself if it leads.
    fn leader(&self) -> Option<Claim> {
        self.belief().leader()
    }

    /// The member whose silence ends the belief in the leader: the leader itself, or the member that reports it.
    fn source(&self) -> Option<NodeId> {
        self.belief().source()
    }

    /// The epoch that is reported while no member leads: the smallest epoch that the next leader may have.
    fn epoch(&self) -> Epoch {
        self.belief().followed()
    }

    fn attempts(&self) -> &Attempts {
        self.belief().attempts()
    }

    /// May this member be a candidate?
    fn electable(&self, _: &Context<'_>) -> bool {
        true
    }

    /// May this member lead right after a start? False while the authority does not know what was granted before.
    fn knows_the_past(&self) -> bool {
        true
    }

    /// The id that the voters of this cluster have agreed on, where they agree on one. It may not be on the disk yet:
    /// [`AuthorityEvent::Named`] says when.
    fn cluster_id(&self) -> Option<ClusterId> {
        None
    }

    /// What this member knows of the lists of members, where they change without a restart.
    fn membership(&self, _: &Context<'_>) -> Option<Membership> {
        None
    }

    /// The view has changed from `old` to `new`: positions of members change.
    fn reseat(&mut self, _old: &View, _new: &View) {}

    /// What every heartbeat of this member reports.
    fn news(&self, _: &Context<'_>) -> News {
        let leader = self.leader();
        let firsthand = leader.is_some_and(|claim| self.source() == Some(claim.uid.id));
        News { next_attempt_min: self.attempts().max_seen(), leader, firsthand }
    }

    /// Are these numbers plausible? A faulty peer must not exhaust the numbers of the cluster.
    fn plausible(&self, news: &News) -> bool {
        let known = |claim: Claim| self.attempts().plausible(claim.epoch.0) || self.belief().is_near(claim.epoch);
        self.attempts().plausible(news.next_attempt_min.0) && news.leader.is_none_or(known)
    }

    /// The largest attempt that these news name.
    fn latest(&self, news: &News) -> u64 {
        news.next_attempt_min.0.max(news.leader.map_or(0, |claim| claim.epoch.0))
    }

    /// May a round with this attempt be opened or joined now?
    fn admits(&self, attempt: Attempt) -> bool {
        self.leader().is_none() && attempt >= self.attempts().first()
    }

    /// The number of the next round.
    fn next_attempt(&self, ctx: &Context<'_>) -> Attempt {
        self.attempts().max_seen().next(ctx.view)
    }

    /// Is the round with this attempt decided by the present claim?
    fn decides(&self, _: Attempt) -> bool {
        false
    }

    /// Does this member send heartbeats? The leader does; so does a member that depends on another member's report of
    /// the leader, and so do neighbours while they must watch each other.
    fn sends_heartbeats(&self, ctx: &Context<'_>) -> bool {
        let leads = self.leader().is_some_and(|claim| claim.is_by(ctx.me));
        let second_hand = self.source() != self.leader().map(|claim| claim.uid.id);
        let ring_without_leader = ctx.view.topology() != Topology::Mesh && self.leader().is_none();
        leads || second_hand || ring_without_leader
    }

    /// The quorum machine, for checkers.
    fn reign(&self) -> Option<&Reign> {
        None
    }

    /// The vote in a record, for checkers.
    fn vote(_: &Self::Durable) -> Option<Vote> {
        None
    }

    /// How long a winner may need to come to lead, beyond the election itself: the last lease may have to end first.
    fn patience(settings: &Settings) -> Duration {
        if Self::ELECTION_PROPOSES { 2 * settings.timing.lease } else { Duration::ZERO }
    }
}

/// What an authority guarantees.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Guarantee {
    /// One leader per connected component.
    Component,
    /// Leaders hold leases, and two leases never overlap.
    Lease,
    /// As `Lease`; besides, a majority of the voters granted each lease, and can grant no other while it runs.
    Majority,
}

/// What a member passes to its authority.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum AuthorityCommand {
    /// Once, at the start: what kind of election runs in this member.
    Election(Features),
    /// This attempt was seen or begins: it must not be used again after a restart.
    Saw(Attempt),
    /// The time of a lease has passed since the attempts made a leap: they may leap again.
    MayLeap,
    /// The election chose this member. `attempt`: of the round, if the algorithm is run in rounds; `term`: the
    /// algorithm's own number of its decision, if it has one.
    Won { attempt: Option<Attempt>, term: Option<Epoch> },
    /// The election chose another member. `winner` is unknown where the algorithm is anonymous. `via`: the member whose
    /// message told it.
    OtherWon { winner: Option<Uid>, reach: Reach, via: Option<NodeId>, attempt: Option<Attempt>, term: Option<Epoch> },
    /// The algorithm has withdrawn its decision.
    Halted,
    /// A heartbeat arrived with this news. `reach`: of the leader that it names.
    Heard { from: NodeId, news: News, reach: Reach },
    /// The leader, or the member that reported it, is down.
    LeaderGone,
    /// The leader announced that it no longer stands.
    LeaderResigns,
    /// The leader is no participant of the round that begins.
    LeaderLeftOut,
    /// This member is better than the leader and has waited long enough.
    TakeOver,
    /// The operator wants an election although a member leads. `better`: a connected member that would win it.
    Reelect { better: Option<NodeId> },
    /// Give up leadership; to this member, if one is named.
    StepDown { successor: Option<NodeId> },
    /// Hand leadership over to this member. This member stands again if that fails.
    Transfer(NodeId),
    /// May no better member take over from this leader, whatever the config says?
    Keep(bool),
    /// The far side closed the connection of this incarnation of this member.
    Closed(Holder),
    /// Does a child process depend on this member's leadership?
    Attached(bool),
    /// The operator wants another list of members.
    Change(Change),
    /// The operator says that this cluster is new.
    Bootstrap,
}

/// What this member knows of its connection to another member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Reach {
    Connected,
    /// Not connected; perhaps no connection is wanted.
    Unknown,
    /// Was down when last tried; this member does not dial it and would not notice its return.
    DownOnce,
    /// Down, and this member would notice its return.
    Down,
}

/// What an authority asks of the member around it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum AuthorityEvent {
    /// From now on this member follows this leader (or leads), or no leader.
    Follows {
        leader: Option<Claim>,
        cause: Cause,
    },
    /// This member may claim to lead until this timer is due.
    Lease {
        until: LeaseTimer,
        no_child: bool,
    },
    /// This member leads in this epoch, by the grants of a majority that knows this of locks.
    Reigns {
        epoch: Epoch,
        locks: LockPast,
    },
    /// Leadership is to be given away when the children have stopped.
    StopChildren,
    Granted {
        epoch: Epoch,
        holder: Holder,
        list: Stamp,
    },
    PromiseEnded {
        epoch: Epoch,
        holder: Holder,
    },
    List(ListEvent),
    /// The id of the cluster is on this voter's disk.
    Named(ClusterId),
    /// A leader released its leadership for this member, which did not come to lead.
    SuccessionFailed,
    /// The rounds up to this attempt have a result.
    Decided(Attempt),
    /// A round below this attempt cannot end with a leader that all members follow: if one is under way, open the next.
    Outdated(Attempt),
    /// What was once observed of this member is out of date.
    Forget(NodeId),
    /// The election machine begins anew: its last decision was withdrawn.
    ResetElection,
    /// Open an election.
    OpenElection,
    /// The election machine hands leadership over to this member.
    HandOver(NodeId),
    /// Send a heartbeat: to all members, to one member, or on a ring to all neighbours but one.
    TellAll,
    Tell(NodeId),
    PassOn {
        except: NodeId,
    },
}
