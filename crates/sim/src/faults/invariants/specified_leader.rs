//! E11: each stable component has exactly one leader, the specified one; after a merge one survives.

use algorithms::catalog::{Elects, Row};
use algorithms::{Uid, View};
use member::{Role, Settings};

use super::{Invariant, Standings};
use crate::faults::plan::{FaultKind, Plan};

pub(crate) struct SpecifiedLeader {
    /// The member that must lead at the end of this run, where the election leaves no choice.
    best: Option<Uid>,
}

impl SpecifiedLeader {
    pub(crate) fn new(row: &Row, view: &View, settings: &Settings, plan: &Plan) -> Self {
        let always_best = row.elects == Elects::Best && (settings.preempt || !row.can_wait);
        let able = view.members().iter().copied().filter(|uid| settings.may_lead(uid.id));
        // A leader keeps the priority with which it was elected: only a member that is raised above all takes over for sure.
        let best = if plan.kinds.contains(&FaultKind::Priorities) {
            plan.raised.map(|at| view.members()[at])
        } else {
            settings.election.wins.best(able)
        };
        SpecifiedLeader { best: best.filter(|_| always_best) }
    }
}

impl Invariant for SpecifiedLeader {
    fn settled(&mut self, standings: Standings<'_>, members: &[Uid]) -> Result<(), String> {
        let claims = |standing: &&(Option<member::Standing>, &Uid)| {
            standing.0.is_some_and(|standing| standing.role == Role::Leader)
        };
        let pairs: Vec<_> = standings.iter().copied().zip(members).collect();
        let leaders: Vec<Uid> = pairs.iter().filter(claims).map(|pair| *pair.1).collect();
        let names = || leaders.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if leaders.len() != 1 {
            return Err(format!("{} leaders: {}", leaders.len(), names()));
        }
        match self.best {
            Some(best) if leaders != [best] => Err(format!("{} leads, {best} should", names())),
            _ => Ok(()),
        }
    }
}
