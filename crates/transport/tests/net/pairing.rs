//! One connection per pair, whoever dials and however often.

use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use super::common::{
    Dice, connect, events_for, incarnation, is_down, listener, members, members_with, next, settings, until,
};
use tokio::net::{TcpListener, TcpStream};
use transport::{DownReason, Event, Faults, Net, PeerId, RefuseCode};

/// Two members dial each other at once. Every schedule must end with one connection that both ends use.
#[tokio::test]
async fn simultaneous_dials_end_in_one_connection_without_a_down() {
    for round in 0..200_u64 {
        let mut dice = Dice(round + 1);
        let [mut low, mut high] = members_with::<2>(|settings| settings.backoff_min = Duration::from_millis(1));
        // The other side begins some task switches later: each number of them lands elsewhere in the handshake.
        let (first_id, lag) = (dice.below(2), dice.below(48) as u64);
        let mut events = Vec::new();
        if first_id == 0 {
            low.want(&[2]);
        } else {
            high.want(&[1]);
        }
        for _ in 0..lag {
            events.extend(poll_both_once(&mut low, &mut high).await);
            tokio::task::yield_now().await;
        }
        if first_id == 0 {
            high.want(&[1]);
        } else {
            low.want(&[2]);
        }
        let ups = |events: &[(usize, Event)]| events.iter().filter(|(_, e)| matches!(e, Event::Up { .. })).count();
        while ups(&events) < 2 {
            events.push(next(&mut [&mut low, &mut high]).await);
        }
        assert!(low.send(2, b"up") && high.send(1, b"down"));
        let frames =
            |events: &[(usize, Event)]| events.iter().filter(|(_, e)| matches!(e, Event::Frame { .. })).count();
        while frames(&events) < 2 {
            events.push(next(&mut [&mut low, &mut high]).await);
        }
        // Longer than the pause after which a loser would dial again.
        events.extend(events_for(&mut [&mut low, &mut high], Duration::from_millis(4)).await);
        assert_eq!(events.len(), 4, "round {round}: {events:?}");
        let connections = [low.counters(2), high.counters(1)].map(|counters| counters.unwrap().connections);
        assert_eq!(connections, [1, 1], "round {round}");
    }
}

async fn poll_both_once(low: &mut Net, high: &mut Net) -> Vec<(usize, Event)> {
    events_for(&mut [low, high], Duration::ZERO).await
}

/// The same with real parallelism: each member has a thread and a runtime of its own.
#[test]
fn simultaneous_dials_of_two_threads_end_in_one_connection() {
    for round in 0..100 {
        let start = Arc::new(Barrier::new(2));
        // Nobody leaves before both are done; a channel and not a barrier, so that a failed side does not hang the other.
        let (done_one, two_waits) = mpsc::channel();
        let (done_two, one_waits) = mpsc::channel();
        let mut ends = [(done_one, one_waits), (done_two, two_waits)].into_iter();
        let listeners = [listener(), listener()];
        let addresses: Vec<String> = listeners.iter().map(|(_, address)| address.clone()).collect();
        let threads = listeners.into_iter().zip([1, 2]).map(|((listener, _), id)| {
            let (addresses, start) = (addresses.clone(), Arc::clone(&start));
            let (done, wait) = ends.next().unwrap();
            std::thread::spawn(move || {
                start.wait();
                run_member(id, &addresses, listener, || {
                    let _ = done.send(());
                    let _ = wait.recv();
                })
            })
        });
        for member in threads.collect::<Vec<_>>() {
            let events = member.join().unwrap();
            assert!(matches!(events[..], [Event::Up { .. }, Event::Frame { .. }]), "round {round}: {events:?}");
        }
    }
}

fn run_member(id: PeerId, addresses: &[String], listener: std::net::TcpListener, finish: impl FnOnce()) -> Vec<Event> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut settings = settings(id, addresses);
    settings.backoff_min = Duration::from_millis(1);
    let other = 3 - id;
    let mut events = Vec::new();
    runtime.block_on(async {
        let mut net = Net::start(settings, listener).unwrap();
        net.want(&[other]);
        while events.len() < 2 {
            let (_, event) = next(&mut [&mut net]).await;
            if matches!(event, Event::Up { .. }) {
                net.send(other, b"hello");
            }
            events.push(event);
        }
        let later = events_for(&mut [&mut net], Duration::from_millis(5)).await;
        events.extend(later.into_iter().map(|(_, event)| event));
        net.flush();
        finish();
    });
    events
}

