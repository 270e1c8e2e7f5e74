//! The candidate: no bid without a majority that would grant it, and a new number for every request.

use crate::reigns::list;
use algorithms::drive::Effect;
use algorithms::{Epoch, NodeId, Span};
use member::reign::{LockPast, Msg, Reign, ReignCommand, ReignEvent, ReignTimer, Released};
use member::{LeaseTimer, OnClose, Settings};

use crate::bench::{Bench, mesh};
use crate::reigns::{
    Bid, bid, bid_of, bids, fresh_vote, grant, holder, learner, lets_go, released, request_of_probe, settings, settled,
    settled_at, started,
};

fn five() -> Bench<Reign> {
    let stored = member::reign::VoterRecord { vote: Some(fresh_vote()), ..Default::default() };
    let (mut one, _) = Bench::start(1, mesh(&[1, 2, 3, 4, 5]), settings(OnClose::WaitLease), Some(stored));
    one.fire(ReignTimer::Settle);
    one
}

#[test]
fn no_bid_without_a_majority_that_would_grant_it() {
    let mut one = five();
    let asked = one.tell(ReignCommand::Want);
    let request = request_of_probe(&asked).expect("it asks");
    assert_eq!(asked.sent().len(), 4);
    assert_eq!(bid(&one.get(2, Msg::ProbeOk { request })), None);
    assert_eq!(bid(&one.get(2, Msg::ProbeOk { request })), None, "the same voter counts once");
    assert_eq!(bid(&one.get(3, Msg::ProbeOk { request: request + 1 })), None, "no request of this number");
    assert!(bid(&one.get(4, Msg::ProbeOk { request })).is_some());
}

#[test]
fn a_question_that_took_too_long_is_asked_anew_and_older_answers_do_not_count() {
    let mut one = settled(OnClose::WaitLease);
    let old = request_of_probe(&one.tell(ReignCommand::Want)).expect("it asks");
    let new = request_of_probe(&one.fire(ReignTimer::Retry)).expect("it asks again");
    assert!(new > old);
    assert_eq!(bid(&one.get(2, Msg::ProbeOk { request: old })), None);
    assert!(bid(&one.get(2, Msg::ProbeOk { request: new })).is_some());
}

#[test]
fn a_bid_goes_above_every_epoch_that_any_member_named() {
    let mut one = settled(OnClose::WaitLease);
    let request = request_of_probe(&one.tell(ReignCommand::Want)).expect("it asks");
    one.get(3, Msg::ProbeDenied { epoch: Epoch(8), list: list() });
    assert_eq!(bid(&one.get(2, Msg::ProbeOk { request })).map(|bid| bid.epoch), Some(Epoch(9)));
}

#[test]
fn the_lease_is_measured_before_the_own_grant_is_written_and_the_bid_sent() {
    let mut one = settled(OnClose::WaitLease);
    let request = request_of_probe(&one.tell(ReignCommand::Want)).expect("it asks");
    let wanted = one.get(2, Msg::ProbeOk { request });
    let at = |of: fn(&Effect<Reign>) -> bool| wanted.place(of).expect("it does that");
    let measured = at(|effect| matches!(effect, Effect::SetTimer(ReignTimer::Lease(_), _)));
    let persisted = at(|effect| matches!(effect, Effect::Persist(_)));
    let sent = at(|effect| matches!(effect, Effect::Send { message: Msg::Bid { .. }, .. }));
    assert!(measured < persisted && persisted < sent, "{wanted:?}");
    let lease = wanted.set(ReignTimer::Lease(LeaseTimer::A));
    assert_eq!(lease, Some(Span::exactly(one.settings.timing.reign())), "shorter than any promise");
}

#[test]
fn a_majority_of_all_voters_makes_a_leader_and_witnesses_are_voters() {
    let mut one = five();
    let request = request_of_probe(&one.tell(ReignCommand::Want)).expect("it asks");
    one.get(2, Msg::ProbeOk { request });
    let bid = bid(&one.get(3, Msg::ProbeOk { request })).expect("it bids");
    assert!(grant(&mut one, &[2, 2], bid).is_empty());
    assert!(matches!(grant(&mut one, &[5], bid)[..], [ReignEvent::Leading { epoch: Epoch(1), .. }]));

    let settings = Settings { election: learner(2), witnesses: vec![NodeId(3)], ..settings(OnClose::WaitLease) };
    let (mut one, _) = started(settings, Some(fresh_vote()));
    one.fire(ReignTimer::Settle);
    let request = request_of_probe(&one.tell(ReignCommand::Want)).expect("it asks");
    one.get(2, Msg::ProbeOk { request });
    assert_eq!(one.machine.granted().0, Epoch(0), "a learner's word is worth nothing");
    one.get(3, Msg::ProbeOk { request });
    assert_eq!(one.machine.granted().0, Epoch(1));
}

