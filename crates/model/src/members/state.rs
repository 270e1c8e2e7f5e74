//! The items under way between members, and what their budget allows.

use std::collections::{BTreeMap, BTreeSet};

use super::{Arc, Budget, Cause, Class, Item, Node, Span, State, Subject, pair};
use crate::queues::take;

impl<P: Subject> State<P> {
    pub(super) fn blank(n: usize) -> Self {
        State {
            nodes: (0..n).map(|_| Arc::new(Node::blank())).collect(),
            wires: BTreeMap::new(),
            connected: BTreeSet::new(),
            left: Budget::default(),
            torn: false,
            announced_leaders: BTreeSet::new(),
        }
    }

    pub(super) fn living(&self) -> impl Iterator<Item = (usize, &Node<P>)> {
        self.nodes.iter().map(Arc::as_ref).enumerate().filter(|(_, node)| node.driver.is_some())
    }

    pub(super) fn timers(&self) -> impl Iterator<Item = (usize, P::Timer, Span)> {
        let drivers = self.nodes.iter().enumerate().filter_map(|(at, node)| Some((at, node.driver.as_ref()?)));
        drivers.flat_map(|(at, driver)| driver.timers().iter().map(move |(timer, span)| (at, timer, span)))
    }

    pub(super) fn put(&mut self, to: usize, from: usize, item: Item<P::Message>) {
        self.wires.entry((to, from)).or_default().push_back(item);
    }

    pub(super) fn take(&mut self, to: usize, from: usize) -> Item<P::Message> {
        take(&mut self.wires, &(to, from), 0).expect("only queues with items are kept")
    }

    /// Lost unless the sender knows the present connection: a broken connection carries nothing.
    pub(super) fn send(&mut self, from: usize, to: usize, message: P::Message) {
        let unread = self.wires.get(&(from, to));
        let stale = unread.is_some_and(|items| items.iter().any(|item| !matches!(item, Item::Frame(_))));
        if from == to || (self.connected.contains(&pair(from, to)) && !stale) {
            self.put(to, from, Item::Frame(message));
        }
    }

    /// One side closes the connection: it reads no more of it, the other side reads all that was sent and then the end.
    pub(super) fn close(&mut self, side: usize, other: usize) {
        if self.connected.remove(&pair(side, other)) {
            self.wires.remove(&(side, other));
            self.put(other, side, Item::Down);
        }
    }
}

impl Budget {
    pub(super) fn spend<P: Subject>(&mut self, cause: Cause<P::Timer>) {
        let what = match cause {
            Cause::FiresEarly(timer) => match P::class(timer) {
                Class::Beat => &mut self.beats,
                Class::Silence(_) => &mut self.suspicions,
                _ => &mut self.early,
            },
            Cause::Elect => &mut self.elects,
            Cause::StepDown => &mut self.step_downs,
            Cause::Transfer(_) => &mut self.transfers,
            Cause::ChildAttaches => &mut self.children,
            Cause::Priority(_) => &mut self.priorities,
            Cause::Restart => &mut self.restarts,
            _ => return,
        };
        *what = what.saturating_sub(1);
    }
}
