//! E11: each stable component has exactly one leader, the specified one; after a merge one survives.

use algorithms::catalog::{Elects, Row};
use algorithms::{Settings, Uid, Wins};
use member::Role;

use super::{Invariant, Standings};

pub(crate) struct TheSpecifiedLeader {
    /// Whether the best member must lead, and what "best" means.
    best: Option<Wins>,
}

impl TheSpecifiedLeader {
    pub(crate) fn new(row: &Row, settings: &Settings) -> Self {
        let always_best = row.elects == Elects::Best && (settings.preempt || !row.can_wait);
        TheSpecifiedLeader { best: always_best.then_some(settings.wins) }
    }
}

impl Invariant for TheSpecifiedLeader {
    fn name(&self) -> &'static str {
        "E11"
    }

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
        let best = self.best.and_then(|wins| wins.best(members.iter().copied()));
        match best {
            Some(best) if leaders != [best] => Err(format!("{} leads, {best} should", names())),
            _ => Ok(()),
        }
    }
}
