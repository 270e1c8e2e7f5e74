//! The voter: grants each epoch once, and nothing while a promise to another holder runs.

use crate::reigns::list;
use std::time::Duration;
use types::Stamp;

use algorithms::drive::Effect;
use algorithms::{Epoch, NodeId, Span};
use member::reign::{Holder, LockPast, Msg, Reign, ReignCommand, ReignEvent, ReignTimer, Released, Vote};
use member::{Incarnation, OnClose, Settings};

use crate::bench::{Bench, Wanted};
use crate::reigns::{LEASE, bid, bid_of, blank, fresh_vote, holder, learner, released, settings, settled, started};

fn acks(wanted: &Wanted<Reign>) -> bool {
    wanted.place(|effect| matches!(effect, Effect::Send { message: Msg::Ack { .. }, .. })).is_some()
}

fn granted_to(id: u32, epoch: u64) -> Vote {
    Vote {
        epoch: Epoch(epoch),
        holder: Some(holder(id)),
        longest_lease: LEASE,
        list: list(),
        locks: LockPast::default(),
    }
}

/// Has promised epoch 5 to member 2.
fn promised() -> Bench<Reign> {
    let mut one = settled(OnClose::WaitLease);
    assert!(acks(&one.get(2, bid_of(2, 5, 1))));
    one
}

#[test]
fn an_epoch_is_granted_once_and_to_its_holder_as_often_as_it_asks() {
    let mut one = promised();
    assert!(acks(&one.get(2, bid_of(2, 5, 2))), "another lease");
    one.fire(ReignTimer::Promise);
    let wanted = one.get(3, bid_of(3, 5, 1));
    assert_eq!(wanted.sent(), [(3, Msg::Refuse { epoch: Epoch(5), request: 1, list: list() })]);
    assert!(!acks(&one.get(3, bid_of(3, 4, 2))), "older ones are gone");
    assert!(acks(&one.get(3, bid_of(3, 6, 3))));
    assert_eq!(one.machine.granted(), (Epoch(6), Some(holder(3))));
}

#[test]
fn another_incarnation_of_the_holder_is_another_holder() {
    let mut one = promised();
    let again = Holder { id: NodeId(2), incarnation: Incarnation { counter: 2, nonce: 9 } };
    let bid =
        |epoch| Msg::Bid { epoch: Epoch(epoch), request: 1, holder: again, after: None, no_child: true, list: list() };
    assert!(!acks(&one.get(2, bid(5))) && !acks(&one.get(2, bid(6))));
}

#[test]
fn a_grant_is_on_the_disk_before_it_is_answered_and_its_promise_runs_from_then() {
    let wanted = settled(OnClose::WaitLease).get(2, bid_of(2, 5, 1));
    let at = |of: fn(&Effect<Reign>) -> bool| wanted.place(of).expect("it does that");
    let persisted = at(|effect| matches!(effect, Effect::Persist(_)));
    let promised = at(|effect| matches!(effect, Effect::SetTimer(ReignTimer::Promise, _)));
    let answered = at(|effect| matches!(effect, Effect::Send { message: Msg::Ack { .. }, .. }));
    assert!(persisted < promised && promised < answered, "{wanted:?}");
    assert_eq!(wanted.persisted()[0].vote, Some(granted_to(2, 5)));
    assert_eq!(wanted.set(ReignTimer::Promise), Some(Span::exactly(LEASE)));
}

#[test]
fn a_member_speaks_for_itself_only() {
    let mut one = settled(OnClose::WaitLease);
    let probe = Msg::Probe { request: 1, holder: holder(2), after: None, list: list() };
    assert!(one.get(3, probe.clone()).is_nothing() && !one.get(2, probe).is_nothing());
    assert!(one.get(3, bid_of(2, 5, 1)).is_nothing());
    let mut one = promised();
    for message in [Msg::Release, Msg::Handover, Msg::Abandon] {
        assert!(one.get(3, message(released(2, 5))).is_nothing());
    }
    assert!(bid(&one.get(2, Msg::Handover(released(2, 5)))).is_some());
}

