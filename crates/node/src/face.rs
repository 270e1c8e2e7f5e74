//! What a member shows to the outside: what it last announced, and its leadership only while the lease runs.

use std::time::Duration;

use member::{Role, Standing};

use crate::clock::since_boot;

/// Faces never ask the machine, which may be ahead of its own effects or behind the clock: they compare the clock
/// themselves, whenever they answer.
#[derive(Debug)]
pub(crate) struct Face {
    standing: Standing,
    /// Was anything announced yet?
    said: bool,
    /// When the lease ends; leaders of classic elections have none.
    lease_until: Option<Duration>,
    quorum: bool,
}

impl Face {
    pub(crate) fn new(standing: Standing, quorum: bool) -> Self {
        Face { standing, said: false, lease_until: None, quorum }
    }

    /// Returns what was announced before.
    pub(crate) fn became(&mut self, now: Standing) -> Option<Standing> {
        if now.role != Role::Leader {
            self.lease_until = None;
        }
        let before = std::mem::replace(&mut self.standing, now);
        std::mem::replace(&mut self.said, true).then_some(before)
    }

    pub(crate) fn leased(&mut self, until: Option<Duration>) {
        self.lease_until = until;
    }

    /// What may be said now.
    pub(crate) fn standing(&self) -> Standing {
        let claims = self.standing.role == Role::Leader;
        if claims && self.quorum && self.lease_left().is_none() {
            return Standing { role: Role::Candidate, leader: None, epoch: self.standing.epoch };
        }
        self.standing
    }

    /// `None` without a lease, or after its end.
    pub(crate) fn lease_left(&self) -> Option<Duration> {
        self.lease_until?.checked_sub(since_boot()).filter(|left| !left.is_zero())
    }
}
