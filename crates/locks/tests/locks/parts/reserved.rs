//! A released lock is kept ready for the session that had it.

use algorithms::NodeId;
use locks::central::CentralMsg;
use locks::service::{LockSettings, ServiceCommand, ServiceEvent, StreamId};
use locks::wire::{Mode, Refusal, RequestId, ToClerk, ToClient};
use types::Token;

use super::attach::{held, lost, reopen, token, wanted};
use super::heirs::{ack, clerk, entries, grants};
use crate::bench::{Bench, Did, entry, label, name, term, whole};

/// Sessions 1 to 3 are open, and session 1 has held the lock "a" as its first request.
fn released(settings: &LockSettings) -> Bench {
    let mut bench = clerk(settings);
    bench.acquire(1, 1, "a", Mode::Exclusive);
    bench.turn();
    assert_eq!(grants(&ack(&mut bench, 1, 1)), [(1, token(1, 1))]);
    assert_eq!(release(&mut bench, 1, 1, token(1, 1)).told(), [(1, ToClient::Released { request: RequestId(1) })]);
    bench
}

/// A majority has noted the end and the reservation.
fn noted() -> Bench {
    let mut bench = released(&LockSettings::default());
    bench.turn();
    ack(&mut bench, 1, 3);
    bench
}

fn release(bench: &mut Bench, session: u64, request: u64, token: Token) -> Did {
    bench.say(session, ToClerk::Release { request: RequestId(request), token, durable: false })
}

#[test]
fn the_next_request_for_the_lock_is_granted_without_asking_the_voters() {
    let mut bench = noted();
    let did = bench.acquire(1, 2, "a", Mode::Exclusive);
    assert_eq!(grants(&did), [(1, token(1, 2))]);
    assert!(did.sent().is_empty() && !bench.machine().owes());
    assert_eq!(bench.machine().totals(), Some((1, 0)));
    // And so on.
    release(&mut bench, 1, 2, token(1, 2));
    bench.turn();
    ack(&mut bench, 1, 5);
    assert_eq!(grants(&bench.acquire(1, 3, "a", Mode::Exclusive)), [(1, token(1, 3))]);
}

#[test]
fn it_waits_until_a_majority_has_noted_the_reservation() {
    let mut bench = released(&LockSettings::default());
    assert!(grants(&bench.acquire(1, 2, "a", Mode::Exclusive)).is_empty());
    bench.turn();
    assert!(grants(&ack(&mut bench, 1, 2)).is_empty(), "the end of the earlier request only");
    assert_eq!(grants(&ack(&mut bench, 1, 3)), [(1, token(1, 2))]);
}

#[test]
fn nobody_sees_a_reservation() {
    let bench = noted();
    assert_eq!(entries(&bench, "a"), [token(1, 2)]);
    assert_eq!(bench.machine().totals(), Some((0, 0)));
    assert_eq!(bench.machine().lock(&name("a")), None);
    assert_eq!(bench.machine().locks(None, 10), Some(Vec::new()));
    assert_eq!(bench.machine().clerk().map(locks::central::Clerk::names), Some(0));
    let mut bench = noted();
    let did = bench.tell(ServiceCommand::Unlock { name: name("a"), token: token(1, 2) });
    assert_eq!(did.events(), [ServiceEvent::Unlocked { name: name("a"), token: token(1, 2), done: false }]);
}

#[test]
fn another_session_takes_the_lock_as_if_it_were_not_reserved() {
    for mode in [Mode::Exclusive, Mode::Shared, Mode::Slots(2)] {
        let mut bench = noted();
        assert!(grants(&bench.acquire(2, 1, "a", mode)).is_empty());
        assert_eq!(entries(&bench, "a"), [token(1, 3)]);
        bench.turn();
        assert_eq!(grants(&ack(&mut bench, 1, 5)), [(2, token(1, 3))]);
        // The first one waits like any other.
        let did = bench.acquire(1, 2, "a", mode);
        assert!(mode != Mode::Exclusive || matches!(did.told()[..], [(1, ToClient::Queued { .. })]), "{did:?}");
    }
}

#[test]
fn anything_else_that_the_session_asks_for_ends_the_reservation_first() {
    for (request, lock, mode) in
        [(2, "b", Mode::Exclusive), (3, "a", Mode::Exclusive), (2, "a", Mode::Shared), (2, "a", Mode::Slots(0))]
    {
        let mut bench = noted();
        bench.acquire(1, request, lock, mode);
        assert!(!entries(&bench, "a").contains(&token(1, 2)), "{request} {lock} {mode:?}");
        assert!(bench.machine().clerk().unwrap().reserved().is_empty());
    }
}

