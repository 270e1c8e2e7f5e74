//! How elections and classic epochs are numbered, so that no two members ever claim the same epoch.
//!
//! An attempt is a multiple of the number of members, and its winner adds its own rank among them. So the epoch alone
//! identifies the attempt and the member that claims it, even where two sides of a broken network elect in the same
//! attempt. A later attempt has a higher epoch; within one attempt the winner with the better id has the higher epoch.
//! Ranks are by id and never by priority: members that disagree on priorities for a moment still never share an epoch.

use algorithms::{Ctx, Epoch, Ranks, Uid, View};
use serde::{Deserialize, Serialize};

use crate::settings::Settings;

/// Attempts are reserved on disk this many at a time, so that no election waits for the disk.
const RESERVE: u64 = 64;
/// Limits how far one message of a peer can raise the numbers: they would run out.
pub(crate) const MAX_LEAP: u64 = 1 << 20;
/// A smaller step is no leap: the numbers of an active cluster take such steps at any time.
pub(crate) const MAX_STEP: u64 = 1 << 10;

/// Numbers one election of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Attempt(pub u64);

impl Attempt {
    /// The attempt that a classic epoch belongs to.
    pub(crate) fn of(epoch: Epoch, view: &View) -> Self {
        Attempt(epoch.0 - epoch.0 % members(view))
    }

    /// The first attempt that is not below this number.
    pub(crate) fn from(number: u64, view: &View) -> Self {
        Attempt(number.next_multiple_of(members(view)))
    }

    /// Accepts a number that is no attempt, which only a faulty peer sends: every attempt of this member is one.
    pub(crate) fn next(self, view: &View) -> Self {
        Attempt(self.0 - self.0 % members(view) + members(view))
    }

    /// The epoch that this member claims if it wins the attempt.
    pub(crate) fn epoch(self, ctx: &Ctx<'_, Settings>, winner: Uid) -> Epoch {
        let id = |uid: Uid| Uid::plain(uid.id.0);
        let rank = ctx.view.members().iter().filter(|&&other| ctx.settings.wins().beats(id(winner), id(other))).count();
        Epoch(self.0 + rank as u64)
    }
}

fn members(view: &View) -> u64 {
    view.len() as u64
}

/// Which attempts this member has seen, and which numbers its disk has reserved.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Attempts {
    /// The first attempt of this incarnation: above every attempt that earlier incarnations may have seen.
    first: Attempt,
    max_seen: Attempt,
    /// Every number below is reserved on disk.
    reserved_until: u64,
    /// The disk was asked to reserve up to here. Every record that is written from now on contains this number.
    asked_until: u64,
    /// The numbers have leapt within the last lease.
    leapt: bool,
}

/// What a member must write when it sees an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reservation {
    Enough,
    /// Half of the reservation is used: write the next one in the background.
    Store,
    /// The next reservation must be on the disk before any message is sent.
    Persist,
}

impl Attempts {
    /// `reserved_until`: the number on the disk.
    pub fn start(reserved_until: u64, view: &View) -> Self {
        let first = Attempt::from(reserved_until, view);
        let until = first.0 + reserve(view);
        Attempts { first, max_seen: first, reserved_until: until, asked_until: until, leapt: false }
    }

    pub fn first(&self) -> Attempt {
        self.first
    }

    pub fn max_seen(&self) -> Attempt {
        self.max_seen
    }

    /// The reservation that a record of this member must contain.
    pub fn reserved(&self) -> u64 {
        self.asked_until
    }

    /// Every attempt that is seen or used is below the number reserved on disk, so a restart never reuses one.
    #[must_use]
    pub fn see(&mut self, attempt: Attempt, view: &View) -> Reservation {
        self.leapt |= self.max_seen > Attempt(0) && attempt.0 > self.max_seen.0 + MAX_STEP * members(view);
        self.max_seen = self.max_seen.max(attempt);
        let reserve = reserve(view);
        if self.max_seen.0 >= self.reserved_until {
            self.asked_until = self.asked_until.max(self.max_seen.0 + reserve);
            self.reserved_until = self.asked_until;
            Reservation::Persist
        } else if self.max_seen.0 + reserve / 2 >= self.asked_until {
            self.asked_until += reserve;
            Reservation::Store
        } else {
            Reservation::Enough
        }
    }

    /// A record with this reservation is on the disk.
    pub fn stored(&mut self, reserved_until: u64) {
        self.reserved_until = self.reserved_until.max(reserved_until);
    }

    /// Is this number of a peer to be believed? One message raises the numbers by a limited leap, and one leap is made in
    /// the time of a lease: a single member needs hours to use up all numbers. A member without a past has nothing to
    /// measure a leap from, and believes every number that can be an epoch.
    pub fn plausible(&self, number: u64, view: &View) -> bool {
        number <= Epoch::MAX.0
            && (self.max_seen == Attempt(0) || number <= self.max_seen.0.saturating_add(self.leap(view)))
    }

    /// One leap towards a number that is not plausible: this member was away while the others used many numbers.
    pub(crate) fn towards(&self, number: u64, view: &View) -> Option<Attempt> {
        let beyond = number <= Epoch::MAX.0 && !self.leapt && !self.plausible(number, view);
        beyond.then(|| Attempt::of(Epoch(self.max_seen.0.saturating_add(self.leap(view))), view))
    }

