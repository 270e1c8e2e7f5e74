//! Taking office: which copies count, and when nothing is known.

use algorithms::{Input, NodeId};
use locks::central::{CentralMsg, CentralTimer, Chunk};
use locks::service::{LockSettings, ServiceCommand, StreamId};
use locks::wire::{ToClient, Unavailable};
use types::Epoch;

use crate::bench::{Bench, TTL, entry, label, life, term, whole};

/// A voter of five with a copy of this label, which leads in epoch 9.
fn leader(copy: Option<(u64, u64)>) -> Bench {
    let mut bench = Bench::new(5, &LockSettings::default());
    bench.grant(8, 2);
    if let Some((epoch, seq)) = copy {
        bench.grant(epoch, 2);
        let chunk = whole(vec![entry("own", 1, 3)]);
        bench.get(2, CentralMsg::Install { term: term(epoch), seq, chunk });
    }
    bench.grant(9, 1);
    bench.begin(9, false);
    bench
}

fn serves(bench: &Bench) -> bool {
    bench.machine().clerk().is_some()
}

#[test]
fn the_first_reign_of_a_cluster_serves_at_once() {
    let mut bench = Bench::new(5, &LockSettings::default());
    bench.grant(1, 1);
    bench.begin(1, true);
    assert!(serves(&bench));
    // But not on the word of somebody, against a copy of its own.
    let mut bench = leader(Some((8, 3)));
    bench.begin(10, true);
    assert!(!serves(&bench));
}

#[test]
fn a_majority_with_copies_is_needed_and_nothing_reported_is_no_copy() {
    let mut bench = leader(Some((8, 3)));
    bench.report(2, 9, None);
    bench.report(3, 9, None);
    bench.report(4, 9, Some(label(8, 3)));
    assert!(!serves(&bench), "two of five have copies");
    bench.report(5, 9, Some(label(8, 2)));
    assert!(serves(&bench));
    assert_eq!(bench.copy().unwrap(), (label(9, 0), vec!["own:1".into()]));
}

#[test]
fn reports_for_another_epoch_do_not_count() {
    let mut bench = leader(Some((8, 3)));
    for voter in 2..=5 {
        bench.report(voter, 8, Some(label(8, 3)));
        bench.report(voter, 10, Some(label(8, 3)));
    }
    assert!(!serves(&bench));
    // Reports that come before the office are kept.
    bench.grant(10, 1);
    bench.begin(10, false);
    assert!(serves(&bench));
}

#[test]
fn the_largest_label_of_the_majority_is_fetched_and_labels_compare_by_epoch_first() {
    let mut bench = leader(Some((7, 90)));
    bench.report(2, 9, Some(label(6, 99)));
    let did = bench.report(3, 9, Some(label(8, 1)));
    let fetch = CentralMsg::Fetch {
        term: locks::central::Term { epoch: Epoch(9), life: life(1) },
        life: life(3),
        label: label(8, 1),
        after: None,
    };
    assert_eq!(did.sent(), [(3, fetch)]);
    let part = |after, lock: &str, last| Chunk { after, entries: vec![entry(lock, 5, 3)], last };
    let fetched = |chunk| CentralMsg::Fetched { epoch: Epoch(9), label: label(8, 1), chunk };
    let did = bench.get(3, fetched(part(None, "a", false)));
    let after = entry("a", 5, 3);
    let after = locks::central::Place { name: after.name, token: after.token };
    assert!(matches!(&did.sent()[..], [(3, CentralMsg::Fetch { after: Some(behind), .. })] if *behind == after));
    bench.get(3, fetched(part(Some(after), "b", true)));
    assert_eq!(bench.copy().unwrap(), (label(9, 0), vec!["a:5".into(), "b:5".into()]), "never a union");
}

#[test]
fn a_voter_that_is_lost_while_it_is_fetched_from_counts_no_more() {
    let mut bench = leader(Some((7, 90)));
    bench.report(2, 9, Some(label(8, 1)));
    bench.report(3, 9, Some(label(8, 1)));
    bench.input(Input::PeerDown(NodeId(2)));
    assert!(!serves(&bench));
    // It comes back without a copy: another one with that label is asked once there is a majority.
    bench.report(2, 9, None);
    let did = bench.report(4, 9, Some(label(6, 0)));
    assert!(matches!(did.sent()[..], [(3, CentralMsg::Fetch { .. })]), "{did:?}");
}

#[test]
fn a_copy_is_fetched_anew_when_the_connection_broke() {
    let mut bench = leader(Some((7, 90)));
    bench.report(2, 9, Some(label(8, 1)));
    bench.report(3, 9, Some(label(7, 0)));
    // What was fetched, or the rest of it, was lost with the connection.
    bench.input(Input::PeerDown(NodeId(2)));
    let did = bench.report(2, 9, Some(label(8, 1)));
    assert!(matches!(did.sent()[..], [(2, CentralMsg::Fetch { after: None, .. })]), "{did:?}");
}

#[test]
fn a_restart_voids_a_report() {
    let mut bench = leader(Some((8, 3)));
    bench.report(2, 9, Some(label(8, 3)));
    bench.report(2, 9, None);
    bench.report(3, 9, Some(label(8, 3)));
    assert!(!serves(&bench));
}

#[test]
fn without_copies_the_office_begins_empty_when_every_session_has_expired() {
    let mut bench = leader(Some((8, 3)));
    bench.tell(ServiceCommand::StreamOpened(StreamId(4)));
    for voter in [2, 3, 4, 5] {
        bench.report(voter, 9, None);
    }
    let did = bench.tell(ServiceCommand::StreamOpened(StreamId(5)));
    let [(5, ToClient::Unavailable { why: Unavailable::WaitingForTtl { left }, .. })] = did.told()[..] else {
        panic!("{did:?}")
    };
    assert_eq!(left, 60 * TTL);
    let did = bench.fire(CentralTimer::Office);
    assert_eq!(bench.copy().unwrap(), (label(9, 0), vec![]));
    let clerk = |stream| (stream, ToClient::Clerk { epoch: Epoch(9) });
    assert_eq!(did.told(), [clerk(4), clerk(5)]);
}

#[test]
fn an_office_that_ends_before_it_opened_changes_no_copy() {
    let mut bench = leader(Some((8, 3)));
    bench.tell(ServiceCommand::OfficeEnded);
    assert_eq!(bench.copy().unwrap(), (label(8, 3), vec!["own:1".into()]));
    assert_eq!(bench.driver.timers().iter().count(), 0);
}
