//! Garcia-Molina's assertions 2 and 4: all faults ended long enough ago, so one node is Normal with itself as the
//! coordinator and all others are Normal with that one; where there are groups, all of them in one group. "It stays in
//! that state": from then on no state vector changes until the run ends.

use algorithms::{StateVector, Status, Uid};

use super::Invariant;

/// Assertion 2, or assertion 4 where there are groups.
pub(crate) struct GarciaMolinaEnd {
    groups: bool,
    /// The state vectors when all was settled.
    settled: Option<Vec<StateVector>>,
}

impl GarciaMolinaEnd {
    pub(crate) fn assertion_2() -> Self {
        GarciaMolinaEnd { groups: false, settled: None }
    }

    pub(crate) fn assertion_4() -> Self {
        GarciaMolinaEnd { groups: true, settled: None }
    }
}

impl Invariant for GarciaMolinaEnd {
    fn ended(&mut self, states: &[Option<StateVector>], members: &[Uid]) -> Result<(), String> {
        let vectors: Vec<StateVector> = states.iter().flatten().copied().collect();
        if vectors.is_empty() || vectors[0].g.is_some() != self.groups {
            return Ok(());
        }
        let shown = || states.iter().zip(members).map(|(state, uid)| format!("{uid} {state:?}")).collect::<Vec<_>>();
        let first = vectors[0];
        let same = |other: &StateVector| {
            other.s == Status::Normal && (other.c, other.d, other.g) == (first.c, first.d, first.g)
        };
        let lives = states.iter().zip(members).any(|(state, uid)| state.is_some() && Some(uid.id) == first.c);
        if !lives || !vectors.iter().all(same) {
            return Err(shown().join("; "));
        }
        match &self.settled {
            None => self.settled = Some(vectors),
            Some(settled) if *settled == vectors => {}
            Some(settled) => return Err(format!("it was {settled:?} and is {}", shown().join("; "))),
        }
        Ok(())
    }
}
