//! Faults on purpose, over real sockets. Nothing waits for a time in which nothing happens: that a frame does not
//! arrive is seen by another one, sent later on another way, that does.

use std::time::{Duration, Instant};

use super::common::{connect, incarnation, is_down, listener, members, members_with, next, settings, until};
use transport::{DownReason, Event, Faults, Net, PeerId};

const CUT: Faults = Faults { cut_out: true, cut_in: true, delay_out: Duration::ZERO, delay_in: Duration::ZERO };
const CUT_OUT: Faults = Faults { cut_in: false, ..CUT };
const CUT_IN: Faults = Faults { cut_out: false, ..CUT };
const NONE: Faults = Faults { cut_out: false, cut_in: false, delay_out: Duration::ZERO, delay_in: Duration::ZERO };

/// Three members, all connected: 1 and 2 are cut in these tests, 3 is the way around.
async fn triangle() -> [Net; 3] {
    let [mut one, mut two, mut three] = members_with::<3>(|settings| settings.dial_timeout = Duration::from_millis(50));
    connect(&mut one, 1, &mut two, 2).await;
    connect(&mut three, 3, &mut one, 1).await;
    three.want(&[1, 2]);
    let mut ups = 0;
    while ups < 2 {
        let (_, event) = next(&mut [&mut one, &mut two, &mut three]).await;
        ups += usize::from(matches!(event, Event::Up { .. }));
    }
    [one, two, three]
}

/// Sends from one member to another by way of the third, and demands that nothing else is reported meanwhile. Whatever
/// was sent before on the straight way would have come first.
async fn around(nets: &mut [Net; 3], from: PeerId, to: PeerId) {
    let [one, two, three] = nets;
    let sender = if from == 1 { &mut *one } else { &mut *two };
    assert!(sender.send(3, b"around"));
    let (who, event) = next(&mut [&mut *one, &mut *two, &mut *three]).await;
    assert!(who == 2 && matches!(event, Event::Frame { .. }), "{who}: {event:?}");
    assert!(three.send(to, b"around"));
    let (who, event) = next(&mut [one, two, three]).await;
    assert!(who == to as usize - 1 && matches!(event, Event::Frame { from: 3, .. }), "{who}: {event:?}");
}

/// The next frames of a member, all from one sender; other events fail.
async fn frames(nets: &mut [Net; 3], at: PeerId, sender: PeerId, count: usize) -> Vec<u8> {
    let [one, two, three] = nets;
    let mut taken = Vec::new();
    while taken.len() < count {
        let (who, event) = next(&mut [&mut *one, &mut *two, &mut *three]).await;
        match event {
            Event::Frame { from, payload } if from == sender && who == at as usize - 1 => taken.push(payload[0]),
            other => panic!("{who}: {other:?}"),
        }
    }
    taken
}

