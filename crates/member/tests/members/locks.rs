//! What voters remember for the lock service, and what a new leader learns of it.

use std::time::Duration;

use algorithms::Epoch;
use algorithms::drive::Effect;
use member::reign::{LockPast, Msg, Reign, ReignEvent, ReignTimer, Vote};
use member::{OnClose, Settings};

use crate::bench::{Bench, Wanted};
use crate::reigns::{bid_of, bids, fresh_vote, settings, started};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn with_locks(ttl: u64) -> Settings {
    let mut settings = settings(OnClose::WaitLease);
    settings.timing.lock_ttl_max = secs(ttl);
    settings
}

fn voter(ttl: u64, vote: Vote) -> Bench<Reign> {
    let (mut one, _) = started(with_locks(ttl), Some(vote));
    one.fire(ReignTimer::Settle);
    one
}

fn told(wanted: &Wanted<Reign>) -> Option<LockPast> {
    wanted.sent().into_iter().find_map(|(_, message)| match message {
        Msg::Ack { locks, .. } => Some(locks),
        _ => None,
    })
}

fn past(longest_ttl: u64, only_holder: bool) -> LockPast {
    LockPast { longest_ttl: secs(longest_ttl), only_holder }
}

/// What the leader learns from itself and this voter.
fn leads(one: &mut Bench<Reign>, locks: LockPast) -> Vec<ReignEvent> {
    let bid = bids(one);
    let (epoch, request, incarnation) = (bid.epoch, bid.request, one.machine.incarnation());
    one.get(2, Msg::Ack { epoch, request, incarnation, locks }).announced()
}

#[test]
fn a_voter_tells_whether_all_its_grants_went_to_one_process() {
    let mut one = voter(60, fresh_vote());
    assert_eq!(told(&one.get(2, bid_of(2, 1, 1))), Some(past(60, true)));
    assert_eq!(told(&one.get(2, bid_of(2, 4, 2))), Some(past(60, true)), "a later epoch of the same process");
    one.fire(ReignTimer::Promise);
    assert_eq!(told(&one.get(3, bid_of(3, 5, 1))), Some(past(60, false)));
    one.fire(ReignTimer::Promise);
    assert_eq!(told(&one.get(3, bid_of(3, 6, 2))), Some(past(60, false)), "never again");
}

#[test]
fn it_is_on_the_disk_with_the_grant() {
    let mut one = voter(60, fresh_vote());
    let vote = one.get(2, bid_of(2, 1, 1)).persisted()[0].vote.clone().unwrap();
    assert_eq!(vote.locks, past(60, true));
    let mut again = voter(60, vote);
    assert_eq!(told(&again.get(2, bid_of(2, 1, 2))), Some(past(60, true)));
    again.fire(ReignTimer::Promise);
    assert_eq!(told(&again.get(3, bid_of(3, 2, 1))), Some(past(60, false)));
}

#[test]
fn a_record_that_knows_nothing_of_locks_is_not_that_of_a_first_reign() {
    let vote = Vote { epoch: Epoch(3), ..fresh_vote() };
    assert_eq!(told(&voter(60, vote).get(2, bid_of(2, 4, 1))), Some(past(60, false)));
}

#[test]
fn the_largest_ttl_ever_configured_is_remembered() {
    for (stored, now, longest) in [(60, 10, 60), (10, 60, 60), (0, 10, 10)] {
        let vote = Vote { locks: past(stored, false), ..fresh_vote() };
        let (_, wanted) = started(with_locks(now), Some(vote));
        assert_eq!(wanted.persisted()[0].vote.as_ref().map(|vote| vote.locks.longest_ttl), Some(secs(longest)));
    }
}

#[test]
fn a_leader_learns_what_its_majority_knows() {
    for (mine, theirs, first, longest) in [(30, past(60, true), true, 60), (30, past(10, false), false, 30)] {
        let led = leads(&mut voter(mine, fresh_vote()), theirs);
        let [ReignEvent::Leading { locks, .. }] = led[..] else { panic!("{led:?}") };
        assert_eq!(locks, past(longest, first));
    }
    let vote = Vote { epoch: Epoch(3), holder: Some(crate::reigns::holder(2)), ..fresh_vote() };
    let led = leads(&mut voter(60, vote), past(60, true));
    assert!(matches!(led[..], [ReignEvent::Leading { locks: LockPast { only_holder: false, .. }, .. }]), "{led:?}");
}

#[test]
fn the_announcement_of_a_grant_follows_its_answer() {
    let wanted = voter(60, fresh_vote()).get(2, bid_of(2, 1, 1));
    let answered = wanted.place(|effect| matches!(effect, Effect::Send { message: Msg::Ack { .. }, .. }));
    let announced = wanted.place(|effect| matches!(effect, Effect::Announce(ReignEvent::Granted { .. })));
    assert!(answered.is_some() && answered < announced, "{answered:?} and {announced:?}");
}

#[test]
fn a_process_that_gave_up_and_never_led_does_not_count() {
    let abandon = |id, epoch| Msg::Abandon(crate::reigns::released(id, epoch));
    let mut one = voter(60, fresh_vote());
    one.get(2, bid_of(2, 1, 1));
    assert!(one.get(3, abandon(2, 1)).is_nothing(), "only the holder itself says so");
    one.get(2, abandon(2, 1));
    assert_eq!(told(&one.get(3, bid_of(3, 2, 1))), Some(past(60, true)));
    // A leader that steps down says something else.
    one.get(3, Msg::Release(crate::reigns::released(3, 2)));
    assert_eq!(told(&one.get(2, bid_of(2, 3, 1))), Some(past(60, false)));
    one.get(2, abandon(2, 3));
    assert_eq!(told(&one.get(3, bid_of(3, 4, 1))), Some(past(60, false)), "another one has led before");
}

#[test]
fn a_candidate_abandons_its_bid_unless_it_has_led() {
    let refused = |one: &mut Bench<Reign>| {
        let bid = bids(one);
        let refuse = |one: &mut Bench<Reign>, voter| {
            one.get(voter, Msg::Refuse { epoch: bid.epoch, request: bid.request, list: crate::reigns::list() }).sent()
        };
        let mut sent = refuse(one, 2);
        sent.extend(refuse(one, 3));
        sent
    };
    let mut one = voter(60, fresh_vote());
    let sent = refused(&mut one);
    assert!(matches!(sent[..], [(2, Msg::Abandon(_)), (3, Msg::Abandon(_))]), "{sent:?}");
    let (mut one, _) = started(settings(OnClose::WaitLease), Some(fresh_vote()));
    one.fire(ReignTimer::Settle);
    let sent = refused(&mut one);
    assert!(matches!(sent[..], [(2, Msg::Release(_)), (3, Msg::Release(_))]), "no lock service: {sent:?}");
    let mut one = voter(60, fresh_vote());
    leads(&mut one, past(60, true));
    one.tell(member::reign::ReignCommand::StepDown);
    let sent = refused(&mut one);
    assert!(matches!(sent[..], [(2, Msg::Release(_)), (3, Msg::Release(_))]), "it has led: {sent:?}");
}
