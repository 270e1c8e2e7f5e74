//! Garcia-Molina's assertion 1, at every instant: two nodes in Reorganization or Normal have the same coordinator, two
//! in Normal the same task. It holds where no timeout is false, so only calm runs are asked.

use algorithms::{StateVector, Status, Uid};

use super::Invariant;

pub(crate) struct Assertion1;

impl Invariant for Assertion1 {
    fn name(&self) -> &'static str {
        "assertion 1"
    }

    fn stepped(&mut self, states: &[Option<StateVector>], members: &[Uid]) -> Result<(), String> {
        let settled = |state: &StateVector| matches!(state.s, Status::Reorganization | Status::Normal);
        let all: Vec<_> = states.iter().zip(members).filter_map(|(state, uid)| Some((state.as_ref()?, uid))).collect();
        for (i, (a, first)) in all.iter().enumerate().filter(|(_, (a, _))| settled(a)) {
            for (b, second) in all[..i].iter().filter(|(b, _)| settled(b)) {
                let normal = a.s == Status::Normal && b.s == Status::Normal;
                if a.c != b.c || normal && a.d != b.d {
                    return Err(format!("{first} is at {a:?}, {second} at {b:?}"));
                }
            }
        }
        Ok(())
    }
}