#[tokio::test]
async fn a_member_that_lost_its_end_replaces_the_half_open_connection() {
    let (behind, behind_address) = listener();
    let (front, front_address) = listener();
    front.set_nonblocking(true).unwrap();
    tokio::spawn(never_closing_proxy(TcpListener::from_std(front).unwrap(), behind_address.clone()));
    let (other, other_address) = listener();
    let mut stays = Net::start(settings(1, &[behind_address, other_address.clone()]), behind).unwrap();
    let mut loses = Net::start(settings(2, &[front_address, other_address]), other).unwrap();
    connect(&mut loses, 2, &mut stays, 1).await;
    assert!(loses.send(1, b"before"));
    until(&mut [&mut stays, &mut loses], |_, event| matches!(event, Event::Frame { .. })).await;

    loses.close(1);
    let mut seen = Vec::new();
    while seen.iter().filter(|(_, event)| matches!(event, Event::Up { .. })).count() < 2 {
        seen.push(next(&mut [&mut stays, &mut loses]).await);
    }
    let of_stays: Vec<&Event> = seen.iter().filter(|(who, _)| *who == 0).map(|(_, event)| event).collect();
    assert!(is_down(of_stays[0], 2, DownReason::Replaced), "{seen:?}");
    assert!(matches!(of_stays[1], Event::Up { peer: 2, .. }), "{seen:?}");
    assert!(stays.send(2, b"after"));
    let (who, _) = until(&mut [&mut stays, &mut loses], |_, event| matches!(event, Event::Frame { .. })).await;
    assert_eq!(who, 1);
}

/// Forwards both ways, but an end that closes is never told to the other.
async fn never_closing_proxy(listener: TcpListener, target: String) {
    loop {
        let (mut near, _) = listener.accept().await.unwrap();
        let mut far = TcpStream::connect(&target).await.unwrap();
        tokio::spawn(async move {
            let (mut near_read, mut near_write) = near.split();
            let (mut far_read, mut far_write) = far.split();
            let out = async {
                let _ = tokio::io::copy(&mut near_read, &mut far_write).await;
                std::future::pending::<()>().await;
            };
            let back = async {
                let _ = tokio::io::copy(&mut far_read, &mut near_write).await;
                std::future::pending::<()>().await;
            };
            tokio::join!(out, back)
        });
    }
}

#[tokio::test]
async fn a_local_close_is_silent_here_reported_there_and_dialled_again() {
    let [mut one, mut two] = members::<2>();
    connect(&mut one, 1, &mut two, 2).await;
    one.close(2);
    assert!(!one.is_connected(2));
    let (who, event) = next(&mut [&mut one, &mut two]).await;
    assert_eq!(who, 1);
    assert!(is_down(&event, 1, DownReason::Remote), "{event:?}");
    for _ in 0..2 {
        let (_, event) = next(&mut [&mut one, &mut two]).await;
        assert!(matches!(event, Event::Up { .. }), "{event:?}");
    }
}

/// The far side may take a closed connection for the end of this process, so it must not see one before the owner has
/// acted on the end of the link, whoever ended it.
#[tokio::test]
async fn a_link_that_ended_here_is_open_for_the_far_side_until_the_owner_drops_it() {
    for overflows in [false, true] {
        let [mut one, mut two, mut three] = members_with::<3>(|settings| settings.queue_bytes = 1 << 10);
        connect(&mut one, 1, &mut two, 2).await;
        connect(&mut one, 1, &mut three, 3).await;
        connect(&mut three, 3, &mut two, 2).await;
        if overflows {
            assert!(one.inject(2, Faults { cut_out: true, ..Faults::default() }));
            while one.send(2, &[0; 64]) {}
            one.drop_ended();
        } else {
            one.close(2);
        }
        assert!(!one.is_connected(2));
        // Whatever the second was to see of it would come before this word by way of the third.
        assert!(one.send(3, b"around"));
        one.flush();
        assert!(matches!(three.event().await, Event::Frame { from: 1, .. }));
        assert!(three.send(2, b"around"));
        three.flush();
        assert!(matches!(two.event().await, Event::Frame { from: 3, .. }));
        if overflows {
            assert!(is_down(&one.event().await, 2, DownReason::Overflow));
        }
        one.drop_ended();
        assert!(is_down(&two.event().await, 1, DownReason::Remote));
    }
}

#[tokio::test]
async fn a_closed_peer_is_forgotten_with_what_it_sent() {
    let [mut one, mut two] = members::<2>();
    connect(&mut one, 1, &mut two, 2).await;
    for _ in 0..3 {
        assert!(two.send(1, b"late"));
    }
    two.flush();
    until(&mut [&mut one], |_, event| matches!(event, Event::Frame { .. })).await;
    one.want(&[]);
    one.close(2);
    assert_eq!(events_for(&mut [&mut one], Duration::from_millis(5)).await, vec![]);
}

