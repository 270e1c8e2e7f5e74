//! Two phases, from a seed: anything may happen, then nothing more goes wrong and the cluster must come to rest.
//!
//! A search sees every state but not that a run never comes to rest; a walk that does not end shows it.

use super::properties::agree;
use super::{Action, Cause, Members, Model, State, Subject};

/// The steps of the two phases.
#[derive(Clone, Copy, Debug)]
pub struct Phases {
    pub faulty: usize,
    pub healing: usize,
}

impl<P: Subject> Members<P> {
    /// How many steps it took to come to rest in agreement; else the last steps and the state they led to.
    pub fn walk(&self, seed: u64, phases: Phases) -> Result<usize, String> {
        const SHOWN: usize = 30;
        let mut random = seed;
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
            let action = actions.swap_remove((roll(&mut random) % actions.len() as u64) as usize);
            let action = match action {
                Action::Step { node, cause, torn: None, .. } => {
                    let face = (roll(&mut random) % self.faces() as u64) as usize;
                    Action::Step { node, cause, face, torn: None }
                }
                other => other,
            };
            trace.push(self.describe(&state, &action));
            state = self.perform(&state, action);
        }
        failed("no rest", &trace, &state)
    }

    /// With what is read.
    fn describe(&self, state: &State<P>, action: &Action<P::Timer>) -> String {
        let read = match action {
            Action::Step { node, cause: Cause::Reads(peer), .. } => state.wires.get(&(*node, *peer)),
            _ => None,
        };
        let read = read.and_then(|items| items.front()).map_or(String::new(), |item| format!(": {item:?}"));
        format!("{}{read}", self.format_action(action))
    }
}

/// splitmix64
fn roll(random: &mut u64) -> u64 {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *random;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
