//! E1: at most one node ever announces itself leader for one epoch. Classic: among members that are all connected to
//! each other, since before an attempt opened, that attempt has one winner. (Two members that are connected only over a
//! bridge may both win one attempt, under different epochs, and so may the leaders of two groups that are about to merge,
//! where an algorithm forms groups.)

use algorithms::Epoch;
use member::{FullPos, Role, Settings};

use super::{Announced, Invariant, Scene};

pub(crate) struct OneLeaderPerEpoch {
    claims: Vec<(u64, usize, Epoch)>,
    /// Has every attempt one epoch for each member, and one winner in a component whose members are all connected to
    /// each other?
    by_attempt: bool,
    /// An attempt began at most this long before a member claims it.
    election_ns: u64,
}

impl OneLeaderPerEpoch {
    pub(crate) fn new(settings: &Settings, by_attempt: bool) -> Self {
        // A winner has heard all members within T, T' and, if it was started over, the same again.
        let timeouts = settings.election.answer_timeout + settings.election.coordinator_timeout;
        let election = 2 * timeouts + settings.timing.suspect_after;
        OneLeaderPerEpoch { claims: Vec::new(), by_attempt, election_ns: election.as_nanos() as u64 }
    }

    /// Another winner of the same attempt that had a connection to every member that this winner had one to.
    fn rival(&self, node: usize, epoch: Epoch, scene: &Scene<'_>) -> Option<&(u64, usize, Epoch)> {
        // Every attempt has one epoch for each member.
        let attempt = |epoch: Epoch| epoch.0 / scene.members.len() as u64;
        self.claims.iter().find(|(at, other, claimed)| {
            self.by_attempt
                && *other != node
                && attempt(*claimed) == attempt(epoch)
                && scene.whole
                && scene.component.contains(FullPos(*other))
                && scene.stable_since + self.election_ns <= *at
        })
    }
}

impl Invariant for OneLeaderPerEpoch {
    fn announced(&mut self, announced: &Announced, scene: &Scene<'_>) -> Result<(), String> {
        if announced.standing.role != Role::Leader {
            return Ok(());
        }
        let (node, epoch) = (announced.node, announced.standing.epoch);
        let same = self.claims.iter().find(|(_, other, claimed)| *claimed == epoch && *other != node);
        let rival = same.or_else(|| self.rival(node, epoch, scene)).copied();
        self.claims.push((announced.at, node, epoch));
        match rival {
            None => Ok(()),
            Some((at, other, claimed)) => Err(format!(
                "{} claims epoch {epoch}, {} claimed {claimed} {} us before; {} is stable for {} ms",
                scene.members[node],
                scene.members[other],
                (announced.at - at) / 1000,
                if scene.whole { "their component" } else { "a component with a hole" },
                (announced.at - scene.stable_since) / 1_000_000,
            )),
        }
    }
}
