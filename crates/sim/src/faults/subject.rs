//! What the fault engine drives: a whole member, or a toy that stands in for one in a test.

use algorithms::{Election, NodeId, Protocol, StateVector, View};
use member::{Command, Event, Member, NodeSet};

pub trait Subject: Protocol<Link = NodeId, Command = Command, Event = Event> {
    /// The published state vector, for algorithms whose correctness is stated over one.
    fn state_vector(&self) -> Option<StateVector> {
        None
    }

    /// Whom it wants to be connected to; all others may still connect to it.
    fn links(&self, view: &View) -> NodeSet {
        (0..view.len()).collect()
    }
}

impl<E: Election> Subject for Member<E> {
    fn state_vector(&self) -> Option<StateVector> {
        self.machine().state_vector()
    }

    fn links(&self, view: &View) -> NodeSet {
        Member::links(self, view)
    }
}
