//! Every limit has its own refusal, and holds.

use locks::service::{Limits, LockSettings, ServiceCommand, StreamId};
use locks::wire::{Mode, OpenRefusal, Refusal, RequestId, ToClerk, ToClient};
use types::{Epoch, Token};

use crate::bench::{Bench, open};

fn limited(limits: Limits) -> Bench {
    Bench::alone(&LockSettings { limits, ..LockSettings::default() })
}

fn refused(bench: &mut Bench, session: u64, request: u64, lock: &str) -> Option<Refusal> {
    let told = bench.acquire(session, request, lock, Mode::Exclusive).told();
    told.iter().find_map(|(_, message)| if let ToClient::Refused { why, .. } = message { Some(*why) } else { None })
}

#[test]
fn names() {
    let mut bench = limited(Limits { names: 2, ..Limits::default() });
    assert_eq!(refused(&mut bench, 1, 1, "a"), None);
    assert_eq!(refused(&mut bench, 1, 2, "b"), None);
    assert_eq!(refused(&mut bench, 1, 3, "c"), Some(Refusal::TooManyNames));
    bench.open(2, 1);
    assert_eq!(refused(&mut bench, 2, 1, "a"), None, "the name is in use already");
    let token = Token::new(Epoch(1), 2);
    bench.say(1, ToClerk::Release { request: RequestId(2), token, durable: false });
    assert_eq!(refused(&mut bench, 1, 4, "c"), None);
}

#[test]
fn waiters_of_one_lock() {
    let mut bench = limited(Limits { waiters: 1, ..Limits::default() });
    (2..=3).for_each(|session| drop(bench.open(session, 1)));
    assert_eq!(refused(&mut bench, 1, 1, "a"), None);
    assert_eq!(refused(&mut bench, 2, 1, "a"), None);
    assert_eq!(refused(&mut bench, 3, 1, "a"), Some(Refusal::TooManyWaiters));
}

#[test]
fn requests_of_one_session_and_of_all() {
    let mut bench = limited(Limits { requests_per_session: 2, requests: 3, ..Limits::default() });
    bench.open(2, 1);
    for (session, request, why) in [
        (1, 1, None),
        (1, 2, None),
        (1, 3, Some(Refusal::TooManyRequests)),
        (2, 1, None),
        (2, 2, Some(Refusal::TableFull)),
    ] {
        assert_eq!(refused(&mut bench, session, request, &format!("{session} {request}")), why);
    }
}

#[test]
fn sessions() {
    let mut bench = limited(Limits { sessions: 1, ..Limits::default() });
    bench.tell(ServiceCommand::StreamOpened(StreamId(2)));
    let did = bench.say(2, open(2, 1, 1));
    assert_eq!(did.told(), [(2, ToClient::NotOpened { why: OpenRefusal::TooManySessions })]);
}

#[test]
fn a_hundred_thousand_names_are_held_and_taken_over() {
    let mut bench = limited(Limits { requests_per_session: 100_000, ..Limits::default() });
    for request in 1..=100_000_u64 {
        bench.acquire(1, request, &format!("a name like many others have, number {request}"), Mode::Exclusive);
    }
    assert_eq!(refused(&mut bench, 1, 100_001, "one more"), Some(Refusal::TooManyRequests));
    bench.open(2, 1);
    assert_eq!(refused(&mut bench, 2, 1, "one more"), Some(Refusal::TooManyNames));
    bench.grant(2, 1);
    bench.begin(2, false);
    assert_eq!(bench.machine().clerk().unwrap().names(), 100_000);
}
