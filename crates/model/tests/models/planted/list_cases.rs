//! Each broken rule of lists gives two leaders, two grants of an epoch, or shows on a disk or in what is in force.

use member::reign::Reign;
use model::check::{Limits, examine};
use model::reign::properties::{LISTS_GROW, ON_DISKS, ONE_APART, ONE_AT_A_TIME, ONE_PER_EPOCH};
use model::reign::{Budget, QuorumModel, Subject};

use super::list_bugs::{
    AdoptsOlder, AnyList, ByNumber, ChangesTwice, CountsInFile, CountsRemoved, ForgetsList, HalfTells, LearnersTell,
    NoAffirmation, OldMajority, StampsBids,
};
use super::reign_bugs::{AnyRequest, Guesses};
use super::wrapper::Planted;
use crate::list_starts::{
    affirmed, failed_candidate, half_of_the_others, older_proposal, removed_voter, with, without,
};

const LIMITS: Limits = Limits { search: 3_000_000, walks: 0, depth: 0 };
const NOTHING: Budget = Budget::NOTHING;

fn wants(member: usize) -> Budget {
    let mut budget = NOTHING;
    budget.wants[member] = 1;
    budget
}

fn breaks<P: Subject>(label: &str, mut model: QuorumModel<P>, property: &'static str) {
    model.only = Some(property);
    let report = examine(label, &model, LIMITS);
    let trace = report.breaks(property);
    let steps: Vec<&str> = trace.lines().take_while(|line| !line.starts_with("leads to")).collect();
    println!("  in {} steps:\n  {}", steps.len(), steps.join("\n  "));
}

#[test]
fn lists_are_compared_by_stamp_and_not_by_number() {
    let model = older_proposal::<Planted<Reign, ByNumber>>(true, Budget { renewals: 1, ..wants(0) });
    breaks("lists by number", model, ONE_AT_A_TIME);
}

#[test]
fn a_leader_stamps_the_list_before_it_changes_it() {
    let model = older_proposal::<Planted<Reign, NoAffirmation>>(false, Budget { renewals: 1, ..wants(0) });
    breaks("no affirmation", model, ONE_AT_A_TIME);
}

#[test]
fn only_a_leader_stamps_lists() {
    let model = failed_candidate::<Planted<Reign, StampsBids>>(Budget { renewals: 1, ..wants(2) });
    breaks("a candidate stamps its list", model, ONE_AT_A_TIME);
}

#[test]
fn one_change_at_a_time() {
    let mut model = affirmed::<Planted<Reign, ChangesTwice>>(4, Budget { changes: 2, renewals: 1, ..NOTHING });
    model.changes = vec![without(2), with(4)];
    breaks("a change while one is pending", model, ONE_APART);
}

#[test]
fn a_list_is_in_force_by_a_majority_of_its_own_voters() {
    let mut model = affirmed::<Planted<Reign, OldMajority>>(4, Budget { changes: 1, ..NOTHING });
    model.changes = vec![with(4)];
    breaks("in force by the old majority", model, ON_DISKS);
}

#[test]
fn a_list_survives_a_restart() {
    let budget = Budget { crashes: 1, restarts: 1, ..NOTHING };
    breaks("the list is forgotten", affirmed::<Planted<Reign, ForgetsList>>(3, budget), LISTS_GROW);
}

#[test]
fn no_epoch_is_granted_under_an_older_list() {
    let budget = Budget { renewals: 1, ..wants(2) };
    breaks("grants under any list", failed_candidate::<Planted<Reign, AnyList>>(budget), ONE_AT_A_TIME);
    breaks("an older list is adopted", failed_candidate::<Planted<Reign, AdoptsOlder>>(budget), LISTS_GROW);
}

#[test]
fn the_answer_of_a_removed_voter_does_not_count() {
    let mut model = affirmed::<Planted<Reign, CountsRemoved>>(3, Budget { changes: 1, renewals: 1, ..NOTHING });
    model.changes = vec![without(3)];
    breaks("a removed voter counts", model, ON_DISKS);
}

#[test]
fn an_answer_to_an_earlier_request_puts_no_list_in_force() {
    let mut model = affirmed::<Planted<Reign, AnyRequest>>(3, Budget { changes: 1, renewals: 1, ..NOTHING });
    model.changes = vec![without(3)];
    breaks("any request puts a list in force", model, ON_DISKS);
}

#[test]
fn a_lost_disk_needs_a_majority_of_the_newest_list_without_itself() {
    let half = half_of_the_others::<Planted<Reign, HalfTells>>(Budget { retries: 1, ..wants(2) });
    breaks("half of the others", half, ONE_PER_EPOCH);
    let budget = Budget { retries: 1, ..wants(0) };
    breaks("counted in the file's list", removed_voter::<Planted<Reign, CountsInFile>>(budget), ONE_PER_EPOCH);
    breaks("learners answer", removed_voter::<Planted<Reign, LearnersTell>>(budget), ONE_PER_EPOCH);
    breaks("a new voter that was one before", removed_voter::<Planted<Reign, Guesses>>(budget), ONE_PER_EPOCH);
}