    fn leap(&self, view: &View) -> u64 {
        if self.leapt { MAX_STEP * members(view) } else { MAX_LEAP }
    }

    pub(crate) fn has_leapt(&self) -> bool {
        self.leapt
    }

    /// The time of a lease has passed since the last leap.
    pub(crate) fn may_leap(&mut self) {
        self.leapt = false;
    }
}

/// The next reservation is written when half of the present one is used.
fn reserve(view: &View) -> u64 {
    RESERVE * members(view)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(ids: &[u32]) -> View {
        View::mesh(ids.iter().map(|&id| Uid::plain(id)).collect())
    }

    #[test]
    fn no_two_members_share_an_epoch_and_the_better_id_has_the_later_of_an_attempt() {
        let (view, settings) = (view(&[3, 1, 2]), Settings::default());
        let ctx = Ctx { me: Uid::plain(1), view: &view, settings: &settings, dice: 0 };
        let epochs = [1, 2, 3].map(|id| Attempt(6).epoch(&ctx, Uid::plain(id)));
        assert_eq!(epochs, [6, 7, 8].map(Epoch));
        assert!(epochs.iter().all(|&epoch| Attempt::of(epoch, &view) == Attempt(6)));
        assert_eq!(Attempt(6).next(&view), Attempt(9));
        assert_eq!([6, 7, 8].map(|number| Attempt::from(number, &view)), [6, 9, 9].map(Attempt));
    }

    #[test]
    fn ranks_are_by_id_whatever_the_priorities_say() {
        let uid = |priority, id| Uid { priority, id: algorithms::NodeId(id) };
        let settings = Settings::default();
        // Two members that know different priorities of the same cluster.
        let views = [vec![uid(9, 1), uid(0, 2)], vec![uid(0, 1), uid(9, 2)]].map(View::mesh);
        let epoch =
            |view: &View, winner| Attempt(4).epoch(&Ctx { me: winner, view, settings: &settings, dice: 0 }, winner);
        assert_eq!(epoch(&views[0], uid(9, 1)), Epoch(4));
        assert_eq!(epoch(&views[1], uid(9, 2)), Epoch(5));
    }

    #[test]
    fn reservations_are_asked_for_in_time_and_never_go_back() {
        let view = view(&[1, 2]);
        let mut attempts = Attempts::start(0, &view);
        assert_eq!(attempts.reserved(), 128);
        assert_eq!(attempts.see(Attempt(62), &view), Reservation::Enough);
        assert_eq!(attempts.see(Attempt(64), &view), Reservation::Store);
        // Every other record contains it too before this record is on the disk.
        assert_eq!(attempts.reserved(), 256);
        assert_eq!(attempts.see(Attempt(66), &view), Reservation::Enough);
        assert_eq!(attempts.see(Attempt(130), &view), Reservation::Persist);
        assert_eq!(attempts.reserved(), 258);
        attempts.stored(256);
        assert_eq!(attempts.see(Attempt(132), &view), Reservation::Enough);
        assert_eq!(Attempts::start(258, &view).first(), Attempt(258));
    }

    #[test]
    fn numbers_from_far_away_and_beyond_the_last_epoch_are_not_believed() {
        let view = view(&[1, 2]);
        let attempts = Attempts::start(10, &view);
        assert!(attempts.plausible(MAX_LEAP + 10, &view));
        assert!(!attempts.plausible(MAX_LEAP + 11, &view));
        let old = Attempts::start(Epoch::MAX.0 - 4, &view);
        assert!(old.plausible(Epoch::MAX.0, &view) && !old.plausible(Epoch::MAX.0 + 1, &view));
    }

    #[test]
    fn a_member_without_a_past_believes_any_number_that_can_be_an_epoch() {
        let view = view(&[1, 2]);
        let mut new = Attempts::start(0, &view);
        assert!(new.plausible(Epoch::MAX.0, &view) && !new.plausible(Epoch::MAX.0 + 1, &view));
        let _ = new.see(Attempt(1 << 30), &view);
        assert!(!new.has_leapt() && !new.plausible((1 << 30) + MAX_LEAP + 1, &view));
    }

    #[test]
    fn one_leap_is_made_in_the_time_of_a_lease_and_leads_on_towards_a_far_number() {
        let view = view(&[1, 2]);
        let (mut attempts, far) = (Attempts::start(10, &view), 5 * MAX_LEAP);
        let _ = attempts.see(Attempt(10 + MAX_STEP), &view);
        assert!(!attempts.has_leapt(), "a step");
        let mut leaps = 0;
        while !attempts.plausible(far, &view) {
            let next = attempts.towards(far, &view).expect("a leap");
            assert!(attempts.plausible(next.0, &view));
            let _ = attempts.see(next, &view);
            leaps += 1;
            assert!(attempts.has_leapt() && attempts.towards(far, &view).is_none(), "one at a time");
            assert!(!attempts.plausible(attempts.max_seen().0 + MAX_LEAP, &view));
            attempts.may_leap();
        }
        assert_eq!(leaps, 4);
    }
}
