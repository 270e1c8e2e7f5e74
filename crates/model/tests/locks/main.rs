//! Every interleaving of a lock service of three voters and two sessions; what is too large for that is bounded and then
//! walked at random. `bugs` and `cases` check the checker.

mod bugs;
mod cases;
mod heirs;
mod reserved;

use locks::LockName;
use locks::central::Central;
use locks::wire::Mode;
use model::check::{Limits, Report, examine};
use model::locks::Action::{Asks, Bids, Grants, Moves, StepsDown, Wins};
use model::locks::Script::{self, Do, Heard, Settle};
use model::locks::{Budget, LockModel, Setup};

const NOTHING: Budget = Budget::NOTHING;

/// Both clients ask for one lock, and it is released once.
const RIVALS: Budget = Budget { requests: [1, 1], releases: 1, ..NOTHING };

/// All of it is looked at.
fn complete(label: &str, model: &LockModel<Central>) {
    check(label, model, Limits::new(2_000_000, 0)).is_complete();
}

/// It is too large for that: so many states, and random walks behind them.
fn bounded(label: &str, model: &LockModel<Central>, states: usize) {
    check(label, model, Limits::new(states, states / 4));
}

fn check(label: &str, model: &LockModel<Central>, limits: Limits) -> Report {
    let report = examine(format!("locks, {label}"), model, limits);
    report.holds();
    report
}

#[test]
fn two_sessions_share_a_lock_under_one_clerk() {
    complete("two requests, a release", &LockModel::served(RIVALS));
    complete("a withdrawal", &LockModel::served(Budget { requests: [1, 1], withdrawals: 1, ..NOTHING }));
    complete("a session moves", &LockModel::served(Budget { requests: [1, 1], moves: [1, 0], ..NOTHING }));
    complete(
        "a session moves and withdraws",
        &LockModel::served(Budget { requests: [1, 0], moves: [1, 0], withdrawals: 1, ..NOTHING }),
    );
}

#[test]
fn sessions_expire_and_are_kept_alive() {
    let budget = Budget { requests: [1, 1], keep_alives: 1, renewals: 1, ..NOTHING };
    bounded("a session is kept alive", &LockModel::served(budget), 30_000);
}

#[test]
fn broken_connections_lose_nothing() {
    complete("a broken connection", &LockModel::served(Budget { requests: [1, 0], breaks: 1, ..NOTHING }));
    let budget = Budget { requests: [1, 0], breaks: 2, ..NOTHING };
    bounded("two broken connections", &LockModel::served(budget), 50_000);
}

/// The note of a lock is on its way when the leader gives its leadership up.
#[test]
fn a_lock_outlives_its_clerk() {
    let noted = [Do(Asks(0)), Heard, Do(StepsDown(0))];
    let budget = Budget { moves: [1, 0], bids: [0, 1, 0, 0], ..NOTHING };
    complete("a second reign", &LockModel::served(budget).after(&noted));
    let waits = [Do(Asks(0)), Settle, Do(Asks(1)), Settle, Do(StepsDown(0))];
    let again = Budget { requests: [1, 0], releases: 1, bids: [1, 0, 0, 0], ..NOTHING };
    bounded("a second reign of the same member", &LockModel::served(again).after(&waits), 50_000);
}

/// Voters that get their notes later have older copies than the others when the clerk's reign ends.
#[test]
fn a_lock_outlives_its_clerk_where_a_majority_gets_notes_first() {
    complete("a spread, two requests, a release", &LockModel::served(RIVALS).spread());
    let noted = [Do(Asks(0)), Heard, Do(StepsDown(0))];
    let budget = Budget { moves: [1, 0], bids: [0, 1, 1, 0], ..NOTHING };
    bounded("a spread, a second reign", &LockModel::served(budget).spread().after(&noted), 30_000);
    let budget = Budget { requests: [1, 1], releases: 1, moves: [1, 1], bids: [0, 1, 1, 0], crashes: 1, ..NOTHING };
    bounded("a spread, a crash and two reigns", &LockModel::served(budget).spread(), 100_000);
}

/// The first client holds the lock under the second clerk, and the second client waits for it.
fn second_reign() -> Vec<Script> {
    let leads = [Do(Bids(1)), Do(Grants { voter: 2, won: false }), Do(Wins), Settle];
    let first = [Do(Asks(0)), Settle, Do(Asks(1)), Settle, Do(StepsDown(0))];
    let moves = [Do(Moves(0, 1)), Do(Moves(1, 1)), Settle];
    first.into_iter().chain(leads).chain(moves).collect()
}

#[test]
fn a_crash_of_a_voter_loses_no_lock() {
    let crash = Budget { releases: 1, crashes: 1, restarts: 1, ..NOTHING };
    complete("a crash and a restart", &LockModel::served(crash).after(&second_reign()));
}

#[test]
fn three_reigns_and_everything() {
    let all = Budget {
        requests: [1, 1],
        releases: 2,
        withdrawals: 1,
        keep_alives: 2,
        moves: [1, 1],
        bids: [1, 1, 1, 0],
        renewals: 1,
        step_downs: 1,
        crashes: 1,
        restarts: 1,
        breaks: 1,
        changes: 0,
    };
    bounded("everything", &LockModel::served(all).after(&second_reign()), 50_000);
    let mut long = LockModel::served(all).after(&second_reign());
    long.long_turns = true;
    bounded("everything, turns of any length", &long, 30_000);
    let mut shared = LockModel::cold(Setup::default(), all);
    let lock = |name: &str| LockName::new(name).expect("a name");
    shared.requests = [
        vec![(lock("a"), Mode::Shared), (lock("b"), Mode::Exclusive)],
        vec![(lock("a"), Mode::Exclusive), (lock("b"), Mode::Exclusive)],
    ];
    bounded("everything, two locks and a reader", &shared.serving().after(&second_reign()), 30_000);
}
