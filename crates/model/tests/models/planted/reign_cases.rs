//! Each broken rule of a reign lets a member lead that must not, shows on a disk, or in what is announced.

use model::check::{Limits, Report, examine};
use model::reign::properties::{
    BOUND, EPOCHS_GROW, FITTING_CAUSE, MAJORITY, ONE_AT_A_TIME, ONE_GRANT, ONE_ID, ONE_PER_EPOCH, WITHIN_LEASE,
};
use model::reign::{Budget, QuorumModel};

use super::kinds::{ReignBug, Voter};
use super::reign_bugs::{
    AnyEpoch, AnyIncarnation, AnyRequest, AsksNoVoter, AsksOnce, Childless, ClosesFrees, CountsAll, Fickle, FreesFirst,
    FromReply, Guesses, NoSettling, Resumes, Stays, Unwritten,
};
use super::write_bugs::{
    AckBeforeWrite, BlamesConnections, BlamesLease, BlamesOperator, CountsLateAnswers, HandsOverSilently,
    LeaseBehindWrite, LeaseFromWrite, LeavesChildren, PromiseBeforeWrite,
};

const LIMITS: Limits = Limits { search: 6_000_000, walks: 0, depth: 0 };

const NOTHING: Budget = Budget::NOTHING;
const DUEL: Budget = Budget::DUEL;

/// Every voter has this bug.
pub(super) fn with(bug: impl Into<ReignBug>, budget: Budget) -> Budget {
    Budget { mistake: bug.into().mistake(), ..budget }
}

/// Must break this property, whatever else it breaks.
fn breaks(label: &str, mut model: QuorumModel<Voter>, property: &'static str) -> Report {
    model.only = Some(property);
    let report = examine(label, &model, LIMITS);
    let trace = report.breaks(property);
    let steps: Vec<&str> = trace.lines().take_while(|line| !line.starts_with("leads to")).collect();
    println!("  in {} steps:\n  {}", steps.len(), steps.join("\n  "));
    report
}

#[test]
fn a_grant_that_is_not_written_down_is_given_twice() {
    let budget = Budget { crashes: 1, restarts: 1, ..DUEL };
    breaks("unwritten grants", QuorumModel::free(2, with(Unwritten, budget)), ONE_GRANT);
    breaks("unwritten grants", QuorumModel::free(2, with(Unwritten, budget)), ONE_PER_EPOCH);
}

#[test]
fn a_lease_counted_from_the_reply_outlives_its_promises() {
    breaks("lease from the reply", QuorumModel::free(2, with(FromReply, DUEL)), ONE_AT_A_TIME);
}

#[test]
fn an_answer_to_an_older_request_does_not_extend_a_newer_lease() {
    let budget = Budget { renewals: 1, ..DUEL };
    breaks("acks of any request", QuorumModel::free(3, with(AnyRequest::default(), budget)), ONE_AT_A_TIME);
    let walks = Limits { search: 1, walks: 1_000_000, depth: 400 };
    let mut model: QuorumModel<Voter> = QuorumModel::free(3, with(AnyRequest::default(), budget));
    model.only = Some(ONE_AT_A_TIME);
    let found = !examine("acks of any request, random walks alone", &model, walks).broken.is_empty();
    println!("  found by random walks: {found}");
}

#[test]
fn an_answer_to_an_earlier_incarnation_is_no_grant() {
    let budget = Budget { wants: [2, 0, 0, 0, 0], crashes: 1, wipes: 1, ..NOTHING };
    breaks("acks of any incarnation", QuorumModel::free(2, with(AnyIncarnation, budget)), MAJORITY);
}

#[test]
fn a_voter_that_does_not_settle_breaks_its_promise() {
    let budget = Budget { crashes: 1, restarts: 1, ..DUEL };
    breaks("no settling", QuorumModel::free(2, with(NoSettling, budget)), ONE_AT_A_TIME);
}

#[test]
fn a_running_promise_is_not_overridden() {
    let budget = Budget { wants: [1, 2, 0, 0, 0], ..NOTHING };
    breaks("promises overridden", QuorumModel::free(2, with(Fickle, budget)), BOUND);
    breaks("promises overridden", QuorumModel::free(2, with(Fickle, budget)), ONE_AT_A_TIME);
}

#[test]
fn a_candidate_does_not_override_its_own_promise() {
    breaks("promised while asking", QuorumModel::free(2, with(AsksOnce, DUEL)), ONE_AT_A_TIME);
}

#[test]
fn an_epoch_is_not_granted_twice() {
    breaks("any epoch", QuorumModel::free(2, with(AnyEpoch, DUEL)), ONE_PER_EPOCH);
    breaks(
        "any epoch",
        QuorumModel::free(2, with(AnyEpoch, Budget { wants: [1, 2, 0, 0, 0], ..NOTHING })),
        EPOCHS_GROW,
    );
}

#[test]
fn a_voter_that_lost_its_disk_does_not_guess() {
    let budget = Budget { crashes: 1, wipes: 1, ..DUEL };
    breaks("blank voters guess", QuorumModel::free(2, with(Guesses, budget)), ONE_PER_EPOCH);
}

#[test]
fn a_leader_says_that_it_leads_no_more_before_it_frees_its_voters() {
    let budget = Budget { wants: [0, 1, 0, 0, 0], step_downs: 1, crashes: 1, ..NOTHING };
    breaks("released before lost", QuorumModel::led(2, with(FreesFirst, budget)), ONE_AT_A_TIME);
}

