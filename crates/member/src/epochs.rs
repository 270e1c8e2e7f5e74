//! How classic epochs are numbered, so that no two members ever claim the same one.
//!
//! An attempt is a multiple of the number of members, and its winner adds its own rank among them. So the epoch alone
//! tells attempts apart and, within one, who claims it: even where two sides of a broken network elect in the same
//! attempt. The later epoch is the later attempt; of one attempt, the winner that the election would prefer.

use algorithms::{Ctx, Epoch, Uid, View};

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
