//! Sessions that attach themselves to a clerk, again or for the first time.

use std::time::Duration;

use locks::central::CentralTimer;
use locks::service::{LockSettings, ServiceCommand, StreamId};
use locks::wire::{AttachNumber, Held, Mode, RequestId, SendNumber, SessionId, Ticket, ToClerk, ToClient, Wanted};
use types::{Epoch, Token};

use crate::bench::{Bench, TTL, name, open};

pub(super) fn held(request: u64, lock: &str, token: Token) -> Held {
    Held { request: RequestId(request), name: name(lock), token, mode: Mode::Exclusive }
}

pub(super) fn wanted(request: u64, lock: &str, waited: u64) -> Wanted {
    let waited = Duration::from_millis(waited);
    Wanted { request: RequestId(request), name: name(lock), mode: Mode::Exclusive, wait: None, ticket: None, waited }
}

pub(super) fn reopen(session: u64, (epoch, attach): (u64, u64), holds: Vec<Held>, wants: Vec<Wanted>) -> ToClerk {
    let (session, number) = (SessionId(u128::from(session)), SendNumber(9));
    let (epoch, attach) = (Epoch(epoch), AttachNumber(attach));
    ToClerk::Open { session, number, epoch, attach, ttl: TTL, bare: true, holds, wants }
}

pub(super) fn token(epoch: u64, n: u32) -> Token {
    Token::new(Epoch(epoch), n)
}

fn locks_held(bench: &Bench) -> Vec<String> {
    bench.copy().map_or(Vec::new(), |(_, entries)| entries)
}

pub(super) fn lost(told: &[(u64, ToClient)]) -> Vec<RequestId> {
    let [(_, ToClient::Opened { lost, .. }), ..] = told else { panic!("{told:?}") };
    lost.clone()
}

#[test]
fn wants_are_matched_with_the_table_before_anything_is_freed() {
    let mut bench = Bench::alone(&LockSettings::default());
    // Granted, and the client never heard of it.
    bench.acquire(1, 1, "a", Mode::Exclusive);
    let did = bench.say(1, reopen(1, (1, 2), vec![], vec![wanted(1, "a", 5)]));
    assert_eq!(lost(&did.told()), []);
    let granted = ToClient::Granted { number: None, request: RequestId(1), token: token(1, 1) };
    assert_eq!(did.told()[1], (1, granted));
}

#[test]
fn what_the_client_neither_holds_nor_wants_is_freed_and_what_only_the_client_holds_is_lost() {
    let mut bench = Bench::alone(&LockSettings::default());
    for (request, lock) in (1..).zip(["a", "b", "c"]) {
        bench.acquire(1, request, lock, Mode::Exclusive);
    }
    let holds = vec![held(1, "a", token(1, 1)), held(2, "b", token(1, 7)), held(8, "z", token(1, 8))];
    let did = bench.say(1, reopen(1, (1, 2), holds, vec![]));
    assert_eq!(lost(&did.told()), [RequestId(2), RequestId(8)]);
    assert_eq!(locks_held(&bench), [format!("a:{}", token(1, 1))]);
}

#[test]
fn an_open_for_another_clerk_or_with_an_older_attach_number_is_ignored() {
    let mut bench = Bench::alone(&LockSettings::default());
    bench.acquire(1, 1, "a", Mode::Exclusive);
    bench.tell(ServiceCommand::StreamOpened(StreamId(2)));
    for (epoch, attach) in [(2, 5), (0, 5), (1, 1), (1, 0)] {
        let did = bench.say(2, reopen(1, (epoch, attach), vec![], vec![]));
        assert!(did.0.is_empty(), "epoch {epoch}, attach {attach}: {did:?}");
    }
    assert_eq!(locks_held(&bench).len(), 1);
}

