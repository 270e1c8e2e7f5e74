//! The list of peers changes while the process runs; guests; members that are known by their address only.

use std::time::Duration;

use super::common::{connect, events_for, incarnation, is_down, listener, members_with, next, settings, until};
use transport::{DownReason, Event, Net, PeerId, RefuseCode, Settings};
use types::{Epoch, Stamp};

const NOBODY: &[String] = &[];

/// Longer than several pauses between dials.
const SEVERAL_PAUSES: Duration = Duration::from_millis(100);

fn hasty(settings: &mut Settings) {
    (settings.backoff_min, settings.backoff_max) = (Duration::from_millis(1), Duration::from_millis(5));
    settings.guests_max = 2;
}

/// A process that knows nobody.
fn stranger(id: PeerId, guests_max: usize) -> Net {
    let (own, _) = listener();
    let mut settings = settings(id, NOBODY);
    hasty(&mut settings);
    settings.guests_max = guests_max;
    Net::start(settings, own).unwrap()
}

fn at(net: &Net) -> String {
    net.local_addr().to_string()
}

fn is_up(event: &Event, id: PeerId) -> bool {
    matches!(event, Event::Up { peer, .. } if *peer == id)
}

#[tokio::test]
async fn a_peer_that_is_added_is_dialled_and_the_other_links_do_not_notice() {
    let [mut one, mut two] = members_with::<2>(hasty);
    connect(&mut one, 1, &mut two, 2).await;
    let mut three = stranger(3, 2);
    one.want(&[2, 3]);
    one.set_peers(&[(1, at(&one)), (2, at(&two)), (3, at(&three))]);
    one.want(&[2, 3]);
    let mut events = Vec::new();
    while events.len() < 2 {
        events.push(next(&mut [&mut one, &mut two, &mut three]).await);
    }
    events.sort_by_key(|(who, _)| *who);
    assert!(is_up(&events[0].1, 3) && is_up(&events[1].1, 1), "{events:?}");
    assert!(one.is_listed(3) && !three.is_listed(1), "member 1 is a guest of member 3");
    assert_eq!(one.counters(2).unwrap().connections, 1);
}

#[tokio::test]
async fn the_address_of_a_moved_peer_counts_for_its_next_dial() {
    let [mut one, mut two] = members_with::<2>(hasty);
    connect(&mut one, 1, &mut two, 2).await;
    let (own, address) = listener();
    one.set_peers(&[(2, address.clone())]);
    assert!(one.send(2, b"still there"));
    until(&mut [&mut one, &mut two], |_, event| matches!(event, Event::Frame { .. })).await;
    drop(two);
    until(&mut [&mut one], |_, event| is_down(event, 2, DownReason::Remote)).await;
    let mut moved = settings(2, &[at(&one), address]);
    moved.incarnation = incarnation(2);
    let mut two = Net::start(moved, own).unwrap();
    until(&mut [&mut one, &mut two], |who, event| who == 0 && is_up(event, 2)).await;
}

#[tokio::test]
async fn a_dial_of_the_old_address_ends_when_the_peer_moves() {
    let [mut one, mut two] = members_with::<2>(|settings| {
        hasty(settings);
        // Long enough for every wait of this test: a dial that does not end would fail it.
        (settings.dial_timeout, settings.handshake_deadline) = (Duration::from_mins(1), Duration::from_mins(1));
    });
    // Accepts connections, and no process answers.
    let (_silent, address) = listener();
    one.set_peers(&[(2, address)]);
    one.want(&[2]);
    events_for(&mut [&mut one], Duration::from_millis(20)).await;
    one.set_peers(&[(2, at(&two))]);
    until(&mut [&mut one, &mut two], |who, event| who == 0 && is_up(event, 2)).await;
}

#[tokio::test]
async fn a_peer_that_is_dropped_stays_connected_as_a_guest_and_is_not_dialled_again() {
    let [mut one, mut two] = members_with::<2>(hasty);
    connect(&mut one, 1, &mut two, 2).await;
    one.set_peers(&[(1, at(&one))]);
    one.want(&[2]);
    assert!(!one.is_listed(2) && one.is_connected(2));
    assert!(one.send(2, b"you were removed") && two.send(1, b"why?"));
    let mut frames = 0;
    while frames < 2 {
        let (_, event) = next(&mut [&mut one, &mut two]).await;
        assert!(matches!(event, Event::Frame { .. }), "{event:?}");
        frames += 1;
    }
    two.want(&[]);
    one.close(2);
    let (who, event) = next(&mut [&mut one, &mut two]).await;
    assert!(who == 1 && is_down(&event, 1, DownReason::Remote), "{event:?}");
    assert_eq!(events_for(&mut [&mut one, &mut two], SEVERAL_PAUSES).await, []);
    assert_eq!(one.counters(2), None, "it is forgotten");
}

