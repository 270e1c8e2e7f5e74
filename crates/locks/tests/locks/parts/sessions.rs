//! Sessions at the clerk: how they begin, expire and close.

use std::time::Duration;

use locks::central::{CentralMsg, CentralTimer};
use locks::service::{LockSettings, ServiceCommand, StreamId};
use locks::wire::{Mode, OpenRefusal, SendNumber, SessionId, ToClerk, ToClient};
use types::Epoch;

use crate::bench::{Bench, TTL, name, open};

fn with_ttl(ttl: Duration) -> ToClerk {
    let ToClerk::Open { session, number, epoch, attach, bare, holds, wants, .. } = open(7, 1, 1) else {
        unreachable!("it is an Open")
    };
    ToClerk::Open { session, number, epoch, attach, ttl, bare, holds, wants }
}

#[test]
fn a_ttl_has_bounds() {
    let settings = LockSettings::default();
    let (min, max) = (settings.min_ttl, settings.max_ttl);
    let mut bench = Bench::alone(&settings);
    bench.tell(ServiceCommand::StreamOpened(StreamId(7)));
    let refused = |why| vec![(7, ToClient::NotOpened { why })];
    assert_eq!(bench.say(7, with_ttl(Duration::ZERO)).told(), refused(OpenRefusal::TtlTooShort { min }));
    assert_eq!(bench.say(7, with_ttl(Duration::MAX)).told(), refused(OpenRefusal::TtlTooLong { max }));
    assert!(matches!(bench.say(7, with_ttl(max)).told()[..], [(7, ToClient::Opened { .. })]));
}

#[test]
fn an_expired_session_loses_everything_and_is_told() {
    let mut bench = Bench::alone(&LockSettings::default());
    bench.open(2, 1);
    bench.acquire(1, 1, "a", Mode::Exclusive);
    bench.acquire(1, 2, "b", Mode::Exclusive);
    bench.acquire(2, 1, "a", Mode::Exclusive);
    bench.acquire(2, 2, "b", Mode::Exclusive);
    let did = bench.fire(CentralTimer::Session(SessionId(1)));
    assert_eq!(did.told()[0], (1, ToClient::SessionLost));
    for lock in ["a", "b"] {
        assert_eq!(bench.machine().lock(&name(lock)).unwrap().holders[0].session, SessionId(2));
    }
    // A keep-alive opens nothing.
    let did = bench.say(1, ToClerk::KeepAlive { number: SendNumber(5) });
    assert_eq!(did.told(), [(1, ToClient::SessionLost)]);
    assert_eq!(bench.machine().clerk().unwrap().sessions().len(), 1);
}

#[test]
fn a_closed_connection_is_silence_unless_the_config_ends_bare_sessions_with_it() {
    for (close_ends_bare, left) in [(false, 1), (true, 0)] {
        let mut bench = Bench::alone(&LockSettings { close_ends_bare, ..LockSettings::default() });
        bench.acquire(1, 1, "a", Mode::Exclusive);
        bench.tell(ServiceCommand::StreamClosed(StreamId(1)));
        assert_eq!(bench.machine().clerk().unwrap().sessions().len(), left);
        assert_eq!(bench.machine().lock(&name("a")).is_some(), left == 1);
    }
}

#[test]
fn only_the_close_of_the_newest_connection_counts() {
    let mut bench = Bench::alone(&LockSettings { close_ends_bare: true, ..LockSettings::default() });
    bench.tell(ServiceCommand::StreamOpened(StreamId(2)));
    bench.say(2, open(1, 1, 2));
    bench.tell(ServiceCommand::StreamClosed(StreamId(1)));
    assert_eq!(bench.machine().clerk().unwrap().sessions().len(), 1);
    bench.tell(ServiceCommand::StreamClosed(StreamId(2)));
    assert_eq!(bench.machine().clerk().unwrap().sessions().len(), 0);
}

#[test]
fn a_session_that_closes_frees_its_locks() {
    let mut bench = Bench::alone(&LockSettings::default());
    bench.acquire(1, 1, "a", Mode::Exclusive);
    assert_eq!(bench.say(1, ToClerk::Close).told(), [(1, ToClient::SessionLost)]);
    assert_eq!(bench.machine().lock(&name("a")), None);
    assert_eq!(bench.driver.timers().iter().count(), 0);
}

#[test]
fn sessions_of_the_table_live_their_whole_ttl_under_a_new_clerk() {
    let mut bench = Bench::alone(&LockSettings::default());
    bench.acquire(1, 1, "a", Mode::Exclusive);
    bench.grant(2, 1);
    let did = bench.begin(2, false);
    assert_eq!(did.sets(CentralTimer::Session(SessionId(1))), Some(TTL));
    assert!(did.told().contains(&(1, ToClient::Clerk { epoch: types::Epoch(2) })), "{did:?}");
}

/// So an idle cluster pays nothing for its locks: no wake-up, no message.
#[test]
fn a_service_that_nobody_uses_sets_no_timer_and_sends_nothing() {
    let mut bench = Bench::new(3, &LockSettings::default());
    bench.grant(1, 1);
    bench.begin(1, true);
    for voter in 2..=3 {
        bench.report(voter, 1, None);
    }
    let acknowledge = |bench: &mut Bench, seq| {
        for voter in 2..=3 {
            bench.get(voter, CentralMsg::Ack { epoch: Epoch(1), seq });
        }
    };
    let rests = |bench: &mut Bench| {
        let sent = bench.turn().0;
        assert_eq!((sent.len(), bench.machine().owes(), bench.driver.next_due()), (0, false, None));
    };
    assert_eq!(bench.turn().sent().len(), 2, "the empty table");
    acknowledge(&mut bench, 0);
    rests(&mut bench);
    // The same after it was used.
    bench.open(1, 1);
    bench.acquire(1, 1, "a", Mode::Exclusive);
    bench.turn();
    acknowledge(&mut bench, 1);
    bench.say(1, ToClerk::Close);
    bench.fire(CentralTimer::Flush);
    acknowledge(&mut bench, 2);
    rests(&mut bench);
}
