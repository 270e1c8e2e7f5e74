//! A member's tenancy: how long its clients may act. There is no clock here: two timers take turns, each set when a beat
//! is sent, and the acknowledgement of a beat makes its timer the one that ends the tenancy.

/// The two timers of a tenancy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Turn {
    A,
    B,
}

impl Turn {
    fn other(self) -> Self {
        match self {
            Turn::A => Turn::B,
            Turn::B => Turn::A,
        }
    }
}

/// A beat that was sent and not acknowledged yet. It is sent again with the same number: the tenancy counts from its first
/// send time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Pending {
    number: u64,
    turn: Turn,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Tenancy {
    /// Of the last beat.
    sent: u64,
    pending: Option<Pending>,
    /// The timer that ends the tenancy; `None`: there is no tenancy.
    runs: Option<Turn>,
    /// The last beat that was acknowledged.
    acknowledged: u64,
    /// Clients wait for this beat.
    wanted: u64,
}

/// What to do about a beat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    pub number: u64,
    /// A new beat: this timer is set before it is sent.
    pub sets: Option<Turn>,
}

/// What follows from an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Renewed {
    /// The timer that ended the tenancy until now.
    pub cancels: Option<Turn>,
    /// The tenancy begins.
    pub begins: bool,
    /// Clients wait for the next beat.
    pub wants_more: bool,
}

/// What follows when one of the timers fires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fired {
    /// The tenancy is over.
    Lapsed,
    /// A beat was not acknowledged for so long that it is worth nothing now.
    Abandoned,
    Nothing,
}

impl Tenancy {
    pub fn runs(&self) -> bool {
        self.runs.is_some()
    }

    /// Is a beat not acknowledged yet?
    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// The beats up to this one are acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// The beat whose acknowledgement covers a message that arrived now: one that is sent from now on.
    pub fn covers_now(&mut self) -> u64 {
        self.wanted = self.sent + 1;
        self.wanted
    }

    /// Is a beat to be sent now rather than at the next interval?
    pub fn is_due(&self) -> bool {
        self.pending.is_none() && self.wanted > self.sent
    }

    /// The interval is over, or a beat is due.
    pub fn beat(&mut self) -> Sent {
        if let Some(pending) = self.pending {
            return Sent { number: pending.number, sets: None };
        }
        self.sent += 1;
        let turn = self.runs.map_or(Turn::A, Turn::other);
        self.pending = Some(Pending { number: self.sent, turn });
        Sent { number: self.sent, sets: Some(turn) }
    }

    pub fn acknowledge(&mut self, number: u64) -> Option<Renewed> {
        let pending = self.pending.filter(|pending| pending.number == number)?;
        self.pending = None;
        self.acknowledged = number;
        let cancels = self.runs.replace(pending.turn);
        Some(Renewed { cancels, begins: cancels.is_none(), wants_more: self.is_due() })
    }

    pub fn fired(&mut self, turn: Turn) -> Fired {
        if self.runs == Some(turn) {
            self.runs = None;
            return Fired::Lapsed;
        }
        if self.pending.is_some_and(|pending| pending.turn == turn) {
            self.pending = None;
            return Fired::Abandoned;
        }
        Fired::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenancy_counts_from_the_first_send_of_the_beat_that_is_acknowledged() {
        let mut tenancy = Tenancy::default();
        assert_eq!(tenancy.beat(), Sent { number: 1, sets: Some(Turn::A) });
        assert_eq!(tenancy.beat(), Sent { number: 1, sets: None }, "sent again: its timer is not set again");
        assert_eq!(tenancy.acknowledge(2), None);
        let renewed = tenancy.acknowledge(1);
        assert_eq!(renewed, Some(Renewed { cancels: None, begins: true, wants_more: false }));
        assert_eq!(tenancy.beat(), Sent { number: 2, sets: Some(Turn::B) });
        assert_eq!(tenancy.acknowledge(1), None, "of an earlier beat");
        assert_eq!(tenancy.fired(Turn::A), Fired::Lapsed);
        assert!(!tenancy.runs());
        let late = tenancy.acknowledge(2);
        assert_eq!(late, Some(Renewed { cancels: None, begins: true, wants_more: false }));
    }

    #[test]
    fn a_message_of_a_client_is_covered_by_a_beat_sent_after_it() {
        let mut tenancy = Tenancy::default();
        assert_eq!(tenancy.covers_now(), 1);
        assert!(tenancy.is_due());
        tenancy.beat();
        assert_eq!(tenancy.covers_now(), 2, "the beat under way was sent before");
        assert!(!tenancy.is_due(), "one beat at a time");
        assert_eq!(tenancy.acknowledge(1).map(|renewed| renewed.wants_more), Some(true));
        assert_eq!(tenancy.acknowledged(), 1);
    }

    #[test]
    fn a_beat_that_was_not_acknowledged_in_time_is_abandoned() {
        let mut tenancy = Tenancy::default();
        tenancy.beat();
        assert_eq!(tenancy.fired(Turn::A), Fired::Abandoned);
        assert_eq!(tenancy.acknowledge(1), None);
        assert_eq!(tenancy.beat(), Sent { number: 2, sets: Some(Turn::A) });
        assert_eq!(tenancy.fired(Turn::B), Fired::Nothing);
    }
}
