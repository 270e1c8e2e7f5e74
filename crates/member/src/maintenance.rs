//! What an operator orders for a while: the pause of a cluster, and a leader that no better member takes over from.
//!
//! While a cluster is paused only the member that led stands for election: no member takes over from it, and if it dies
//! nobody leads until it returns or the pause ends. Voters grant and renew leases as always, so a paused cluster is as safe
//! as any other. Every heartbeat carries the newest order of a pause or its end; the newest one wins at every member.
//!
//! A leader that the pause excludes orders the pause again, with itself as the member that stands: it came to lead after the
//! order, or the order was taken by a member that did not know it. But where a member named itself, it led too: under classic
//! safety there may be two leaders that cannot talk to each other, and a third member that passes the orders of both on. The
//! second one leaves such an order alone, or each would answer the other for ever, at the speed of messages.
//!
//! A hold is the leader's own: its heartbeats tell it, and it ends with its leadership.

use algorithms::NodeId;
use serde::{Deserialize, Serialize};

/// Orders are believed if their number is at most so much larger than the last one known: a faulty peer must not exhaust
/// the numbers.
const LEAP_MAX: u64 = 1 << 32;

/// An order of a pause, or of its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Mode {
    /// Orders are numbered; of two with one number that of the larger member counts.
    pub number: u64,
    /// The member that took the order.
    pub by: NodeId,
    pub paused: bool,
    /// The one member that stands while the cluster is paused; `None`: nobody led.
    pub keeps: Option<NodeId>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Maintenance {
    /// The newest order; `None` if there was none.
    mode: Option<Mode>,
    /// The member that the newest order keeps named itself, so it may lead as well as this member.
    rival: bool,
    /// A leader's: the member that is to lead undisturbed, itself or the successor that it hands over to. A follower's: what
    /// its leader said.
    hold: Option<NodeId>,
    /// The authority was told that no better member may take over.
    told_keep: bool,
}

impl Maintenance {
    pub(crate) fn start(mode: Option<Mode>) -> Self {
        Maintenance { mode, ..Maintenance::default() }
    }

    pub(crate) fn mode(&self) -> Option<Mode> {
        self.mode
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.mode.is_some_and(|mode| mode.paused)
    }

    /// Does a pause keep this member from standing?
    pub(crate) fn excludes(&self, member: NodeId) -> bool {
        self.mode.is_some_and(|mode| mode.paused && mode.keeps != Some(member))
    }

    /// A new order, taken by this member. `None` if it changes nothing.
    pub(crate) fn order(&mut self, by: NodeId, paused: bool, keeps: Option<NodeId>) -> Option<Mode> {
        let keeps = keeps.filter(|_| paused);
        let same = self.mode.map_or(!paused, |mode| (mode.paused, mode.keeps) == (paused, keeps));
        if same {
            return None;
        }
        let number = self.mode.map_or(0, |mode| mode.number).saturating_add(1);
        self.mode = Some(Mode { number, by, paused, keeps });
        self.rival = false;
        self.mode
    }

    /// An order that another member told. True if it is the newest one.
    pub(crate) fn hear(&mut self, told: Mode) -> bool {
        let stamp = |mode: Mode| (mode.number, mode.by);
        let known = self.mode.map_or((0, NodeId(0)), stamp);
        let newer = stamp(told) > known && told.number <= known.0.saturating_add(LEAP_MAX);
        if newer {
            self.mode = Some(told);
            self.rival = told.keeps == Some(told.by);
        }
        newer
    }

    /// Must this leader order the pause again, to be the member that stands?
    pub(crate) fn lacks(&self, leader: NodeId) -> bool {
        self.excludes(leader) && !self.rival
    }

    /// The member that the order keeps does not lead: this member has come to lead, or that member follows it.
    pub(crate) fn end_rivalry(&mut self) {
        self.rival = false;
    }

    pub(crate) fn hold(&self) -> Option<NodeId> {
        self.hold
    }

    pub(crate) fn set_hold(&mut self, hold: Option<NodeId>) {
        self.hold = hold;
    }

    /// May no better member take over from this leader?
    pub(crate) fn keeps(&self, leader: NodeId) -> bool {
        self.is_paused() || self.hold == Some(leader)
    }

    /// False if the authority was told so before.
    pub(crate) fn tell_keep(&mut self, keep: bool) -> bool {
        std::mem::replace(&mut self.told_keep, keep) != keep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: NodeId = NodeId(1);
    const TWO: NodeId = NodeId(2);

    #[test]
    fn the_newest_order_wins_and_the_same_order_again_is_none() {
        let (mut one, mut two) = (Maintenance::default(), Maintenance::default());
        assert_eq!(one.order(ONE, false, None), None, "it is not paused");
        let pause = one.order(ONE, true, Some(TWO)).unwrap();
        assert_eq!(one.order(ONE, true, Some(TWO)), None);
        let rival = two.order(TWO, true, None).unwrap();
        assert!(one.hear(rival), "of the larger member");
        assert!(!two.hear(pause));
        assert_eq!(one.mode(), two.mode());
        let resume = two.order(TWO, false, Some(ONE)).unwrap();
        assert_eq!((resume.number, resume.keeps), (2, None));
        assert!(one.hear(resume) && !one.hear(rival), "an older order does not return");
        assert!(!one.is_paused() && !one.excludes(ONE));
    }

    #[test]
    fn a_pause_excludes_all_but_the_member_that_led() {
        let mut one = Maintenance::default();
        one.order(ONE, true, Some(TWO));
        assert!(one.excludes(ONE) && !one.excludes(TWO) && one.keeps(TWO));
    }

    #[test]
    fn a_leader_answers_the_order_of_a_member_that_does_not_lead_and_no_other() {
        let order = |number, by, keeps| Mode { number, by, paused: true, keeps };
        let mut one = Maintenance::default();
        assert!(one.hear(order(1, TWO, None)) && one.lacks(ONE), "nobody led");
        assert!(one.hear(order(2, TWO, Some(NodeId(3)))) && one.lacks(ONE), "it followed another leader");
        assert!(one.hear(order(3, TWO, Some(TWO))) && !one.lacks(ONE), "it led");
        one.end_rivalry();
        assert!(one.lacks(ONE), "it leads no more");
        let own = one.order(ONE, true, Some(ONE));
        assert!(own.is_some() && !one.lacks(ONE));
    }

    #[test]
    fn a_number_beyond_one_leap_is_not_believed() {
        let mut one = Maintenance::default();
        let far = |number| Mode { number, by: TWO, paused: true, keeps: None };
        assert!(!one.hear(far(LEAP_MAX + 1)) && !one.hear(far(u64::MAX)));
        assert!(one.hear(far(LEAP_MAX)) && one.hear(far(2 * LEAP_MAX)));
    }
}
