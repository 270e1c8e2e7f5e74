//! The outbox lent to the textbook machine inside a member: wraps its messages into envelopes and its timers into
//! the member's, and holds back what it announces until the member has looked at it.

use std::collections::BTreeSet;

use algorithms::{Election, Link, NodeId, Outbox, Outcome, Span, View};

use crate::contacts::Contacts;
use crate::member::Member;
use crate::types::{Envelope, NodeSet, Round, Timer};

pub(crate) struct Inner<'a, E: Election, O> {
    pub(crate) out: &'a mut O,
    pub(crate) full: &'a View,
    /// The participants, and where this node stands among them.
    pub(crate) view: &'a View,
    pub(crate) at: usize,
    /// `None` for algorithms that number their own attempts.
    pub(crate) round: Option<(Round, NodeSet)>,
    /// Hop count of the message in hand.
    pub(crate) hops: u16,
    pub(crate) contacts: &'a Contacts,
    pub(crate) timers: &'a mut BTreeSet<E::Timer>,
    pub(crate) outcome: Option<Outcome>,
    /// A participant this node should have sent to and has no connection with.
    pub(crate) unreachable: Option<usize>,
    pub(crate) sent: &'a mut u64,
}

impl<E: Election, O: Outbox<Member<E>>> Inner<'_, E, O> {
    fn post(&mut self, to: E::Link, message: E::Message, hops: u16) {
        let Some((there, link)) = to.far_end(self.at, self.view) else { return };
        let peer: NodeId = self.view.members()[there].id;
        let Some(position) = self.full.position(peer) else { return };
        if !self.contacts.is_up(position) {
            self.unreachable = Some(position);
            return;
        }
        *self.sent += 1;
        let envelope = match self.round {
            Some((round, view)) => Envelope::Round { round, view, link, hops, message },
            None => Envelope::Plain { link, hops, message },
        };
        self.out.send(peer, envelope);
    }
}

impl<E: Election, O: Outbox<Member<E>>> Outbox<E> for Inner<'_, E, O> {
    fn send(&mut self, to: E::Link, message: E::Message) {
        self.post(to, message, 0);
    }

    /// Ids of dead nodes are removed by nobody: the hop limit ends them.
    fn forward(&mut self, to: E::Link, message: E::Message) {
        let hops = self.hops.saturating_add(1);
        if usize::from(hops) <= 2 * self.full.len() {
            self.post(to, message, hops);
        }
    }

    fn set_timer(&mut self, timer: E::Timer, after: Span) {
        self.timers.insert(timer);
        self.out.set_timer(Timer::Inner(timer), after);
    }

    fn cancel_timer(&mut self, timer: E::Timer) {
        if self.timers.remove(&timer) {
            self.out.cancel_timer(Timer::Inner(timer));
        }
    }

    /// No algorithm of the catalog has a record of its own yet; the state file has room for one.
    fn persist(&mut self, _: E::Durable) {}
    fn store(&mut self, _: E::Durable) {}

    fn announce(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }
}
