//! Every interleaving of a reign of three voters, and some of five; what is too large for that is bounded and then walked
//! at random.

use model::check::{Limits, Report, examine};
use model::reign::{Budget, Probes, QuorumModel};

use crate::planted::kinds::Voter;

const NOTHING: Budget = Budget::NOTHING;
const DUEL: Budget = Budget::DUEL;

/// The first member leads, another wants to.
const RIVAL: Budget = Budget { wants: [0, 1, 0, 0, 0], ..NOTHING };

/// All of it is looked at.
fn complete(label: &str, model: &QuorumModel<Voter>) {
    check(label, model, Limits::new(12_000_000, 0)).is_complete();
}

/// All of it is looked at where `CONCLAVE_MODEL_FACTOR` is 40 or more, as in `scripts/soak`: it has hundreds of thousands of
/// states or more.
fn large(label: &str, model: &QuorumModel<Voter>) {
    check(label, model, Limits::new(300_000, 30_000));
}

/// It is too large for that.
fn bounded(label: &str, model: &QuorumModel<Voter>) {
    check(label, model, Limits::new(150_000, 50_000));
}

fn check(label: &str, model: &QuorumModel<Voter>, limits: Limits) -> Report {
    let label = format!("reign, {label}");
    let report = examine(label, model, limits);
    report.holds();
    report
}

fn with_refusals(mut model: QuorumModel<Voter>) -> QuorumModel<Voter> {
    model.refusals = true;
    model
}

fn with_probes(mut model: QuorumModel<Voter>) -> QuorumModel<Voter> {
    model.probes = Probes::Asked;
    model
}

#[test]
fn two_candidates_never_lead_at_once() {
    complete("two candidates", &QuorumModel::free(3, DUEL));
    large("two candidates, one of them twice", &QuorumModel::free(1, Budget { wants: [2, 1, 0, 0, 0], ..NOTHING }));
    large("two candidates, a retry", &with_refusals(QuorumModel::free(2, Budget { retries: 1, ..DUEL })));
    complete("two candidates, a duplicate", &QuorumModel::free(2, Budget { duplicates: 1, ..DUEL }));
    bounded("two candidates that ask first", &with_probes(QuorumModel::free(2, Budget { retries: 1, ..DUEL })));
}

#[test]
fn a_lease_is_extended_while_another_wants_to_lead() {
    large("two candidates, a renewal", &QuorumModel::free(2, Budget { renewals: 1, ..DUEL }));
    large("a rival, two renewals", &with_refusals(QuorumModel::led(3, Budget { renewals: 2, ..RIVAL })));
}

#[test]
fn a_crash_between_any_two_effects_breaks_no_promise() {
    complete("two candidates, a crash", &QuorumModel::free(2, Budget { crashes: 1, restarts: 1, ..DUEL }));
    complete(
        "a rival, a renewal and a crash",
        &QuorumModel::led(3, Budget { renewals: 1, crashes: 1, restarts: 1, ..RIVAL }),
    );
}

#[test]
fn a_voter_that_lost_its_disk_learns_before_it_grants() {
    large("two candidates, a lost disk", &QuorumModel::free(1, Budget { crashes: 1, wipes: 1, ..DUEL }));
    large(
        "a rival, a renewal and a lost disk",
        &QuorumModel::led(3, Budget { renewals: 1, crashes: 1, wipes: 1, ..RIVAL }),
    );
    large(
        "a candidate that loses its disk",
        &QuorumModel::free(1, Budget { wants: [2, 0, 0, 0, 0], crashes: 1, wipes: 1, ..NOTHING }),
    );
}

#[test]
fn a_new_cluster_elects_its_first_leader() {
    complete("all disks empty", &QuorumModel::cold(2, Budget { wants: [1, 0, 0, 0, 0], ..NOTHING }));
    complete("all disks empty, two candidates", &QuorumModel::cold(1, DUEL));
}

#[test]
fn a_leader_hands_over_or_steps_down_without_an_overlap() {
    complete("a transfer while a rival wants to lead", &QuorumModel::led(2, Budget { transfers: 1, ..RIVAL }));
    complete(
        "a transfer and a crash",
        &QuorumModel::led(2, Budget { transfers: 1, crashes: 1, restarts: 1, ..NOTHING }),
    );
    complete("a claim while a rival wants to lead", &QuorumModel::led(2, Budget { claims: 1, ..RIVAL }));
    complete(
        "stepping down while a rival wants to lead",
        &QuorumModel::led(2, Budget { step_downs: 1, renewals: 1, ..RIVAL }),
    );
    bounded(
        "a transfer, a retry and a renewal",
        &QuorumModel::led(2, Budget { transfers: 1, retries: 1, renewals: 1, ..RIVAL }),
    );
}

