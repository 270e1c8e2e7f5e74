//! E7: a leader with healthy links to a majority continues to lead, unless it hands over or is told to stop. Where
//! closed connections free promises at once (`on_close = "immediate"`) a leader stops when it *may* have less.

use member::{Cause, Timing};

use super::{Announced, Invariant, Scene};

pub(crate) struct HealthyLeaderStays {
    /// A link counts once the present lease and the one before were applied for over it.
    healthy_ns: u64,
    voters: usize,
}

impl HealthyLeaderStays {
    pub(crate) fn new(timing: &Timing, voters: usize) -> Self {
        HealthyLeaderStays { healthy_ns: (2 * timing.lease).as_nanos() as u64, voters }
    }
}

impl Invariant for HealthyLeaderStays {
    fn announced(&mut self, announced: &Announced, scene: &Scene<'_>) -> Result<(), String> {
        if announced.cause != Cause::LeaseEnded {
            return Ok(());
        }
        let healthy = |since: &&u64| **since + self.healthy_ns <= announced.at;
        let linked = scene.linked_since.iter().filter(healthy).count() + 1;
        if 2 * linked <= self.voters {
            return Ok(());
        }
        let who = scene.members[announced.node];
        Err(format!("{who} lost its lease although it talks to {linked} of {} voters", self.voters))
    }
}
