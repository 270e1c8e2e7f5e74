//! Who waits, and in which order.

use std::time::Duration;

use locks::central::CentralTimer;
use locks::service::LockSettings;
use locks::wire::{Mode, Refusal, RequestId, SessionId, ToClerk, ToClient};
use types::Token;

use crate::bench::{Bench, acquire, name};

fn bench(sessions: u64) -> Bench {
    let mut bench = Bench::alone(&LockSettings::default());
    (2..=sessions).for_each(|session| drop(bench.open(session, 1)));
    bench
}

fn waiters(bench: &Bench) -> Vec<u128> {
    bench.machine().lock(&name("a")).map_or(Vec::new(), |view| view.waiters.iter().map(|id| id.0).collect())
}

fn holders(bench: &Bench) -> Vec<u128> {
    bench.machine().lock(&name("a")).map_or(Vec::new(), |view| view.holders.iter().map(|held| held.session.0).collect())
}

fn release(bench: &mut Bench, session: u64) {
    let token = bench.machine().lock(&name("a")).unwrap().holders[0].token;
    bench.say(session, ToClerk::Release { request: RequestId(1), token, durable: false });
}

#[test]
fn first_come_first_served() {
    let mut bench = bench(4);
    for session in [3, 1, 4, 2] {
        bench.acquire(session, 1, "a", Mode::Exclusive);
    }
    assert_eq!((holders(&bench), waiters(&bench)), (vec![3], vec![1, 4, 2]));
    for (session, next) in [(3, 1), (1, 4), (4, 2)] {
        release(&mut bench, session);
        assert_eq!(holders(&bench), [next]);
    }
    release(&mut bench, 2);
    assert_eq!(bench.machine().lock(&name("a")), None);
    assert_eq!(bench.machine().clerk().unwrap().names(), 0);
}

#[test]
fn a_waiting_writer_stops_later_readers_until_it_gives_up() {
    let mut bench = bench(4);
    bench.acquire(1, 1, "a", Mode::Shared);
    bench.say(2, acquire(1, "a", Mode::Exclusive, Some(Duration::from_millis(30))));
    bench.acquire(3, 1, "a", Mode::Shared);
    assert_eq!((holders(&bench), waiters(&bench)), (vec![1], vec![2, 3]));
    let did = bench.fire(CentralTimer::Wait(SessionId(2), RequestId(1)));
    assert!(did.told().contains(&(2, ToClient::Refused { request: RequestId(1), why: Refusal::TimedOut })));
    assert_eq!((holders(&bench), waiters(&bench)), (vec![1, 3], vec![]));
}

#[test]
fn a_try_never_waits_and_overtakes_nobody() {
    let mut bench = bench(3);
    bench.acquire(1, 1, "a", Mode::Shared);
    let busy = ToClient::Refused { request: RequestId(1), why: Refusal::Busy };
    assert_eq!(bench.say(2, acquire(1, "a", Mode::Exclusive, Some(Duration::ZERO))).told(), [(2, busy.clone())]);
    bench.acquire(2, 2, "a", Mode::Exclusive);
    assert_eq!(bench.say(3, acquire(1, "a", Mode::Shared, Some(Duration::ZERO))).told(), [(3, busy)]);
}

#[test]
fn a_withdrawn_request_is_gone_whether_it_waited_or_was_granted() {
    let mut bench = bench(2);
    bench.acquire(1, 1, "a", Mode::Exclusive);
    bench.acquire(2, 1, "a", Mode::Exclusive);
    let withdrawn = ToClient::Refused { request: RequestId(1), why: Refusal::Withdrawn };
    let did = bench.say(2, ToClerk::Withdraw { request: RequestId(1) });
    assert_eq!(did.told(), [(2, withdrawn.clone())]);
    assert_eq!((holders(&bench), waiters(&bench)), (vec![1], vec![]));
    bench.acquire(2, 2, "a", Mode::Exclusive);
    assert!(bench.say(1, ToClerk::Withdraw { request: RequestId(1) }).told().contains(&(1, withdrawn.clone())));
    assert_eq!(holders(&bench), [2]);
    // Named again, it is late: it is not revived.
    assert_eq!(bench.acquire(1, 1, "b", Mode::Exclusive).told(), [(1, withdrawn)]);
    assert_eq!(bench.machine().lock(&name("b")), None);
}

#[test]
fn a_release_with_another_token_frees_nothing() {
    let mut bench = bench(1);
    bench.acquire(1, 1, "a", Mode::Exclusive);
    let did = bench.say(1, ToClerk::Release { request: RequestId(1), token: Token(5), durable: false });
    assert_eq!(did.told(), [(1, ToClient::Refused { request: RequestId(1), why: Refusal::NotHeld })]);
    assert_eq!(holders(&bench), [1]);
}
