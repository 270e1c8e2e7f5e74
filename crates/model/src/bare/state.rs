//! The messages under way, and the possible next events without a fault.

use std::sync::Arc;
use std::time::Duration;

use algorithms::{Election, Outcome, Span};

use super::{Cause, Node, State, Step};
use crate::queues::take;
use crate::time::{after, earliest};

impl<E: Election> State<E> {
    /// The events that happen without a fault.
    pub(super) fn progress(&self) -> Vec<Step<E>> {
        let mut steps: Vec<_> = self.links.keys().map(|&(node, link)| (node, Cause::Receives(link))).collect();
        let stored = self.living().filter(|(_, node)| !node.writes.is_empty());
        steps.extend(stored.map(|(at, _)| (at, Cause::Stored)));
        if !steps.is_empty() || self.content() {
            return steps;
        }
        earliest(self.timers().collect()).map(|(at, timer)| (at, Cause::Fires(timer))).collect()
    }

    /// Timers that fire although it is not their turn.
    pub(super) fn early(&self) -> Vec<Step<E>> {
        if self.early_left == 0 {
            return Vec::new();
        }
        let turn = self.progress();
        let out_of_turn = self.timers().filter(|&((at, timer), _)| !turn.contains(&(at, Cause::Fires(timer))));
        out_of_turn.map(|((at, timer), _)| (at, Cause::FiresEarly(timer))).collect()
    }

    pub(super) fn take(&mut self, node: usize, link: E::Link) -> E::Message {
        take(&mut self.links, &(node, link), 0).expect("only queues with messages are kept")
    }

    pub(super) fn crash(&mut self, node: usize) {
        self.crashes_left -= 1;
        let dead = Arc::make_mut(&mut self.nodes[node]);
        dead.driver = None;
        dead.writes.clear();
        self.links.retain(|&(to, _), _| to != node);
    }

    pub(super) fn living(&self) -> impl Iterator<Item = (usize, &Node<E>)> {
        self.nodes.iter().map(Arc::as_ref).enumerate().filter(|(_, node)| node.driver.is_some())
    }

    /// Every living node has a leader.
    pub(super) fn content(&self) -> bool {
        self.living().all(|(_, node)| matches!(node.outcome, Some(Outcome::Won | Outcome::Follow(_))))
    }

    pub(super) fn timers(&self) -> impl Iterator<Item = ((usize, E::Timer), Span)> {
        let drivers = self.nodes.iter().enumerate().filter_map(|(at, node)| Some((at, node.driver.as_ref()?)));
        drivers.flat_map(|(at, driver)| driver.timers().iter().map(move |(timer, span)| ((at, timer), span)))
    }

    pub(super) fn pass(&mut self, elapsed: Duration) {
        for node in &mut self.nodes {
            if node.driver.as_ref().is_some_and(|driver| driver.timers().iter().next().is_some()) {
                let driver = Arc::make_mut(node).driver.as_mut().expect("it lives");
                driver.timers_mut().shift(|_, span| after(span, elapsed));
            }
        }
    }

    pub(super) fn starts(&self) -> usize {
        self.nodes.iter().filter(|node| !node.asleep).count()
    }

    pub(super) fn winners(&self) -> usize {
        self.nodes.iter().filter(|node| node.ever_won).count()
    }
}

impl<E: Election> Node<E> {
    pub(super) fn timer(&self, timer: E::Timer) -> Option<Span> {
        self.driver.as_ref()?.timers().get(timer)
    }

    pub(super) fn announce(&mut self, outcome: Outcome) {
        self.decisions = (self.decisions + 1).min(2);
        self.ever_won |= outcome == Outcome::Won;
        self.outcome = Some(outcome);
    }
}
