//! Each broken rule of a reign lets somebody lead who must not, or shows on a disk.

use member::reign::Reign;
use model::check::{Limits, Report, examine};
use model::reign::properties::{BOUND, EPOCHS_GROW, MAJORITY, ONE_AT_A_TIME, ONE_GRANT, ONE_PER_EPOCH, WITHIN_LEASE};
use model::reign::{Budget, Realm, Subject};

use crate::reigns::{
    AnyAttempt, AnyEpoch, AnyLife, AsksOnce, Childless, ClosesFrees, CountsAll, Fickle, FreesFirst, FromReply, Guesses,
    NoSettling, Planted, Resumes, Stays, Unwritten,
};

const LIMITS: Limits = Limits { search: 6_000_000, walks: 0, depth: 0 };

const NOTHING: Budget = Budget::NOTHING;
const DUEL: Budget = Budget::DUEL;

/// Must break this property, whatever else it breaks.
fn breaks<P: Subject>(label: &str, mut realm: Realm<P>, property: &'static str) -> Report {
    realm.only = Some(property);
    let report = examine(label, &realm, LIMITS);
    let trace = report.breaks(property);
    let steps: Vec<&str> = trace.lines().take_while(|line| !line.starts_with("leads to")).collect();
    println!("  in {} steps:\n  {}", steps.len(), steps.join("\n  "));
    report
}

#[test]
fn a_grant_that_is_not_written_down_is_given_twice() {
    let budget = Budget { crashes: 1, restarts: 1, ..DUEL };
    breaks("unwritten grants", Realm::<Planted<Unwritten>>::free(2, budget), ONE_GRANT);
    breaks("unwritten grants", Realm::<Planted<Unwritten>>::free(2, budget), ONE_PER_EPOCH);
}

#[test]
fn a_lease_counted_from_the_reply_outlives_its_promises() {
    breaks("lease from the reply", Realm::<Planted<FromReply>>::free(2, DUEL), ONE_AT_A_TIME);
}

#[test]
fn an_answer_to_an_older_attempt_does_not_extend_a_newer_lease() {
    let budget = Budget { renewals: 1, ..DUEL };
    breaks("acks of any attempt", Realm::<Planted<AnyAttempt>>::free(3, budget), ONE_AT_A_TIME);
    let walks = Limits { search: 1, walks: 1_000_000, depth: 400 };
    let mut realm = Realm::<Planted<AnyAttempt>>::free(3, budget);
    realm.only = Some(ONE_AT_A_TIME);
    let found = !examine("acks of any attempt, random walks alone", &realm, walks).broken.is_empty();
    println!("  found by random walks: {found}");
}

#[test]
fn an_answer_to_an_earlier_life_is_no_grant() {
    let budget = Budget { wants: [2, 0, 0], crashes: 1, wipes: 1, ..NOTHING };
    breaks("acks of any life", Realm::<Planted<AnyLife>>::free(2, budget), MAJORITY);
}

#[test]
fn a_voter_that_does_not_settle_breaks_its_promise() {
    let budget = Budget { crashes: 1, restarts: 1, ..DUEL };
    breaks("no settling", Realm::<Planted<NoSettling>>::free(2, budget), ONE_AT_A_TIME);
}

#[test]
fn a_running_promise_is_not_overridden() {
    let budget = Budget { wants: [1, 2, 0], ..NOTHING };
    breaks("promises overridden", Realm::<Planted<Fickle>>::free(2, budget), BOUND);
    breaks("promises overridden", Realm::<Planted<Fickle>>::free(2, budget), ONE_AT_A_TIME);
}

#[test]
fn a_candidate_does_not_override_its_own_promise() {
    breaks("promised while asking", Realm::<Planted<AsksOnce>>::free(2, DUEL), ONE_AT_A_TIME);
}

#[test]
fn an_epoch_is_not_granted_twice() {
    breaks("any epoch", Realm::<Planted<AnyEpoch>>::free(2, DUEL), ONE_PER_EPOCH);
    breaks("any epoch", Realm::<Planted<AnyEpoch>>::free(2, Budget { wants: [1, 2, 0], ..NOTHING }), EPOCHS_GROW);
}

#[test]
fn a_voter_that_lost_its_disk_does_not_guess() {
    let budget = Budget { crashes: 1, wipes: 1, ..DUEL };
    breaks("blank voters guess", Realm::<Planted<Guesses>>::free(2, budget), ONE_PER_EPOCH);
}

#[test]
fn a_leader_says_that_it_leads_no_more_before_it_frees_its_voters() {
    let budget = Budget { wants: [0, 1, 0], step_downs: 1, crashes: 1, ..NOTHING };
    breaks("released before lost", Realm::<Planted<FreesFirst>>::ruled(2, budget), ONE_AT_A_TIME);
}

#[test]
fn an_abandoned_bid_is_void() {
    let budget = Budget { retries: 1, ..DUEL };
    breaks("abandoned bids count", Realm::<Planted<Resumes>>::free(2, budget), ONE_AT_A_TIME);
}

#[test]
fn a_leader_notices_that_its_lease_ends() {
    breaks("leads on", Realm::<Planted<Stays>>::free(2, DUEL), WITHIN_LEASE);
}

#[test]
fn a_leader_counts_out_a_voter_before_it_closes_the_connection() {
    let budget = Budget { wants: [0, 1, 0], closes: 2, ..NOTHING };
    let realm = || Realm::<Planted<CountsAll>>::ruled(2, budget).freed_by_closing();
    breaks("counts on closed connections", realm(), BOUND);
    breaks("counts on closed connections", realm(), ONE_AT_A_TIME);
}

#[test]
fn a_connection_that_a_voter_closed_itself_frees_nobody() {
    let budget = Budget { wants: [0, 1, 0], closes: 2, ..NOTHING };
    let realm = Realm::<Planted<ClosesFrees>>::ruled(2, budget).freed_by_closing();
    breaks("freed by its own close", realm, ONE_AT_A_TIME);
}

#[test]
fn a_leader_with_children_is_not_over_when_its_process_is() {
    let budget = Budget { wants: [0, 1, 0], crashes: 1, children: 1, ..NOTHING };
    let realm = Realm::<Planted<Childless>>::ruled(2, budget).freed_by_closing();
    breaks("children forgotten", realm, ONE_AT_A_TIME);
}

#[test]
fn clocks_that_drift_further_than_configured_give_two_leaders() {
    let budget = Budget { stalls: 2, ..DUEL };
    breaks("a clock misses two ticks", Realm::<Reign>::free(2, budget), ONE_AT_A_TIME);
}
