//! Sessions, modes, waits and repeated messages.

use std::time::Duration;

use algorithms::mutex::ricart_agrawala::RicartAgrawala;
use algorithms::mutex::ricart_agrawala_readers::RicartAgrawalaReaders;

use super::cluster::Cluster;
use crate::name::LockName;
use crate::wire::{AttachNumber, Held, Mode, OpenRefusal, Refusal, RequestId, SessionId, ToClerk, ToClient, Wanted};

fn x() -> LockName {
    LockName::new("x").expect("a name")
}

#[test]
fn an_answer_that_extends_a_session_waits_for_a_beat_sent_after_the_message() {
    let mut cluster = Cluster::<RicartAgrawala>::led(3);
    cluster.open(101);
    assert_eq!(cluster.told[&101].len(), 1, "Clerk alone");
    cluster.run(1);
    assert_eq!(cluster.told[&101].len(), 1, "the beat has reached the leader");
    cluster.run(1);
    assert!(matches!(cluster.told[&101].last(), Some(ToClient::Opened { .. })), "one round trip later");
    // A member without its leader answers nothing more.
    cluster.cut(0, 1);
    cluster.keep_alive(101);
    cluster.run(2000);
    assert!(matches!(cluster.told[&101].last(), Some(ToClient::Opened { .. })));
}

#[test]
fn a_ttl_is_never_longer_than_a_tenancy() {
    let mut cluster = Cluster::<RicartAgrawala>::led(3);
    cluster.connect(1);
    let epoch = cluster.machine(0).serves().expect("it serves");
    let open = |ttl, number| ToClerk::Open {
        session: SessionId(1),
        number,
        epoch,
        attach: AttachNumber(1),
        ttl,
        bare: false,
        holds: vec![],
        wants: vec![],
    };
    for ttl in [Duration::from_millis(1), Duration::from_secs(100), Duration::from_secs(30)] {
        let number = cluster.number();
        cluster.say(1, open(ttl, number));
    }
    cluster.run(10);
    let (min, max) = (cluster.settings.locks.min_ttl, cluster.settings.locks.max_ttl);
    let told = &cluster.told[&1];
    assert!(told.contains(&ToClient::NotOpened { why: OpenRefusal::TtlTooShort { min } }));
    assert!(told.contains(&ToClient::NotOpened { why: OpenRefusal::TtlTooLong { max } }));
    let promise = cluster.settings.promise();
    assert!(told.iter().any(|told| matches!(told, ToClient::Opened { ttl, .. } if *ttl == promise)));
}

#[test]
fn a_session_that_is_not_kept_alive_loses_its_locks() {
    let mut cluster = Cluster::<RicartAgrawala>::led(3);
    cluster.ask_all(&[101, 201], "x");
    for _ in 0..8 {
        cluster.keep_alive(201);
        cluster.run(500);
    }
    assert!(cluster.lost(101));
    assert!(cluster.granted(201, 1) > cluster.granted(101, 1));
    cluster.keep_alive(101);
    assert_eq!(cluster.told[&101].last(), Some(&ToClient::SessionLost), "never opened by a KeepAlive");
}

#[test]
fn local_clients_queue_in_front_of_one_request() {
    let mut cluster = Cluster::<RicartAgrawala>::led(3);
    cluster.ask_all(&[101, 102, 103], "x");
    assert_eq!(cluster.inside(&[101, 102, 103]), [101]);
    assert!(cluster.told[&103].iter().any(|told| matches!(told, ToClient::Queued { ahead: 2, .. })));
    cluster.say(102, ToClerk::Withdraw { request: RequestId(1) });
    assert_eq!(cluster.refused(102, 1), Some(Refusal::Withdrawn));
    cluster.release(101, 1);
    cluster.run(10);
    assert_eq!(cluster.inside(&[101, 102, 103]), [101, 103]);
    assert!(cluster.granted(103, 1) > cluster.granted(101, 1), "not under the same token");
    cluster.say(103, ToClerk::Close);
    assert!(cluster.lost(103));
    assert!(cluster.machine(1).table(None, 9).is_empty());
}

