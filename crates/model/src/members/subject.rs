//! What the model must know of a member beside the `Protocol`.

use algorithms::{Election, Features, NodeId, Protocol, View};
use member::reign::{Msg, ReignTimer};
use member::{Authority, Classic, Command, Envelope, Event, Member, NodeSet, Quorum, Settings, Standing, Timer};

/// A [`Member`]; a planted bug wraps one and passes it on.
pub trait Subject: Protocol<Link = NodeId, Command = Command, Event = Event, Settings = Settings> {
    /// May a member claim to lead only until its lease ends?
    const LEASES: bool;

    /// Those of its election.
    fn features(settings: &Settings) -> Features;
    fn links(&self, view: &View) -> NodeSet;
    /// The machine's own standing; its announcement may be behind.
    fn standing(&self) -> Standing;
    /// Does it follow this leader with nothing left to be agreed on?
    fn is_steady(&self, leader: NodeId) -> bool;
    fn class(timer: Self::Timer) -> Class;
    /// Does this message of a leader hand over leadership to the receiver?
    fn is_handover(message: &Self::Message) -> bool;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    Beat,
    /// The detector's timer of this peer.
    Silence(NodeId),
    /// Runs for ever: it is fired only while the members disagree, or have something left to agree on.
    Upkeep,
    /// As upkeep; but other members rely on its length, so that it never fires early.
    Promise,
    /// Other members rely on its length: it never fires early.
    Settle,
    /// The election's: upkeep if it is never reset.
    Algorithm,
    Other,
}

/// An authority that the model knows.
pub trait Referee: Authority {
    const LEASES: bool;

    fn is_steady(&self, leader: NodeId) -> bool;
    fn class(timer: Self::Timer) -> Class;
    fn is_handover(message: &Self::Message) -> bool;
}

impl Referee for Classic {
    const LEASES: bool = false;

    fn is_steady(&self, _: NodeId) -> bool {
        true
    }

    fn class(timer: Self::Timer) -> Class {
        match timer {}
    }

    fn is_handover(message: &Self::Message) -> bool {
        match *message {}
    }
}

impl Referee for Quorum {
    const LEASES: bool = true;

    fn is_steady(&self, leader: NodeId) -> bool {
        self.reign().is_some_and(|reign| {
            let promised = reign.granted().1.is_some_and(|holder| holder.id == leader && reign.binds(holder));
            reign.is_settled() && promised
        })
    }

    fn class(timer: ReignTimer) -> Class {
        match timer {
            ReignTimer::Lease(_) | ReignTimer::Renew => Class::Upkeep,
            ReignTimer::Promise => Class::Promise,
            ReignTimer::Settle => Class::Settle,
            ReignTimer::Retry | ReignTimer::Leap | ReignTimer::Change => Class::Other,
        }
    }

    fn is_handover(message: &Msg) -> bool {
        matches!(message, Msg::Handover(_))
    }
}

impl<E: Election, A: Referee> Subject for Member<E, A> {
    const LEASES: bool = A::LEASES;

    fn features(settings: &Settings) -> Features {
        E::features(&settings.election)
    }

    fn links(&self, view: &View) -> NodeSet {
        Member::links(self, view)
    }

    fn standing(&self) -> Standing {
        Member::standing(self)
    }

    fn is_steady(&self, leader: NodeId) -> bool {
        self.authority().is_steady(leader)
    }

    fn class(timer: Timer<E::Timer, A::Timer>) -> Class {
        match timer {
            Timer::Authority(timer) => A::class(timer),
            Timer::Beat => Class::Beat,
            Timer::Silence(peer) => Class::Silence(peer),
            Timer::Algorithm(_) => Class::Algorithm,
            _ => Class::Other,
        }
    }

    fn is_handover(message: &Self::Message) -> bool {
        matches!(message, Envelope::Authority(message) if A::is_handover(message))
    }
}
