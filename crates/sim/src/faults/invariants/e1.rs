//! E1, classic: among members that can all talk to each other, and could since before an epoch opened, that epoch has
//! one leader. Two that only share a bridge are two components to a classic election.

use algorithms::{Epoch, Timing};
use member::Role;

use super::{Announced, Invariant, Scene};

pub(crate) struct OneLeaderPerEpoch {
    claims: Vec<(u64, usize, Epoch)>,
    /// An epoch opened at most this long before somebody claims it.
    election_ns: u64,
}

impl OneLeaderPerEpoch {
    pub(crate) fn new(timing: &Timing) -> Self {
        // A winner has heard everybody within T, T' and, if it was started over, the same again.
        let election = 2 * (timing.answer_timeout + timing.coordinator_timeout) + timing.suspect_after;
        OneLeaderPerEpoch { claims: Vec::new(), election_ns: election.as_nanos() as u64 }
    }
}

impl Invariant for OneLeaderPerEpoch {
    fn name(&self) -> &'static str {
        "E1"
    }

    fn announced(&mut self, announced: &Announced, scene: &Scene<'_>) -> Result<(), String> {
        if announced.standing.role != Role::Leader {
            return Ok(());
        }
        let (node, epoch) = (announced.node, announced.standing.epoch);
        self.claims.push((announced.at, node, epoch));
        let rival = self.claims.iter().find(|(at, other, claimed)| {
            *claimed == epoch
                && *other != node
                && scene.whole
                && scene.component.contains(*other)
                && scene.stable_since + self.election_ns <= *at
        });
        match rival {
            None => Ok(()),
            Some((at, other, _)) => Err(format!(
                "{} claims epoch {epoch}, which {} claimed {} us before; their component is stable for {} ms",
                scene.members[node],
                scene.members[*other],
                (announced.at - at) / 1000,
                (announced.at - scene.stable_since) / 1_000_000,
            )),
        }
    }
}
