//! E6, classic: no member follows a claim below one that it has already followed in this process start.

use algorithms::{Epoch, Uid};

use super::{Announced, Invariant, Scene};

pub(crate) struct NoOlderClaim {
    /// By node: the process start and the highest claim followed in it.
    highest: Vec<(u32, Option<(Epoch, Uid)>)>,
}

impl NoOlderClaim {
    pub(crate) fn new(nodes: usize) -> Self {
        NoOlderClaim { highest: vec![(0, None); nodes] }
    }
}

impl Invariant for NoOlderClaim {
    fn announced(&mut self, announced: &Announced, scene: &Scene<'_>) -> Result<(), String> {
        let highest = &mut self.highest[announced.node];
        if highest.0 != announced.start {
            *highest = (announced.start, None);
        }
        let Some(id) = announced.standing.leader else { return Ok(()) };
        let who = scene.members[announced.node];
        let Some(leader) = scene.uid(id) else {
            return Err(format!("{who} follows {id}, which is no member"));
        };
        let claim = (announced.standing.epoch, leader);
        match highest.1.replace(claim) {
            Some(before) if before.0 > claim.0 => {
                Err(format!("{who} follows {leader} of epoch {}, after {} of epoch {}", claim.0, before.1, before.0))
            }
            _ => Ok(()),
        }
    }
}
