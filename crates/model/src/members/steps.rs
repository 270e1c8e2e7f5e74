//! The possible events of a cluster, and their consequences.

use std::time::Duration;

use algorithms::drive::{Driver, Effect};

use super::properties::agree;
use super::{
    Action, Arc, Cause, Child, Class, Command, Event, Extent, FullPos, Input, Item, Members, Node, Role, Span, State,
    Subject, pair,
};
use crate::extent::{rehearse, slow_writes};
use crate::time::{after, earliest};

impl<P: Subject> Members<P> {
    /// The events without any fault or command. If there are none, the cluster is at rest.
    pub(super) fn progress(&self, state: &State<P>) -> Vec<Action<P::Timer>> {
        let mut actions: Vec<_> = state.wires.keys().map(|&(to, from)| step(to, Cause::Reads(from))).collect();
        for (at, node) in state.living() {
            actions.extend((!node.writes.is_empty()).then(|| step(at, Cause::Stored)));
            let child_ends = node.child != Child::None && (node.child == Child::Stops || !node.leads());
            actions.extend(child_ends.then(|| step(at, Cause::ChildEnds)));
            self.dials(state, at, node, &mut actions);
        }
        let slow: Vec<_> = state.living().filter_map(|(at, node)| Some((at, node.in_flight.as_ref()?))).collect();
        if actions.is_empty() && slow.iter().all(|(_, write)| write.patience > 0) {
            let due = earliest(self.counted(state));
            actions.extend(due.map(|(at, timer)| step(at, Cause::Fires(timer))));
            let beats = state.timers().filter(|&(at, timer, _)| {
                let beat = slow.is_empty() && P::class(timer) == Class::Beat;
                beat && self.matters(state, step(at, Cause::Fires(timer)))
            });
            actions.extend(beats.map(|(at, timer, _)| step(at, Cause::Fires(timer))));
        }
        actions.extend(slow.iter().map(|&(at, _)| step(at, Cause::Written)));
        actions
    }

    fn dials(&self, state: &State<P>, at: usize, node: &Node<P>, actions: &mut Vec<Action<P::Timer>>) {
        let links = node.driver.as_ref().map(|driver| driver.machine().links(&self.view)).unwrap_or_default();
        for FullPos(peer) in links.iter() {
            if peer == at || state.connected.contains(&pair(at, peer)) {
                continue;
            }
            let dead = state.nodes[peer].driver.is_none();
            if dead && !node.unreachable.contains(FullPos(peer)) && !state.wires.contains_key(&(at, peer)) {
                actions.push(step(at, Cause::NotReached(peer)));
            } else if !dead && !actions.contains(&Action::Connect(at.min(peer), at.max(peer))) {
                actions.push(Action::Connect(at.min(peer), at.max(peer)));
            }
        }
    }

    /// The events that happen only as often as the budget allows.
    pub(super) fn faults(&self, state: &State<P>, progress: &[Action<P::Timer>]) -> Vec<Action<P::Timer>> {
        let left = state.left;
        let mut actions = Vec::new();
        for (at, timer, _) in state.timers() {
            let affordable = match P::class(timer) {
                Class::Beat => left.beats > 0,
                Class::Silence(peer) => left.suspicions > 0 && self.connected(state, at, peer),
                Class::Upkeep | Class::Algorithm | Class::Other => left.early > 0,
                Class::Promise | Class::Settle => false,
            };
            if affordable && !progress.contains(&step(at, Cause::Fires(timer))) {
                actions.push(step(at, Cause::FiresEarly(timer)));
            }
        }
        for (at, node) in state.nodes.iter().enumerate() {
            match &node.driver {
                None if left.restarts > 0 => actions.push(step(at, Cause::Restart)),
                None => {}
                Some(driver) => {
                    actions.extend((left.elects > 0).then(|| step(at, Cause::Elect)));
                    // Each change gives a higher one than all before it.
                    let best = u32::from(self.budget.priorities - left.priorities + 1);
                    actions.extend((left.priorities > 0).then(|| step(at, Cause::Priority(best))));
                    if left.crashes > 0 {
                        actions.push(Action::Crash { node: at, written: false });
                        actions.extend(driver.is_blocked().then_some(Action::Crash { node: at, written: true }));
                    }
                }
            }
            if node.leads() {
                self.wishes_of_a_leader(state, at, &mut actions);
            }
        }
        actions
    }

    fn wishes_of_a_leader(&self, state: &State<P>, at: usize, actions: &mut Vec<Action<P::Timer>>) {
        let left = state.left;
        actions.extend((left.step_downs > 0).then(|| step(at, Cause::StepDown)));
        let attaches = left.children > 0 && state.nodes[at].child == Child::None && state.nodes[at].is_done();
        actions.extend(attaches.then(|| step(at, Cause::ChildAttaches)));
        let others = (0..self.view.len()).filter(|&peer| left.transfers > 0 && peer != at);
        actions.extend(others.map(|peer| step(at, Cause::Transfer(peer))));
    }

