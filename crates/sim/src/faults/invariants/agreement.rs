//! E8: some time after the last fault all members report one (leader, epoch), and they keep it.

use algorithms::Uid;
use member::Role;

use super::{Announced, Invariant, Scene, Standings};

#[derive(Default)]
pub(crate) struct Agreement {
    settled: bool,
}

impl Invariant for Agreement {
    fn announced(&mut self, announced: &Announced, scene: &Scene<'_>) -> Result<(), String> {
        if !self.settled {
            return Ok(());
        }
        let who = scene.members[announced.node];
        let (standing, cause) = (announced.standing, announced.cause.name());
        Err(format!("all agreed, yet {who} changed to {} ({cause})", describe(standing)))
    }

    fn settled(&mut self, standings: Standings<'_>, members: &[Uid]) -> Result<(), String> {
        self.settled = true;
        let first = standings.first().copied().flatten();
        let agreed = first.is_some_and(|first| {
            first.leader.is_some()
                && standings.iter().zip(members).all(|(standing, uid)| {
                    standing.is_some_and(|one| {
                        let claims = one.role == Role::Leader;
                        (one.leader, one.epoch) == (first.leader, first.epoch) && claims == (one.leader == Some(uid.id))
                    })
                })
        });
        if agreed {
            return Ok(());
        }
        let all: Vec<String> = standings
            .iter()
            .zip(members)
            .map(|(standing, uid)| format!("{uid}: {}", standing.map_or("dead".into(), describe)))
            .collect();
        Err(format!("no agreement: {}", all.join("; ")))
    }
}

fn describe(standing: member::Standing) -> String {
    let leader = standing.leader.map_or("nobody".into(), |id| id.to_string());
    format!("{} of {leader} in epoch {}", standing.role.name(), standing.epoch)
}