#[test]
fn tries_and_waits_end_and_slots_are_unsupported() {
    let mut cluster = Cluster::<RicartAgrawala>::led(3);
    cluster.ask_all(&[101], "x");
    cluster.open(1);
    cluster.run(10);
    let wait = |ms| Some(Duration::from_millis(ms));
    cluster.acquire_in(1, 1, "x", Mode::Exclusive, wait(0));
    cluster.acquire_in(1, 2, "y", Mode::Exclusive, wait(0));
    cluster.acquire_in(1, 3, "z", Mode::Shared, None);
    cluster.acquire_in(1, 4, "z", Mode::Slots(2), None);
    cluster.acquire_in(101, 2, "x", Mode::Exclusive, None);
    cluster.run(150);
    assert_eq!(cluster.refused(1, 1), Some(Refusal::Busy));
    assert!(cluster.granted(1, 2).is_some(), "a try of a free lock");
    assert_eq!(cluster.refused(1, 3), Some(Refusal::ModeUnsupported));
    assert_eq!(cluster.refused(1, 4), Some(Refusal::ModeUnsupported));
    assert_eq!(cluster.refused(101, 2), Some(Refusal::Again));
    cluster.acquire_in(1, 5, "x", Mode::Exclusive, wait(300));
    cluster.run(310);
    assert_eq!(cluster.refused(1, 5), Some(Refusal::TimedOut));
    cluster.release(101, 1);
    cluster.run(10);
    assert_eq!(cluster.granted(1, 5), None, "a request that ended is not granted");
}

#[test]
fn a_client_that_comes_back_gets_the_grant_that_it_never_saw_and_frees_what_it_forgot() {
    let mut cluster = Cluster::<RicartAgrawala>::led(3);
    cluster.ask_all(&[101], "x");
    cluster.acquire(101, 2, "y");
    cluster.run(10);
    let token = cluster.granted(101, 1).expect("inside");
    let number = cluster.number();
    let epoch = cluster.machine(1).serves().expect("it serves");
    let want = Wanted {
        request: RequestId(1),
        name: x(),
        mode: Mode::Exclusive,
        wait: None,
        ticket: None,
        waited: Duration::ZERO,
    };
    let hold = Held { request: RequestId(9), name: x(), token, mode: Mode::Exclusive };
    let open = |attach| ToClerk::Open {
        session: SessionId(101),
        number,
        epoch,
        attach: AttachNumber(attach),
        ttl: Duration::from_secs(3),
        bare: true,
        holds: vec![hold.clone()],
        wants: vec![want.clone()],
    };
    cluster.connect(102);
    cluster.say(102, open(0));
    cluster.run(10);
    assert_eq!(cluster.told[&102].len(), 1, "a smaller attach number than seen");
    cluster.say(102, open(2));
    cluster.run(10);
    assert_eq!(cluster.granted(102, 1), Some(token));
    assert!(
        cluster.told[&102].iter().any(|told| matches!(told, ToClient::Opened { lost, .. } if *lost == [RequestId(9)]))
    );
    assert_eq!(cluster.machine(1).table(None, 9).len(), 1, "y was neither held nor wanted");
}

#[test]
fn readers_are_inside_together_also_through_a_new_view() {
    let mut cluster = Cluster::<RicartAgrawalaReaders>::led(3);
    let readers = [1, 101, 201];
    for client in [1, 101, 201, 102] {
        cluster.open(client);
    }
    cluster.run(10);
    for client in readers {
        cluster.acquire_in(client, 1, "x", Mode::Shared, None);
        cluster.run(10);
    }
    assert_eq!(cluster.inside(&readers), readers);
    cluster.acquire(102, 1, "x");
    cluster.cut(1, 2);
    cluster.heal(1, 2);
    cluster.run(600);
    assert_eq!(cluster.machine(0).seat().view.number, 2);
    // The participant whose machine stands for all of them leaves first.
    for reader in readers {
        assert_eq!(cluster.granted(102, 1), None);
        cluster.release(reader, 1);
        cluster.run(10);
    }
    assert!(cluster.granted(102, 1) > cluster.granted(1, 1));
}

#[test]
fn a_bare_session_ends_with_its_connection_where_the_config_says_so() {
    use crate::service::{ServiceCommand, StreamId};
    use algorithms::Input;
    for ends in [false, true] {
        let mut cluster = Cluster::<RicartAgrawala>::led(3);
        cluster.settings.locks.close_ends_bare = ends;
        cluster.ask_all(&[101], "x");
        cluster.input(1, Input::Command(ServiceCommand::StreamClosed(StreamId(101))));
        assert_eq!(cluster.machine(1).table(None, 9).is_empty(), ends);
    }
}