#[test]
fn nothing_on_an_older_connection_counts() {
    let mut bench = Bench::alone(&LockSettings::default());
    bench.tell(ServiceCommand::StreamOpened(StreamId(2)));
    bench.say(2, open(1, 1, 2));
    for message in [ToClerk::KeepAlive { number: SendNumber(4) }, ToClerk::Close] {
        assert!(bench.say(1, message).0.is_empty());
    }
    assert!(bench.acquire(1, 1, "a", Mode::Exclusive).0.is_empty());
    assert!(!bench.acquire(2, 1, "a", Mode::Exclusive).0.is_empty());
}

#[test]
fn what_comes_before_an_open_was_meant_for_an_earlier_clerk() {
    let mut bench = Bench::alone(&LockSettings::default());
    bench.grant(2, 1);
    bench.begin(2, false);
    assert!(bench.say(1, ToClerk::KeepAlive { number: SendNumber(4) }).0.is_empty());
    assert!(bench.say(1, ToClerk::Close).0.is_empty());
}

#[test]
fn a_stream_has_one_session() {
    let mut bench = Bench::alone(&LockSettings::default());
    assert!(bench.say(1, open(2, 1, 1)).0.is_empty());
    bench.fire(CentralTimer::Session(SessionId(1)));
    assert!(matches!(bench.say(1, open(2, 1, 1)).told()[..], [(1, ToClient::Opened { .. })]));
}

#[test]
fn waiters_of_an_earlier_clerk_queue_in_their_old_order_and_later_ones_behind_them() {
    let mut bench = Bench::alone(&LockSettings::default());
    bench.acquire(1, 1, "a", Mode::Exclusive);
    bench.grant(2, 1);
    bench.begin(2, false);
    let waiters = |bench: &Bench| -> Vec<u128> {
        bench.machine().lock(&name("a")).unwrap().waiters.iter().map(|session| session.0).collect()
    };
    for stream in 2..=6 {
        bench.tell(ServiceCommand::StreamOpened(StreamId(stream)));
    }
    bench.say(6, open(6, 2, 1));
    bench.acquire(6, 1, "a", Mode::Exclusive);
    for (session, waited) in [(2, 10), (3, 30), (5, 20), (4, 20)] {
        bench.say(session, reopen(session, (2, 1), vec![], vec![wanted(1, "a", waited)]));
    }
    assert_eq!(waiters(&bench), [3, 4, 5, 2, 6]);
    // Session 1 does not hold it any more: it is not given on before the window ends.
    let did = bench.say(1, reopen(1, (2, 1), vec![], vec![]));
    assert_eq!(did.told().len(), 1);
    assert_eq!(waiters(&bench).len(), 5);
    bench.fire(CentralTimer::Requeue);
    assert_eq!(waiters(&bench), [4, 5, 2, 6]);
    // Behind the window requests queue as they come.
    bench.tell(ServiceCommand::StreamOpened(StreamId(7)));
    bench.say(7, reopen(7, (2, 1), vec![], vec![wanted(1, "a", 1_000)]));
    assert_eq!(waiters(&bench), [4, 5, 2, 6, 7]);
}

