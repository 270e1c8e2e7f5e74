//! One member of the model: its process, its disk, its announcements and the child that acts on them.

use algorithms::Protocol;
use member::Cause;

use super::{
    Background, Broken, Child, Event, Lease, Node, NodeId, NodeSet, Role, SlowWrite, Span, Standing, Subject, VecDeque,
};
use crate::time::after;

/// Timers that may fire while a write is in flight.
pub(super) const PATIENCE: u8 = 4;

impl<P: Subject> Node<P> {
    pub(super) fn blank() -> Self {
        Node {
            driver: None,
            disk: None,
            in_flight: None,
            writes: VecDeque::new(),
            unreachable: NodeSet::default(),
            standing: None,
            lease: None,
            past_lease: None,
            child: Child::None,
            losses: VecDeque::new(),
            owes_handover: false,
            past: None,
            broken: Broken::default(),
        }
    }

    /// Its process ends. Its announced lease may be acted on until the lease ends.
    pub(super) fn ends(&mut self) {
        let running = self.lease.filter(|_| self.claims()).map(|lease| lease.left);
        let past = self.past.max(self.standing.map(|standing| standing.epoch));
        *self = Node {
            disk: self.disk.take(),
            past_lease: self.past_lease.max(running),
            past,
            broken: self.broken,
            ..Node::blank()
        };
    }

    /// Has the driver carried out all effects of the machine?
    pub(super) fn is_done(&self) -> bool {
        self.driver.as_ref().is_none_or(|driver| !driver.owes_effects() && !driver.is_blocked())
    }

    /// Has it announced that it leads, and nothing else since?
    pub(super) fn leads(&self) -> bool {
        self.standing.is_some_and(|standing| standing.role == Role::Leader)
    }

    /// Does it lead with a lease that runs, as far as it announced?
    pub(super) fn claims(&self) -> bool {
        self.leads() && self.lease.is_some_and(|lease| !lease.left.min.is_zero())
    }

    /// Running claims to lead, those of its past process included.
    pub(super) fn running_leases(&self) -> usize {
        let past = self.past_lease.is_some_and(|left| !left.min.is_zero());
        usize::from(self.claims()) + usize::from(past)
    }

    /// Leads only as long as the timer of its lease is set. A machine ahead of its effects may have ended its
    /// leadership already.
    pub(super) fn leads_within_lease(&self) -> bool {
        let set = |lease: Lease<P::Timer>| self.driver.as_ref().and_then(|driver| driver.timers().get(lease.timer));
        !self.leads() || !self.is_done() || self.lease.and_then(set).is_some()
    }

    /// Time passes for leases.
    pub(super) fn pass(&mut self, elapsed: std::time::Duration) {
        self.lease = self.lease.map(|lease| Lease { left: after(lease.left, elapsed), ..lease });
        self.past_lease = self.past_lease.map(|left| after(left, elapsed)).filter(|left| !left.min.is_zero());
    }

    pub(super) fn announced(&mut self, event: &Event, deadline: Option<Span>, me: NodeId) {
        match *event {
            Event::Became { now, cause } => self.became(now, cause, me),
            Event::Lease { no_child, .. } => {
                let timer = <P as Protocol>::lasts_until(event);
                self.lease = timer.zip(deadline).map(|(timer, left)| Lease { timer, left });
                if self.child == Child::Waits && !no_child {
                    self.child = Child::Acts;
                }
            }
            Event::StopChildren if self.child != Child::None => self.child = Child::Stops,
            Event::ChildrenGivenUp => self.child = Child::None,
            _ => {}
        }
    }

    fn became(&mut self, now: Standing, cause: Cause, me: NodeId) {
        let before = self.standing.map(|standing| standing.epoch).max(self.past);
        self.broken.went_back |= Some(now.epoch) < before;
        self.broken.repeated |= now.leader == Some(me) && Some(now.epoch) <= self.past;
        if self.leads() && now.role != Role::Leader {
            let lease_ended = self.losses.pop_front().unwrap_or(false);
            let gives_away = matches!(cause, Cause::SteppedDown | Cause::HandedOver);
            self.broken.wrong_cause |= (cause == Cause::LeaseEnded) != lease_ended;
            self.broken.left_child |= gives_away && matches!(self.child, Child::Acts | Child::Stops);
            self.owes_handover = cause == Cause::HandedOver;
            self.lease = None;
        }
        self.standing = Some(now);
    }

    pub(super) fn slow_write(&mut self, record: P::Durable) {
        self.in_flight = Some(SlowWrite { record, patience: PATIENCE });
    }

    /// The record that the driver waits for is on the disk, and so are all earlier writes.
    pub(super) fn written(&mut self, record: P::Durable) {
        self.disk = Some(record);
        for write in &mut self.writes {
            write.superseded = true;
        }
        self.driver.as_mut().expect("a write needs a process").written();
    }

    pub(super) fn store(&mut self, record: P::Durable) {
        self.writes.push_back(Background { record, superseded: false });
    }

    /// The first background write is on the disk.
    pub(super) fn stored(&mut self) -> P::Durable {
        let write = self.writes.pop_front().expect("a write is under way");
        if !write.superseded {
            self.disk = Some(write.record.clone());
        }
        write.record
    }
}