#[test]
fn an_abandoned_bid_is_void() {
    let budget = Budget { retries: 1, ..DUEL };
    breaks("abandoned bids count", QuorumModel::free(2, with(Resumes::default(), budget)), ONE_AT_A_TIME);
}

#[test]
fn a_leader_notices_that_its_lease_ends() {
    breaks("leads on", QuorumModel::free(2, with(Stays, DUEL)), WITHIN_LEASE);
}

#[test]
fn a_leader_counts_out_a_voter_before_it_closes_the_connection() {
    let budget = Budget { wants: [0, 1, 0, 0, 0], closes: 2, ..NOTHING };
    let model = || QuorumModel::led(2, with(CountsAll, budget)).freed_by_closing();
    breaks("counts on closed connections", model(), BOUND);
    breaks("counts on closed connections", model(), ONE_AT_A_TIME);
}

#[test]
fn a_connection_that_a_voter_closed_itself_frees_no_voter() {
    let budget = Budget { wants: [0, 1, 0, 0, 0], closes: 2, ..NOTHING };
    let model = QuorumModel::led(2, with(ClosesFrees, budget)).freed_by_closing();
    breaks("freed by its own close", model, ONE_AT_A_TIME);
}

#[test]
fn a_leader_with_children_is_not_over_when_its_process_is() {
    let budget = Budget { wants: [0, 1, 0, 0, 0], crashes: 1, children: 1, ..NOTHING };
    let model = QuorumModel::led(2, with(Childless, budget)).freed_by_closing();
    breaks("children forgotten", model, ONE_AT_A_TIME);
}

#[test]
fn clocks_that_drift_further_than_configured_give_two_leaders() {
    let budget = Budget { stalls: 2, ..DUEL };
    breaks("a clock misses two ticks", QuorumModel::free(2, budget), ONE_AT_A_TIME);
}

const SLOW: Budget = Budget { slow_writes: 1, ..DUEL };

#[test]
fn a_voter_answers_when_its_grant_is_on_the_disk() {
    let budget = Budget { crashes: 1, restarts: 1, ..SLOW };
    let model = || QuorumModel::free(1, with(AckBeforeWrite, budget));
    breaks("ack before the write", model(), ONE_GRANT);
    breaks("ack before the write", model(), ONE_PER_EPOCH);
}

#[test]
fn a_lease_does_not_count_from_a_write_that_the_bids_did_not_wait_for() {
    let model = |budget| QuorumModel::<Voter>::free(2, with(LeaseFromWrite, budget));
    breaks("lease from the write", model(SLOW), ONE_AT_A_TIME);
    breaks("lease from the write", model(SLOW), BOUND);
    // As long as every write completes at once there is nothing to be seen.
    examine("lease from the write, all writes at once", &model(DUEL), LIMITS).holds().is_complete();
}

/// The lease is safe because its timer is set before the bids are sent, and the promise's after they were received.
/// On which side of the write either happens does not matter.
#[test]
fn timers_may_be_set_on_either_side_of_the_write() {
    let lease = QuorumModel::<Voter>::free(2, with(LeaseBehindWrite, SLOW));
    examine("lease timer behind the write, as the bids", &lease, LIMITS).holds().is_complete();
    let promise = QuorumModel::<Voter>::free(2, with(PromiseBeforeWrite, SLOW));
    examine("promise timer before the write", &promise, LIMITS).holds().is_complete();
}

#[test]
fn an_answer_of_a_voter_that_was_lost_does_not_count() {
    let budget = Budget { closes: 1, ..SLOW };
    let model = || QuorumModel::free(1, with(CountsLateAnswers, budget)).freed_by_closing();
    breaks("late answers count", model(), BOUND);
    breaks("late answers count", model(), ONE_AT_A_TIME);
}

#[test]
fn leadership_is_not_given_away_before_the_children_stopped() {
    let child = Budget { wants: [0, 1, 0, 0, 0], children: 1, ..NOTHING };
    let model = |budget| QuorumModel::led(2, with(LeavesChildren, budget));
    breaks("steps down, children act", model(Budget { step_downs: 1, ..child }), ONE_AT_A_TIME);
    let transfer = Budget { transfers: 1, children: 1, ..NOTHING };
    breaks("hands over, children act", model(transfer), ONE_AT_A_TIME);
}

#[test]
fn a_loss_names_its_cause() {
    let steps_down = Budget { step_downs: 1, ..NOTHING };
    breaks("blames the lease", QuorumModel::led(2, with(BlamesLease, steps_down)), FITTING_CAUSE);
    breaks("blames the operator", QuorumModel::led(2, with(BlamesOperator, NOTHING)), FITTING_CAUSE);
    breaks("blames connections", QuorumModel::led(2, with(BlamesConnections, NOTHING)), FITTING_CAUSE);
    let transfer = Budget { transfers: 1, ..NOTHING };
    breaks("hands over silently", QuorumModel::led(2, with(HandsOverSilently, transfer)), FITTING_CAUSE);
}

#[test]
fn a_leader_proposes_the_id_that_was_proposed_before() {
    // The second member has the id from the first, so the third is the one that must ask.
    let budget = Budget { wants: [0, 0, 1, 0, 0], renewals: 1, ..NOTHING };
    breaks("asks no voter", QuorumModel::led(1, with(AsksNoVoter, budget)).named_by_the_first(), ONE_ID);
}
