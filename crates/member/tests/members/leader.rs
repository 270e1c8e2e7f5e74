//! The leader: renews its lease, moves past voters that are ahead, and gives leadership away in one order.

use crate::reigns::list;
use algorithms::drive::Effect;
use algorithms::{Epoch, NodeId, Span};
use member::reign::{LockPast, LossCause, Msg, Reign, ReignCommand, ReignEvent, ReignTimer, Released};
use member::{LeaseTimer, OnClose, Settings};
use types::Stamp;

use crate::bench::{Bench, Wanted};
use crate::reigns::{
    Bid, LEASE, bid, bid_of, bids, fresh_vote, grant, holder, leading, leading_with_a_child, lets_go, ready, released,
    request_of_probe, settings, settled, started,
};

fn offers(wanted: &Wanted<Reign>) -> bool {
    wanted.place(|effect| matches!(effect, Effect::Send { message: Msg::Offer { .. }, .. })).is_some()
}

fn lost(cause: LossCause) -> [ReignEvent; 1] {
    [ReignEvent::Lost { cause }]
}

#[test]
fn renewals_alternate_the_two_lease_timers() {
    let mut one = settled(OnClose::WaitLease);
    let first = bids(&mut one);
    let led = grant(&mut one, &[2], first);
    let [ReignEvent::Leading { until: LeaseTimer::A, .. }] = led[..] else { panic!("{led:?}") };
    for until in [LeaseTimer::B, LeaseTimer::A, LeaseTimer::B] {
        let wanted = one.fire(ReignTimer::Renew);
        assert!(wanted.set(ReignTimer::Lease(until)).is_some());
        let renewed = bid(&wanted).expect("it renews");
        assert_eq!(renewed.epoch, first.epoch);
        assert_eq!(grant(&mut one, &[2], renewed), [ReignEvent::Extended { until, no_child: true }]);
    }
}

/// A third of the lease has passed since the bid: without another application the lease would end before the voters have
/// answered the next.
#[test]
fn a_bid_that_is_won_late_is_followed_by_a_renewal_at_once() {
    let acks = |one: &mut Bench<Reign>, bid: Bid| {
        let incarnation = one.machine.incarnation();
        one.get(2, Msg::Ack { epoch: bid.epoch, request: bid.request, incarnation, locks: LockPast::default() })
    };
    let third = Span::exactly(settings(OnClose::WaitLease).timing.reign() / 3);
    let mut one = settled(OnClose::WaitLease);
    let first = bids(&mut one);
    assert!(one.fire(ReignTimer::Renew).is_nothing(), "it does not lead yet");
    let wanted = acks(&mut one, first);
    assert_eq!(one.machine.leads(), Some(first.epoch));
    let renewed = bid(&wanted).expect("it renews at once");
    assert!(renewed.epoch == first.epoch && renewed.request > first.request);
    assert!(wanted.set(ReignTimer::Lease(LeaseTimer::B)).is_some());
    assert_eq!(wanted.set(ReignTimer::Renew), Some(third));
    // A renewal, and a later epoch, whose answers take longer than a third of the lease.
    for order in [None, Some(ReignCommand::Affirm)] {
        let mut one = leading(OnClose::WaitLease);
        let next = match order {
            None => one.fire(ReignTimer::Renew),
            Some(ref order) => one.tell(order.clone()),
        };
        assert_eq!(next.set(ReignTimer::Renew), Some(third), "counted from the bid");
        let next = bid(&next).expect("it bids");
        assert_eq!(bid(&one.fire(ReignTimer::Renew)), Some(next), "the same bid again");
        assert!(bid(&acks(&mut one, next)).is_some_and(|after| after.request > next.request), "{order:?}");
    }
}

#[test]
fn a_bid_that_is_won_in_time_leaves_the_moment_of_the_renewal_as_it_is() {
    let mut one = settled(OnClose::WaitLease);
    let request = request_of_probe(&one.tell(ReignCommand::Want)).expect("it asks");
    let wanted = one.get(2, Msg::ProbeOk { request });
    let renewal = wanted.place(|effect| matches!(effect, Effect::SetTimer(ReignTimer::Renew, _)));
    let write = wanted.place(|effect| matches!(effect, Effect::Persist(_)));
    assert!(renewal.is_some() && renewal < write, "{wanted:?}");
    let first = bid(&wanted).expect("it bids");
    let (epoch, request, incarnation) = (first.epoch, first.request, one.machine.incarnation());
    let wanted = one.get(2, Msg::Ack { epoch, request, incarnation, locks: LockPast::default() });
    assert!(one.machine.leads().is_some() && bid(&wanted).is_none());
    assert_eq!(wanted.set(ReignTimer::Renew), None);
}

