//! Patience, reach, links and the members to watch, each alone.

use algorithms::Uid;

use super::*;
use crate::settings::Settings;

const SUSPECT_AFTER: Duration = Duration::from_millis(200);

fn uids(n: u32) -> Vec<Uid> {
    (1..=n).map(Uid::plain).collect()
}

fn at(position: usize) -> FullPos {
    FullPos(position)
}

fn set(positions: &[usize]) -> NodeSet {
    positions.iter().copied().map(FullPos).collect()
}

/// The member at position 0 of a ring.
fn on_ring(n: u32) -> (FailureDetector, View) {
    let view = View::ring(uids(n));
    (FailureDetector::start(at(0), &view, false), view)
}

fn watch(detector: &FailureDetector, view: &View, source: Option<usize>, grace: bool, stuck: Option<usize>) -> NodeSet {
    let settings = Settings::default();
    let ctx = Context { me: view.members()[0], view, settings: &settings, dice: 0 };
    detector.to_watch(&ctx, source.map(FullPos), grace, stuck.map(FullPos))
}

fn patience(detector: &FailureDetector) -> u128 {
    let patience = detector.patience(at(1), SUSPECT_AFTER);
    assert_eq!(patience.min, patience.max);
    patience.min.as_millis()
}

/// The peer at position 1 is suspected, and heard again.
fn suspect_wrongly(detector: &mut FailureDetector, incarnation: u64) {
    detector.suspect(at(1));
    detector.up(at(1));
    detector.heard(at(1), incarnation, true);
}

#[test]
fn every_wrong_suspicion_adds_a_quarter_of_patience_up_to_twice_as_much() {
    let (mut detector, _) = on_ring(4);
    detector.heard(at(1), 1, true);
    assert_eq!(patience(&detector), 200);
    for expected in [250, 300, 350, 400, 400] {
        suspect_wrongly(&mut detector, 1);
        assert_eq!(patience(&detector), expected);
    }
    assert_eq!(detector.patience(at(2), SUSPECT_AFTER), Span::exactly(SUSPECT_AFTER), "with this peer only");
}

#[test]
fn a_suspicion_counts_once_and_a_closed_connection_is_none() {
    let (mut detector, _) = on_ring(4);
    detector.heard(at(1), 1, true);
    suspect_wrongly(&mut detector, 1);
    detector.heard(at(1), 1, true);
    assert_eq!(patience(&detector), 250, "it is heard again and again");
    detector.down(at(1));
    detector.up(at(1));
    detector.heard(at(1), 1, true);
    assert_eq!(patience(&detector), 250);
}

#[test]
fn a_new_incarnation_of_the_peer_was_suspected_rightly_and_begins_with_the_first_patience() {
    let (mut detector, _) = on_ring(4);
    detector.heard(at(1), 1, true);
    suspect_wrongly(&mut detector, 1);
    suspect_wrongly(&mut detector, 1);
    assert_eq!(patience(&detector), 300);
    suspect_wrongly(&mut detector, 2);
    assert_eq!(patience(&detector), 200);
    suspect_wrongly(&mut detector, 2);
    assert_eq!(patience(&detector), 250);
}

#[test]
fn a_new_start_remembers_nothing_of_its_peers() {
    let (mut detector, view) = on_ring(4);
    detector.heard(at(1), 1, true);
    suspect_wrongly(&mut detector, 1);
    let fresh = FailureDetector::start(at(0), &view, false);
    assert_eq!(patience(&fresh), 200);
    assert!((1..4).all(|peer| fresh.is_unknown(at(peer)) && fresh.stands(at(peer))));
    assert!(fresh.is_up(at(0)), "but itself");
}

#[test]
fn what_a_peer_said_of_itself_ends_with_its_connection() {
    let (mut detector, _) = on_ring(4);
    detector.up(at(1));
    assert!(!detector.all_heard([at(0), at(1)].into_iter()), "it has not said yet which leader it follows");
    detector.heard(at(1), 1, false);
    assert!(detector.all_heard([at(0), at(1)].into_iter()) && !detector.stands(at(1)));
    detector.down(at(1));
    assert!(detector.stands(at(1)) && !detector.all_heard([at(1)].into_iter()));
    detector.heard(at(1), 1, false);
    detector.up(at(1));
    assert!(detector.stands(at(1)) && !detector.all_heard([at(1)].into_iter()));
}

#[test]
fn a_ring_member_is_linked_to_the_next_and_has_a_warm_link_to_the_one_after() {
    let (mut detector, view) = on_ring(6);
    assert_eq!(detector.links(&view), set(&[1, 2]));
    detector.up(at(1));
    assert_eq!(detector.links(&view), set(&[1, 2]));
    // A dead member is still dialled, and does not count.
    detector.down(at(1));
    assert_eq!(detector.links(&view), set(&[1, 2, 3]));
    detector.down(at(3));
    assert_eq!(detector.links(&view), set(&[1, 2, 3, 4]));
    detector.up(at(1));
    assert_eq!(detector.links(&view), set(&[1, 2]));
}

