//! Each broken rule of lists gives two leaders, two grants of an epoch, or shows on a disk or in what is in force.

use model::check::{Limits, examine};
use model::reign::properties::{LISTS_GROW, ON_DISKS, ONE_APART, ONE_AT_A_TIME, ONE_PER_EPOCH};
use model::reign::{Budget, QuorumModel};

use super::kinds::Voter;
use super::list_bugs::{
    AdoptsOlder, AnyList, ByNumber, ChangesTwice, CountsInFile, CountsRemoved, ForgetsList, HalfTells, LearnersTell,
    NoAffirmation, OldMajority, StampsBids,
};
use super::reign_bugs::{AnyRequest, Guesses};
use super::reign_cases::with;
use crate::list_starts::{
    affirmed, failed_candidate, half_of_the_others, older_proposal, removed_voter, with as listing, without,
};

const LIMITS: Limits = Limits { search: 3_000_000, walks: 0, depth: 0 };
const NOTHING: Budget = Budget::NOTHING;

fn wants(member: usize) -> Budget {
    let mut budget = NOTHING;
    budget.wants[member] = 1;
    budget
}

fn breaks(label: &str, mut model: QuorumModel<Voter>, property: &'static str) {
    model.only = Some(property);
    let report = examine(label, &model, LIMITS);
    let trace = report.breaks(property);
    let steps: Vec<&str> = trace.lines().take_while(|line| !line.starts_with("leads to")).collect();
    println!("  in {} steps:\n  {}", steps.len(), steps.join("\n  "));
}

#[test]
fn lists_are_compared_by_stamp_and_not_by_number() {
    let model = older_proposal(true, with(ByNumber, Budget { renewals: 1, ..wants(0) }));
    breaks("lists by number", model, ONE_AT_A_TIME);
}

#[test]
fn a_leader_stamps_the_list_before_it_changes_it() {
    let model = older_proposal(false, with(NoAffirmation, Budget { renewals: 1, ..wants(0) }));
    breaks("no affirmation", model, ONE_AT_A_TIME);
}

#[test]
fn only_a_leader_stamps_lists() {
    let model = failed_candidate(with(StampsBids, Budget { renewals: 1, ..wants(2) }));
    breaks("a candidate stamps its list", model, ONE_AT_A_TIME);
}

#[test]
fn one_change_at_a_time() {
    let mut model = affirmed(4, with(ChangesTwice::default(), Budget { changes: 2, renewals: 1, ..NOTHING }));
    model.changes = vec![without(2), listing(4)];
    breaks("a change while one is pending", model, ONE_APART);
}

#[test]
fn a_list_is_in_force_by_a_majority_of_its_own_voters() {
    let mut model = affirmed(4, with(OldMajority::default(), Budget { changes: 1, ..NOTHING }));
    model.changes = vec![listing(4)];
    breaks("in force by the old majority", model, ON_DISKS);
}

#[test]
fn a_list_survives_a_restart() {
    let budget = Budget { crashes: 1, restarts: 1, ..NOTHING };
    breaks("the list is forgotten", affirmed(3, with(ForgetsList, budget)), LISTS_GROW);
}

#[test]
fn no_epoch_is_granted_under_an_older_list() {
    let budget = Budget { renewals: 1, ..wants(2) };
    breaks("grants under any list", failed_candidate(with(AnyList, budget)), ONE_AT_A_TIME);
    breaks("an older list is adopted", failed_candidate(with(AdoptsOlder, budget)), LISTS_GROW);
}

#[test]
fn the_answer_of_a_removed_voter_does_not_count() {
    let mut model = affirmed(3, with(CountsRemoved::default(), Budget { changes: 1, renewals: 1, ..NOTHING }));
    model.changes = vec![without(3)];
    breaks("a removed voter counts", model, ON_DISKS);
}

#[test]
fn an_answer_to_an_earlier_request_puts_no_list_in_force() {
    let mut model = affirmed(3, with(AnyRequest::default(), Budget { changes: 1, renewals: 1, ..NOTHING }));
    model.changes = vec![without(3)];
    breaks("any request puts a list in force", model, ON_DISKS);
}

#[test]
fn a_lost_disk_needs_a_majority_of_the_newest_list_without_itself() {
    let half = half_of_the_others(with(HalfTells::default(), Budget { retries: 1, ..wants(2) }));
    breaks("half of the others", half, ONE_PER_EPOCH);
    let budget = Budget { retries: 1, ..wants(0) };
    breaks("counted in the file's list", removed_voter(with(CountsInFile, budget)), ONE_PER_EPOCH);
    breaks("learners answer", removed_voter(with(LearnersTell, budget)), ONE_PER_EPOCH);
    breaks("a new voter that was one before", removed_voter(with(Guesses, budget)), ONE_PER_EPOCH);
}
