//! The vocabulary of a member: messages, records, announcements.

use std::time::Duration;

use algorithms::{Ctx, Epoch, Kind, Message, NodeId, Uid};
use serde::{Deserialize, Serialize};
use types::{Cause, Change, ClusterId, Incarnation, Role, Stamp, Standing};

use crate::attempts::Attempt;
use crate::maintenance::Mode;
use crate::positions::NodeSet;
use crate::reign::{Holder, ListEvent, LossCause};
use crate::settings::Settings;

/// What the machines of this crate may look at.
pub type Context<'a> = Ctx<'a, Settings>;

/// Numbers an election attempt. Ordered: a newer round replaces an older one at every member it reaches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Round {
    pub attempt: Attempt,
    pub initiator: NodeId,
    /// The counter of the initiator's incarnation: a restarted member never repeats a round.
    pub incarnation: u64,
}

/// "This uid leads in this epoch." Of two claims the later epoch is followed; no two members claim the same epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Claim {
    pub epoch: Epoch,
    /// With the priority with which it came to lead, whatever its priority is now.
    pub uid: Uid,
}

impl Claim {
    /// The same member in the same epoch: members may know its priority by different reports.
    pub fn is_same(self, other: Claim) -> bool {
        (self.epoch, self.uid.id) == (other.epoch, other.uid.id)
    }

    pub fn is_by(self, member: Uid) -> bool {
        self.uid.id == member.id
    }
}

/// What a member reports of elections and of the leader.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct News {
    /// The next election must not have a smaller number.
    pub next_attempt_min: Attempt,
    pub leader: Option<Claim>,
    /// Has the sender heard that from the leader itself? An authority may refuse to pass on a report of a report.
    pub firsthand: bool,
}

/// A heartbeat.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Beat {
    pub news: News,
    /// May the sender be elected? False after it stepped down, and for a voter that has not settled yet.
    pub stands: bool,
    /// The sender wants a heartbeat in return.
    pub ask: bool,
    /// The counter of the sender's incarnation: distinguishes a wrong suspicion from a restart.
    pub incarnation: u64,
    /// How many setbacks of the receiver the sender remembers: a restarted receiver remembers none.
    pub setbacks: u8,
    /// The sender's priority for the next election.
    pub priority: u32,
    /// The newest order of a pause, or of its end, that the sender knows.
    pub mode: Option<Mode>,
    /// Of a leader: no better member is to take over from this one, the sender itself or its chosen successor.
    pub hold: Option<NodeId>,
}

/// What members send each other: `M` on links `L` is the algorithm's message, `A` the authority's.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Envelope<L, M, A> {
    Beat(Beat),
    /// An algorithm's message, in the round it belongs to. `link` is the receiver's name of the link; participants are
    /// positions in the list with this stamp.
    Round {
        round: Round,
        list: Stamp,
        participants: NodeSet,
        link: L,
        hops: u16,
        message: M,
    },
    /// "Your round is over: this one replaces it."
    Join {
        round: Round,
        list: Stamp,
        participants: NodeSet,
    },
    /// A message of an algorithm that numbers its own attempts.
    Plain {
        link: L,
        hops: u16,
        message: M,
    },
    Authority(A),
}

impl<L, M, A> Envelope<L, M, A> {
    /// The algorithm's message inside this message, as theory counts it.
    pub fn algorithm_message(&self) -> Option<&M> {
        match self {
            Envelope::Round { message, .. } | Envelope::Plain { message, .. } => Some(message),
            Envelope::Beat(_) | Envelope::Join { .. } | Envelope::Authority(_) => None,
        }
    }

    /// The same with another message of the algorithm inside, if there is one inside.
    pub fn with_message<N, F>(self, message: impl FnOnce(M) -> Result<N, F>) -> Result<Envelope<L, N, A>, F> {
        Ok(match self {
            Envelope::Beat(beat) => Envelope::Beat(beat),
            Envelope::Round { round, list, participants, link, hops, message: inner } => {
                Envelope::Round { round, list, participants, link, hops, message: message(inner)? }
            }
            Envelope::Join { round, list, participants } => Envelope::Join { round, list, participants },
            Envelope::Plain { link, hops, message: inner } => Envelope::Plain { link, hops, message: message(inner)? },
            Envelope::Authority(inner) => Envelope::Authority(inner),
        })
    }
}

impl<L: algorithms::Link, M: Message, A: Message> Message for Envelope<L, M, A> {
    const KINDS: &'static [Kind] =
        &[Kind::election("beat"), Kind::election("join"), Kind::election("algorithm"), Kind::election("authority")];

    fn kind(&self) -> usize {
        match self {
            Envelope::Beat(_) => 0,
            Envelope::Join { .. } => 1,
            Envelope::Round { .. } | Envelope::Plain { .. } => 2,
            Envelope::Authority(_) => 3,
        }
    }
}