#[tokio::test]
async fn a_killed_peer_is_down_and_its_next_incarnation_is_up() {
    let [mut one, two] = members::<2>();
    let mut two = two;
    connect(&mut one, 1, &mut two, 2).await;
    assert!(two.send(1, b"last words"));
    two.flush();
    let address = two.local_addr();
    drop(two);
    let (_, event) = next(&mut [&mut one]).await;
    assert!(matches!(event, Event::Frame { from: 2, .. }), "frames come before the end: {event:?}");
    let (_, event) = next(&mut [&mut one]).await;
    assert_eq!(event, Event::Down { peer: 2, incarnation: incarnation(1), why: DownReason::Remote });
    let (_, event) = until(&mut [&mut one], |_, event| !matches!(event, Event::Up { .. })).await;
    assert!(matches!(event, Event::Unreachable { peer: 2, .. }), "{event:?}");

    let mut again = settings(2, &[one.local_addr().to_string(), address.to_string()]);
    again.incarnation = incarnation(2);
    let mut two = Net::start(again, std::net::TcpListener::bind(address).unwrap()).unwrap();
    one.hurry(2);
    let (_, event) = until(&mut [&mut one, &mut two], |who, event| who == 0 && matches!(event, Event::Up { .. })).await;
    assert_eq!(event, Event::Up { peer: 2, incarnation: incarnation(2) });
}

#[tokio::test]
async fn a_second_process_with_the_same_id_is_refused_and_both_are_named() {
    let [mut one, mut two] = members::<2>();
    connect(&mut two, 2, &mut one, 1).await;
    let (double, _) = listener();
    let mut claims = settings(2, &[one.local_addr().to_string(), two.local_addr().to_string()]);
    claims.incarnation = incarnation(7);
    let mut double = Net::start(claims, double).unwrap();
    double.want(&[1]);
    let (who, event) = next(&mut [&mut one, &mut two, &mut double]).await;
    let Event::Refused { peer: 1, code: RefuseCode::Duplicate, text } = event else { panic!("{event:?}") };
    assert_eq!(who, 2);
    for part in [incarnation(1).to_string(), incarnation(7).to_string(), one.peer_address(2).unwrap().to_string()] {
        assert!(text.contains(&part), "{part} not in {text}");
    }
    assert!(one.is_connected(2) && two.is_connected(1), "the first process keeps its connection");
}

#[tokio::test]
async fn somebody_with_my_own_id_is_refused() {
    let [mut one, mut two] = members::<2>();
    let (double, _) = listener();
    let mut claims = settings(1, &[one.local_addr().to_string(), one.local_addr().to_string()]);
    claims.incarnation = incarnation(7);
    let mut double = Net::start(claims, double).unwrap();
    double.want(&[2]);
    let (_, event) = next(&mut [&mut one, &mut two, &mut double]).await;
    assert!(matches!(event, Event::Refused { code: RefuseCode::Duplicate, .. }), "{event:?}");
}

#[tokio::test]
async fn nobody_listening_is_reported_and_dialled_again_until_somebody_does() {
    let [mut one] = members_with::<1>(|settings| settings.peers.push((2, "127.0.0.1:1".to_owned())));
    let started = std::time::Instant::now();
    one.want(&[2]);
    for _ in 0..5 {
        let (_, event) = next(&mut [&mut one]).await;
        assert!(matches!(&event, Event::Unreachable { peer: 2, why } if why.contains("127.0.0.1:1")), "{event:?}");
    }
    // The shortest pauses there can be: 10, 20, 40 and 80 ms.
    assert!(started.elapsed() >= Duration::from_millis(150), "dialled again without a pause");
    one.want(&[]);
    assert_eq!(events_for(&mut [&mut one], Duration::from_millis(60)).await, vec![]);
}

#[tokio::test]
async fn names_are_resolved_and_a_name_without_address_is_reported() {
    let [mut one, mut two] = members::<2>();
    let port = two.local_addr().port();
    let (third, address) = listener();
    let peers = vec![(1, "no-such-host.invalid:1".to_owned()), (2, format!("localhost:{port}")), (3, address)];
    let mut three = Net::start(transport::Settings::new("test", 3, incarnation(1), peers), third).unwrap();
    three.want(&[1, 2]);
    let (_, event) = until(&mut [&mut one, &mut two, &mut three], |who, event| {
        who == 2 && matches!(event, Event::Unreachable { .. })
    })
    .await;
    assert!(matches!(event, Event::Unreachable { peer: 1, .. }), "{event:?}");
    // Member 2 does not know member 3: that it says so shows that the name led there.
    until(&mut [&mut one, &mut two, &mut three], |_, event| {
        matches!(event, Event::Refused { peer: 2, code: RefuseCode::Unknown, .. })
    })
    .await;
}