#[test]
fn links_end_where_the_ring_does() {
    let (detector, view) = on_ring(2);
    assert_eq!(detector.links(&view), set(&[1]));
    let (mut detector, view) = on_ring(3);
    detector.down(at(1));
    assert_eq!(detector.links(&view), set(&[1, 2]));
    let (detector, view) = on_ring(1);
    assert!(detector.links(&view).is_empty());
}

#[test]
fn all_are_linked_in_a_mesh_and_where_the_authority_wants_it_and_a_graph_has_its_edges() {
    let mesh = View::mesh(uids(4));
    assert_eq!(FailureDetector::start(at(0), &mesh, false).links(&mesh), set(&[1, 2, 3]));
    let ring = View::ring(uids(4));
    let detector = FailureDetector::start(at(1), &ring, true);
    assert!(detector.links_all());
    assert_eq!(detector.links(&ring), set(&[0, 2, 3]));
    let graph = View::graph(uids(4), &[(0, 3), (0, 1), (1, 2)]);
    assert_eq!(FailureDetector::start(at(0), &graph, false).links(&graph), set(&[1, 3]));
}

#[test]
fn a_peer_is_down_if_its_return_would_be_noticed_and_was_down_once_otherwise() {
    let (mut detector, view) = on_ring(6);
    assert_eq!(detector.reach(at(1), &view), Reach::Unknown);
    detector.up(at(1));
    assert_eq!(detector.reach(at(1), &view), Reach::Connected);
    detector.down(at(1));
    assert_eq!(detector.reach(at(1), &view), Reach::Down, "it is still dialled");
    detector.down(at(4));
    assert_eq!(detector.reach(at(4), &view), Reach::DownOnce, "it is not");
    detector.forget(at(4));
    assert_eq!(detector.reach(at(4), &view), Reach::Unknown);
    let mesh = View::mesh(uids(6));
    let mut detector = FailureDetector::start(at(0), &mesh, false);
    detector.down(at(4));
    assert_eq!(detector.reach(at(4), &mesh), Reach::Down);
}

#[test]
fn where_all_are_linked_the_leader_watches_all_and_the_others_watch_their_source() {
    let view = View::mesh(uids(4));
    let mut detector = FailureDetector::start(at(0), &view, false);
    for peer in [1, 2] {
        detector.up(at(peer));
    }
    assert_eq!(watch(&detector, &view, Some(0), false, None), set(&[1, 2]), "all that are connected");
    assert_eq!(watch(&detector, &view, Some(2), false, None), set(&[2]));
    assert_eq!(watch(&detector, &view, Some(3), false, None), set(&[]), "there is no connection to fall silent");
    assert_eq!(watch(&detector, &view, None, false, None), set(&[]), "the algorithm waits for answers itself");
}

#[test]
fn on_a_ring_the_nearest_on_both_sides_are_watched_and_those_not_reached_yet() {
    let (mut detector, view) = on_ring(6);
    assert_eq!(watch(&detector, &view, None, true, None), set(&[]), "others may still be starting");
    assert_eq!(watch(&detector, &view, None, false, None), set(&[1, 2]), "not reached yet: given up in time");
    for peer in [1, 2, 5] {
        detector.up(at(peer));
    }
    assert_eq!(watch(&detector, &view, Some(3), false, None), set(&[1, 5]), "whoever leads");
    assert_eq!(watch(&detector, &view, Some(3), false, Some(4)), set(&[1, 4, 5]), "a round cannot get past it");
    detector.down(at(1));
    assert_eq!(watch(&detector, &view, None, false, None), set(&[2, 3, 5]));
    let (mut two, view) = on_ring(2);
    two.up(at(1));
    assert_eq!(watch(&two, &view, None, false, None), set(&[1]));
}

#[test]
fn neighbours_watch_each_other_on_a_ring_where_all_are_linked_only_while_no_member_leads() {
    let view = View::ring(uids(5));
    let mut detector = FailureDetector::start(at(0), &view, true);
    for peer in [1, 2, 4] {
        detector.up(at(peer));
    }
    assert_eq!(watch(&detector, &view, None, false, None), set(&[1, 4]));
    assert_eq!(watch(&detector, &view, Some(2), false, None), set(&[2]));
}

#[test]
fn every_second_heartbeat_asks_where_a_peer_may_be_silent_for_five() {
    let mesh = View::mesh(uids(3));
    let timing = |heartbeats: u32| {
        let heartbeat = Duration::from_millis(50);
        Timing { heartbeat, suspect_after: heartbeat * heartbeats, ..Timing::default() }
    };
    let asks = |mut detector: FailureDetector, leads, timing: Timing| [(); 5].map(|()| detector.asks(leads, &timing));
    let of_mesh = || FailureDetector::start(at(0), &mesh, false);
    assert_eq!(asks(of_mesh(), true, timing(5)), [true, false, true, false, true]);
    assert_eq!(asks(of_mesh(), true, timing(4)), [true; 5], "every one counts");
    assert_eq!(asks(of_mesh(), false, timing(5)), [true; 5], "it asks for the leader");
    assert_eq!(asks(on_ring(4).0, true, timing(5)), [false; 5], "neighbours exchange heartbeats");
}
