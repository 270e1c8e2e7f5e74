//! A voter's copy: from which clerk it takes what, and what it acknowledges.

use algorithms::{Input, NodeId};
use locks::central::{CentralMsg, Note, Term};
use types::{Epoch, Incarnation, Token};

use crate::bench::{Bench, add, entry, label, life, name, term, whole};

fn install(bench: &mut Bench, epoch: u64, seq: u64, locks: &[(&str, u64)]) {
    let entries = locks.iter().map(|&(lock, token)| entry(lock, token, 9)).collect();
    bench.get(2, CentralMsg::Install { term: term(epoch), seq, chunk: whole(entries) });
}

fn notes(epoch: u64, first: u64, notes: Vec<Note>) -> CentralMsg {
    CentralMsg::Notes { term: term(epoch), first, notes }
}

fn acks(bench: &mut Bench) -> Vec<(u32, CentralMsg)> {
    bench.turn().sent()
}

fn ack(epoch: u64, seq: u64) -> (u32, CentralMsg) {
    (2, CentralMsg::Ack { epoch: Epoch(epoch), seq })
}

#[test]
fn a_voter_reports_what_it_has_when_it_grants_and_when_the_clerk_is_connected_again() {
    let mut bench = Bench::voter(1);
    let report = |epoch: u64, copy| (2, CentralMsg::Report { epoch: Epoch(epoch), life: life(1), copy });
    assert_eq!(bench.input(Input::PeerUp(NodeId(2))).sent(), [report(1, None)]);
    assert_eq!(bench.input(Input::PeerUp(NodeId(3))).sent(), []);
    install(&mut bench, 1, 4, &[("a", 1)]);
    assert_eq!(bench.input(Input::PeerUp(NodeId(2))).sent(), [report(1, Some(label(1, 4)))]);
    assert_eq!(bench.grant(2, 2).sent(), [report(2, Some(label(1, 4)))]);
    assert_eq!(bench.grant(3, 1).sent(), [], "not to itself");
}

#[test]
fn a_turn_with_many_notes_has_one_acknowledgement() {
    let mut bench = Bench::voter(1);
    install(&mut bench, 1, 0, &[]);
    bench.get(2, notes(1, 1, vec![add("a", 1), add("b", 2)]));
    bench.get(2, notes(1, 3, vec![add("c", 3)]));
    assert!(bench.machine().owes());
    assert_eq!(acks(&mut bench), [ack(1, 3)]);
    assert_eq!(acks(&mut bench), []);
}

#[test]
fn only_the_clerk_of_the_last_grant_is_obeyed() {
    let mut bench = Bench::voter(5);
    install(&mut bench, 5, 0, &[("a", 1)]);
    acks(&mut bench);
    let before = bench.copy();
    let other = Term { epoch: Epoch(5), life: Incarnation { counter: 9, nonce: 7 } };
    let strangers = [
        (2, notes(4, 1, vec![add("b", 2)])),
        (2, notes(6, 1, vec![add("b", 2)])),
        (3, notes(5, 1, vec![add("b", 2)])),
        (2, CentralMsg::Notes { term: other, first: 1, notes: vec![add("b", 2)] }),
        (3, CentralMsg::Install { term: term(5), seq: 3, chunk: whole(vec![]) }),
        (2, CentralMsg::Install { term: other, seq: 3, chunk: whole(vec![]) }),
        (2, CentralMsg::Adopt { term: other, label: label(5, 0) }),
        (3, CentralMsg::Fetch { term: term(5), life: life(1), label: label(5, 0), after: None }),
    ];
    for (from, message) in strangers {
        let did = bench.get(from, message);
        assert!(did.0.is_empty(), "{did:?}");
    }
    assert_eq!((bench.copy(), acks(&mut bench)), (before.clone(), vec![]));
    // A later grant ends what the present clerk may do.
    bench.grant(6, 3);
    assert!(bench.get(2, notes(5, 1, vec![add("b", 2)])).0.is_empty());
    assert_eq!(bench.copy(), before);
}

#[test]
fn an_equal_label_is_adopted_and_another_is_reported() {
    let mut bench = Bench::voter(1);
    install(&mut bench, 1, 4, &[("a", 1)]);
    bench.grant(3, 2);
    acks(&mut bench);
    let did = bench.get(2, CentralMsg::Adopt { term: term(3), label: label(1, 3) });
    assert!(matches!(did.sent()[..], [(2, CentralMsg::Report { copy: Some(_), .. })]), "{did:?}");
    assert_eq!(acks(&mut bench), []);
    bench.get(2, CentralMsg::Adopt { term: term(3), label: label(1, 4) });
    assert_eq!(bench.copy().unwrap().0, label(3, 0));
    assert_eq!(acks(&mut bench), [ack(3, 0)]);
}

#[test]
fn notes_count_within_their_epoch() {
    let mut bench = Bench::voter(1);
    install(&mut bench, 1, 4, &[("a", 1)]);
    bench.grant(3, 2);
    acks(&mut bench);
    // The next number, of another epoch: the table of that epoch is not here.
    let did = bench.get(2, notes(3, 5, vec![add("b", 2)]));
    assert!(matches!(did.sent()[..], [(2, CentralMsg::Report { .. })]));
    assert_eq!((bench.copy().unwrap().0, acks(&mut bench)), (label(1, 4), vec![]));
}

#[test]
fn a_gap_is_reported_once_and_notes_that_come_twice_count_once() {
    let mut bench = Bench::voter(1);
    install(&mut bench, 1, 2, &[("a", 1)]);
    acks(&mut bench);
    assert!(matches!(bench.get(2, notes(1, 4, vec![add("c", 3)])).sent()[..], [(2, CentralMsg::Report { .. })]));
    assert_eq!(bench.get(2, notes(1, 5, vec![add("d", 4)])).sent(), []);
    bench.get(2, notes(1, 3, vec![add("b", 2), add("c", 3)]));
    let remove = Note::Remove { name: name("c"), token: Token(3) };
    bench.get(2, notes(1, 3, vec![add("b", 2), add("c", 3), remove]));
    assert_eq!(bench.copy().unwrap(), (label(1, 5), vec!["a:1".into(), "b:2".into()]));
    assert_eq!(acks(&mut bench), [ack(1, 5)]);
}

#[test]
fn a_holder_is_removed_by_its_token() {
    let mut bench = Bench::voter(1);
    install(&mut bench, 1, 0, &[("a", 2)]);
    bench.get(2, notes(1, 1, vec![Note::Remove { name: name("a"), token: Token(1) }]));
    assert_eq!(bench.copy().unwrap().1, ["a:2"]);
}

#[test]
fn a_copy_is_given_away_by_its_label_and_only_by_the_process_that_reported_it() {
    let mut bench = Bench::voter(1);
    install(&mut bench, 1, 2, &[("a", 1)]);
    bench.grant(2, 2);
    let fetch = |of, label| CentralMsg::Fetch { term: term(2), life: of, label, after: None };
    let did = bench.get(2, fetch(life(1), label(1, 2)));
    assert!(
        matches!(&did.sent()[..], [(2, CentralMsg::Fetched { chunk, .. })] if chunk.last && chunk.entries.len() == 1)
    );
    for (of, wanted) in [(life(3), label(1, 2)), (life(1), label(1, 3))] {
        let did = bench.get(2, fetch(of, wanted));
        assert!(!matches!(did.sent()[..], [(_, CentralMsg::Fetched { .. })]), "{did:?}");
    }
}
