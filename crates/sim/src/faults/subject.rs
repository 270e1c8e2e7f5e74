//! The machine that the fault engine drives: a whole member, or a toy that replaces one in a test.

use algorithms::{Election, Features, NodeId, Protocol, StateVector, View};
use member::reign::{Reign, Vote};
use member::{Authority, Command, Event, FullPos, Guarantee, Member, NodeSet, Role, Settings};

pub trait Subject: Protocol<Link = NodeId, Command = Command, Event = Event, Settings = Settings> {
    /// Which invariants must hold for it.
    const GUARANTEE: Guarantee = Guarantee::Component;
    /// Does it obey orders of maintenance?
    const TAKES_MAINTENANCE: bool = false;

    /// Those of its election.
    fn features(_: &Settings) -> Features {
        Features { plain_ids: true, ..Features::PLAIN }
    }

    /// The published state vector, for algorithms whose correctness is stated over one.
    fn state_vector(&self) -> Option<StateVector> {
        None
    }

    /// The members it wants to be connected to; all others may still connect to it.
    fn links(&self, view: &View) -> NodeSet {
        FullPos::all(view).collect()
    }

    /// Does the machine itself lead? Its last announcement may still wait for the disk. `None`: it does what it announced.
    fn leads(&self) -> Option<bool> {
        None
    }

    /// Its quorum reign, if it has one.
    fn reign(&self) -> Option<&Reign> {
        None
    }

    /// The vote in a record.
    fn vote(_: &Self::Durable) -> Option<Vote> {
        None
    }
}

impl<E: Election, A: Authority> Subject for Member<E, A> {
    const GUARANTEE: Guarantee = A::GUARANTEE;
    const TAKES_MAINTENANCE: bool = true;

    fn features(settings: &Settings) -> Features {
        E::features(&settings.election)
    }

    fn state_vector(&self) -> Option<StateVector> {
        self.machine().state_vector()
    }

    fn links(&self, view: &View) -> NodeSet {
        Member::links(self, view)
    }

    fn leads(&self) -> Option<bool> {
        Some(self.standing().role == Role::Leader)
    }

    fn reign(&self) -> Option<&Reign> {
        self.authority().reign()
    }

    fn vote(record: &Self::Durable) -> Option<Vote> {
        A::vote(&record.authority)
    }
}
