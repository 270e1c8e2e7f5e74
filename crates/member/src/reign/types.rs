//! The vocabulary of a reign: the messages between candidates and voters, and the record of a voter.

use std::sync::Arc;
use std::time::Duration;

use algorithms::{Epoch, Kind, Message, NodeId};
use serde::{Deserialize, Serialize};

use crate::messages::LeaseTimer;
use types::{Change, ChangeRefusal, ClusterId, Incarnation, MemberList, Stamp};

/// One incarnation of one member. A restarted member is another holder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Holder {
    pub id: NodeId,
    pub incarnation: Incarnation,
}

/// "This holder leads in no epoch up to this one, and never will."
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Released {
    pub holder: Holder,
    pub epoch: Epoch,
}

/// What a voter must keep on disk. The grant and the list under which it was given are one record and one write.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Vote {
    /// The last epoch granted, or learnt from the other voters when the disk was lost.
    pub epoch: Epoch,
    pub holder: Option<Holder>,
    /// The longest promise ever made: after a restart it may still be running.
    pub longest_lease: Duration,
    /// The newest list under which this voter has granted an epoch. Never replaced by an older one. Without members: the
    /// list of the config file.
    pub list: Arc<MemberList>,
    pub locks: LockPast,
}

/// What a voter knows of locks that may be held when the next reign begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct LockPast {
    /// The largest [`crate::Timing::lock_ttl_max`] that this voter ever ran with: for so long a session may outlive its
    /// reign.
    pub longest_ttl: Duration,
    /// Every epoch that this voter has granted was granted to the present holder. If a majority says so, no other process
    /// has ever led. Always false where there is no lock service.
    pub only_holder: bool,
}

impl LockPast {
    /// What two voters know together.
    #[must_use]
    pub fn and(self, other: LockPast) -> LockPast {
        LockPast {
            longest_ttl: self.longest_ttl.max(other.longest_ttl),
            only_holder: self.only_holder && other.only_holder,
        }
    }
}

/// What a voter knows of the cluster's id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ClusterMark {
    /// A majority has accepted it: no other id can ever be agreed on.
    pub agreed: bool,
    /// The epoch of the leader that proposed it.
    pub epoch: Epoch,
    pub id: ClusterId,
}

/// The record of a voter: its incarnation, and its vote unless the vote is not known.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct VoterRecord {
    pub incarnation: Incarnation,
    pub vote: Option<Vote>,
    pub cluster: Option<ClusterMark>,
}

/// Requests carry a number, and answers repeat it: an answer to an older request never counts for a newer one. The list in
/// a request is the list in which its answers are counted; the list in a refusal is the sender's own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    /// "Would you grant me an epoch?" Binds no voter. `after`: once that holder has released its leadership.
    Probe {
        request: u64,
        holder: Holder,
        after: Option<Released>,
        list: Arc<MemberList>,
    },
    ProbeOk {
        request: u64,
    },
    ProbeDenied {
        epoch: Epoch,
        list: Arc<MemberList>,
    },
    /// "Grant me this epoch", or, in the epoch already granted, "promise me another lease". `no_child`: no child process
    /// depends on the bidder's leadership.
    Bid {
        epoch: Epoch,
        request: u64,
        holder: Holder,
        after: Option<Released>,
        no_child: bool,
        list: Arc<MemberList>,
    },
    /// Names the bidder's incarnation: a bidder that lost its disk may bid for the same epoch again, with the same
    /// number.
    Ack {
        epoch: Epoch,
        request: u64,
        incarnation: Incarnation,
        locks: LockPast,
    },
    Refuse {
        epoch: Epoch,
        request: u64,
        list: Arc<MemberList>,
    },
    /// The holder has released its leadership: promises to it are void.
    Release(Released),
    /// The leader would hand over to the receiver.
    Offer {
        epoch: Epoch,
    },
    /// A majority would grant the sender an epoch: it could take over from this epoch's leader. `write_time`: how long
    /// the sender's latest write took.
    Ready {
        epoch: Epoch,
        write_time: Duration,
    },
    /// To the successor only: the sender has released its leadership.
    Handover(Released),
    /// The sender's promise to another holder is over: the receiver may ask again.
    Free,
    /// A voter that lost its disk asks what was granted.
    Survey {
        incarnation: Incarnation,
    },
    /// `None` from a voter that does not know the last grant either.
    SurveyReply {
        incarnation: Incarnation,
        epoch: Option<Epoch>,
        /// What the sender knows of the cluster's id.
        cluster: Option<ClusterMark>,
        list: Arc<MemberList>,
        /// The operator has said that this cluster is new.
        bootstrap: bool,
    },
    Naming(NamingMsg),
    /// The list on the sender's disk, or, while the sender is blank, the newest list that it has heard of.
    List {
        list: Arc<MemberList>,
        /// The sender does not know what was granted.
        blank: bool,
        /// The sender leads, and this list is in force.
        in_force: bool,
    },
    /// As Release, of a process that has never led in any epoch. Sent where there is a lock service: a bid that failed does
    /// not make the first reign the second one.
    Abandon(Released),
}

