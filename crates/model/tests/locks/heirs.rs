//! Heirs: the shipped machine from a lock with a holder and an heir on, and each broken rule of heirs.

use locks::central::{Central, CentralTimer};
use locks::wire::{RequestId, SessionId};
use model::locks::Action::{
    Asks, Confirms, Crashes, Fires, KeepsAlive, Moves, Releases, Renews, Restarts, StepsDown, Tick, Withdraws,
};
use model::locks::Script::{self, Do, Ears, Heard, Settle};
use model::locks::properties::{EXCLUSION, NOT_REVIVED, NOTED, TOKENS};
use model::locks::{Budget, LockModel, Shows};

use crate::bugs::Bug;
use crate::cases::{Case, held, leads, with};
use crate::{NOTHING, bounded, complete, second_reign};

/// The first client holds the lock and the second one is the heir; all members have noted both.
fn heir() -> Vec<Script> {
    [held(), vec![Do(Asks(1)), Settle]].concat()
}

/// Then the first client has let go and the second one knows that it holds the lock. No voter knows of it.
fn passed() -> Vec<Script> {
    [heir(), vec![Do(Releases(0, RequestId(1))), Heard, Ears(1)]].concat()
}

/// The first clerk crashes, and the second member leads.
fn second_clerk() -> Vec<Script> {
    [vec![Do(Crashes(0))], leads(1, 2)].concat()
}

/// The first client asks this member for the lock, once more.
fn first_asks(node: usize) -> Vec<Script> {
    vec![Do(Moves(0, node)), Do(Asks(0))]
}

fn model(budget: Budget, script: &[Script]) -> LockModel<Central> {
    let mut model = LockModel::served(budget).after(script);
    model.shows = Shows::Heirs;
    model
}

#[test]
fn a_lock_passes_to_its_heir() {
    complete("heirs, a release", &model(Budget { releases: 1, ..NOTHING }, &heir()));
    complete("heirs, a release and a withdrawal", &model(Budget { releases: 1, withdrawals: 1, ..NOTHING }, &heir()));
    let noting = [held(), vec![Do(Asks(1)), Heard]].concat();
    complete(
        "an heir that is being noted, two releases",
        &model(Budget { releases: 2, requests: [1, 0], ..NOTHING }, &noting),
    );
}

/// The lock is on its way to the heir when the leader gives its leadership up.
#[test]
fn a_lock_that_passes_outlives_its_clerk() {
    let second = Budget { bids: [0, 1, 0, 0], ..NOTHING };
    let passes = [heir(), vec![Do(Releases(0, RequestId(1))), Heard, Do(StepsDown(0))]].concat();
    let heirs = Budget { moves: [0, 1], ..second };
    complete("an heir is granted the lock, a second reign, the heir attaches", &model(heirs, &passes));
    let both = Budget { moves: [1, 1], requests: [1, 0], bids: [0, 1, 1, 0], crashes: 1, ..NOTHING };
    bounded("an heir is granted the lock, two reigns and a crash", &model(both, &passes), 100_000);
}

#[test]
fn an_heir_outlives_its_clerk() {
    let second = Budget { releases: 1, bids: [0, 1, 0, 0], ..NOTHING };
    let waits = [heir(), vec![Do(StepsDown(0))]].concat();
    let holder = Budget { moves: [1, 0], ..second };
    complete("a holder and an heir, a second reign, the holder attaches", &model(holder, &waits));
    let both = Budget { moves: [1, 1], releases: 1, withdrawals: 1, bids: [0, 0, 1, 0], crashes: 1, ..NOTHING };
    bounded("a holder and an heir, a third reign and a crash", &model(both, &second_reign()), 100_000);
}

/// Its client does not know that the holder has expired, and may find the second clerk before the heir does.
#[test]
fn an_heir_outlives_the_clerk_at_which_the_holder_expired() {
    let silent = vec![Do(Tick), Do(Renews), Do(KeepsAlive(1)), Settle, Do(Tick), Do(Renews)];
    let expired = vec![Do(Fires(0, CentralTimer::Session(SessionId(1)))), Do(KeepsAlive(1)), Heard];
    let script = [heir(), silent, expired, second_clerk()].concat();
    let first = Budget { moves: [1, 0], ..NOTHING };
    complete("an expired holder, a second reign, the holder attaches", &LockModel::served(first).after(&script));
    let both = Budget { moves: [1, 1], ..NOTHING };
    complete("an expired holder, a second reign", &LockModel::served(both).after(&script));
}

