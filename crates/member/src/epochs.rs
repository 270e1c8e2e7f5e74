//! How classic epochs are numbered, so that no two members ever claim the same one.
//!
//! An attempt is a multiple of the number of members, and its winner adds its own rank among them. So the epoch alone
//! tells attempts apart and, within one, who claims it: even where two sides of a broken network elect in the same
//! attempt. The later epoch is the later attempt; of one attempt, the winner that the election would prefer.

use algorithms::{Ctx, Election, Epoch, Outbox, Uid, View};

use crate::member::Member;
use crate::types::Record;

/// Attempts are reserved on disk this many at a time, so that no election waits for the disk.
const RESERVE: u64 = 64;
/// No peer may push the epoch further than this in one message: it would run out.
const MAX_LEAP: u64 = 1 << 40;

/// The attempt that an epoch belongs to.
pub(crate) fn attempt_of(epoch: Epoch, view: &View) -> Epoch {
    Epoch(epoch.0 - epoch.0 % members(view))
}

/// The first attempt all of whose epochs are above this one.
pub(crate) fn attempt_after(epoch: Epoch, view: &View) -> Epoch {
    Epoch(attempt_of(epoch, view).0 + members(view))
}

/// The first attempt none of whose epochs is below this one.
pub(crate) fn attempt_from(epoch: Epoch, view: &View) -> Epoch {
    Epoch(epoch.0.next_multiple_of(members(view)))
}

/// What this member claims if it wins the attempt.
pub(crate) fn epoch_of(ctx: &Ctx<'_>, attempt: Epoch, winner: Uid) -> Epoch {
    Epoch(attempt.0 + ctx.view.worse(winner, ctx.wins()).count() as u64)
}

fn members(view: &View) -> u64 {
    view.len() as u64
}

impl<E: Election> Member<E> {
    pub(crate) fn next_attempt(&self, view: &View) -> Epoch {
        attempt_after(self.highest, view).max(self.floor)
    }

    /// Every number that is seen or used is below what the disk has reserved, so a restart never goes back.
    pub(crate) fn note(&mut self, ctx: &Ctx<'_>, epoch: Epoch, out: &mut impl Outbox<Self>) {
        let reserve = reserve(ctx);
        self.highest = self.highest.max(epoch);
        if self.highest >= self.ceiling {
            self.ceiling = Epoch(self.highest.0 + reserve);
            out.persist(self.record());
        } else if self.highest.0 + reserve / 2 >= self.ceiling.0 && !self.storing {
            self.storing = true;
            out.store(Record { ceiling: Epoch(self.ceiling.0 + reserve), ..self.record() });
        }
    }

    pub(crate) fn plausible(&self, epoch: Epoch) -> bool {
        epoch.0 <= self.highest.0.saturating_add(MAX_LEAP)
    }

    pub(crate) fn raise_floor(&mut self, ctx: &Ctx<'_>, epoch: Epoch, out: &mut impl Outbox<Self>) {
        if epoch > self.floor {
            self.floor = attempt_from(epoch, ctx.view);
            self.note(ctx, self.floor, out);
        }
    }
}

/// Half a reservation is left when the next one is asked for.
pub(crate) fn reserve(ctx: &Ctx<'_>) -> u64 {
    RESERVE * ctx.view.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use algorithms::Settings;

    #[test]
    fn no_two_members_share_an_epoch_and_the_better_one_has_the_later_of_an_attempt() {
        let view = View::mesh([3, 1, 2].map(Uid::plain).to_vec());
        let settings = Settings::default();
        let ctx = Ctx { me: Uid::plain(1), view: &view, settings: &settings, dice: 0 };
        let epochs = [1, 2, 3].map(|id| epoch_of(&ctx, Epoch(6), Uid::plain(id)));
        assert_eq!(epochs, [6, 7, 8].map(Epoch));
        assert!(epochs.iter().all(|&epoch| attempt_of(epoch, &view) == Epoch(6)));
        assert!(epochs.iter().all(|&epoch| attempt_after(epoch, &view) == Epoch(9)));
        assert_eq!([6, 7, 8].map(|epoch| attempt_from(Epoch(epoch), &view)), [6, 9, 9].map(Epoch));
    }
}
