//! Reservations: the shipped machine from a lock on that is reserved for the session that released it, and each broken rule.

use locks::central::Central;
use locks::wire::RequestId;
use model::locks::Action::{Asks, Crashes, Moves, Releases, StepsDown};
use model::locks::Script::{self, Do, Ears, Heard, Settle};
use model::locks::properties::{EXCLUSION, NOTED};
use model::locks::{Budget, LockModel, Shows};

use crate::bugs::Bug;
use crate::cases::{Case, held, leads, with};
use crate::{NOTHING, bounded, complete};

/// The first client has released the lock, and all members have noted that it is reserved for it.
fn reserved() -> Vec<Script> {
    [held(), vec![Do(Releases(0, RequestId(1))), Settle]].concat()
}

/// The same, but no voter has heard of it.
fn noting() -> Vec<Script> {
    [held(), vec![Do(Releases(0, RequestId(1))), Heard, Ears(0)]].concat()
}

/// Then the first client has asked for the lock again, and knows that it holds it. The clerk has asked no voter.
fn again() -> Vec<Script> {
    [reserved(), vec![Do(Asks(0)), Heard, Ears(0)]].concat()
}

/// The first clerk crashes, and the second member leads.
fn second_clerk() -> Vec<Script> {
    [vec![Do(Crashes(0))], leads(1, 2)].concat()
}

fn model(budget: Budget, script: &[Script]) -> LockModel<Central> {
    let mut model = LockModel::served(budget).after(script);
    model.shows = Shows::Reservations;
    model
}

#[test]
fn a_reserved_lock_goes_to_the_first_that_asks() {
    complete("a reserved lock, both ask", &model(Budget { requests: [1, 1], ..NOTHING }, &reserved()));
    let released = Budget { requests: [1, 1], releases: 1, ..NOTHING };
    complete("a reserved lock, both ask, a release", &model(released, &reserved()));
    complete("a reservation that is being noted", &model(released, &noting()));
    let withdrawn = Budget { requests: [1, 1], withdrawals: 1, ..NOTHING };
    complete("a reserved lock, a withdrawal", &model(withdrawn, &reserved()));
    let moves = Budget { requests: [1, 0], moves: [1, 0], ..NOTHING };
    complete("a reserved lock, the session moves", &model(moves, &reserved()));
}

/// The leader gives its leadership up when the lock is reserved, or when the reservation is on its way to the voters.
#[test]
fn a_reservation_outlives_its_clerk() {
    let second = Budget { requests: [1, 0], moves: [1, 0], bids: [0, 1, 0, 0], ..NOTHING };
    let stepped = |script: Vec<Script>| [script, vec![Do(StepsDown(0))]].concat();
    complete("a reserved lock, a second reign", &model(second, &stepped(reserved())));
    bounded("a reservation that is being noted, a second reign", &model(second, &stepped(noting())), 50_000);
    let both = Budget { requests: [1, 1], moves: [1, 1], bids: [0, 1, 1, 0], crashes: 1, ..NOTHING };
    bounded("a reserved lock, two reigns and a crash", &model(both, &stepped(reserved())), 30_000);
    bounded("a reservation that is being noted, two reigns and a crash", &model(both, &stepped(noting())), 30_000);
}

/// The first client asks, and its grant is on its way when the leader gives its leadership up.
#[test]
fn a_reserved_lock_that_is_granted_outlives_its_clerk() {
    let granted = [reserved(), vec![Do(Asks(0)), Heard, Do(StepsDown(0))]].concat();
    let first = Budget { moves: [1, 0], bids: [0, 1, 0, 0], ..NOTHING };
    complete("a reserved lock is granted, a second reign", &model(first, &granted));
    let both = Budget { requests: [0, 1], releases: 1, moves: [1, 1], bids: [0, 1, 1, 0], crashes: 1, ..NOTHING };
    bounded("a reserved lock is granted, two reigns and a crash", &model(both, &granted), 50_000);
}

/// The second client asks, which ends the reservation, and the leader gives its leadership up.
#[test]
fn the_end_of_a_reservation_outlives_its_clerk() {
    let ended = [reserved(), vec![Do(Asks(1)), Heard, Do(StepsDown(0))]].concat();
    let first = Budget { requests: [1, 0], moves: [1, 0], bids: [0, 1, 0, 0], ..NOTHING };
    bounded("another session asks, a second reign", &model(first, &ended), 50_000);
    let both = Budget { requests: [1, 0], moves: [1, 1], bids: [0, 1, 1, 0], crashes: 1, ..NOTHING };
    bounded("another session asks, two reigns and a crash", &model(both, &ended), 50_000);
}

#[test]
fn a_reserved_lock_is_granted_when_a_majority_has_noted_it() {
    let granted = [noting(), vec![Do(Asks(0)), Heard, Ears(0)]].concat();
    Case::new("reserved, granted before the majority", with(Bug::GrantsAtOnce), granted).breaks(NOTED);
}

#[test]
fn the_end_of_a_reservation_is_noted_with_what_ends_it() {
    let taken = vec![Do(Asks(1)), Settle];
    let script = [reserved(), taken, second_clerk(), vec![Do(Moves(0, 1)), Do(Asks(0))]].concat();
    Case::new("a reservation that stays", with(Bug::ReservationStays), script).breaks(EXCLUSION);
}

#[test]
fn a_later_clerk_takes_reservations_over() {
    let script = [again(), second_clerk(), vec![Do(Moves(1, 1)), Do(Asks(1))]].concat();
    Case::new("reserved, not taken over", with(Bug::ReservedNotTakenOver), script).breaks(EXCLUSION);
}