#[tokio::test]
async fn a_dropped_peer_that_was_not_connected_is_not_dialled_any_more() {
    let [mut one, two] = members_with::<2>(hasty);
    drop(two);
    one.want(&[2]);
    until(&mut [&mut one], |_, event| matches!(event, Event::Unreachable { peer: 2, .. })).await;
    one.set_peers(&[]);
    // Reports that were queued before may follow.
    events_for(&mut [&mut one], Duration::from_millis(10)).await;
    assert_eq!(events_for(&mut [&mut one], SEVERAL_PAUSES).await, []);
}

#[tokio::test]
async fn guests_are_connected_up_to_a_number_and_make_room_when_they_leave() {
    let mut host = stranger(1, 2);
    let mut guests: Vec<Net> = [2, 3, 4].map(|id| stranger(id, 0)).into_iter().collect();
    for guest in &mut guests {
        guest.set_peers(&[(1, at(&host))]);
    }
    for (n, guest) in guests.iter_mut().enumerate().take(2) {
        connect(guest, n as PeerId + 2, &mut host, 1).await;
    }
    guests[2].want(&[1]);
    let (_, event) = until(&mut [&mut guests[2], &mut host], |who, _| who == 0).await;
    let Event::Refused { peer: 1, code: RefuseCode::Busy, text } = event else { panic!("{event:?}") };
    assert!(text.contains("n4"), "{text}");
    drop(guests.remove(0));
    until(&mut [&mut guests[1], &mut host], |who, event| who == 1 && is_up(event, 4)).await;
    // A guest that is listed keeps its connection.
    host.set_peers(&[(3, at(&guests[0]))]);
    assert!(host.is_listed(3) && host.is_connected(3) && host.counters(3).unwrap().connections == 1);
}

#[tokio::test]
async fn a_process_without_a_list_finds_members_by_their_addresses() {
    let [mut one, mut two] = members_with::<2>(hasty);
    let mut three = stranger(3, 2);
    // Its own address is no obstacle.
    three.join(&[at(&one), at(&three), at(&two)]);
    let mut ups = Vec::new();
    while ups.len() < 4 {
        let (who, event) = next(&mut [&mut one, &mut two, &mut three]).await;
        let Event::Up { peer, .. } = event else { panic!("{event:?}") };
        ups.push((who + 1, peer));
    }
    ups.sort_unstable();
    assert_eq!(ups, [(1, 3), (2, 3), (3, 1), (3, 2)]);
    // A list that it has learnt replaces the addresses.
    three.set_peers(&[(1, at(&one)), (3, at(&three))]);
    three.join(NOBODY);
    three.want(&[1]);
    assert_eq!(events_for(&mut [&mut one, &mut two, &mut three], SEVERAL_PAUSES).await, []);
    assert!(three.is_connected(2) && !three.is_listed(2), "member 2 is a guest now");
    drop(two);
    until(&mut [&mut one, &mut three], |who, event| who == 1 && is_down(event, 2, DownReason::Remote)).await;
    assert_eq!(events_for(&mut [&mut one, &mut three], SEVERAL_PAUSES).await, []);
}

#[tokio::test]
async fn an_address_is_asked_again_when_its_member_is_gone() {
    let (own, address) = listener();
    let again = own.try_clone().unwrap();
    let member = |id, own| {
        let mut settings = settings(id, NOBODY);
        hasty(&mut settings);
        Net::start(settings, own).unwrap()
    };
    let mut one = member(1, own);
    let mut three = stranger(3, 0);
    three.join(&[address]);
    until(&mut [&mut one, &mut three], |who, event| who == 1 && is_up(event, 1)).await;
    drop(one);
    until(&mut [&mut three], |_, event| is_down(event, 1, DownReason::Remote)).await;
    let mut two = member(2, again);
    until(&mut [&mut two, &mut three], |who, event| who == 1 && is_up(event, 2)).await;
    assert_eq!(three.counters(1), None);
}

#[tokio::test]
async fn members_with_lists_of_different_stamps_connect() {
    let [mut one, mut two] = members_with::<2>(hasty);
    one.set_list(Stamp::FIRST, 7, &[]);
    two.set_list(Stamp::new(Epoch(4), 1), 8, &[]);
    connect(&mut one, 1, &mut two, 2).await;
    let [mut one, mut two] = members_with::<2>(hasty);
    one.set_list(Stamp::FIRST, 7, &[]);
    two.set_list(Stamp::FIRST, 8, &[]);
    one.want(&[2]);
    let (_, event) = until(&mut [&mut one, &mut two], |who, _| who == 0).await;
    let Event::Refused { peer: 2, code: RefuseCode::Facts, text } = event else { panic!("{event:?}") };
    assert!(text.contains("members"), "{text}");
}
