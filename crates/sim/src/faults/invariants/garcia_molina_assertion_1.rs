//! Garcia-Molina's assertion 1, at every instant: two nodes in Reorganization or Normal have the same coordinator, two
//! in Normal the same task. It holds where no timeout is false: in calm runs, once the first election is over. Before
//! that a call may be lost because the connection it needs is still being opened. Assertion 3 replaces it where there are
//! groups.

use algorithms::{StateVector, Status, Uid};

use super::Invariant;

#[derive(Default)]
pub(crate) struct GarciaMolinaAssertion1 {
    /// All members were Normal under one coordinator once.
    begun: bool,
}

impl Invariant for GarciaMolinaAssertion1 {
    fn stepped(&mut self, states: &[Option<StateVector>], members: &[Uid]) -> Result<(), String> {
        if states.iter().flatten().any(|state| state.g.is_some()) {
            return Ok(());
        }
        let settled = |state: &StateVector| matches!(state.s, Status::Reorganization | Status::Normal);
        let normal = |state: &Option<StateVector>| state.filter(|state| state.s == Status::Normal).map(|s| (s.c, s.d));
        let first = states.first().and_then(normal);
        self.begun |= first.is_some() && states.iter().all(|state| normal(state) == first);
        if !self.begun {
            return Ok(());
        }
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
