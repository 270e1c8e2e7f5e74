//! Lists of members change while candidates stand, members crash and disks are lost.

use model::check::{Limits, Report, examine};
use model::reign::{Budget, QuorumModel};

use crate::list_starts::{
    affirmed, affirmed_four, failed_candidate, half_of_the_others, older_proposal, removed_voter, with, without,
};
use crate::planted::kinds::Voter;

const NOTHING: Budget = Budget::NOTHING;

fn wants(member: usize) -> Budget {
    let mut budget = NOTHING;
    budget.wants[member] = 1;
    budget
}

fn check(label: &str, model: &QuorumModel<Voter>, limits: Limits) -> Report {
    let report = examine(format!("lists, {label}"), model, limits);
    if let Some((name, trace)) = report.broken.first_key_value() {
        panic!("{label}: broken: {name}\n{trace}");
    }
    report
}

fn complete(label: &str, model: &QuorumModel<Voter>) {
    check(label, model, Limits::new(3_000_000, 0)).is_complete();
}

fn bounded(label: &str, model: &QuorumModel<Voter>) {
    check(label, model, Limits::new(30_000, 10_000)).holds();
}

#[test]
fn no_voter_follows_an_older_proposal() {
    complete("an older proposal", &older_proposal(true, Budget { renewals: 1, ..wants(0) }));
}

#[test]
fn a_candidate_that_failed_does_not_come_back_under_the_old_list() {
    complete("a failed candidate", &failed_candidate(Budget { renewals: 1, ..wants(2) }));
}

#[test]
fn a_voter_that_lost_its_disk_hears_a_majority_of_the_newest_list_without_itself() {
    complete("half of the others", &half_of_the_others(Budget { retries: 1, ..wants(2) }));
    complete("a removed voter", &removed_voter(Budget { retries: 1, ..wants(0) }));
}

#[test]
fn voters_are_added_and_removed_while_another_member_stands() {
    let mut remove = affirmed(3, Budget { changes: 1, ..wants(1) });
    remove.changes = vec![without(3)];
    complete("three voters, one is removed", &remove);
    let mut add = affirmed(4, Budget { changes: 1, ..wants(1) });
    add.changes = vec![with(4)];
    complete("three voters, one is added", &add);
    let mut crash = affirmed(4, Budget { changes: 1, crashes: 1, restarts: 1, ..wants(1) });
    crash.changes = vec![with(4)];
    bounded("three voters, one is added, a crash", &crash);
    let mut four = affirmed_four(Budget { changes: 1, ..wants(1) });
    four.changes = vec![without(4)];
    complete("four voters, one is removed", &four);
}

#[test]
fn everything_at_once() {
    let all = Budget { changes: 2, reverts: 1, renewals: 1, crashes: 1, restarts: 1, ..NOTHING };
    let wants = [1, 1, 0, 1, 0];
    let mut three = affirmed(4, Budget { wants, ..all });
    (three.changes, three.refusals) = (vec![with(4), without(3)], true);
    bounded("three voters, everything", &three);
    let mut four = affirmed_four(Budget { wants, wipes: 1, restarts: 0, ..all });
    (four.changes, four.refusals) = (vec![without(3), without(4)], true);
    bounded("four voters, everything, a lost disk", &four);
}