#[test]
fn a_running_promise_is_overridden_by_no_epoch() {
    let mut one = promised();
    for epoch in [6, 100] {
        assert!(!acks(&one.get(3, bid_of(3, epoch, 1))), "{epoch}");
    }
    let asked = one.get(3, Msg::Probe { request: 2, holder: holder(3), after: None, list: list() });
    assert_eq!(asked.sent(), [(3, Msg::ProbeDenied { epoch: Epoch(5), list: list() })]);
    let wanted = one.fire(ReignTimer::Promise);
    assert_eq!(wanted.announced(), [ReignEvent::PromiseEnded { epoch: Epoch(5), holder: holder(2) }]);
    assert_eq!(wanted.sent(), [(3, Msg::Free)], "it may ask again");
    assert!(acks(&one.get(3, bid_of(3, 6, 3))));
}

#[test]
fn a_running_promise_ends_by_the_word_of_its_holder_for_all_that_it_was_granted() {
    let after = |released| Msg::Bid {
        epoch: Epoch(6),
        request: 1,
        holder: holder(3),
        after: Some(released),
        no_child: true,
        list: list(),
    };
    let wrong = Holder { incarnation: Incarnation { counter: 2, nonce: 9 }, ..holder(2) };
    let mut one = promised();
    assert!(!acks(&one.get(3, after(released(2, 4)))), "it let go of an earlier epoch");
    assert!(!acks(&one.get(3, after(Released { holder: wrong, epoch: Epoch(5) }))), "of another incarnation");
    assert!(acks(&one.get(3, after(released(2, 5)))));
}

#[test]
fn a_release_frees_the_voter_and_never_the_epoch() {
    let mut one = promised();
    one.get(3, bid_of(3, 6, 1));
    assert!(one.get(2, Msg::Release(released(2, 4))).is_nothing());
    let wanted = one.get(2, Msg::Release(released(2, 5)));
    assert_eq!(wanted.announced(), [ReignEvent::PromiseEnded { epoch: Epoch(5), holder: holder(2) }]);
    assert!(wanted.cancels(ReignTimer::Promise));
    assert_eq!(wanted.sent(), [(3, Msg::Free)]);
    assert!(!acks(&one.get(3, bid_of(3, 5, 2))));
    assert!(acks(&one.get(3, bid_of(3, 6, 3))));
}

#[test]
fn a_release_ends_the_wait_of_a_restarted_voter() {
    let (mut one, _) = started(settings(OnClose::WaitLease), Some(granted_to(2, 5)));
    assert!(!one.machine.is_settled());
    assert!(one.get(2, Msg::Release(released(2, 5))).cancels(ReignTimer::Settle));
    assert!(one.machine.is_settled() && acks(&one.get(3, bid_of(3, 6, 1))));
}

/// The lease may have been changed between the promise and the restart, and promises of the new length are the next.
#[test]
fn a_restarted_voter_waits_for_the_longest_lease_that_was_ever_promised_or_is_now() {
    for (stored, now) in [(2000, 500), (500, 2000), (500, 500)].map(|(a, b)| (ms(a), ms(b))) {
        let mut settings = settings(OnClose::WaitLease);
        settings.timing.lease = now;
        let vote = Vote { longest_lease: stored, ..granted_to(2, 5) };
        let (_, wanted) = started(settings, Some(vote));
        let longest = stored.max(now);
        assert_eq!(wanted.set(ReignTimer::Settle), Some(Span::exactly(longest)));
        assert_eq!(wanted.persisted()[0].vote.as_ref().map(|vote| vote.longest_lease), Some(longest));
    }
}

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

