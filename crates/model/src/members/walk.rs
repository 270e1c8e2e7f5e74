//! Two phases, from a seed: first anything may happen, then there are no more faults and the cluster must come to rest.
//!
//! A search visits every state but does not show that a run never comes to rest; a walk that does not end shows it.

use algorithms::drive::Dice;

use super::properties::agree;
use super::{Action, Cause, Extent, Members, Model, State, Subject};

/// The steps of the two phases.
#[derive(Clone, Copy, Debug)]
pub struct Phases {
    pub faulty: usize,
    pub healing: usize,
}

impl<P: Subject> Members<P> {
    /// The number of steps until the cluster rested in agreement; else the last steps and the state they led to.
    pub fn walk(&self, seed: u64, phases: Phases) -> Result<usize, String> {
        const SHOWN: usize = 30;
        let mut dice = Dice(seed);
        let mut state: State<P> = self.initial.clone();
        let mut trace = Vec::new();
        let failed = |what: &str, trace: &[String], state: &State<P>| {
            let shown = trace[trace.len().saturating_sub(SHOWN)..].join("\n");
            Err(format!("seed {seed}, {} steps: {what}\n{shown}\n{state:#?}", trace.len()))
        };
        for step in 0..phases.faulty + phases.healing {
            let mut actions = Vec::new();
            if step < phases.faulty {
                self.actions(&state, &mut actions);
            }
            if actions.is_empty() {
                actions = self.progress(&state);
            }
            if actions.is_empty() {
                return if agree(self, &state) { Ok(step) } else { failed("no agreement", &trace, &state) };
            }
            let action = actions.swap_remove(dice.below(actions.len()));
            let action = match action {
                Action::Step { node, cause, extent: Extent::Whole, .. } => {
                    let face = dice.below(self.faces());
                    Action::Step { node, cause, face, extent: Extent::Whole }
                }
                other => other,
            };
            trace.push(self.describe(&state, &action));
            state = self.perform(&state, action);
        }
        failed("no rest", &trace, &state)
    }

    /// Includes the item that is read.
    fn describe(&self, state: &State<P>, action: &Action<P::Timer>) -> String {
        let read = match action {
            Action::Step { node, cause: Cause::Reads(peer), .. } => state.wires.get(&(*node, *peer)),
            _ => None,
        };
        let read = read.and_then(|items| items.front()).map_or(String::new(), |item| format!(": {item:?}"));
        format!("{}{read}", self.format_action(action))
    }
}
