//! E3: the leases of different leaders never overlap. And the reason: while a lease runs, a majority of the voters can
//! grant no epoch to another holder.

use algorithms::Uid;

use super::{Invariant, Leader};

pub(crate) struct OneReignAtATime {
    /// False where leases do not come from voters.
    pub(crate) votes: bool,
}

impl Invariant for OneReignAtATime {
    fn reigning(&mut self, leaders: &[Leader], members: &[Uid]) -> Result<(), String> {
        if let [one, other, ..] = leaders {
            let (a, b) = (members[one.node], members[other.node]);
            return Err(format!("{a} leads in epoch {} while {b} leads in epoch {}", one.epoch, other.epoch));
        }
        match leaders.iter().find(|leader| self.votes && 2 * leader.bound <= leader.of) {
            None => Ok(()),
            Some(Leader { node, epoch, bound, of }) => {
                let who = members[*node];
                Err(format!("{who} leads in epoch {epoch} and only {bound} of {of} voters are bound to it"))
            }
        }
    }
}