#[test]
fn grants_of_an_older_request_or_of_another_incarnation_do_not_count() {
    let mut one = settled(OnClose::WaitLease);
    let old = bids(&mut one);
    one.fire(ReignTimer::Retry);
    let request = request_of_probe(&one.fire(ReignTimer::Retry)).expect("it asks again");
    let new = bid(&one.get(2, Msg::ProbeOk { request })).expect("it bids again");
    assert!(grant(&mut one, &[2, 3], old).is_empty());
    assert!(grant(&mut one, &[2, 3], Bid { epoch: new.epoch, ..old }).is_empty());
    let (epoch, request) = (new.epoch, new.request);
    one.get(2, Msg::Ack { epoch, request, incarnation: holder(1).incarnation, locks: LockPast::default() });
    assert_eq!(one.machine.leads(), None, "it has lost its disk since, and bids for the same epoch again");
    assert_eq!(grant(&mut one, &[2], new).len(), 1);
}

/// Under `immediate` the voters that count are those of the lease in hand: a grant of an earlier one is over.
#[test]
fn a_late_grant_of_an_earlier_request_makes_no_supporter() {
    let mut one = settled(OnClose::Immediate);
    let first = bids(&mut one);
    grant(&mut one, &[2], first);
    let renewed = bid(&one.fire(ReignTimer::Renew)).expect("it renews");
    assert_eq!(renewed.epoch, first.epoch);
    grant(&mut one, &[2], renewed);
    grant(&mut one, &[3], first);
    one.down(2);
    assert_eq!(one.machine.leads(), None, "3 is no supporter of the lease in hand");

    let mut one = settled(OnClose::Immediate);
    let first = bids(&mut one);
    grant(&mut one, &[2], first);
    grant(&mut one, &[3], first);
    one.down(2);
    assert!(one.machine.leads().is_some(), "a late grant of the request that won it makes one");
}

/// Under `immediate` a voter is free again when its connection has closed. Its answer may still be on the way, behind a
/// slow write of its disk.
#[test]
fn a_grant_of_a_voter_whose_connection_closed_since_the_bid_counts_neither_for_the_bid_nor_for_its_lease() {
    let mut one = settled(OnClose::Immediate);
    let bid = bids(&mut one);
    one.down(2);
    one.up(2);
    assert!(grant(&mut one, &[2], bid).is_empty() && one.machine.leads().is_none());
    assert_eq!(grant(&mut one, &[3], bid).len(), 1, "a majority without it");
    grant(&mut one, &[2], bid);
    one.down(3);
    assert_eq!(one.machine.leads(), None, "2 is no supporter");
}

#[test]
fn a_late_grant_of_a_voter_whose_connection_closed_since_the_lease_began_makes_no_supporter() {
    let mut one = settled(OnClose::Immediate);
    let bid = bids(&mut one);
    grant(&mut one, &[3], bid);
    one.down(2);
    one.up(2);
    grant(&mut one, &[2], bid);
    assert!(one.machine.leads().is_some());
    one.down(3);
    assert_eq!(one.machine.leads(), None, "2 is no supporter");
}

#[test]
fn a_bid_that_too_many_refuse_is_abandoned_and_its_voters_are_released() {
    let mut one = settled(OnClose::WaitLease);
    let Bid { request, .. } = bids(&mut one);
    for voter in [2, 3] {
        let of_another_bid = Msg::Refuse { epoch: Epoch(0), request: request - 1, list: list() };
        assert!(one.get(voter, of_another_bid).is_nothing(), "of another bid");
    }
    assert!(one.get(2, Msg::Refuse { epoch: Epoch(0), request, list: list() }).is_nothing(), "two may still grant it");
    let wanted = one.get(3, Msg::Refuse { epoch: Epoch(0), request, list: list() });
    let me = Released { holder: one.machine.holder(), epoch: Epoch(1) };
    assert_eq!(wanted.sent(), [(2, Msg::Release(me)), (3, Msg::Release(me))]);
    assert!(wanted.set(ReignTimer::Retry).is_some());
    // Two candidates that asked again at once would stay in step for ever.
    assert!(one.get(2, Msg::Free).is_nothing() && one.tell(ReignCommand::Want).is_nothing(), "it rests");
    assert!(request_of_probe(&one.fire(ReignTimer::Retry)).is_some());
}