#[test]
fn the_lease_in_hand_ends_the_leadership_and_the_lease_applied_for_only_the_application() {
    let mut one = leading(OnClose::WaitLease);
    let renewed = bid(&one.fire(ReignTimer::Renew)).expect("it renews");
    assert!(one.fire(ReignTimer::Lease(LeaseTimer::B)).announced().is_empty());
    assert!(grant(&mut one, &[2, 3], renewed).is_empty(), "that lease is over before it began");
    assert_eq!(one.fire(ReignTimer::Lease(LeaseTimer::A)).announced(), lost(LossCause::LeaseEnded));
    assert_eq!(one.machine.leads(), None);
}

#[test]
fn a_leader_whose_own_vote_goes_to_another_stops_before_that_is_granted() {
    let mut one = leading(OnClose::WaitLease);
    let after = Some(Released { holder: one.machine.holder(), epoch: Epoch(1) });
    let wanted =
        one.get(2, Msg::Bid { epoch: Epoch(2), request: 1, holder: holder(2), after, no_child: true, list: list() });
    let events = wanted.announced();
    assert_eq!(events[0], ReignEvent::Lost { cause: LossCause::Superseded });
    assert!(
        events.contains(&ReignEvent::Granted { epoch: Epoch(2), holder: holder(2), list: Stamp::FIRST }),
        "{events:?}"
    );
}

/// One voter has given this epoch to itself, another is away: only a later epoch finds a majority in time.
#[test]
fn a_renewal_that_a_voter_has_refused_gives_way_to_a_later_epoch() {
    let mut one = leading(OnClose::WaitLease);
    let renewed = bid(&one.fire(ReignTimer::Renew)).expect("it renews");
    one.get(2, Msg::Refuse { epoch: renewed.epoch, request: renewed.request, list: list() });
    let later = bid(&one.fire(ReignTimer::Renew)).expect("it bids again");
    assert!(later.epoch > renewed.epoch && one.machine.leads() == Some(renewed.epoch));
    let led = grant(&mut one, &[2], later);
    assert!(matches!(led[..], [ReignEvent::Leading { .. }]), "{led:?}");
    assert_eq!(one.machine.leads(), Some(later.epoch));
    let next = bid(&one.fire(ReignTimer::Renew)).expect("it renews");
    assert_eq!(next.epoch, later.epoch, "it is outvoted no more");
}

#[test]
fn a_leader_that_is_affirmed_opens_the_next_epoch_and_leads_until_that_is_granted() {
    let mut one = leading(OnClose::WaitLease);
    let next = bid(&one.tell(ReignCommand::Affirm)).expect("it bids");
    assert_eq!((next.epoch, one.machine.leads()), (Epoch(2), Some(Epoch(1))));
    grant(&mut one, &[3], next);
    assert_eq!(one.machine.leads(), Some(Epoch(2)));
}

#[test]
fn stepping_down_is_announced_before_any_voter_is_released() {
    let wanted = leading(OnClose::WaitLease).tell(ReignCommand::StepDown);
    let lost = wanted.place(|effect| matches!(effect, Effect::Announce(ReignEvent::Lost { .. })));
    let released = wanted.place(|effect| matches!(effect, Effect::Send { message: Msg::Release(_), .. }));
    assert!(lost.is_some() && lost < released, "{wanted:?}");
    assert_eq!(wanted.announced()[0], ReignEvent::Lost { cause: LossCause::SteppedDown });
}

#[test]
fn no_voter_is_released_while_a_child_acts() {
    let mut one = leading_with_a_child(OnClose::Immediate);
    for wanted in [one.down(2), one.up(2), one.down(3)] {
        assert!(!lets_go(&wanted) && one.machine.leads().is_some());
    }
    let wanted = one.tell(ReignCommand::StepDown);
    assert!(!lets_go(&wanted) && one.machine.leads().is_some());
    assert_eq!(wanted.announced(), [ReignEvent::StopChildren]);
    let wanted = one.tell(ReignCommand::Attached(false));
    assert!(lets_go(&wanted) && one.machine.leads().is_none());
    assert_eq!(wanted.announced()[0], ReignEvent::Lost { cause: LossCause::SteppedDown });
}

