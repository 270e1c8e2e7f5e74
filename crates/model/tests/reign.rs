//! Every interleaving of a reign of three voters, and some of five; what is too large for that is bounded and then walked
//! at random.

use member::reign::Reign;
use model::check::{Limits, Report, examine};
use model::reign::{Budget, PreCheck, Realm};

const NOTHING: Budget = Budget::NOTHING;
const DUEL: Budget = Budget::DUEL;

/// One leads, another wants to.
const REVOLT: Budget = Budget { wants: [0, 1, 0], ..NOTHING };

/// All of it is looked at.
fn complete(label: &str, realm: &Realm<Reign>) {
    check(label, realm, Limits::new(8_000_000, 0)).is_complete();
}

/// It is too large for that.
fn bounded(label: &str, realm: &Realm<Reign>) {
    check(label, realm, Limits::new(700_000, 300_000));
}

fn check(label: &str, realm: &Realm<Reign>, limits: Limits) -> Report {
    let label = format!("reign, {label}");
    let report = examine(label, realm, limits);
    report.holds();
    report
}

fn with_refusals(mut realm: Realm<Reign>) -> Realm<Reign> {
    realm.refusals = true;
    realm
}

fn with_questions(mut realm: Realm<Reign>) -> Realm<Reign> {
    realm.pre_check = PreCheck::Asked;
    realm
}

#[test]
fn two_candidates_never_lead_at_once() {
    complete("two candidates", &Realm::free(3, DUEL));
    complete("two candidates, one of them twice", &Realm::free(2, Budget { wants: [2, 1, 0], ..NOTHING }));
    complete("two candidates, a retry", &with_refusals(Realm::free(2, Budget { retries: 1, ..DUEL })));
    complete("two candidates, a duplicate", &Realm::free(2, Budget { duplicates: 1, ..DUEL }));
    bounded("two candidates that ask first", &with_questions(Realm::free(2, Budget { retries: 1, ..DUEL })));
}

#[test]
fn a_lease_is_extended_while_another_wants_to_lead() {
    complete("two candidates, a renewal", &Realm::free(2, Budget { renewals: 1, ..DUEL }));
    complete("a revolt, two renewals", &with_refusals(Realm::ruled(3, Budget { renewals: 2, ..REVOLT })));
}

#[test]
fn a_crash_between_any_two_effects_breaks_no_promise() {
    complete("two candidates, a crash", &Realm::free(2, Budget { crashes: 1, restarts: 1, ..DUEL }));
    complete(
        "a revolt, a renewal and a crash",
        &Realm::ruled(3, Budget { renewals: 1, crashes: 1, restarts: 1, ..REVOLT }),
    );
}

#[test]
fn a_voter_that_lost_its_disk_learns_before_it_grants() {
    complete("two candidates, a lost disk", &Realm::free(1, Budget { crashes: 1, wipes: 1, ..DUEL }));
    complete(
        "a revolt, a renewal and a lost disk",
        &Realm::ruled(3, Budget { renewals: 1, crashes: 1, wipes: 1, ..REVOLT }),
    );
    complete(
        "a candidate that loses its disk",
        &Realm::free(1, Budget { wants: [2, 0, 0], crashes: 1, wipes: 1, ..NOTHING }),
    );
}

#[test]
fn a_new_cluster_elects_its_first_leader() {
    complete("all disks empty", &Realm::cold(2, Budget { wants: [1, 0, 0], ..NOTHING }));
    complete("all disks empty, two candidates", &Realm::cold(1, DUEL));
}

#[test]
fn a_leader_hands_over_or_steps_down_without_an_overlap() {
    complete("a transfer during a revolt", &Realm::ruled(2, Budget { transfers: 1, ..REVOLT }));
    complete("a transfer and a crash", &Realm::ruled(2, Budget { transfers: 1, crashes: 1, restarts: 1, ..NOTHING }));
    complete("a claim during a revolt", &Realm::ruled(2, Budget { claims: 1, ..REVOLT }));
    complete("stepping down during a revolt", &Realm::ruled(2, Budget { step_downs: 1, renewals: 1, ..REVOLT }));
    bounded(
        "a transfer, a retry and a renewal",
        &Realm::ruled(2, Budget { transfers: 1, retries: 1, renewals: 1, ..REVOLT }),
    );
}

/// What `on_close = "immediate"` rests on: a leader counts a voter out before that voter can see it close.
#[test]
fn a_closed_connection_frees_only_whom_nobody_acts_for() {
    let crash = Budget { crashes: 1, ..REVOLT };
    complete("closing frees, a crash", &Realm::ruled(3, crash).freed_by_closing());
    complete(
        "closing frees, a crash and a restart",
        &Realm::ruled(3, Budget { restarts: 1, ..crash }).freed_by_closing(),
    );
    let closes = Budget { closes: 1, ..crash };
    complete("closing frees, one that lives", &Realm::ruled(3, Budget { crashes: 0, ..closes }).freed_by_closing());
    complete("closing frees, a crash and one that lives", &Realm::ruled(3, closes).freed_by_closing());
    complete("closing frees, two that live", &Realm::ruled(3, Budget { closes: 2, ..REVOLT }).freed_by_closing());
    let renewal = Budget { closes: 1, renewals: 1, ..REVOLT };
    complete("closing frees, one that lives, a renewal", &Realm::ruled(2, renewal).freed_by_closing());
    let child = Budget { children: 1, ..REVOLT };
    complete("closing frees, a child", &Realm::ruled(3, Budget { crashes: 1, ..child }).freed_by_closing());
    complete("closing frees, a child that lives", &Realm::ruled(1, Budget { closes: 2, ..child }).freed_by_closing());
    complete(
        "closing frees, a child steps down",
        &Realm::ruled(2, Budget { step_downs: 1, ..child }).freed_by_closing(),
    );
    let bids = Budget { children: 1, crashes: 1, ..DUEL };
    bounded("closing frees, a child before it leads", &Realm::free(1, bids).freed_by_closing());
    let all = Budget { closes: 2, renewals: 2, restarts: 1, children: 1, wants: [1, 1, 1], step_downs: 1, ..crash };
    bounded("closing frees, everything", &Realm::ruled(3, all).freed_by_closing());
}

#[test]
fn five_voters_are_no_different() {
    let crash = Budget { crashes: 1, renewals: 1, ..REVOLT };
    bounded("five voters", &Realm::of(5, 2, Budget { restarts: 1, ..crash }).led());
    bounded("five voters, closing frees", &Realm::of(5, 2, Budget { closes: 1, ..crash }).led().freed_by_closing());
}

#[test]
fn clocks_may_drift_as_far_as_the_lease_allows_for() {
    complete("two candidates, a clock misses a tick", &Realm::free(2, Budget { stalls: 1, ..DUEL }));
}

#[test]
fn everything_at_once() {
    let all = Budget {
        wants: [2, 2, 1],
        transfers: 1,
        claims: 1,
        step_downs: 1,
        renewals: 3,
        retries: 2,
        crashes: 2,
        restarts: 1,
        wipes: 1,
        duplicates: 2,
        stalls: 0,
        ..NOTHING
    };
    bounded("everything", &with_refusals(Realm::free(3, all)));
    bounded("everything, asking first", &with_questions(with_refusals(Realm::ruled(3, all))));
}