#[test]
fn a_restarted_voter_goes_on_with_the_holder_on_its_disk_and_grants_nothing_else() {
    let (mut one, _) = started(settings(OnClose::WaitLease), Some(granted_to(2, 5)));
    assert!(one.machine.binds(holder(2)) && !one.machine.binds(holder(3)));
    assert!(!acks(&one.get(3, bid_of(3, 6, 1))));
    assert!(!acks(&one.get(2, bid_of(2, 6, 1))), "a new epoch has to wait too");
    let asked = one.get(3, Msg::Probe { request: 1, holder: holder(3), after: None, list: list() });
    assert_eq!(asked.sent(), [(3, Msg::ProbeDenied { epoch: Epoch(5), list: list() })]);
    let renewed = one.get(2, bid_of(2, 5, 7));
    assert!(acks(&renewed));
    let granted = ReignEvent::Granted { epoch: Epoch(5), holder: holder(2), list: Stamp::FIRST };
    assert_eq!(renewed.announced(), [granted], "its earlier process may not have told");
    // That promise runs beyond the wait.
    assert!(one.fire(ReignTimer::Settle).announced().is_empty());
    assert!(!acks(&one.get(3, bid_of(3, 6, 2))));
}

#[test]
fn what_was_promised_before_a_restart_is_over_when_the_voter_has_settled() {
    let (mut one, _) = started(settings(OnClose::WaitLease), Some(granted_to(2, 5)));
    let wanted = one.fire(ReignTimer::Settle);
    assert_eq!(wanted.announced(), [ReignEvent::PromiseEnded { epoch: Epoch(5), holder: holder(2) }]);
    assert!(acks(&one.get(3, bid_of(3, 6, 1))));
}

fn reply(one: &mut Bench<Reign>, from: u32, epoch: Option<u64>) {
    let incarnation = one.machine.incarnation();
    one.get(
        from,
        Msg::SurveyReply { incarnation, epoch: epoch.map(Epoch), cluster: None, list: list(), bootstrap: false },
    );
}

#[test]
fn a_voter_without_a_disk_grants_nothing_and_says_that_it_knows_nothing() {
    let (mut one, wanted) = started(settings(OnClose::WaitLease), None);
    assert_eq!(wanted.persisted()[0].vote, None);
    assert!(one.machine.binds(holder(2)) && one.machine.binds(holder(3)), "while it settles");
    let incarnation = holder(2).incarnation;
    let told = one.get(2, Msg::Survey { incarnation }).sent();
    assert_eq!(
        told,
        [(2, Msg::SurveyReply { incarnation, epoch: None, cluster: None, list: list(), bootstrap: false })]
    );
    let survey = Msg::Survey { incarnation: one.machine.incarnation() };
    assert_eq!(one.fire(ReignTimer::Settle).sent(), [(2, survey.clone()), (3, survey.clone())]);
    assert!(!acks(&one.get(2, bid_of(2, 5, 1))));
    assert_eq!(one.up(3).sent(), [(3, survey.clone())], "a member that is connected now may know");
    assert_eq!(one.fire(ReignTimer::Retry).sent(), [(2, survey.clone()), (3, survey.clone())], "answers may be lost");
}

#[test]
fn enough_others_tell_a_blank_voter_what_was_granted() {
    let mut one = blank();
    reply(&mut one, 2, Some(4));
    reply(&mut one, 3, None);
    assert!(one.machine.is_blank(), "of two members one knows, the other may have forgotten a later grant");
    reply(&mut one, 3, Some(6));
    assert_eq!(one.machine.granted(), (Epoch(6), None));
    assert!(!acks(&one.get(2, bid_of(2, 6, 1))), "6 is gone");
    assert!(acks(&one.get(2, bid_of(2, 7, 2))));
}

#[test]
fn a_cluster_is_new_if_no_other_voter_has_ever_granted_anything() {
    let mut one = blank();
    reply(&mut one, 2, None);
    reply(&mut one, 2, None);
    assert!(one.machine.is_blank());
    reply(&mut one, 3, Some(0));
    assert!(one.machine.is_settled());
}

#[test]
fn a_cluster_is_new_no_more_when_a_voter_that_knew_of_no_grant_tells_of_one() {
    let mut one = blank();
    reply(&mut one, 2, None);
    reply(&mut one, 2, Some(4));
    reply(&mut one, 3, None);
    assert!(one.machine.is_blank(), "3 may have forgotten a later grant");
}

