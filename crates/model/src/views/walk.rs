//! Two phases, from a seed: first anything may happen, then there are no more faults and every client that waits enters.
//!
//! A search visits every state but does not show that a client waits for ever; a walk whose second phase leaves one waiting
//! shows it.

use algorithms::drive::Dice;

use super::properties::{EXCLUSION, HEALS, TOKENS_RISE, exclusion};
use super::{Action, Budget, ClientAct, State, Subject, ViewsModel};

#[derive(Clone, Copy, Debug)]
pub struct Phases {
    /// Steps of the first phase.
    pub faulty: usize,
    /// Rounds of the second: in each a beat of every member, then all messages, then a tick.
    pub healing: usize,
}

/// A property that a walk broke, and how.
#[derive(Debug)]
pub struct Broken {
    pub property: &'static str,
    pub trace: String,
}

impl<P: Subject> ViewsModel<P> {
    /// Walks from one seed. Returns how many steps it took.
    pub fn walk(&self, seed: u64, phases: Phases) -> Result<usize, Broken> {
        let mut dice = Dice(seed);
        let mut state = self.initial.clone();
        let mut trace: Vec<String> = Vec::new();
        for step in 0..phases.faulty {
            let mut actions = Vec::new();
            Self::choices(&state, &mut actions);
            if actions.is_empty() {
                break;
            }
            let action = actions.swap_remove(dice.below(actions.len()));
            trace.push(format!("{step}: {action:?}"));
            self.perform(&mut state, action);
            Self::safe(&state, &trace)?;
        }
        for round in 0..phases.healing {
            if state.clients.iter().all(|client| !client.waits) {
                return Ok(trace.len());
            }
            trace.push(format!("round {round}"));
            self.heal(&mut state);
            Self::safe(&state, &trace)?;
        }
        Err(broken(HEALS, &trace, &state))
    }

    fn safe(state: &State<P>, trace: &[String]) -> Result<(), Broken> {
        if !exclusion(state) {
            return Err(broken(EXCLUSION, trace, state));
        }
        if state.token_fell {
            return Err(broken(TOKENS_RISE, trace, state));
        }
        Ok(())
    }

    /// A round without faults: members run and are connected, one leads, clients keep their sessions alive and leave when
    /// they are inside.
    fn heal(&self, state: &mut State<P>) {
        state.left = Budget::default();
        for node in 0..state.nodes.len() {
            if state.nodes[node].is_none() {
                self.perform(state, Action::Restart(node));
            }
        }
        self.deliver_all(state);
        for (one, other) in state.down.clone() {
            self.perform(state, Action::Connect(one, other));
        }
        if state.leased.is_none() {
            self.perform(state, Action::Elect(state.nodes.len() - 1));
        }
        for node in 0..state.nodes.len() {
            if state.leased != Some(node) {
                self.perform(state, Action::OfficeEnds(node));
            }
            for act in [ClientAct::Release, ClientAct::KeepAlive] {
                if state.clients[node].may(act) {
                    self.perform(state, Action::Client(node, act));
                }
            }
            self.perform(state, Action::Beat(node));
        }
        self.deliver_all(state);
        self.perform(state, Action::Tick);
        self.deliver_all(state);
    }
}

fn broken<P: Subject>(property: &'static str, trace: &[String], state: &State<P>) -> Broken {
    Broken { property, trace: format!("{}\nleads to {state:#?}", trace.join("\n")) }
}
