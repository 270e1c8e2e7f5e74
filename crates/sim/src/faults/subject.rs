//! The machine that the fault engine drives: a whole member, or a toy that replaces one in a test.

use algorithms::{Election, NodeId, Protocol, StateVector, View};
use member::reign::{Reign, Vote};
use member::{Authority, Command, Event, FullPos, Guarantee, Member, NodeSet, Role, Settings};

pub trait Subject: Protocol<Link = NodeId, Command = Command, Event = Event, Settings = Settings> {
    /// Which invariants must hold for it.
    const GUARANTEE: Guarantee = Guarantee::Component;
    /// Are its epochs the terms of its algorithm?
    const HAS_TERMS: bool = false;
    /// Can it be told other priorities?
    const TAKES_PRIORITIES: bool = false;
    /// Does it obey orders of maintenance?
    const TAKES_MAINTENANCE: bool = false;

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
    const HAS_TERMS: bool = E::HAS_TERMS;
    const TAKES_PRIORITIES: bool = !E::PLAIN_IDS;
    const TAKES_MAINTENANCE: bool = true;

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