    /// Timers for which time passes: neither those that a steady heartbeat renews, nor the heartbeat itself.
    fn counted(&self, state: &State<P>) -> Vec<((usize, P::Timer), Span)> {
        let steady = self.is_steady(state);
        let continuous = P::features(&self.settings).continuous;
        let counts = |&(at, timer, _): &(usize, P::Timer, Span)| match P::class(timer) {
            Class::Beat => false,
            Class::Silence(peer) => !self.connected(state, at, peer),
            Class::Upkeep | Class::Promise => !steady,
            Class::Algorithm => !steady || !continuous,
            Class::Settle | Class::Other => true,
        };
        state.timers().filter(counts).map(|(at, timer, span)| ((at, timer), span)).collect()
    }

    /// All agree, and every renewal would have the same result as the last one.
    fn is_steady(&self, state: &State<P>) -> bool {
        let steady = |node: &Node<P>| {
            let leader = node.standing.and_then(|standing| standing.leader);
            let machine = node.driver.as_ref().map(Driver::machine);
            leader.zip(machine).is_some_and(|(leader, machine)| machine.is_steady(leader))
        };
        agree(self, state) && state.living().all(|(_, node)| steady(node))
    }

    fn connected(&self, state: &State<P>, at: usize, peer: super::NodeId) -> bool {
        self.view.position(peer).is_some_and(|peer| state.connected.contains(&pair(at, peer)))
    }

    /// Is anything different once this step and everything that follows from it has been read?
    fn matters(&self, state: &State<P>, beat: Action<P::Timer>) -> bool {
        const MANY: usize = 200;
        let mut next = self.perform(state, beat);
        for _ in 0..MANY {
            let Some(&(to, from)) = next.wires.keys().next() else { return next != *state };
            next = self.perform(&next, step(to, Cause::Reads(from)));
        }
        true
    }

    pub(super) fn perform(&self, state: &State<P>, action: Action<P::Timer>) -> State<P> {
        let mut next = state.clone();
        match action {
            Action::Connect(a, b) => {
                next.connected.insert((a, b));
                next.put(a, b, Item::Up);
                next.put(b, a, Item::Up);
            }
            Action::Crash { node, written } => {
                let at = Arc::make_mut(&mut next.nodes[node]);
                if let Some(write) = at.in_flight.take().filter(|_| written) {
                    at.written(write.record);
                }
                self.crash(&mut next, node);
            }
            Action::Step { node, cause, face, extent } => {
                self.run(&mut next, node, cause, face);
                self.carry_out(&mut next, node, extent);
                if let Extent::Crash(_) = extent {
                    next.torn = true;
                    self.crash(&mut next, node);
                }
            }
        }
        next
    }

    /// The extents that the effects of this step may have.
    pub(super) fn extents(&self, state: &State<P>, node: usize, cause: Cause<P::Timer>, face: usize) -> Vec<Extent> {
        let mut extents = vec![Extent::Whole];
        if state.left.crashes + state.left.slow_writes == 0 {
            return extents;
        }
        let mut next = state.clone();
        self.run(&mut next, node, cause, face);
        let driver = Arc::make_mut(&mut next.nodes[node]).driver.as_mut().expect("only the living take steps");
        let effects = rehearse(driver, |_, span| span);
        if state.left.crashes > 0 {
            extents.extend((1..effects.len()).map(Extent::Crash));
        }
        if state.left.slow_writes > 0 {
            extents.extend(slow_writes(&effects));
        }
        extents
    }

    /// Feeds the member; its effects are not yet carried out.
    pub(super) fn run(&self, state: &mut State<P>, node: usize, cause: Cause<P::Timer>, face: usize) {
        let ctx = self.ctx(node, face);
        if let Cause::Fires(timer) = cause {
            self.pass(state, node, timer);
        }
        state.left.spend::<P>(cause);
        if let Cause::Restart | Cause::Written = cause {
            let at = Arc::make_mut(&mut state.nodes[node]);
            if cause == Cause::Restart {
                at.driver = Some(Driver::start(&ctx, at.disk.clone()));
            } else if let Some(write) = at.in_flight.take() {
                at.written(write.record);
            }
            return;
        }
        let input = self.input(state, node, cause);
        let at = Arc::make_mut(&mut state.nodes[node]);
        let driver = at.driver.as_mut().expect("only the living take steps");
        let led = driver.machine().standing().role == Role::Leader;
        match input {
            Input::Timer(timer) => driver.fire(&ctx, timer),
            input => driver.step(&ctx, input),
        }
        if led && driver.machine().standing().role != Role::Leader {
            let ended = |timer| P::LEASES && at.lease.is_none_or(|lease| lease.timer == timer);
            at.losses.push_back(matches!(cause, Cause::Fires(timer) | Cause::FiresEarly(timer) if ended(timer)));
        }
    }

