//! Until when a client may act.

use std::time::Duration;

use locks::right::{Right, Terms};
use locks::service::LockSettings;
use locks::wire::{Mode, SendNumber};

use crate::world::{Way, World};

fn terms(max_drift_ppm: u32, margin: u64) -> Terms {
    Terms { ttl: Duration::from_secs(10), max_drift_ppm, margin: Duration::from_millis(margin) }
}

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn the_right_ends_before_the_clerk_ends_the_session_even_if_both_clocks_err_as_far_as_they_may() {
    for ppm in [0, 1, 10_000, 100_000, 999_999] {
        let terms = terms(ppm, 0);
        let drift = f64::from(ppm) / 1e6;
        // In real time: the client's clock is slow, the clerk's is fast.
        let acts = terms.right().as_secs_f64() / (1.0 - drift);
        let lives = terms.ttl.as_secs_f64() / (1.0 + drift);
        assert!(acts <= lives, "{ppm}: {acts} against {lives}");
        assert!(lives - acts < 1e-3, "{ppm}: and not much earlier");
    }
}

#[test]
fn the_margin_is_subtracted_and_nothing_overflows() {
    assert_eq!(terms(0, 5).right(), Duration::from_millis(9_995));
    assert_eq!(terms(0, 20_000).right(), Duration::ZERO);
    assert_eq!(terms(u32::MAX, 0).right(), Duration::ZERO);
    let long = Terms { ttl: Duration::MAX, max_drift_ppm: 0, margin: Duration::ZERO };
    assert!(long.right() <= Duration::MAX);
}

#[test]
fn it_counts_from_the_send_time_of_what_was_answered() {
    let mut right = Right::default();
    let terms = terms(0, 0);
    right.sends(SendNumber(1), at(1_000));
    right.sends(SendNumber(2), at(4_000));
    assert_eq!(right.until(), Duration::ZERO);
    assert!(right.answered(SendNumber(1), &terms));
    assert_eq!(right.until(), at(11_000));
    assert!(!right.answered(SendNumber(1), &terms), "once");
    assert!(right.answered(SendNumber(2), &terms));
    assert_eq!(right.until(), at(14_000));
    right.end();
    assert_eq!(right.until(), Duration::ZERO);
}

#[test]
fn an_answer_out_of_order_or_to_nothing_does_not_shorten_or_extend_it() {
    let mut right = Right::default();
    for number in 1..=3 {
        right.sends(SendNumber(number), at(number * 1_000));
    }
    right.answered(SendNumber(3), &terms(0, 0));
    assert_eq!(right.until(), at(13_000));
    assert!(!right.answered(SendNumber(2), &terms(0, 0)) && !right.answered(SendNumber(9), &terms(0, 0)));
    assert_eq!(right.until(), at(13_000));
}

/// The answer to a request arrives when the session has almost expired, and the client says nothing more.
#[test]
fn a_slow_answer_gives_no_longer_right_than_a_quick_one() {
    let ttl = at(1_000);
    let mut world = World::new(3, LockSettings::default());
    world.reign(0, &[0, 1, 2]);
    for client in 0..2 {
        world.client(ttl);
        world.dial(client, 0);
    }
    world.settle();
    for client in 0..2 {
        world.acquire(client, "a", Mode::Exclusive, None);
    }
    for way in [Way::Up(0, 0), Way::Up(1, 0)] {
        assert!(world.deliver(way));
    }
    world.end_turn(0);
    for voter in 1..3 {
        world.deliver(Way::Peer(0, voter));
        world.end_turn(voter);
        world.deliver(Way::Peer(voter, 0));
    }
    world.pass(at(900));
    assert!(world.deliver(Way::Down(0, 0)), "granted, 900 ms ago");
    assert_eq!(world.clients[0].acts_on(world.now).len(), 1);
    world.keep_alive(1);
    world.settle();
    world.pass(at(200));
    // The lock is given on; the first client does not hear that its session is lost.
    world.end_turn(0);
    world.deliver(Way::Peer(0, 1));
    world.end_turn(1);
    world.deliver(Way::Peer(1, 0));
    while world.deliver(Way::Down(0, 1)) {}
    let acting: Vec<usize> = (0..2).filter(|&client| !world.clients[client].acts_on(world.now).is_empty()).collect();
    assert_eq!(acting, [1]);
}