#[test]
fn the_voters_agree_on_one_id_of_the_cluster() {
    complete("an id, one leader", &QuorumModel::led(2, Budget { renewals: 1, ..NOTHING }).named());
    bounded("an id, two leaders", &QuorumModel::led(1, Budget { renewals: 2, ..RIVAL }).named());
    complete(
        "an id that one member knows, another leader",
        &QuorumModel::led(1, Budget { wants: [0, 0, 1, 0, 0], renewals: 1, ..NOTHING }).named_by_the_first(),
    );
    let lost = Budget { renewals: 2, crashes: 1, wipes: 1, ..RIVAL };
    bounded("an id, two leaders, a lost disk", &QuorumModel::led(1, lost).named());
}

/// What `on_close = "immediate"` rests on: a leader counts a voter out before that voter can see it close.
#[test]
fn a_closed_connection_frees_a_voter_unless_a_child_acts_for_the_leader() {
    let crash = Budget { crashes: 1, ..RIVAL };
    complete(
        "closing frees, a crash and a restart",
        &QuorumModel::led(3, Budget { restarts: 1, ..crash }).freed_by_closing(),
    );
    let closes = Budget { closes: 1, ..crash };
    complete("closing frees, a crash and one that lives", &QuorumModel::led(3, closes).freed_by_closing());
    complete("closing frees, two that live", &QuorumModel::led(3, Budget { closes: 2, ..RIVAL }).freed_by_closing());
    let renewal = Budget { closes: 1, renewals: 1, ..RIVAL };
    complete("closing frees, one that lives, a renewal", &QuorumModel::led(2, renewal).freed_by_closing());
    let child = Budget { children: 1, ..RIVAL };
    complete("closing frees, a child", &QuorumModel::led(3, Budget { crashes: 1, ..child }).freed_by_closing());
    large("closing frees, a child that lives", &QuorumModel::led(1, Budget { closes: 2, ..child }).freed_by_closing());
    complete(
        "closing frees, a child steps down",
        &QuorumModel::led(2, Budget { step_downs: 1, ..child }).freed_by_closing(),
    );
    let bids = Budget { children: 1, crashes: 1, ..DUEL };
    // Bounded as well, but what it must show is far from its beginning.
    let far = Limits::new(700_000, 50_000);
    check("closing frees, a child before it leads", &QuorumModel::free(1, bids).freed_by_closing(), far);
    let all =
        Budget { closes: 2, renewals: 2, restarts: 1, children: 1, wants: [1, 1, 1, 0, 0], step_downs: 1, ..crash };
    bounded("closing frees, everything", &QuorumModel::led(3, all).freed_by_closing());
}

/// The barrier: a member goes on while its write is in flight, its effects wait; a crash keeps the record or loses it.
#[test]
fn a_slow_write_breaks_no_promise() {
    let slow = Budget { slow_writes: 1, ..DUEL };
    complete("two candidates, a slow write", &QuorumModel::free(2, slow));
    large("a slow write and a crash", &QuorumModel::free(1, Budget { crashes: 1, restarts: 1, ..slow }));
    let rival = Budget { slow_writes: 1, ..RIVAL };
    complete("a rival, a renewal, a slow write", &QuorumModel::led(2, Budget { renewals: 1, ..rival }));
    large("a rival, two renewals, a slow write", &QuorumModel::led(2, Budget { renewals: 2, ..rival }));
    complete("a transfer and a slow write", &QuorumModel::led(2, Budget { transfers: 1, ..rival }));
    complete("stepping down and a slow write", &QuorumModel::led(2, Budget { step_downs: 1, ..rival }));
    let all = Budget { slow_writes: 2, crashes: 1, restarts: 1, renewals: 1, children: 1, step_downs: 1, ..DUEL };
    bounded("slow writes and everything", &with_refusals(QuorumModel::free(2, all)));
}

/// A voter may be free again before its answer to a bid leaves: the answer waits for its write, not the promise.
#[test]
fn a_slow_answer_on_a_new_connection_does_not_count() {
    let closes = Budget { closes: 1, slow_writes: 1, ..RIVAL };
    let renewal = Budget { renewals: 1, ..closes };
    complete("closing frees, a slow write, a renewal", &QuorumModel::led(2, renewal).freed_by_closing());
    let all = Budget { closes: 2, crashes: 1, restarts: 1, children: 1, slow_writes: 2, ..DUEL };
    bounded("closing frees, slow writes and everything", &QuorumModel::free(2, all).freed_by_closing());
}

#[test]
fn five_voters_are_no_different() {
    let crash = Budget { crashes: 1, renewals: 1, ..RIVAL };
    bounded("five voters", &QuorumModel::of(5, 2, Budget { restarts: 1, ..crash }).led_by_the_first());
    bounded(
        "five voters, closing frees",
        &QuorumModel::of(5, 2, Budget { closes: 1, ..crash }).led_by_the_first().freed_by_closing(),
    );
}

#[test]
fn clocks_may_drift_as_far_as_the_lease_allows_for() {
    complete("two candidates, a clock misses a tick", &QuorumModel::free(2, Budget { stalls: 1, ..DUEL }));
}

#[test]
fn everything_at_once() {
    let all = Budget {
        wants: [2, 2, 1, 0, 0],
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
    bounded("everything", &with_refusals(QuorumModel::free(3, all)));
    bounded("everything, asking first", &with_probes(with_refusals(QuorumModel::led(3, all))));
}
