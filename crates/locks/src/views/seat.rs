//! A member's place in a view: the last Freeze that it answered.

use std::collections::VecDeque;

use types::{NodeId, Token};

use super::messages::{Holding, Parts, ViewId};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Phase {
    /// In no view since the process started.
    #[default]
    Out,
    /// It has answered Freeze, and waits for Thaw of exactly that view.
    Frozen,
    /// Its machines run.
    Runs,
}

/// A message of another participant for the view that begins here with Thaw.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Early<X> {
    pub from: NodeId,
    pub message: X,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Seat<X> {
    pub phase: Phase,
    /// Of the last Freeze that was answered. (epoch, number) are compared as a pair.
    pub view: ViewId,
    /// The leader that sent it.
    pub leader: NodeId,
    pub set: Vec<NodeId>,
    /// Messages may have been lost since it answered.
    pub broken: bool,
    /// Messages of this view that came before its Thaw.
    pub early: VecDeque<Early<X>>,
    pub thaw: Parts<Holding>,
}

impl<X> Default for Seat<X> {
    fn default() -> Self {
        Seat {
            phase: Phase::Out,
            view: ViewId::default(),
            leader: NodeId(0),
            set: Vec::new(),
            broken: false,
            early: VecDeque::new(),
            thaw: Parts::default(),
        }
    }
}

/// What to do with a Freeze.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    No,
    /// It was answered before, and the answer may be lost.
    Again,
    /// The machines stop.
    Stop,
}

impl<X> Seat<X> {
    pub fn answer(&self, from: NodeId, view: ViewId) -> Answer {
        if self.phase == Phase::Out || view > self.view {
            return Answer::Stop;
        }
        if view == self.view && self.leader == from && self.phase == Phase::Frozen { Answer::Again } else { Answer::No }
    }

    /// Is a Thaw of this view for the last Freeze that was answered?
    pub fn takes_thaw(&self, from: NodeId, view: ViewId) -> bool {
        self.phase == Phase::Frozen && view == self.view && from == self.leader
    }

    pub fn sit(&mut self, view: ViewId, leader: NodeId, set: Vec<NodeId>, broken: bool) {
        *self =
            Seat { phase: Phase::Frozen, view, leader, set, broken, early: VecDeque::new(), thaw: Parts::default() };
    }

    /// Keeps a message until Thaw. One too many is a lost message: the view is broken.
    pub fn keep(&mut self, from: NodeId, message: X, room: usize) {
        if self.early.len() < room {
            self.early.push_back(Early { from, message });
        } else {
            self.broken = true;
        }
    }

    pub fn floor(&self) -> Token {
        self.view.floor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Epoch;

    const LEADER: NodeId = NodeId(1);

    fn view(epoch: u64, number: u32) -> ViewId {
        ViewId { epoch: Epoch(epoch), number }
    }

    fn frozen(at: ViewId) -> Seat<u8> {
        let mut seat = Seat::default();
        seat.sit(at, LEADER, vec![LEADER], false);
        seat
    }

    #[test]
    fn only_a_later_freeze_stops_the_machines() {
        assert_eq!(Seat::<u8>::default().answer(LEADER, view(0, 0)), Answer::Stop);
        let mut seat = frozen(view(2, 3));
        assert_eq!(seat.answer(LEADER, view(2, 4)), Answer::Stop);
        assert_eq!(seat.answer(NodeId(2), view(3, 1)), Answer::Stop);
        assert_eq!(seat.answer(LEADER, view(1, 9)), Answer::No, "an earlier epoch, whatever its number");
        assert_eq!(seat.answer(LEADER, view(2, 3)), Answer::Again);
        assert_eq!(seat.answer(NodeId(2), view(2, 3)), Answer::No);
        seat.phase = Phase::Runs;
        assert_eq!(seat.answer(LEADER, view(2, 3)), Answer::No);
    }

    #[test]
    fn thaw_is_taken_for_exactly_the_last_freeze_answered() {
        let mut seat = frozen(view(2, 3));
        assert!(seat.takes_thaw(LEADER, view(2, 3)));
        assert!(!seat.takes_thaw(LEADER, view(2, 2)));
        assert!(!seat.takes_thaw(LEADER, view(2, 4)));
        assert!(!seat.takes_thaw(NodeId(2), view(2, 3)));
        seat.phase = Phase::Runs;
        assert!(!seat.takes_thaw(LEADER, view(2, 3)), "once");
    }

    #[test]
    fn a_message_too_many_breaks_the_view() {
        let mut seat = frozen(view(2, 3));
        seat.keep(LEADER, 7, 1);
        assert!(!seat.broken);
        seat.keep(LEADER, 8, 1);
        assert!(seat.broken);
        assert_eq!(seat.early.len(), 1);
    }
}