/// Messages of a crowd are long on their way: the times that they tell are not exact.
#[test]
fn waiters_queue_by_the_tickets_of_the_clerk_at_which_they_asked_first() {
    let mut bench = Bench::alone(&LockSettings::default());
    bench.acquire(1, 1, "a", Mode::Exclusive);
    let waiters = |bench: &Bench| -> Vec<u128> {
        bench.machine().lock(&name("a")).unwrap().waiters.iter().map(|session| session.0).collect()
    };
    let ticket = |did: &crate::bench::Did| match did.told().as_slice() {
        [(_, ToClient::Queued { ticket, .. })] => *ticket,
        other => panic!("{other:?}"),
    };
    let mut tickets = std::collections::BTreeMap::new();
    for session in 2..=5 {
        bench.open(session, 1);
        tickets.insert(session, ticket(&bench.acquire(session, 1, "a", Mode::Exclusive)));
    }
    bench.grant(2, 1);
    bench.begin(2, false);
    (6..=7).for_each(|stream| drop(bench.tell(ServiceCommand::StreamOpened(StreamId(stream)))));
    bench.say(6, open(6, 2, 1));
    bench.acquire(6, 1, "a", Mode::Exclusive);
    let back = |bench: &mut Bench, session: u64, waited: u64, ticket| {
        let wants = vec![Wanted { ticket, ..wanted(1, "a", waited) }];
        bench.say(session, reopen(session, (2, 2), vec![], wants));
    };
    for (session, waited) in [(4, 10), (2, 20), (3, 1_000)] {
        back(&mut bench, session, waited, Some(tickets[&session]));
    }
    // It has not heard of its ticket.
    bench.say(7, reopen(7, (2, 1), vec![], vec![wanted(1, "a", 2_000)]));
    assert_eq!(waiters(&bench), [2, 3, 4, 7, 6]);
    bench.fire(CentralTimer::Requeue);
    back(&mut bench, 5, 0, Some(tickets[&5]));
    assert_eq!(waiters(&bench), [2, 3, 4, 5, 7, 6], "also behind the window");
    // A ticket that this clerk cannot have heard of is none.
    let invented = Ticket { epoch: Epoch(2), number: 0 };
    bench.tell(ServiceCommand::StreamOpened(StreamId(8)));
    bench.say(8, reopen(8, (2, 1), vec![], vec![Wanted { ticket: Some(invented), ..wanted(1, "a", 0) }]));
    assert_eq!(waiters(&bench), [2, 3, 4, 5, 7, 6, 8]);
}

/// A few waiters are back at once, and a crowd comes for longer: the lock waits for them.
#[test]
fn the_window_for_waiters_is_longer_while_they_come() {
    let settings = LockSettings { requeue_longer: 3, ..LockSettings::default() };
    let begin = |sessions: u64| {
        let mut bench = Bench::alone(&settings);
        bench.grant(2, 1);
        bench.begin(2, false);
        (2..=sessions).for_each(|stream| drop(bench.tell(ServiceCommand::StreamOpened(StreamId(stream)))));
        bench
    };
    let back = |bench: &mut Bench, session: u64| {
        bench.say(session, reopen(session, (2, 1), vec![], vec![wanted(1, "a", 10)]));
    };
    let is_held = |bench: &Bench| !bench.machine().lock(&name("a")).unwrap().holders.is_empty();
    let mut few = begin(3);
    back(&mut few, 2);
    few.fire(CentralTimer::Requeue);
    assert!(!is_held(&few), "the last part of the window");
    few.fire(CentralTimer::Requeue);
    assert!(is_held(&few), "nobody came in it");
    let mut many = begin(9);
    for session in 2..=4 {
        back(&mut many, session);
        many.fire(CentralTimer::Requeue);
        assert!(!is_held(&many), "after {session}");
    }
    back(&mut many, 5);
    many.fire(CentralTimer::Requeue);
    assert!(is_held(&many), "not for ever");
}

/// The first to attach may be the last that asked.
#[test]
fn waiters_of_an_earlier_clerk_queue_in_their_old_order_also_for_a_lock_that_is_free() {
    let mut bench = Bench::alone(&LockSettings::default());
    bench.grant(2, 1);
    bench.begin(2, false);
    for (session, waited) in [(3, 10), (2, 30)] {
        bench.tell(ServiceCommand::StreamOpened(StreamId(session)));
        bench.say(session, reopen(session, (2, 1), vec![], vec![wanted(1, "a", waited)]));
    }
    let sessions = |bench: &Bench| -> (Vec<u128>, Vec<u128>) {
        let lock = bench.machine().lock(&name("a")).unwrap();
        let holders = lock.holders.iter().map(|holder| holder.session.0).collect();
        (holders, lock.waiters.iter().map(|session| session.0).collect())
    };
    assert_eq!(sessions(&bench), (vec![], vec![2, 3]));
    bench.fire(CentralTimer::Requeue);
    assert_eq!(sessions(&bench), (vec![2], vec![3]));
}
