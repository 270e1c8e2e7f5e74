//! What the court sees of the world.

use algorithms::StateVector;
use member::{Cause, NodeSet, Standing};

use super::invariants::{Announced, Scene};
use super::subject::Subject;
use super::world::World;

impl<S: Subject> World<'_, S> {
    /// Notes which connections have become or ceased to be undisturbed.
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

    /// Everybody reachable over undisturbed connections.
    fn component(&self, of: usize) -> NodeSet {
        let mut component = NodeSet::default();
        let mut reached = vec![of];
        while let Some(node) = reached.pop() {
            component.insert(node);
            let next = (0..self.processes.len())
                .filter(|&other| !component.contains(other) && self.network.intact(node, other));
            reached.extend(next);
        }
        component
    }

    pub(super) fn judge_announcement(&mut self, node: usize, standing: Standing, cause: Cause) {
        self.look();
        let component = self.component(node);
        let stable_since = component.iter().map(|at| self.changed[at]).max().unwrap_or(0);
        // A ring closes over members that stepped down, so it too may need any two of its members to be connected.
        let whole = component.iter().all(|a| component.iter().all(|b| a == b || self.network.intact(a, b)));
        let announced = Announced { at: self.now, node, boot: self.processes[node].boot, standing, cause };
        let members = self.view.members();
        self.court.announced(&announced, &Scene { members, component, whole, stable_since });
    }

    pub(super) fn judge_state(&mut self) {
        if self.court.watches_state {
            let state = |process: &super::process::Process<S>| process.machine.as_ref().and_then(S::state_vector);
            let states: Vec<Option<StateVector>> = self.processes.iter().map(state).collect();
            self.court.stepped(&states, self.view.members());
        }
    }

    pub(super) fn judge_agreement(&mut self) {
        let standings: Vec<Option<Standing>> = self.processes.iter().map(|process| process.standing).collect();
        self.court.settled(&standings, self.view.members());
    }
}
