//! The vocabulary of a reign: what travels between candidates and voters, what a voter writes down.

use std::time::Duration;

use algorithms::{Epoch, Incarnation, Kind, Message, NodeId};
use serde::{Deserialize, Serialize};

/// One life of one member. A restarted member is another holder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Holder {
    pub id: NodeId,
    pub life: Incarnation,
}

/// "This holder leads in no epoch up to this one, and never will."
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Released {
    pub holder: Holder,
    pub epoch: Epoch,
}

/// What a voter must not forget.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Vote {
    /// The last epoch granted, or learnt when the disk was lost.
    pub epoch: Epoch,
    pub holder: Option<Holder>,
    /// The longest promise ever made: after a restart it may still be running.
    pub longest_lease: Duration,
}

/// The record of a reign: which life this is, and the vote unless nothing is known of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Tenure {
    pub life: Incarnation,
    pub vote: Option<Vote>,
}

/// Requests carry the number `k` of the attempt they belong to, and answers bring it back: an answer to an older
/// attempt never counts for a newer one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    /// "Would you grant me an epoch?" Binds nobody. `after`: once that holder has let go.
    PreAsk {
        k: u64,
        holder: Holder,
        after: Option<Released>,
    },
    PreOk {
        k: u64,
    },
    PreNo {
        epoch: Epoch,
    },
    /// "Grant me this epoch", or, in the epoch already granted, "promise me another lease".
    Bid {
        epoch: Epoch,
        k: u64,
        holder: Holder,
        after: Option<Released>,
        bare: bool,
    },
    /// `life`: the bidder's. One that lost its disk may bid for the same epoch again, under the same number.
    Ack {
        epoch: Epoch,
        k: u64,
        life: Incarnation,
    },
    Refuse {
        epoch: Epoch,
        k: u64,
    },
    /// The holder has let go: its promises are void.
    Release(Released),
    /// The leader would hand over to the receiver.
    Offer {
        epoch: Epoch,
    },
    /// The sender has a majority in sight and could take over from this epoch's leader.
    Ready {
        epoch: Epoch,
    },
    /// To the successor only: the sender has let go.
    Handover(Released),
    /// The sender's promise to somebody else is over: ask again.
    Free,
    /// A voter that lost its disk asks what was granted. The answer is `None` from one that does not know either.
    Read {
        life: Incarnation,
    },
    ReadR {
        life: Incarnation,
        epoch: Option<Epoch>,
    },
}

impl Message for Msg {
    const KINDS: &'static [Kind] = &[Kind::election("reign")];

    fn kind(&self) -> usize {
        0
    }
}

/// A leader's two lease timers: one runs for the lease in hand while the other measures the one applied for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Slot {
    A,
    B,
}

impl Slot {
    pub(super) fn other(self) -> Self {
        match self {
            Slot::A => Slot::B,
            Slot::B => Slot::A,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Clock {
    /// The promise to the holder ends.
    Promise,
    /// Promises of an earlier life have ended.
    Settle,
    Lease(Slot),
    /// Apply for the next lease.
    Renew,
    /// An attempt has taken too long.
    Retry,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Order {
    /// The election chose this member.
    Want,
    /// It chose another, or another leads.
    Yield,
    StepDown,
    /// Go on leading, in a new epoch.
    Affirm,
    /// Hand over to this member.
    Transfer(NodeId),
    /// Ask the sitting leader, who is worse, to hand over.
    Claim,
    /// The far side closed the connection of this life of this member.
    Closed(Holder),
    /// Does a child or hook act on this member's leadership? Then it outlives the process.
    Attached(bool),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fact {
    /// Leads from now until this lease ends. `bare`: a majority thinks that nobody else acts on it.
    Leading { epoch: Epoch, until: Slot, bare: bool },
    /// Goes on leading, until this lease ends.
    Extended { until: Slot, bare: bool },
    /// Leads no more.
    Lost,
    /// Is to hand over, as soon as nothing acts on its leadership any more.
    StopChildren,
    /// Promised this epoch to that holder.
    Granted { epoch: Epoch, holder: Holder },
    /// That promise is over.
    PromiseEnded { epoch: Epoch, holder: Holder },
}
