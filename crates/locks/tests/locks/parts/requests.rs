//! What an attached client asks, and when it is answered.

use locks::central::CentralTimer;
use locks::service::{LockSettings, ServiceCommand, ServiceEvent, StreamId};
use locks::wire::{Mode, Refusal, RequestId, SendNumber, SessionId, Ticket, ToClerk, ToClient};
use types::{Epoch, Token};

use crate::bench::{Bench, TTL, acquire, name};

#[test]
fn keep_alive_acquire_and_open_move_the_deadline_and_a_release_does_not() {
    let mut bench = Bench::alone(&LockSettings::default());
    let timer = CentralTimer::Session(SessionId(1));
    assert_eq!(bench.say(1, ToClerk::KeepAlive { number: SendNumber(9) }).sets(timer), Some(TTL));
    assert_eq!(bench.acquire(1, 1, "a", Mode::Exclusive).sets(timer), Some(TTL));
    let token = Token::new(Epoch(1), 1);
    assert_eq!(bench.say(1, ToClerk::Release { request: RequestId(1), token, durable: false }).sets(timer), None);
    assert_eq!(bench.say(1, crate::bench::open(1, 1, 2)).sets(timer), Some(TTL));
}

#[test]
fn a_message_that_was_read_after_the_lease_ended_changes_nothing() {
    let mut bench = Bench::alone(&LockSettings::default());
    let before = bench.machine().clone();
    let late = [ToClerk::KeepAlive { number: SendNumber(3) }, acquire(1, "a", Mode::Exclusive, None), ToClerk::Close];
    for message in late {
        let did = bench.tell(ServiceCommand::Message { from: StreamId(1), message, leased: false });
        assert!(did.0.is_empty(), "{did:?}");
    }
    assert_eq!(*bench.machine(), before);
}

#[test]
fn a_repeated_request_is_the_same_request() {
    let mut bench = Bench::alone(&LockSettings::default());
    let granted =
        ToClient::Granted { number: Some(SendNumber(2)), request: RequestId(1), token: Token::new(Epoch(1), 1) };
    for _ in 0..2 {
        assert_eq!(bench.acquire(1, 1, "a", Mode::Exclusive).told(), [(1, granted.clone())]);
    }
    bench.open(2, 1);
    for _ in 0..2 {
        let ticket = Ticket { epoch: Epoch(1), number: 1 };
        let queued = ToClient::Queued { number: SendNumber(2), request: RequestId(1), ahead: 0, ticket };
        assert_eq!(bench.acquire(2, 1, "a", Mode::Exclusive).told(), [(2, queued)]);
    }
    assert_eq!(bench.acquire(1, 1, "b", Mode::Exclusive).told(), [], "the number belongs to another lock");
}

#[test]
fn no_session_has_two_requests_for_one_lock() {
    let mut bench = Bench::alone(&LockSettings::default());
    bench.acquire(1, 1, "a", Mode::Shared);
    let again = ToClient::Refused { request: RequestId(2), why: Refusal::Again };
    assert_eq!(bench.acquire(1, 2, "a", Mode::Shared).told(), [(1, again)]);
}

#[test]
fn kinds_of_requests_for_one_lock_are_not_mixed() {
    let mut bench = Bench::alone(&LockSettings::default());
    bench.open(2, 1);
    bench.acquire(1, 1, "a", Mode::Slots(2));
    bench.acquire(1, 2, "b", Mode::Shared);
    for (request, lock, mode, held) in [
        (1, "a", Mode::Slots(3), Mode::Slots(2)),
        (2, "a", Mode::Shared, Mode::Slots(2)),
        (3, "b", Mode::Slots(1), Mode::Shared),
    ] {
        let refused = ToClient::Refused { request: RequestId(request), why: Refusal::OtherMode(held) };
        assert_eq!(bench.acquire(2, request, lock, mode).told(), [(2, refused)]);
    }
    let none = ToClient::Refused { request: RequestId(4), why: Refusal::NoSlots };
    assert_eq!(bench.acquire(2, 4, "c", Mode::Slots(0)).told(), [(2, none)]);
}

#[test]
fn an_operator_takes_a_lock_from_exactly_the_holder_it_names() {
    let mut bench = Bench::alone(&LockSettings::default());
    bench.open(2, 1);
    bench.acquire(1, 1, "a", Mode::Exclusive);
    bench.acquire(2, 1, "a", Mode::Exclusive);
    let unlock = |token| ServiceCommand::Unlock { name: name("a"), token };
    let answer = |token, done| ServiceEvent::Unlocked { name: name("a"), token, done };
    assert_eq!(bench.tell(unlock(Token(1))).events(), [answer(Token(1), false)]);
    let token = Token::new(Epoch(1), 1);
    let did = bench.tell(unlock(token));
    assert_eq!(did.events(), [answer(token, true)]);
    let next = ToClient::Granted { number: None, request: RequestId(1), token: Token::new(Epoch(1), 2) };
    assert_eq!(did.told(), [(1, ToClient::Lost { request: RequestId(1) }), (2, next)]);
}

#[test]
fn nothing_is_served_without_an_office() {
    let mut bench = Bench::alone(&LockSettings::default());
    bench.acquire(1, 1, "a", Mode::Exclusive);
    let did = bench.tell(ServiceCommand::OfficeEnded);
    assert!(matches!(did.told()[..], [(1, ToClient::Unavailable { .. })]), "{did:?}");
    assert!(matches!(bench.acquire(1, 2, "b", Mode::Exclusive).told()[..], [(1, ToClient::Unavailable { .. })]));
    assert_eq!(bench.driver.timers().iter().count(), 0, "no timer of the clerk runs any more");
    assert!(bench.copy().unwrap().1.len() == 1, "the table stays");
}