/// How the voters agree on the cluster's id: the leader of an epoch is the only member that may propose in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum NamingMsg {
    /// To the voters that granted this epoch: "which id do you know?"
    Ask {
        holder: Holder,
        epoch: Epoch,
    },
    Answer {
        epoch: Epoch,
        mark: Option<ClusterMark>,
    },
    /// "Take this id"; if it is agreed, for good.
    Propose {
        holder: Holder,
        epoch: Epoch,
        mark: ClusterMark,
    },
    /// It is on the sender's disk.
    Accepted(ClusterMark),
}

impl Message for Msg {
    const KINDS: &'static [Kind] = &[Kind::election("reign")];

    fn kind(&self) -> usize {
        0
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReignTimer {
    /// A leader's lease ends. It comes before [`ReignTimer::Promise`]: of two timers that are due at one moment the one
    /// that ends the leader's own claim fires first.
    Lease(LeaseTimer),
    /// The promise to the holder ends.
    Promise,
    /// Promises of an earlier incarnation have ended.
    Settle,
    /// Apply for the next lease.
    Renew,
    /// A request has taken too long.
    Retry,
    /// The epoch may leap again.
    Leap,
    /// The list that was proposed should be in force by now.
    Change,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReignCommand {
    /// The election chose this member.
    Want,
    /// The election chose another member, or another member leads.
    Yield,
    /// Give leadership up, with or without a successor.
    StepDown,
    /// Continue to lead, in a new epoch.
    Affirm,
    /// Hand over to this member. `returns`: this member stands again if the successor does not come to lead.
    Transfer { to: NodeId, returns: bool },
    /// May no better member take over from this one while it leads?
    Keep(bool),
    /// Ask the sitting leader, which is worse, to hand over.
    Claim,
    /// The far side closed the connection of this incarnation of this member.
    Closed(Holder),
    /// Does a child process depend on this member's leadership? A child may outlive this process.
    Attached(bool),
    /// The operator wants another list.
    Change(Change),
    /// The operator says that this cluster is new: nothing was ever granted.
    Bootstrap,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReignEvent {
    /// This member leads from now until this lease ends. `no_child`: the majority was told that no child process
    /// depends on it.
    Leading {
        epoch: Epoch,
        until: LeaseTimer,
        no_child: bool,
        /// What the majority knows of locks that may be held.
        locks: LockPast,
    },
    /// This member continues to lead, until this lease ends.
    Extended {
        until: LeaseTimer,
        no_child: bool,
    },
    /// This member leads no more.
    Lost {
        cause: LossCause,
    },
    /// A leader released its leadership for this member, which did not come to lead.
    SuccessionFailed,
    /// Leadership is to be given away as soon as no child depends on it.
    StopChildren,
    /// This voter promised this epoch to this holder, under its list with this stamp.
    Granted {
        epoch: Epoch,
        holder: Holder,
        list: Stamp,
    },
    /// The promise is over.
    PromiseEnded {
        epoch: Epoch,
        holder: Holder,
    },
    List(ListEvent),
    /// The id of the cluster, which the voters have agreed on, is on this voter's disk.
    Named(ClusterId),
}

/// What happens to the lists of members.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum ListEvent {
    /// The newest list that this member has heard of. Its driver connects to these members, and gives the machine a view
    /// of them before the next step.
    Known(Arc<MemberList>),
    /// It is on this voter's disk.
    Adopted(Arc<MemberList>),
    /// This leader proposes it. A list that is in force already: the change asked for has been made before.
    Proposed(Arc<MemberList>),
    /// At the leader: a majority of its voters has it on disk.
    InForce(Arc<MemberList>),
    /// At the member that was asked for a change.
    Refused(ChangeRefusal),
    /// This member is not in the list in force, which has this stamp, and it has heard of no newer list.
    Removed(Stamp),
}

/// Why a leader leads no more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LossCause {
    /// No majority granted the next lease in time.
    LeaseEnded,
    /// Under `on_close = "immediate"`: too few voters stayed connected.
    SupportersLost,
    SteppedDown,
    HandedOver,
    /// Its own vote went to another holder, which presented a release that this leader never gave.
    Superseded,
}
