//! What the fault engine drives: a whole member, or a toy that stands in for one in a test.

use algorithms::{Election, NodeId, Protocol, StateVector, View};
use member::reign::{Clock, Reign, Slot, Vote};
use member::{Command, Event, Member, NodeSet, Record, Timer};

pub trait Subject: Protocol<Link = NodeId, Command = Command, Event = Event> {
    /// The published state vector, for algorithms whose correctness is stated over one.
    fn state_vector(&self) -> Option<StateVector> {
        None
    }

    /// Whom it wants to be connected to; all others may still connect to it.
    fn links(&self, view: &View) -> NodeSet {
        (0..view.len()).collect()
    }

    /// Its quorum reign, if it has one.
    fn reign(&self) -> Option<&Reign> {
        None
    }

    /// The timer that measures this lease.
    fn lease_timer(_: Slot) -> Option<Self::Timer> {
        None
    }

    /// What a disk says was granted.
    fn vote(_: &Self::Durable) -> Option<Vote> {
        None
    }
}

impl<E: Election> Subject for Member<E> {
    fn state_vector(&self) -> Option<StateVector> {
        self.machine().state_vector()
    }

    fn links(&self, view: &View) -> NodeSet {
        Member::links(self, view)
    }

    fn reign(&self) -> Option<&Reign> {
        Member::reign(self)
    }

    fn lease_timer(slot: Slot) -> Option<Self::Timer> {
        Some(Timer::Reign(Clock::Lease(slot)))
    }

    fn vote(record: &Record) -> Option<Vote> {
        record.vote
    }
}