#[test]
fn a_handover_waits_for_the_children_and_then_asks_the_successor_again() {
    let mut one = leading_with_a_child(OnClose::WaitLease);
    assert!(offers(&one.tell(ReignCommand::Transfer { to: NodeId(3), returns: true })));
    let wanted = one.get(3, ready(1));
    assert_eq!(wanted.announced(), [ReignEvent::StopChildren]);
    assert!(!lets_go(&wanted));
    assert!(offers(&one.tell(ReignCommand::Attached(false))));
    let wanted = one.get(3, ready(1));
    assert_eq!(wanted.announced(), lost(LossCause::HandedOver));
    let me = Released { holder: one.machine.holder(), epoch: Epoch(1) };
    assert_eq!(wanted.sent(), [(3, Msg::Handover(me))], "to the successor alone");
}

#[test]
fn an_offer_is_repeated_for_a_while_and_then_forgotten() {
    let mut one = leading(OnClose::WaitLease);
    let mut wanted = one.tell(ReignCommand::Transfer { to: NodeId(3), returns: true });
    let mut renewals = 0;
    while offers(&wanted) {
        renewals += 1;
        assert!(renewals < 100, "it waits for ever");
        wanted = one.fire(ReignTimer::Renew);
        let renewed = bid(&wanted).expect("it renews");
        grant(&mut one, &[2, 3], renewed);
    }
    assert!(renewals > 2, "{renewals}");
    let ready = one.get(3, ready(1));
    assert!(!lets_go(&ready) && one.machine.leads().is_some(), "it waits for that no more");
}

fn asks_when_its_successor_fails(one: &mut Bench<Reign>) -> bool {
    // The promise to itself is over by then.
    one.fire(ReignTimer::Promise);
    request_of_probe(&one.fire(ReignTimer::Retry)).is_some()
}

#[test]
fn a_leader_that_handed_over_stands_again_if_its_successor_does_not_come_to_lead() {
    for returns in [true, false] {
        let mut one = leading(OnClose::WaitLease);
        one.tell(ReignCommand::Transfer { to: NodeId(3), returns });
        assert!(lets_go(&one.get(3, ready(1))));
        assert_eq!(asks_when_its_successor_fails(&mut one), returns, "unless it steps down");
    }
}

#[test]
fn the_successor_of_a_leader_that_steps_down_may_be_a_better_member_that_is_ready_first() {
    let mut one = leading(OnClose::WaitLease);
    one.settings.preempt = true;
    one.tell(ReignCommand::Transfer { to: NodeId(2), returns: false });
    assert!(lets_go(&one.get(3, ready(1))));
    assert!(!asks_when_its_successor_fails(&mut one), "it steps down, whoever comes after it");
}

#[test]
fn only_a_chosen_successor_and_where_allowed_a_better_member_takes_over() {
    let takes_over = |preempt, from, epoch| {
        let mut one = leading(OnClose::WaitLease);
        one.settings.preempt = preempt;
        lets_go(&one.get(from, ready(epoch)))
    };
    assert!(takes_over(true, 2, 1));
    assert!(!takes_over(false, 2, 1), "not allowed");
    assert!(!takes_over(true, 2, 2), "of another epoch");
    let settings = Settings { witnesses: vec![NodeId(2)], ..settings(OnClose::WaitLease) };
    let (mut one, _) = started(settings, Some(fresh_vote()));
    one.fire(ReignTimer::Settle);
    let request = request_of_probe(&one.tell(ReignCommand::Want)).expect("it asks");
    let bid = bid(&one.get(2, Msg::ProbeOk { request })).expect("it bids");
    grant(&mut one, &[2, 3], bid);
    one.settings.preempt = true;
    assert!(one.machine.leads() == Some(Epoch(1)) && !lets_go(&one.get(2, ready(1))), "a witness never leads");
}

#[test]
fn a_better_member_with_slow_writes_takes_over_only_if_an_operator_wants_it() {
    let ready = |write_time| Msg::Ready { epoch: Epoch(1), write_time };
    let mut one = leading(OnClose::WaitLease);
    one.settings.preempt = true;
    assert!(!lets_go(&one.get(3, ready(LEASE))));
    assert!(offers(&one.tell(ReignCommand::Transfer { to: NodeId(3), returns: true })));
    assert!(lets_go(&one.get(3, ready(LEASE))));
    let mut one = leading(OnClose::WaitLease);
    one.settings.preempt = true;
    assert!(lets_go(&one.get(3, ready(LEASE / 2))));
}