#[test]
fn it_ends_with_its_session() {
    let ends: [fn(&mut Bench) -> Did; 2] = [
        |bench| bench.say(1, ToClerk::Close),
        |bench| bench.fire(locks::central::CentralTimer::Session(locks::wire::SessionId(1))),
    ];
    for end in ends {
        let mut bench = noted();
        end(&mut bench);
        assert!(entries(&bench, "a").is_empty());
    }
}

#[test]
fn a_session_with_another_lock_gets_none_and_none_comes_of_a_shared_lock() {
    let mut bench = noted();
    bench.acquire(1, 2, "b", Mode::Exclusive);
    bench.acquire(1, 3, "c", Mode::Exclusive);
    release(&mut bench, 1, 2, token(1, 3));
    assert!(entries(&bench, "b").is_empty());
    bench.acquire(2, 1, "s", Mode::Shared);
    release(&mut bench, 2, 1, token(1, 5));
    assert!(entries(&bench, "s").is_empty());
}

/// A clerk of an earlier build would refuse the expected request as one that was named before.
#[test]
fn there_is_none_beside_a_member_of_an_earlier_build() {
    let mut bench = noted();
    let old = |knows| ServiceCommand::KnowsHeirs { peer: NodeId(3), knows };
    bench.tell(old(false));
    assert!(entries(&bench, "a").is_empty());
    bench.acquire(1, 2, "a", Mode::Exclusive);
    release(&mut bench, 1, 2, token(1, 3));
    assert!(entries(&bench, "a").is_empty());
    bench.tell(old(true));
    bench.acquire(1, 3, "a", Mode::Exclusive);
    release(&mut bench, 1, 3, token(1, 4));
    assert_eq!(entries(&bench, "a"), [token(1, 5)]);
}

#[test]
fn a_full_table_makes_room_for_a_holder() {
    let mut settings = LockSettings::default();
    settings.limits.requests = 2;
    let mut bench = released(&settings);
    bench.acquire(2, 1, "b", Mode::Exclusive);
    assert_eq!(bench.machine().clerk().unwrap().reserved().len(), 1);
    bench.acquire(3, 1, "c", Mode::Exclusive);
    assert!(bench.machine().clerk().unwrap().reserved().is_empty());
    assert_eq!(bench.machine().totals(), Some((2, 0)));
    let refused = ToClient::Refused { request: RequestId(2), why: Refusal::TableFull };
    assert_eq!(bench.acquire(1, 2, "a", Mode::Exclusive).told(), [(1, refused)]);
}

/// A clerk that has taken a table over in which the lock is reserved for session 1, which names its second request next.
fn taken_over() -> Bench {
    let mut bench = Bench::voter(1);
    let mut reserved = entry("a", token(1, 2).0, 1);
    reserved.holder.request = RequestId(2);
    bench.get(2, CentralMsg::Install { term: term(1), seq: 3, chunk: whole(vec![reserved]) });
    bench.grant(2, 1);
    bench.begin(2, false);
    bench.report(2, 2, Some(label(1, 3)));
    ack(&mut bench, 2, 0);
    (1..=3).for_each(|session| drop(bench.tell(ServiceCommand::StreamOpened(StreamId(session)))));
    bench
}

#[test]
fn a_later_clerk_frees_the_lock_when_the_session_attaches_without_naming_it() {
    let mut bench = taken_over();
    bench.say(1, reopen(1, (2, 2), vec![], vec![]));
    assert!(entries(&bench, "a").is_empty());
    // The number of the request is not used up by that.
    bench.acquire(1, 2, "b", Mode::Exclusive);
    bench.turn();
    assert_eq!(grants(&ack(&mut bench, 2, 2)), [(1, token(2, 1))]);
}

#[test]
fn at_a_later_clerk_the_session_holds_what_it_names() {
    let mut bench = taken_over();
    let did = bench.say(1, reopen(1, (2, 2), vec![held(2, "a", token(1, 2))], vec![]));
    assert!(lost(&did.told()).is_empty());
    assert_eq!(entries(&bench, "a"), [token(1, 2)]);
    let mut bench = taken_over();
    let did = bench.say(1, reopen(1, (2, 2), vec![], vec![wanted(2, "a", 0)]));
    assert_eq!(grants(&did), [(1, token(1, 2))], "a majority knows it");
}
