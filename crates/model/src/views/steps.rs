//! What may happen in a state, and what follows.

use std::collections::VecDeque;
use std::sync::Arc;

use algorithms::drive::{Driver, Effect};
use algorithms::{Ctx, Input};
use locks::service::{ServiceCommand, ServiceEvent, StreamId};
use locks::views::messages::ViewsMsg;
use locks::views::{ViewsSettings, ViewsTimer};
use types::{Epoch, NodeId};

use super::{Action, ClientAct, Item, State, Subject, ViewsModel};
use crate::queues::take;

const PAIRS: [(usize, usize); 3] = [(0, 1), (0, 2), (1, 2)];
const ACTS: [ClientAct; 4] = [ClientAct::Open, ClientAct::Acquire, ClientAct::KeepAlive, ClientAct::Release];

impl<P: Subject> ViewsModel<P> {
    pub(super) fn choices(state: &State<P>, actions: &mut Vec<Action>) {
        let left = state.left;
        for (&(from, to), wire) in &state.wires {
            actions.push(Action::Deliver { from, to });
            if left.losses > 0 && is_beat::<P>(wire) {
                actions.push(Action::Lose { from, to });
            }
        }
        if left.ticks > 0 {
            actions.push(Action::Tick);
        }
        for node in 0..state.nodes.len() {
            Self::choices_of(state, node, actions);
        }
        for (one, other) in PAIRS {
            let alive = state.nodes[one].is_some() && state.nodes[other].is_some();
            let is_down = state.down.contains(&(one, other));
            let seen = !state.wires.contains_key(&(one, other)) && !state.wires.contains_key(&(other, one));
            if alive && is_down && seen {
                actions.push(Action::Connect(one, other));
            } else if alive && !is_down && left.cuts > 0 {
                actions.push(Action::Cut(one, other));
            }
        }
        if state.leased.is_some() && left.lease_ends > 0 {
            actions.push(Action::LeaseEnds);
        }
    }

    fn choices_of(state: &State<P>, node: usize, actions: &mut Vec<Action>) {
        let left = state.left;
        let Some(driver) = &state.nodes[node] else {
            if left.restarts > 0 {
                actions.push(Action::Restart(node));
            }
            return;
        };
        if left.beats > 0 {
            actions.push(Action::Beat(node));
        }
        if left.crashes > 0 {
            actions.push(Action::Crash(node));
        }
        if state.leased.is_none() && left.elections > 0 {
            actions.push(Action::Elect(node));
        }
        if state.leased != Some(node) && driver.machine().views().office().is_some() {
            actions.push(Action::OfficeEnds(node));
        }
        for act in ACTS {
            if state.clients[node].may(act) && state.affords(node, act) {
                actions.push(Action::Client(node, act));
            }
        }
    }

    pub(super) fn perform(&self, state: &mut State<P>, action: Action) {
        match action {
            Action::Deliver { from, to } => self.deliver(state, from, to),
            Action::Lose { from, to } => {
                state.left.losses -= 1;
                take(&mut state.wires, &(from, to), 0);
            }
            Action::Tick => self.tick(state),
            Action::Beat(node) => {
                state.left.beats = state.left.beats.saturating_sub(1);
                self.step(state, node, Input::Timer(ViewsTimer::Beat));
            }
            Action::Client(client, act) => self.client(state, client, act),
            Action::Crash(node) => state.crash(node),
            Action::Restart(node) => self.restart(state, node),
            Action::Cut(one, other) => {
                state.left.cuts -= 1;
                state.down.insert((one, other));
                for ends in [(one, other), (other, one)] {
                    state.wires.insert(ends, VecDeque::from([Item::Closed]));
                }
            }
            Action::Connect(one, other) => {
                state.down.remove(&(one, other));
                self.step(state, one, Input::PeerUp(self.id(other)));
                self.step(state, other, Input::PeerUp(self.id(one)));
            }
            Action::LeaseEnds => {
                state.left.lease_ends = state.left.lease_ends.saturating_sub(1);
                state.leased = None;
            }
            Action::Elect(node) => self.elect(state, node),
            Action::OfficeEnds(node) => self.step(state, node, Input::Command(ServiceCommand::OfficeEnded)),
        }
    }

    fn id(&self, node: usize) -> NodeId {
        self.view.members()[node].id
    }