#[test]
fn an_heir_is_granted_the_lock_when_a_majority_has_noted_it() {
    let granted = [held(), vec![Do(Asks(1)), Heard, Do(Releases(0, RequestId(1))), Heard, Ears(1)]].concat();
    Case::new("an heir granted before the majority", with(Bug::HeirAtOnce), granted.clone()).breaks(NOTED);
    let script = [granted, second_clerk(), first_asks(1)].concat();
    Case::new("an heir granted before the majority", with(Bug::HeirAtOnce), script).breaks(EXCLUSION);
}

/// The first client is silent for a time to live, does not know that its session has expired, and finds the second clerk.
#[test]
fn the_end_of_a_holder_that_expired_is_noted_before_its_heir_is_granted_the_lock() {
    let expires = vec![Do(Tick), Do(Renews), Do(KeepsAlive(1)), Settle, Do(Tick), Do(Renews)];
    let granted = vec![Do(Fires(0, CentralTimer::Session(SessionId(1)))), Do(KeepsAlive(1)), Heard, Ears(1)];
    let script = [heir(), expires, granted, second_clerk(), vec![Do(Moves(0, 1))]].concat();
    Case::new("an heir granted before the end of an expired holder", with(Bug::ExpiredIsGone), script)
        .breaks(EXCLUSION);
}

#[test]
fn a_table_is_installed_with_its_heirs() {
    let restarted = vec![Do(Crashes(2)), Do(Restarts(2)), Settle, Do(Confirms(2)), Settle];
    let passes = vec![Do(Releases(0, RequestId(1))), Heard, Ears(1), Do(Crashes(0))];
    let script = [heir(), restarted, passes, leads(2, 1), first_asks(2)].concat();
    Case::new("an heir that is not installed", with(Bug::HeirNotInstalled), script).breaks(EXCLUSION);
}

#[test]
fn a_clerk_takes_heirs_over() {
    let script = [passed(), second_clerk(), first_asks(1)].concat();
    Case::new("an heir that is not taken over", with(Bug::HeirNotTakenOver), script).breaks(EXCLUSION);
}

#[test]
fn an_heir_waits_for_the_holder_at_a_later_clerk() {
    let script = [heir(), second_clerk(), vec![Do(Moves(1, 1))]].concat();
    Case::new("an heir taken for the holder", with(Bug::HeirBeforeHolder), script).breaks(EXCLUSION);
}

#[test]
fn a_withdrawn_heir_is_over() {
    let script = [heir(), vec![Do(Withdraws(1, RequestId(1)))]].concat();
    Case::new("a withdrawn heir stays", with(Bug::WithdrawnHeir), script).breaks(NOT_REVIVED);
}

#[test]
fn a_holder_and_an_heir_are_freed_each_by_its_own_client() {
    let withdrawn = vec![Do(Withdraws(1, RequestId(1))), Do(Moves(1, 1)), Do(Asks(1))];
    let script = [heir(), second_clerk(), withdrawn].concat();
    Case::new("a holder freed with its heir", with(Bug::FreesBoth), script).breaks(EXCLUSION);
    let script = [passed(), second_clerk(), first_asks(1)].concat();
    Case::new("an heir freed with the holder", with(Bug::FreesBoth), script).breaks(EXCLUSION);
}

#[test]
fn every_heir_has_a_larger_token_of_its_own() {
    let script = [heir(), vec![Do(Releases(0, RequestId(1)))]].concat();
    Case::new("an heir with the token of the holder", with(Bug::HolderToken), script).breaks(TOKENS);
    let again = vec![Do(Withdraws(1, RequestId(1))), Settle, Do(Asks(1)), Settle, Do(Releases(0, RequestId(1)))];
    let script = [heir(), again].concat();
    Case::new("an heir with the token of another", with(Bug::TokenAgain), script).breaks(NOTED);
}

#[test]
fn the_end_of_an_heir_is_not_that_of_the_holder() {
    let expires = vec![Do(Tick), Do(Renews), Do(KeepsAlive(0)), Settle, Do(Tick), Do(Renews), Do(KeepsAlive(0))];
    let script = [heir(), expires].concat();
    let case = Case::new("a holder that ends with its heir", with(Bug::HeirExpiryFreesHolder), script);
    case.breaks(NOTED);
}

#[test]
fn an_heir_that_was_granted_the_lock_keeps_it() {
    let script = [passed(), second_clerk(), vec![Do(Moves(1, 1))], first_asks(1)].concat();
    Case::new("a granted heir is freed", with(Bug::GrantedHeirFreed), script).breaks(EXCLUSION);
}
