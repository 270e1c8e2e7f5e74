//! One member of the model: its process, its disk, its announcements and the children that act on them.

use std::collections::{BTreeMap, VecDeque};

use super::{Child, Claim, Holder, Node, PastClaim, ReignEvent, Subject, VoterRecord};
use member::reign::LossCause;

impl<P: Subject> Node<P> {
    pub(super) fn new(disk: Option<VoterRecord>) -> Self {
        Node {
            driver: None,
            disk,
            in_flight: None,
            lost_disks: 0,
            asked: None,
            claim: None,
            past: BTreeMap::new(),
            child: Child::None,
            succeeds: None,
            closing: VecDeque::new(),
            losses: VecDeque::new(),
            owes_handover: false,
            wrong_cause: false,
            went_back: false,
            list_went_back: false,
        }
    }

    pub(super) fn tick(&mut self) {
        if let Some(driver) = &mut self.driver {
            driver.timers_mut().shift(|_, left| left.map(|left| left - 1));
        }
        if let Some(claim) = &mut self.claim {
            claim.left = claim.left.saturating_sub(1);
        }
        self.past.retain(|_, claim| {
            claim.left -= 1;
            claim.left > 0
        });
    }

    /// Its process ends.
    pub(super) fn ends(&mut self) {
        let dead = Node::new(self.disk.clone());
        let alive = std::mem::replace(self, dead);
        self.lost_disks = alive.lost_disks;
        self.past = alive.past;
        self.wrong_cause = alive.wrong_cause;
        self.went_back = alive.went_back;
        self.list_went_back = alive.list_went_back;
    }

    /// `left`: ticks until the deadline of the event.
    pub(super) fn announced(&mut self, event: &ReignEvent, left: u8, holder: Holder) {
        match *event {
            ReignEvent::Leading { epoch, until, no_child, .. } => {
                let handed_over = self.succeeds == Some(epoch);
                self.claim = Some(Claim { epoch, until, left, extended: false, handed_over });
                self.child.starts(no_child);
            }
            ReignEvent::Extended { until, no_child } => {
                self.claim = self.claim.map(|claim| Claim { until, left, extended: true, ..claim });
                self.child.starts(no_child);
            }
            ReignEvent::Lost { cause } => {
                // The news that it leads no more does not reach its child before its lease ends.
                if let Some(claim) = self.running().filter(|_| self.child == Child::Acts) {
                    self.past.insert(holder, PastClaim { left: claim.left, acts: true });
                }
                self.wrong_cause |= self.losses.pop_front() != Some(Some(cause));
                self.owes_handover = cause == LossCause::HandedOver;
                self.claim = None;
                self.child = Child::None;
            }
            ReignEvent::Granted { .. }
            | ReignEvent::PromiseEnded { .. }
            | ReignEvent::SuccessionFailed
            | ReignEvent::StopChildren
            | ReignEvent::List(_)
            | ReignEvent::Named(_) => {}
        }
    }

    /// The write in flight is on the disk.
    pub(super) fn complete_write(&mut self) {
        if let Some(record) = self.in_flight.take() {
            self.write(record);
            self.driver.as_mut().expect("a write needs a process").written();
        }
    }

    pub(super) fn write(&mut self, record: VoterRecord) {
        let vote = |disk: Option<&VoterRecord>| {
            let vote = disk.and_then(|record| record.vote.as_ref());
            (vote.map(|vote| vote.epoch), vote.map(|vote| vote.list.stamp))
        };
        let (before, now) = (vote(self.disk.as_ref()), vote(Some(&record)));
        self.went_back |= now.0 < before.0;
        self.list_went_back |= now.1 < before.1;
        self.disk = Some(record);
    }
}

impl Child {
    pub(super) fn told(attached: bool) -> Self {
        if attached { Child::Waits } else { Child::None }
    }

    /// `ctl lead` may start its command when a lease was won whose voters know of the child.
    fn starts(&mut self, no_child: bool) {
        if *self == Child::Waits && !no_child {
            *self = Child::Acts;
        }
    }
}
