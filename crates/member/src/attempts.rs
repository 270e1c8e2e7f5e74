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
pub(crate) const MAX_LEAP: u64 = Epoch::MAX_LEAP;
pub(crate) const MAX_STEP: u64 = Epoch::MAX_STEP;

/// How far numbers of peers are believed: by one leap above the number at the beginning of the present lease, however many
/// messages raise them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Climb {
    base: u64,
}

impl Climb {
    pub(crate) fn from(number: u64) -> Self {
        Climb { base: number }
    }

    /// For a member that knew no number before this one.
    pub(crate) fn first(number: u64) -> Self {
        Climb { base: number - number % MAX_STEP }
    }

    /// The largest number that is believed.
    pub(crate) fn reach(self) -> u64 {
        self.base.saturating_add(MAX_LEAP).min(Epoch::MAX.0)
    }

    /// Has it climbed so far that a new lease must begin before it climbs on?
    pub(crate) fn has_leapt(self, number: u64) -> bool {
        number > self.base.saturating_add(MAX_STEP)
    }
}

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
    climb: Climb,
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
        let climb = Climb::from(first.0);
        Attempts { first, max_seen: first, reserved_until: until, asked_until: until, climb }
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
        if self.max_seen == Attempt(0) {
            self.climb = Climb::first(attempt.0);
        }
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

    /// Is this number of a peer to be believed? Numbers climb by one leap in the time of a lease: a single member needs hours
    /// to use up all of them. A member without a past has nothing to measure a leap from, and believes every number that
    /// can be an epoch.
    pub fn plausible(&self, number: u64) -> bool {
        number <= Epoch::MAX.0 && (self.max_seen == Attempt(0) || number <= self.climb.reach())
    }

    /// Half a leap towards a number that is not plausible: this member was away while the others used many numbers. The others
    /// believe it, though their leases began at other numbers.
    pub(crate) fn towards(&self, number: u64, view: &View) -> Option<Attempt> {
        let beyond = number <= Epoch::MAX.0 && !self.has_leapt() && !self.plausible(number);
        beyond.then(|| Attempt::of(Epoch(self.climb.reach() - MAX_LEAP / 2), view))
    }

    pub(crate) fn has_leapt(&self) -> bool {
        self.climb.has_leapt(self.max_seen.0)
    }

    /// The time of a lease has passed since the last leap.
    pub(crate) fn may_leap(&mut self) {
        self.climb = Climb::from(self.max_seen.0);
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
        assert!(attempts.plausible(MAX_LEAP + 10));
        assert!(!attempts.plausible(MAX_LEAP + 11));
        let old = Attempts::start(Epoch::MAX.0 - 4, &view);
        assert!(old.plausible(Epoch::MAX.0) && !old.plausible(Epoch::MAX.0 + 1));
    }

    #[test]
    fn a_member_without_a_past_believes_any_number_that_can_be_an_epoch() {
        let view = view(&[1, 2]);
        let mut new = Attempts::start(0, &view);
        assert!(new.plausible(Epoch::MAX.0) && !new.plausible(Epoch::MAX.0 + 1));
        let _ = new.see(Attempt(1 << 30), &view);
        assert!(!new.has_leapt() && !new.plausible((1 << 30) + MAX_LEAP + 1));
    }

    #[test]
    fn one_leap_is_made_in_the_time_of_a_lease_and_leads_on_towards_a_far_number() {
        let view = view(&[1, 2]);
        let (mut attempts, far) = (Attempts::start(10, &view), 5 * MAX_LEAP);
        let _ = attempts.see(Attempt(10 + MAX_STEP), &view);
        assert!(!attempts.has_leapt(), "a step");
        let mut leaps = 0;
        while !attempts.plausible(far) {
            let next = attempts.towards(far, &view).expect("a leap");
            assert!(attempts.plausible(next.0));
            let _ = attempts.see(next, &view);
            leaps += 1;
            assert!(attempts.has_leapt() && attempts.towards(far, &view).is_none(), "one at a time");
            assert!(!attempts.plausible(attempts.max_seen().0 + MAX_LEAP));
            attempts.may_leap();
        }
        assert_eq!(leaps, 8);
    }
}