#[test]
fn answers_of_another_time_or_of_members_without_a_vote_tell_a_blank_voter_nothing() {
    let (mut one, _) = started(settings(OnClose::WaitLease), None);
    reply(&mut one, 2, Some(4));
    one.fire(ReignTimer::Settle);
    reply(&mut one, 3, Some(4));
    assert!(one.machine.is_blank(), "2 may have granted more since");
    let earlier = Incarnation { counter: 1, nonce: 1 };
    one.get(
        2,
        Msg::SurveyReply { incarnation: earlier, epoch: Some(Epoch(4)), cluster: None, list: list(), bootstrap: false },
    );
    assert!(one.machine.is_blank(), "that was an answer to an earlier process");

    let learners = Settings { election: learner(3), ..settings(OnClose::WaitLease) };
    let (mut one, _) = started(learners, None);
    one.fire(ReignTimer::Settle);
    reply(&mut one, 2, Some(4));
    reply(&mut one, 3, Some(4));
    assert!(one.machine.is_blank(), "3 does not vote, and of two voters the other cannot tell");
}

#[test]
fn a_blank_voter_believes_no_epoch_that_tokens_have_no_room_for() {
    for far in [Epoch::MAX.0, u64::MAX] {
        let mut one = blank();
        reply(&mut one, 2, Some(far));
        reply(&mut one, 3, Some(3));
        assert!(!one.machine.is_settled(), "one of the two has not answered yet");
        reply(&mut one, 2, Some(5));
        assert_eq!(one.machine.granted().0, Epoch(5));
    }
}

fn frees(on_close: OnClose, no_child: bool, closed: Holder) -> bool {
    let mut one = settled(on_close);
    one.get(2, Msg::Bid { epoch: Epoch(5), request: 1, holder: holder(2), after: None, no_child, list: list() });
    let ended = one.tell(ReignCommand::Closed(closed)).announced();
    assert_eq!(one.machine.binds(holder(2)), ended.is_empty());
    !ended.is_empty()
}

#[test]
fn a_closed_connection_frees_a_voter_only_where_it_may_and_no_child_acts() {
    assert!(frees(OnClose::Immediate, true, holder(2)));
    assert!(!frees(OnClose::WaitLease, true, holder(2)), "not what the operator chose");
    assert!(!frees(OnClose::Immediate, false, holder(2)), "a child may outlive the process");
    assert!(!frees(OnClose::Immediate, true, holder(3)), "not the holder");
    let again = Holder { incarnation: Incarnation { counter: 2, nonce: 9 }, ..holder(2) };
    assert!(!frees(OnClose::Immediate, true, again), "another incarnation");
}

#[test]
fn the_latest_request_says_whether_the_holder_has_a_child_even_if_requests_overtake_each_other() {
    let mut one = settled(OnClose::Immediate);
    let bid = |request, no_child| Msg::Bid {
        epoch: Epoch(5),
        request,
        holder: holder(2),
        after: None,
        no_child,
        list: list(),
    };
    one.get(2, bid(8, false));
    one.get(2, bid(7, true));
    assert!(one.tell(ReignCommand::Closed(holder(2))).is_nothing());
    one.get(2, bid(9, true));
    assert!(!one.tell(ReignCommand::Closed(holder(2))).is_nothing());
}

#[test]
fn what_the_requests_of_one_holder_said_of_children_says_nothing_of_the_next_holder() {
    let bid = |epoch, request, id, no_child| Msg::Bid {
        epoch: Epoch(epoch),
        request,
        holder: holder(id),
        after: None,
        no_child,
        list: list(),
    };
    let mut one = settled(OnClose::Immediate);
    one.get(2, bid(5, 9, 2, true));
    one.fire(ReignTimer::Promise);
    // Requests are numbered by each holder.
    one.get(3, bid(6, 1, 3, false));
    assert!(one.tell(ReignCommand::Closed(holder(3))).is_nothing(), "its child may outlive it");
}

#[test]
fn a_learner_is_asked_and_does_not_answer() {
    let settings = Settings { election: learner(1), ..settings(OnClose::WaitLease) };
    let (mut one, _) = started(settings, Some(fresh_vote()));
    one.fire(ReignTimer::Settle);
    assert!(one.get(2, bid_of(2, 5, 1)).is_nothing());
    assert!(one.get(2, Msg::Probe { request: 1, holder: holder(2), after: None, list: list() }).is_nothing());
}
