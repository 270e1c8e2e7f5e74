//! The part of the world that the invariants see.

use std::sync::Arc;

use algorithms::{Epoch, StateVector};
use member::reign::{Holder, Reign};
use member::{Cause, FullPos, NodeSet, Role, Standing};

use types::Stamp;

use super::invariants::{Announced, Granted, Leader, Scene};
use super::process::{Child, Process};
use super::subject::Subject;
use super::world::World;

impl<S: Subject> World<'_, S> {
    /// Records which connections have become or ceased to be undisturbed.
    pub(super) fn look(&mut self) {
        if !std::mem::take(&mut self.dirty) {
            return;
        }
        let nodes = self.processes.len();
        for a in 0..nodes {
            for b in 0..a {
                let both_run = self.processes[a].runs() && self.processes[b].runs();
                if self.network.refresh(self.now, a, b, both_run) {
                    self.changed[a] = self.now;
                    self.changed[b] = self.now;
                }
            }
        }
    }

    /// All members reachable over undisturbed connections.
    fn component(&self, of: usize) -> NodeSet {
        let mut component = NodeSet::default();
        let mut reached = vec![of];
        while let Some(node) = reached.pop() {
            component.insert(FullPos(node));
            let next = (0..self.processes.len())
                .filter(|&other| !component.contains(FullPos(other)) && self.network.intact(node, other));
            reached.extend(next);
        }
        component
    }

    pub(super) fn check_announcement(&mut self, node: usize, standing: Standing, cause: Cause) {
        self.look();
        let component = self.component(node);
        let stable = |at: FullPos| self.changed[at.0].max(self.disk_answers_since(at.0));
        let stable_since = component.iter().map(stable).max().unwrap_or(0);
        // A ring closes over members that stepped down, so it too may need any two of its members to be connected.
        let whole = component.iter().all(|a| component.iter().all(|b| a == b || self.network.intact(a.0, b.0)));
        let process = &self.processes[node];
        let child = process.child == Child::Acts;
        let announced = Announced { at: self.now, node, start: process.start, standing, cause, child };
        let members = self.view.members();
        let others = (0..members.len()).filter(|&other| other != node && self.votes(other));
        let linked = |other: usize| {
            let talks = self.network.intact_since(node, other)?.max(self.processes[other].settled_since?);
            Some(talks.max(self.disk_answers_since(node)).max(self.disk_answers_since(other)))
        };
        let linked_since = others.filter_map(linked).collect();
        let scene = Scene { members, component, whole, stable_since, linked_since };
        self.invariants.ask(|invariant| invariant.announced(&announced, &scene));
    }

    /// A member that waits for its disk counts as absent.
    fn disk_answers_since(&self, node: usize) -> u64 {
        let disk = &self.processes[node].disk;
        if disk.hangs { self.now } else { disk.answers_since }
    }

    pub(super) fn check_grant(&mut self, node: usize, epoch: Epoch, holder: Holder, list: Stamp) {
        let members = self.view.members();
        self.invariants.ask(|invariant| invariant.granted(&Granted { node, epoch, holder, list }, members));
    }

    /// Records when a voter has settled.
    pub(super) fn note_settled(&mut self, node: usize) {
        let process = &mut self.processes[node];
        let settled = process.machine().and_then(S::reign).is_some_and(Reign::is_settled);
        if settled && process.settled_since.is_none() {
            process.settled_since = Some(self.now);
        }
    }

    pub(super) fn votes(&self, node: usize) -> bool {
        self.settings.votes(self.view.members()[node].id)
    }

    /// Every leader whose lease runs, and how many voters are bound to it.
    pub(super) fn check_reigns(&mut self) {
        if !self.invariants.watches_reigns {
            return;
        }
        for process in &mut self.processes {
            if let Some((force, _)) = process.driver.as_ref().and_then(|driver| driver.machine().reign()?.proposal()) {
                process.in_force = Some(Arc::clone(force));
            }
        }
        let leads = |process: &Process<S>| {
            let epoch = process.standing.filter(|standing| standing.role == Role::Leader)?.epoch;
            let holder = process.machine()?.reign().map(Reign::holder);
            (process.lease_until > self.now).then_some((holder, epoch))
        };
        let orphans = |process: &Process<S>| {
            let orphan = process.orphan.filter(|orphan| orphan.until > self.now)?;
            Some((Some(orphan.holder), orphan.epoch))
        };
        let claims = self.processes.iter().enumerate().flat_map(|(node, process)| {
            let own = leads(process);
            // A later leadership of the same member is not another leader.
            let orphan = orphans(process).filter(|_| own.is_none());
            own.into_iter().chain(orphan).map(move |(holder, epoch)| (node, holder, epoch))
        });
        let leaders: Vec<Leader> = claims
            .map(|(node, holder, epoch)| {
                let force = self.processes[node].in_force.as_ref();
                let votes = |voter| force.map_or_else(|| self.votes(voter), |list| list.votes(self.id(voter)));
                let voters = (0..self.processes.len()).filter(|&voter| votes(voter));
                let bound = |&voter: &usize| voter == node || holder.is_some_and(|holder| self.is_bound(voter, holder));
                Leader { node, epoch, bound: voters.clone().filter(bound).count(), of: voters.count() }
            })
            .collect();
        if !leaders.is_empty() {
            self.invariants.ask(|invariant| invariant.reigning(&leaders, self.view.members()));
        }
    }

    /// A dead voter will settle with the record on its disk; without a disk it will be blank.
    fn is_bound(&self, voter: usize, holder: Holder) -> bool {
        let process = &self.processes[voter];
        if let Some(machine) = process.machine() {
            return machine.reign().is_some_and(|reign| reign.binds(holder));
        }
        let vote = process.disk.record.as_ref().and_then(S::vote);
        vote.is_none_or(|vote| vote.holder == Some(holder))
    }

    pub(super) fn check_state(&mut self) {
        let state = |process: &Process<S>| process.machine().and_then(S::state_vector);
        if !self.processes.iter().any(|process| state(process).is_some()) {
            return;
        }
        let states: Vec<Option<StateVector>> = self.processes.iter().map(state).collect();
        self.invariants.ask(|invariant| invariant.stepped(&states, self.view.members()));
        if self.agreed {
            self.invariants.ask(|invariant| invariant.ended(&states, self.view.members()));
        }
    }

    pub(super) fn check_agreement(&mut self) {
        let standings: Vec<Option<Standing>> = self.processes.iter().map(|process| process.standing).collect();
        self.invariants.ask(|invariant| invariant.settled(&standings, self.view.members()));
        self.agreed = true;
        self.check_state();
    }
}