#[test]
fn a_bid_that_takes_too_long_is_abandoned_and_a_leader_rests_no_more() {
    let mut one = settled(OnClose::WaitLease);
    bids(&mut one);
    assert!(lets_go(&one.fire(ReignTimer::Retry)));
    assert!(request_of_probe(&one.fire(ReignTimer::Retry)).is_some());
}

#[test]
fn a_candidate_that_gave_up_a_bid_and_led_since_asks_again() {
    let mut one = settled(OnClose::WaitLease);
    let Bid { request, .. } = bids(&mut one);
    for voter in [2, 3] {
        one.get(voter, Msg::Refuse { epoch: Epoch(0), request, list: list() });
    }
    // Member 3 wins instead, and hands over before this one has rested.
    one.get(3, bid_of(3, 2, 5));
    let offered = one.get(3, Msg::Offer { epoch: Epoch(2) });
    one.get(2, Msg::ProbeOk { request: request_of_probe(&offered).expect("it asks as a successor") });
    let follows = bid(&one.get(3, Msg::Handover(released(3, 2)))).expect("it follows");
    let led = grant(&mut one, &[2], follows);
    let [ReignEvent::Leading { until, .. }] = led[..] else { panic!("it leads: {led:?}") };
    one.fire(ReignTimer::Lease(until));
    one.fire(ReignTimer::Promise);
    let wanted = one.tell(ReignCommand::Want);
    assert!(request_of_probe(&wanted).is_some() || wanted.set(ReignTimer::Retry).is_some(), "it never asks");
}

#[test]
fn a_candidate_that_promised_itself_to_another_since_it_asked_does_not_bid() {
    let mut one = settled(OnClose::WaitLease);
    let request = request_of_probe(&one.tell(ReignCommand::Want)).expect("it asks");
    one.get(3, bid_of(3, 4, 1));
    assert_eq!(bid(&one.get(2, Msg::ProbeOk { request })), None);
}

#[test]
fn a_candidate_that_yields_asks_no_more() {
    let mut one = settled(OnClose::WaitLease);
    one.tell(ReignCommand::Want);
    one.tell(ReignCommand::Yield);
    assert_eq!(request_of_probe(&one.fire(ReignTimer::Retry)), None);
}

#[test]
fn a_voter_that_is_free_or_connected_now_is_asked_what_all_were_asked() {
    let mut one = settled(OnClose::WaitLease);
    let request = request_of_probe(&one.tell(ReignCommand::Want)).expect("it asks");
    let holder = one.machine.holder();
    assert_eq!(one.up(3).sent(), [(3, Msg::Probe { request, holder, after: None, list: list() })]);
    one.get(2, Msg::ProbeOk { request });
    assert!(bid(&one.get(3, Msg::Free)).is_some());
}

/// Only numbers that can still be followed are believed, and the largest of them can be granted.
#[test]
fn no_message_carries_a_member_to_epochs_where_nobody_follows() {
    for far in [1 << 33, Epoch::MAX.0, u64::MAX - 1, u64::MAX].map(Epoch) {
        let mut one = settled_at(7);
        one.get(2, Msg::Handover(Released { holder: holder(2), epoch: far }));
        one.get(2, Msg::ProbeDenied { epoch: far, list: list() });
        let first = bids(&mut one);
        assert_eq!(first.epoch, Epoch(8), "after {far}");
    }
}

#[test]
fn the_largest_epoch_that_is_believed_can_still_be_bid_for_and_granted() {
    let mut one = settled_at(7);
    let request = request_of_probe(&one.tell(ReignCommand::Want)).expect("it asks");
    one.get(3, Msg::ProbeDenied { epoch: Epoch(7 + (1 << 20) - 1), list: list() });
    let Bid { epoch, request, .. } = bid(&one.get(2, Msg::ProbeOk { request })).expect("it bids");
    assert_eq!(epoch, Epoch(7 + (1 << 20)));
    let mut voter = settled_at(7);
    voter.get(2, bid_of(2, epoch.0, request));
    assert_eq!(voter.machine.granted(), (epoch, Some(holder(2))));
}