/// `T` names the algorithm's timers, `A` the authority's. Of timers that are due at one moment the authority's fire
/// first: no algorithm acts on a lease that has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer<T, A> {
    Authority(A),
    /// Send heartbeats.
    Beat,
    /// This peer has been silent for too long.
    Silence(NodeId),
    /// The round in progress takes too long.
    Watchdog,
    /// The first election has waited long enough for all members.
    Grace,
    /// A better member has waited long enough to take over.
    Preempt,
    /// A member that stepped down may stand again.
    Abstain,
    /// A cluster that was paused has had time to learn that it is not any more.
    Resume,
    /// A leader that is to hand over to a held successor has waited long enough for that.
    Hold,
    /// A leader that steps down has waited long enough for its successor.
    Handover,
    /// Children that were told to stop have had enough time.
    ChildrenStop,
    /// Winners that never came to lead may stand again.
    Forgive,
    /// The numbers of elections may leap again.
    Leap,
    /// This member has led long enough: the end of this leadership is no setback.
    Tenure,
    /// Every member is forgiven one setback.
    Pardon,
    Algorithm(T),
}

/// A leader's two lease timers: one runs for the present lease while the other measures the lease applied for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum LeaseTimer {
    A,
    B,
}

impl LeaseTimer {
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            LeaseTimer::A => LeaseTimer::B,
            LeaseTimer::B => LeaseTimer::A,
        }
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Command {
    /// The operator wants an election now.
    Elect,
    /// Resign. Children stop first. Without a time this member does not stand until another member leads, and for a while
    /// after that. With one it does not stand for that time, counted from now, unless no other member can lead.
    StepDown(Option<Duration>),
    /// Hand over to this member. Children stop when the successor is ready. `hold`: while the successor leads no better member
    /// takes over from it.
    Transfer { to: NodeId, hold: bool },
    /// Pause the cluster, or end its pause.
    Pause(bool),
    /// The far side closed the connection of this incarnation of this member.
    Closed(NodeId, Incarnation),
    /// Does a child process depend on this member's leadership? Sent when the first child attaches and when the last
    /// one leaves.
    Attached(bool),
    /// The operator wants another list of members ([`Event::List`] answers).
    Change(Change),
    /// The operator says that this cluster is new: nothing was ever granted.
    Bootstrap,
    /// This member's priority from the next election on; `None`: that of the list.
    Priority(Option<u32>),
}

/// Everything a member keeps on disk: `A` is the authority's record, `E` the algorithm's, if it has ever kept one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Record<A, E> {
    pub authority: A,
    pub algorithm: Option<E>,
    /// The newest order of a pause, or of its end.
    pub mode: Option<Mode>,
}

impl From<LossCause> for Cause {
    fn from(cause: LossCause) -> Self {
        match cause {
            LossCause::LeaseEnded => Cause::LeaseEnded,
            LossCause::SupportersLost => Cause::SupportersLost,
            LossCause::SteppedDown => Cause::SteppedDown,
            LossCause::HandedOver => Cause::HandedOver,
            LossCause::Superseded => Cause::Superseded,
        }
    }
}

/// What a member announces.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Event {
    Became {
        now: Standing,
        cause: Cause,
    },
    /// Drop the connection to this peer and dial it anew.
    Suspects(NodeId),
    /// Leadership is to be given away: the children must stop first, and their end be reported ([`Command::Attached`]).
    StopChildren,
    /// The children did not stop in time: leadership is given away all the same.
    ChildrenGivenUp,
    /// This member may claim to lead until this lease timer is due. `no_child`: the majority that granted this lease was
    /// told that no child process depends on it.
    Lease {
        until: LeaseTimer,
        no_child: bool,
    },
    /// Promised this epoch to this holder, under the list with this stamp.
    Granted {
        epoch: Epoch,
        holder: Holder,
        list: Stamp,
    },
    /// That promise is over.
    PromiseEnded {
        epoch: Epoch,
        holder: Holder,
    },
    List(ListEvent),
    /// The voters have agreed on this id of their cluster, and it is on this voter's disk.
    Named(ClusterId),
    /// This member knows of a newer order of a pause, or of its end.
    Mode(Mode),
    /// By an order this member does not stand for this time from now on; `None`: it stands again.
    Rests(Option<Duration>),
    /// This member leads in this epoch, a new one; [`Event::Became`] comes before. For the lock service, and only
    /// where there is one: sessions of earlier reigns may live for `longest_ttl`. `first`: no other process has ever led.
    Reigns {
        epoch: Epoch,
        first: bool,
        longest_ttl: Duration,
    },
}

impl Event {
    /// Does it say that this member leads?
    pub fn is_of_leader(&self) -> bool {
        matches!(self, Event::Became { now, .. } if now.role == Role::Leader)
    }
}
