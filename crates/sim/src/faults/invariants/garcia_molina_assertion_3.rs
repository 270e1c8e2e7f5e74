//! Garcia-Molina's assertion 3, at every instant and in every run: two nodes of the same group in Reorganization or Normal
//! have the same coordinator, two in Normal the same task.

use algorithms::{StateVector, Status, Uid};

use super::Invariant;

pub(crate) struct GarciaMolinaAssertion3;

impl Invariant for GarciaMolinaAssertion3 {
    fn stepped(&mut self, states: &[Option<StateVector>], members: &[Uid]) -> Result<(), String> {
        let settled = |state: &StateVector| matches!(state.s, Status::Reorganization | Status::Normal);
        let living = states.iter().zip(members).filter_map(|(state, uid)| Some((state.as_ref()?, uid)));
        let all: Vec<_> = living.filter(|(state, _)| state.g.is_some() && settled(state)).collect();
        for (i, (a, first)) in all.iter().enumerate() {
            for (b, second) in all[..i].iter().filter(|(b, _)| b.g == a.g) {
                let normal = a.s == Status::Normal && b.s == Status::Normal;
                if a.c != b.c || normal && a.d != b.d {
                    return Err(format!("{first} is at {a:?}, {second} at {b:?}"));
                }
            }
        }
        Ok(())
    }
}
