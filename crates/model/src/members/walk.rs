//! Two phases, from a seed: anything may happen, then nothing more goes wrong and the cluster must come to rest.
//!
//! A search sees every state but no endless run that is never at rest; a walk that does not end is one.

use super::properties::agree;
use super::{Members, Model, State, Subject};

#[derive(Debug)]
pub struct Walk {
    /// Steps until rest; `None`: it never rested.
    pub rest_after: Option<usize>,
    pub agreed: bool,
    /// The last actions, readable.
    pub trace: Vec<String>,
}

impl<P: Subject> Members<P> {
    pub fn walk(&self, seed: u64, faulty: usize, max: usize) -> Walk {
        let mut random = seed;
        let mut state: State<P> = self.initial.clone();
        let mut trace = Vec::new();
        for step in 0..faulty + max {
            let mut actions = Vec::new();
            if step < faulty {
                self.actions(&state, &mut actions);
            } else {
                actions = self.progress(&state);
            }
            if actions.is_empty() {
                if step < faulty {
                    continue;
                }
                return Walk { rest_after: Some(step), agreed: agree(self, &state), trace };
            }
            let action = actions.swap_remove((roll(&mut random) % actions.len() as u64) as usize);
            trace.push(self.format_action(&action));
            state = self.perform(&state, action);
        }
        trace.push(format!("{state:#?}"));
        Walk { rest_after: None, agreed: false, trace }
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