    fn ctx(&self, node: usize) -> Ctx<'_, ViewsSettings> {
        Ctx { me: self.view.members()[node], view: &self.view, settings: &self.settings, dice: self.mistake.join(0) }
    }

    fn ticks(&self, timer: P::Timer) -> Option<u8> {
        match timer {
            ViewsTimer::Tenancy(_) | ViewsTimer::Session(_) => Some(self.promise),
            ViewsTimer::Settle | ViewsTimer::Silence(_) => Some(self.promise + 1),
            ViewsTimer::Apart => Some(1),
            ViewsTimer::Beat | ViewsTimer::Wait(..) | ViewsTimer::Machine(..) => None,
        }
    }

    fn deliver(&self, state: &mut State<P>, from: usize, to: usize) {
        match take(&mut state.wires, &(from, to), 0) {
            Some(Item::Message(message)) => {
                self.step(state, to, Input::Message { from: self.id(from), message });
            }
            Some(Item::Closed) => self.step(state, to, Input::PeerDown(self.id(from))),
            None => {}
        }
    }

    /// A step of a member, its effects, and a reading of the clock if it owes acknowledgements.
    fn step(&self, state: &mut State<P>, node: usize, input: Input<P>) {
        let Some(driver) = &mut state.nodes[node] else { return };
        Arc::make_mut(driver).step(&self.ctx(node), input);
        self.carry_out(state, node);
        let owes = state.nodes[node].as_ref().is_some_and(|driver| driver.machine().views().owes());
        if owes && state.leased == Some(node) {
            self.step(state, node, Input::Command(ServiceCommand::LeaseHolds));
        }
    }

    fn carry_out(&self, state: &mut State<P>, node: usize) {
        loop {
            let Some(driver) = &mut state.nodes[node] else { return };
            let Some(effect) = Arc::make_mut(driver).next_effect(|timer, _| self.ticks(timer)) else { return };
            match effect {
                Effect::Send { to, message, .. } => {
                    let Some(to) = self.view.position(to) else { continue };
                    let pair = (node.min(to), node.max(to));
                    if state.nodes[to].is_some() && !state.down.contains(&pair) {
                        state.wires.entry((node, to)).or_default().push_back(Item::Message(message));
                    }
                }
                Effect::Announce(ServiceEvent::Tell { to, message }) => {
                    let client = &mut state.clients[node];
                    if to == StreamId(client.stream)
                        && let Some(token) = client.hear(&message)
                    {
                        state.grants = state.grants.saturating_add(1);
                        state.token_fell |= state.largest.is_some_and(|largest| token <= largest);
                        state.largest = state.largest.max(Some(token));
                    }
                }
                _ => {}
            }
        }
    }

    fn tick(&self, state: &mut State<P>) {
        state.left.ticks = state.left.ticks.saturating_sub(1);
        state.clients.iter_mut().for_each(super::Client::tick);
        for driver in state.nodes.iter_mut().flatten() {
            Arc::make_mut(driver).timers_mut().shift(|_, left| left.map(|left| left.saturating_sub(1)));
        }
        for node in 0..state.nodes.len() {
            while let Some(timer) = state.due(node) {
                if let Some(driver) = &mut state.nodes[node] {
                    Arc::make_mut(driver).timers_mut().cancel(timer);
                }
                self.step(state, node, Input::Timer(timer));
            }
        }
    }

    fn client(&self, state: &mut State<P>, client: usize, act: ClientAct) {
        let left = &mut state.left;
        match act {
            ClientAct::Open => left.opens = left.opens.saturating_sub(1),
            ClientAct::Acquire => left.acquires[client] = left.acquires[client].saturating_sub(1),
            ClientAct::KeepAlive => left.keep_alives = left.keep_alives.saturating_sub(1),
            ClientAct::Release => {}
        }
        let message = state.clients[client].say(act, self.settings.promise());
        let from = StreamId(state.clients[client].stream);
        self.step(state, client, Input::Command(ServiceCommand::Message { from, message, leased: true }));
    }

    fn restart(&self, state: &mut State<P>, node: usize) {
        state.left.restarts = state.left.restarts.saturating_sub(1);
        state.nodes[node] = Some(Arc::new(Driver::start(&self.ctx(node), None)));
        self.carry_out(state, node);
        if let Some(leader) = state.leased {
            self.step(state, node, Input::Command(ServiceCommand::Leader(Some(self.id(leader)))));
        }
        state.streams += 1;
        state.clients[node].connected(state.streams);
        self.step(state, node, Input::Command(ServiceCommand::StreamOpened(StreamId(state.streams))));
    }

    fn elect(&self, state: &mut State<P>, node: usize) {
        state.left.elections = state.left.elections.saturating_sub(1);
        state.leased = Some(node);
        state.epoch += 1;
        for member in (0..state.nodes.len()).filter(|&member| member != node) {
            self.step(state, member, Input::Command(ServiceCommand::Leader(Some(self.id(node)))));
        }
        let (epoch, first, wait) = (Epoch(state.epoch), state.epoch == 1, self.settings.locks.max_ttl);
        self.step(state, node, Input::Command(ServiceCommand::OfficeBegan { epoch, first, wait }));
    }
}

fn is_beat<P: Subject>(wire: &VecDeque<Item<P::Message>>) -> bool {
    matches!(wire.front(), Some(Item::Message(ViewsMsg::Beat { .. } | ViewsMsg::BeatAck { .. })))
}

impl<P: Subject> State<P> {
    fn affords(&self, client: usize, act: ClientAct) -> bool {
        match act {
            ClientAct::Open => self.left.opens > 0,
            ClientAct::Acquire => self.left.acquires[client] > 0,
            ClientAct::KeepAlive => self.left.keep_alives > 0,
            ClientAct::Release => true,
        }
    }

    fn due(&self, node: usize) -> Option<P::Timer> {
        let driver = self.nodes[node].as_ref()?;
        driver.timers().iter().find(|(_, left)| *left == Some(0)).map(|(timer, _)| timer)
    }

    fn crash(&mut self, node: usize) {
        self.left.crashes = self.left.crashes.saturating_sub(1);
        self.nodes[node] = None;
        self.clients[node].disconnected();
        if self.leased == Some(node) {
            self.leased = None;
        }
        for (one, other) in PAIRS.into_iter().filter(|&(one, other)| one == node || other == node) {
            let peer = if one == node { other } else { one };
            self.wires.remove(&(peer, node));
            if self.nodes[peer].is_some() && self.down.insert((one, other)) {
                self.wires.entry((node, peer)).or_default().push_back(Item::Closed);
            }
            self.down.insert((one, other));
        }
        for peer in 0..self.nodes.len() {
            if self.nodes[peer].is_none() {
                self.wires.remove(&(node, peer));
            }
        }
    }
}