#[test]
fn a_successor_reports_how_long_its_writes_take_and_that_it_failed() {
    let successor = || {
        let mut one = settled(OnClose::WaitLease);
        one.settings.from_driver.write_time = LEASE;
        one.get(3, bid_of(3, 4, 1));
        let request = request_of_probe(&one.tell(ReignCommand::Claim)).expect("it asks");
        let said = one.get(2, Msg::ProbeOk { request }).sent();
        assert_eq!(said, [(3, Msg::Ready { epoch: Epoch(4), write_time: LEASE })]);
        assert!(bid(&one.get(3, Msg::Handover(released(3, 4)))).is_some());
        one
    };
    let failed = ReignEvent::SuccessionFailed;
    assert_eq!(successor().fire(ReignTimer::Lease(LeaseTimer::A)).announced(), std::slice::from_ref(&failed));
    assert!(successor().fire(ReignTimer::Retry).announced().contains(&failed));
    assert!(successor().get(2, bid_of(2, 9, 1)).announced().is_empty(), "its own vote is its own");
    let mut one = successor();
    assert_eq!(grant(&mut one, &[2], Bid { epoch: Epoch(5), request: 2, no_child: true }).len(), 1);
    assert!(!one.fire(ReignTimer::Lease(LeaseTimer::A)).announced().contains(&failed), "it led");
    let mut one = settled(OnClose::WaitLease);
    bids(&mut one);
    assert!(one.fire(ReignTimer::Lease(LeaseTimer::A)).announced().is_empty(), "it succeeded no leader");
}

#[test]
fn an_offer_of_the_sitting_leader_is_taken_up_and_no_other() {
    let (mut one, _) = started(settings(OnClose::WaitLease), Some(fresh_vote()));
    one.fire(ReignTimer::Settle);
    one.get(3, bid_of(3, 4, 1));
    assert_eq!(request_of_probe(&one.get(2, Msg::Offer { epoch: Epoch(4) })), None, "2 does not lead");
    assert_eq!(request_of_probe(&one.get(3, Msg::Offer { epoch: Epoch(3) })), None, "that is over");
    let asked = one.get(3, Msg::Offer { epoch: Epoch(4) });
    let request = request_of_probe(&asked).expect("it asks");
    assert_eq!(one.get(2, Msg::ProbeOk { request }).sent(), [(3, ready(4))]);
}

/// Its lease still runs, but the voters behind it may be free.
#[test]
fn supporters_that_are_lost_end_the_leadership_under_immediate_while_the_lease_still_runs() {
    let mut one = leading(OnClose::Immediate);
    assert!(one.down(2).is_nothing(), "two are left");
    let wanted = one.down(3);
    assert_eq!(wanted.announced()[0], ReignEvent::Lost { cause: LossCause::SupportersLost });
    assert!(wanted.cancels(ReignTimer::Lease(LeaseTimer::A)) && lets_go(&wanted));

    let mut one = leading(OnClose::WaitLease);
    one.down(2);
    assert!(one.down(3).is_nothing(), "a lease is a lease");
}

/// The voters of the lease in hand know of the child; those who have heard since that it has ended are free when their
/// connection closes.
/// A voter whose connection closed has been free since. Its grant of the open renewal does not count any more.
#[test]
fn a_renewal_is_numbered_anew_when_a_voter_was_lost_since() {
    let mut one = leading(OnClose::Immediate);
    let first = bid(&one.fire(ReignTimer::Renew)).expect("it renews");
    assert_eq!(bid(&one.fire(ReignTimer::Renew)), Some(first), "the same one while nothing was lost");
    one.down(2);
    one.up(2);
    let second = bid(&one.fire(ReignTimer::Renew)).expect("it renews");
    assert!(second.epoch == first.epoch && second.request > first.request, "{first:?} {second:?}");
    grant(&mut one, &[2], first);
    one.down(3);
    assert_eq!(one.machine.leads(), None, "2 has granted nothing since");
}

#[test]
fn a_voter_that_heard_of_the_end_of_the_child_does_not_count_when_its_connection_closes() {
    let mut one = leading_with_a_child(OnClose::Immediate);
    one.tell(ReignCommand::Attached(false));
    assert!(bid(&one.fire(ReignTimer::Renew)).is_some_and(|bid| bid.no_child));
    one.down(2);
    assert!(one.machine.leads().is_some(), "two are left");
    one.down(3);
    assert!(one.machine.leads().is_none());
}

#[test]
fn a_child_that_comes_while_votes_are_counted_is_known_to_every_voter_that_grants() {
    let mut one = settled(OnClose::Immediate);
    let first = bids(&mut one);
    assert!(first.no_child);
    let again = bid(&one.tell(ReignCommand::Attached(true))).expect("it bids again");
    assert!(!again.no_child);
    grant(&mut one, &[2, 3], first);
    assert_eq!(one.machine.leads(), None, "they were told that it has none");
    let led = grant(&mut one, &[2], again);
    assert!(matches!(led[..], [ReignEvent::Leading { no_child: false, .. }]), "{led:?}");
}