#[tokio::test]
async fn a_cut_holds_frames_and_its_end_delivers_them_without_a_hole() {
    let mut nets = triangle().await;
    assert!(nets[0].inject(2, CUT) && nets[1].inject(1, CUT));
    for number in 0..100 {
        assert!(nets[0].send(2, &[number]) && nets[1].send(1, &[number]));
    }
    around(&mut nets, 1, 2).await;
    around(&mut nets, 2, 1).await;
    assert!(nets[0].is_connected(2) && nets[1].is_connected(1), "a cut closes nothing");
    nets[0].heal();
    // One end is not enough: the other still takes nothing and gives nothing.
    around(&mut nets, 1, 2).await;
    around(&mut nets, 2, 1).await;
    nets[1].heal();
    assert!(nets[0].send(2, &[100]));
    let mut taken = [Vec::new(), Vec::new()];
    while taken[0].len() + taken[1].len() < 201 {
        let [one, two, three] = &mut nets;
        match next(&mut [one, two, three]).await {
            (who @ (0 | 1), Event::Frame { from, payload }) if from as usize == 2 - who => taken[who].push(payload[0]),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(taken, [(0..100).collect::<Vec<u8>>(), (0..=100).collect()]);
}

#[tokio::test]
async fn one_way_frames_still_come_back_and_the_cut_ones_do_not_arrive() {
    let mut nets = triangle().await;
    assert!(nets[0].inject(2, CUT_OUT) && nets[1].inject(1, CUT_IN));
    assert!(nets[0].send(2, &[1]));
    around(&mut nets, 1, 2).await;
    for number in 0..10 {
        assert!(nets[1].send(1, &[number]));
    }
    assert_eq!(frames(&mut nets, 1, 2, 10).await, (0..10).collect::<Vec<u8>>());
    nets[1].heal();
    around(&mut nets, 1, 2).await;
    nets[0].heal();
    assert_eq!(frames(&mut nets, 2, 1, 1).await, [1]);
}

#[tokio::test]
async fn a_connection_closed_behind_a_cut_stays_up_at_the_other_end_until_the_cut_is_over() {
    for faults in [(CUT, CUT), (CUT_OUT, CUT_IN)] {
        let mut nets = triangle().await;
        nets[0].want(&[]);
        assert!(nets[0].inject(2, faults.0) && nets[1].inject(1, faults.1));
        nets[0].close(2);
        around(&mut nets, 1, 2).await;
        // Output meets a socket that is gone; behind a cut nobody learns of it.
        for _ in 0..3 {
            assert!(nets[1].send(1, b"anybody there?"));
            nets[1].flush();
            around(&mut nets, 1, 2).await;
        }
        assert!(nets[1].is_connected(1));
        nets[1].heal();
        let [one, two, three] = &mut nets;
        let (who, event) = next(&mut [one, two, three]).await;
        assert!(who == 1 && is_down(&event, 1, DownReason::Remote), "{who}: {event:?}");
    }
}

#[tokio::test]
async fn the_open_direction_of_a_one_way_cut_tells_of_a_close() {
    let mut nets = triangle().await;
    assert!(nets[0].inject(2, CUT_OUT) && nets[1].inject(1, CUT_IN));
    nets[1].close(1);
    let [one, two, three] = &mut nets;
    let (who, event) = next(&mut [one, two, three]).await;
    assert!(who == 0 && is_down(&event, 2, DownReason::Remote), "{who}: {event:?}");
}

/// Whichever end knows of the cut (after a restart only one does) and whichever direction it has: TCP needs both.
#[tokio::test]
async fn dials_through_a_cut_time_out_and_go_through_when_it_is_over() {
    for at_dialler in [true, false] {
        for faults in [CUT, CUT_OUT, CUT_IN] {
            let [mut one, mut two] = members_with::<2>(|settings| {
                settings.dial_timeout = Duration::from_millis(20);
                settings.handshake_deadline = Duration::from_millis(20);
                settings.backoff_min = Duration::from_millis(1);
                settings.backoff_max = Duration::from_millis(1);
            });
            assert!(if at_dialler { one.inject(2, faults) } else { two.inject(1, faults) });
            one.want(&[2]);
            for _ in 0..3 {
                let (who, event) = next(&mut [&mut one, &mut two]).await;
                let timed_out = matches!(&event, Event::Unreachable { peer: 2, why } if why.contains("timed out"));
                assert!(who == 0 && timed_out, "{event:?}");
            }
            one.heal();
            two.heal();
            for _ in 0..2 {
                until(&mut [&mut one, &mut two], |_, event| matches!(event, Event::Up { .. })).await;
            }
            assert!(one.is_connected(2) && two.is_connected(1));
        }
    }
}

#[tokio::test]
async fn a_dial_that_waits_at_a_cut_goes_on_in_the_moment_it_is_over() {
    // Nobody gives up in this test: only the end of the cut can bring the connection.
    for at_dialler in [true, false] {
        let [mut one, mut two] = members_with::<2>(|settings| {
            settings.dial_timeout = Duration::from_hours(1);
            settings.handshake_deadline = Duration::from_hours(1);
        });
        let (near, far) = if at_dialler { (CUT, NONE) } else { (NONE, CUT) };
        assert!(one.inject(2, near) && two.inject(1, far));
        one.want(&[2]);
        assert!(tokio::time::timeout(Duration::from_millis(5), next(&mut [&mut one, &mut two])).await.is_err());
        one.heal();
        two.heal();
        for _ in 0..2 {
            let (_, event) = next(&mut [&mut one, &mut two]).await;
            assert!(matches!(event, Event::Up { .. }), "{event:?}");
        }
    }
}

/// After a restart the far end does not know of the cut, and comes back as another process.
#[tokio::test]
async fn a_restarted_peer_is_taken_as_new_once_the_cut_is_over() {
    let [mut one, two] = {
        let [mut one, mut two] = members_with::<2>(|settings| settings.dial_timeout = Duration::from_millis(20));
        connect(&mut two, 2, &mut one, 1).await;
        [one, two]
    };
    assert!(one.inject(2, CUT));
    drop(two);
    let (door, address) = listener();
    let mut again = settings(2, &[one.local_addr().to_string(), address]);
    again.incarnation = incarnation(2);
    again.handshake_deadline = Duration::from_millis(20);
    let mut again = Net::start(again, door).unwrap();
    again.want(&[1]);
    let (who, event) = next(&mut [&mut one, &mut again]).await;
    assert!(who == 1 && matches!(event, Event::Unreachable { peer: 1, .. }), "{who}: {event:?}");
    one.heal();
    let (who, event) = next(&mut [&mut one, &mut again]).await;
    assert!(who == 0 && is_down(&event, 2, DownReason::Remote), "{who}: {event:?}");
    for _ in 0..2 {
        until(&mut [&mut one, &mut again], |_, event| matches!(event, Event::Up { .. })).await;
    }
    assert_eq!(one.peer_incarnation(2), Some(incarnation(2)));
}

#[tokio::test]
async fn a_cut_holds_no_more_than_the_queue() {
    let [mut one, mut two] = members_with::<2>(|settings| settings.queue_bytes = 1 << 20);
    connect(&mut one, 1, &mut two, 2).await;
    for faults in [CUT, CUT_OUT, Faults { delay_out: Duration::from_hours(1), ..NONE }] {
        assert!(one.inject(2, faults));
        let block = vec![0; 64 << 10];
        let mut held = 0;
        while one.send(2, &block) {
            held += 1;
            assert!(held < 17, "the queue has no end");
        }
        assert_eq!(held, 15, "as much as the queue takes, with its prefixes");
        let (_, event) = until(&mut [&mut one], |_, event| matches!(event, Event::Down { .. })).await;
        assert!(is_down(&event, 2, DownReason::Overflow), "{event:?}");
        one.heal();
        // Both ends are up again before the next round.
        let mut ups = 0;
        while ups < 2 {
            let (_, event) = next(&mut [&mut one, &mut two]).await;
            ups += usize::from(matches!(event, Event::Up { .. }));
        }
    }
}

/// A frame of 80 bytes takes 100: its length and its tag count as well.
#[tokio::test]
async fn the_queue_counts_frames_as_they_are_sealed() {
    let [mut one, mut two] = members_with::<2>(|settings| settings.queue_bytes = 990);
    connect(&mut one, 1, &mut two, 2).await;
    assert!(one.inject(2, CUT));
    let held = (0..20).take_while(|_| one.send(2, &[0; 80])).count();
    assert_eq!(held, 9);
}

fn slow(delay: Duration) -> Faults {
    Faults { delay_out: delay, ..NONE }
}

#[tokio::test]
async fn delayed_frames_come_later_and_in_order_also_when_the_delay_changes() {
    let mut nets = triangle().await;
    let delay = Duration::from_millis(40);
    assert!(nets[0].inject(2, slow(delay)));
    let sent = Instant::now();
    for number in 0..50 {
        assert!(nets[0].send(2, &[number]));
    }
    around(&mut nets, 1, 2).await;
    // Shorter now, but nobody overtakes.
    assert!(nets[0].inject(2, slow(Duration::from_millis(1))));
    for number in 50..100 {
        assert!(nets[0].send(2, &[number]));
    }
    assert_eq!(frames(&mut nets, 2, 1, 1).await, [0]);
    assert!(sent.elapsed() >= delay, "early");
    assert_eq!(frames(&mut nets, 2, 1, 99).await, (1..100).collect::<Vec<u8>>());
    assert!(nets[1].send(1, &[7]), "the other direction is not delayed");
    assert_eq!(frames(&mut nets, 1, 2, 1).await, [7]);
}

#[tokio::test]
async fn every_frame_has_its_own_delay_also_on_a_connection_made_later() {
    let [mut one, mut two] = members::<2>();
    let delay = Duration::from_millis(20);
    assert!(one.inject(2, slow(delay)) && two.inject(1, slow(delay)));
    connect(&mut one, 1, &mut two, 2).await;
    for round in 0..5 {
        let sent = Instant::now();
        assert!(one.send(2, &[round]));
        let (who, event) = next(&mut [&mut one, &mut two]).await;
        assert!(who == 1 && matches!(&event, Event::Frame { payload, .. } if payload[..] == [round]), "{event:?}");
        assert!(two.send(1, &[round]));
        let (who, event) = next(&mut [&mut one, &mut two]).await;
        assert!(who == 0 && matches!(&event, Event::Frame { payload, .. } if payload[..] == [round]), "{event:?}");
        assert!(sent.elapsed() >= 2 * delay, "there and back in {:?}", sent.elapsed());
    }
}

#[tokio::test]
async fn healing_a_delay_delivers_at_once_what_was_on_its_way() {
    let [mut one, mut two] = members::<2>();
    connect(&mut one, 1, &mut two, 2).await;
    assert!(one.inject(2, slow(Duration::from_hours(1))));
    for number in 0..10_u8 {
        assert!(one.send(2, &[number]));
    }
    one.flush();
    one.heal();
    for number in 0..10_u8 {
        let (_, event) = next(&mut [&mut one, &mut two]).await;
        assert!(matches!(&event, Event::Frame { payload, .. } if payload[..] == [number]), "{event:?}");
    }
}

#[tokio::test]
async fn a_connect_that_would_take_too_long_there_and_back_times_out() {
    let [mut one, mut two] = members_with::<2>(|settings| settings.dial_timeout = Duration::from_millis(30));
    let far = Faults { delay_in: Duration::from_hours(1), ..NONE };
    assert!(one.inject(2, far));
    one.want(&[2]);
    let (_, event) = next(&mut [&mut one, &mut two]).await;
    assert!(matches!(&event, Event::Unreachable { why, .. } if why.contains("timed out")), "{event:?}");
    assert!(one.inject(2, Faults { delay_in: Duration::from_millis(1), ..NONE }));
    for _ in 0..2 {
        until(&mut [&mut one, &mut two], |_, event| matches!(event, Event::Up { .. })).await;
    }
}

#[tokio::test]
async fn faults_are_told_and_only_configured_peers_have_any() {
    let [mut one] = members_with::<1>(|settings| settings.peers.push((2, "127.0.0.1:1".to_owned())));
    assert!(!one.inject(9, CUT) && !one.inject(1, CUT));
    assert!(one.faults().is_empty());
    assert!(one.inject(2, CUT_OUT));
    assert_eq!(one.faults().into_iter().collect::<Vec<_>>(), [(2, CUT_OUT)]);
    assert!(one.inject(2, NONE));
    assert!(one.faults().is_empty());
}