    fn input(&self, state: &mut State<P>, node: usize, cause: Cause<P::Timer>) -> Input<P> {
        let taken = if let Cause::Reads(peer) = cause { Some(state.take(node, peer)) } else { None };
        let at = Arc::make_mut(&mut state.nodes[node]);
        match cause {
            Cause::Reads(peer) => {
                let from = self.id(peer);
                match taken.expect("an item was read") {
                    Item::Up => {
                        at.unreachable.remove(FullPos(peer));
                        Input::PeerUp(from)
                    }
                    Item::Down => Input::PeerDown(from),
                    Item::Frame(message) => Input::Message { from, message },
                }
            }
            Cause::NotReached(peer) => {
                at.unreachable.insert(FullPos(peer));
                Input::PeerDown(self.id(peer))
            }
            Cause::Stored => Input::Stored(at.stored()),
            Cause::Elect => Input::Command(Command::Elect),
            Cause::Priority(priority) => Input::Command(Command::Priority(Some(priority))),
            Cause::StepDown => Input::Command(Command::StepDown(None)),
            Cause::Transfer(peer) => Input::Command(Command::Transfer { to: self.id(peer), hold: false }),
            Cause::ChildAttaches => {
                at.child = if P::LEASES { Child::Waits } else { Child::Acts };
                Input::Command(Command::Attached(true))
            }
            Cause::ChildEnds => {
                at.child = Child::None;
                Input::Command(Command::Attached(false))
            }
            Cause::Fires(timer) | Cause::FiresEarly(timer) => Input::Timer(timer),
            Cause::Restart | Cause::Written => unreachable!("it is no input"),
        }
    }

    pub(super) fn carry_out(&self, state: &mut State<P>, node: usize, extent: Extent) {
        let mut done = 0;
        while extent.limit() != Some(done) {
            let at = Arc::make_mut(&mut state.nodes[node]);
            let Some(driver) = &mut at.driver else { return };
            let Some(effect) = driver.next_effect(|_, span| span) else { break };
            done += 1;
            match effect {
                Effect::Send { to, message, .. } => {
                    at.owes_handover &= !P::is_handover(&message);
                    if let Some(to) = self.view.position(to) {
                        state.send(node, to, message);
                    }
                }
                Effect::SetTimer(..) | Effect::CancelTimer(_) => {}
                Effect::Persist(record) if extent == Extent::SlowWrite(done) => {
                    at.slow_write(record);
                    state.left.slow_writes -= 1;
                }
                Effect::Persist(record) => at.written(record),
                Effect::Store(record) => at.store(record),
                Effect::Announce(event) => {
                    let deadline = driver.deadline_of(&event);
                    at.announced(&event, deadline, self.id(node));
                    self.heard(state, node, &event);
                }
            }
        }
        let at = Arc::make_mut(&mut state.nodes[node]);
        at.broken.wrong_cause |= at.owes_handover && at.is_done();
    }

    /// The meaning of an announcement for the other members.
    fn heard(&self, state: &mut State<P>, node: usize, event: &Event) {
        match *event {
            Event::Became { now, cause } => {
                if now.leader == Some(self.id(node)) {
                    state.announced_leaders.insert((now.epoch, self.id(node)));
                }
                let told = state.left.step_downs < self.budget.step_downs;
                let broken = &mut Arc::make_mut(&mut state.nodes[node]).broken;
                broken.wrong_cause |= cause == member::Cause::SteppedDown && !told;
                broken.wrong_cause |= cause == member::Cause::SupportersLost;
            }
            Event::Suspects(peer) => {
                if let Some(peer) = self.view.position(peer) {
                    state.close(node, peer);
                }
            }
            _ => {}
        }
    }

    fn crash(&self, state: &mut State<P>, node: usize) {
        state.left.crashes -= 1;
        for peer in (0..self.view.len()).filter(|&peer| peer != node) {
            state.close(node, peer);
        }
        state.wires.retain(|&(to, _), _| to != node);
        Arc::make_mut(&mut state.nodes[node]).ends();
    }

    /// Time passes until a timer is due.
    fn pass(&self, state: &mut State<P>, node: usize, timer: P::Timer) {
        let counted = self.counted(state);
        let Some(&(_, due)) = counted.iter().find(|&&(of, _)| of == (node, timer)) else { return };
        let leases_run = P::LEASES && !self.is_steady(state);
        for ((at, timer), span) in counted {
            let driver = Arc::make_mut(&mut state.nodes[at]).driver.as_mut().expect("it has timers");
            driver.timers_mut().set(timer, after(span, due.min));
        }
        for node in &mut state.nodes {
            if leases_run {
                Arc::make_mut(node).pass(due.min);
            }
            if node.in_flight.is_some() && due.min > Duration::ZERO {
                let write = Arc::make_mut(node).in_flight.as_mut().expect("it is in flight");
                write.patience = write.patience.saturating_sub(1);
            }
        }
    }
}

fn step<T>(node: usize, cause: Cause<T>) -> Action<T> {
    Action::Step { node, cause, face: 0, extent: Extent::Whole }
}
