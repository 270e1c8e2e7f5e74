//! The vocabulary of a reign: the messages between candidates and voters, and the record of a voter.

use std::time::Duration;

use algorithms::{Epoch, Kind, Message, NodeId};
use serde::{Deserialize, Serialize};

use crate::messages::LeaseTimer;
use types::{ClusterId, Incarnation};

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

/// What a voter must keep on disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Vote {
    /// The last epoch granted, or learnt from the other voters when the disk was lost.
    pub epoch: Epoch,
    pub holder: Option<Holder>,
    /// The longest promise ever made: after a restart it may still be running.
    pub longest_lease: Duration,
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
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct VoterRecord {
    pub incarnation: Incarnation,
    pub vote: Option<Vote>,
    pub cluster: Option<ClusterMark>,
}

/// Requests carry a number, and answers repeat it: an answer to an older request never counts for a newer one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    /// "Would you grant me an epoch?" Binds no voter. `after`: once that holder has released its leadership.
    Probe {
        request: u64,
        holder: Holder,
        after: Option<Released>,
    },
    ProbeOk {
        request: u64,
    },
    ProbeDenied {
        epoch: Epoch,
    },
    /// "Grant me this epoch", or, in the epoch already granted, "promise me another lease". `no_child`: no child process
    /// depends on the bidder's leadership.
    Bid {
        epoch: Epoch,
        request: u64,
        holder: Holder,
        after: Option<Released>,
        no_child: bool,
    },
    /// Names the bidder's incarnation: a bidder that lost its disk may bid for the same epoch again, with the same
    /// number.
    Ack {
        epoch: Epoch,
        request: u64,
        incarnation: Incarnation,
    },
    Refuse {
        epoch: Epoch,
        request: u64,
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
    },
    Naming(NamingMsg),
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
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
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
    /// Ask the sitting leader, which is worse, to hand over.
    Claim,
    /// The far side closed the connection of this incarnation of this member.
    Closed(Holder),
    /// Does a child process depend on this member's leadership? A child may outlive this process.
    Attached(bool),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReignEvent {
    /// This member leads from now until this lease ends. `no_child`: the majority was told that no child process
    /// depends on it.
    Leading { epoch: Epoch, until: LeaseTimer, no_child: bool },
    /// This member continues to lead, until this lease ends.
    Extended { until: LeaseTimer, no_child: bool },
    /// This member leads no more.
    Lost { cause: LossCause },
    /// A leader released its leadership for this member, which did not come to lead.
    SuccessionFailed,
    /// Leadership is to be given away as soon as no child depends on it.
    StopChildren,
    /// This voter promised this epoch to this holder.
    Granted { epoch: Epoch, holder: Holder },
    /// The promise is over.
    PromiseEnded { epoch: Epoch, holder: Holder },
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
