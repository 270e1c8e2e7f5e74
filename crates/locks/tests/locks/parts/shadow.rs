//! A table that arrives in parts while it changes.

use algorithms::{Input, NodeId};
use locks::central::{BATCH_MAX, CentralMsg, Chunk, Entry, Note, Place};
use types::Token;

use crate::bench::{Bench, add, entry, label, name, term};

fn place(lock: &str, token: u64) -> Place {
    Place { name: name(lock), token: Token(token) }
}

fn part(after: Option<Place>, locks: &[(&str, u64)], last: bool) -> Chunk {
    Chunk { after, entries: locks.iter().map(|&(lock, token)| entry(lock, token, 9)).collect(), last }
}

fn install(seq: u64, chunk: Chunk) -> CentralMsg {
    CentralMsg::Install { term: term(1), seq, chunk }
}

#[test]
fn notes_between_two_parts_count_once_wherever_the_part_ends() {
    let mut bench = Bench::voter(1);
    let did = bench.get(2, install(5, part(None, &[("b", 1), ("d", 2)], false)));
    assert!(matches!(&did.sent()[..], [(2, CentralMsg::Pull { after, .. })] if *after == place("d", 2)));
    assert_eq!(bench.copy(), None, "a part is no copy");
    let remove = |lock, token| Note::Remove { name: name(lock), token: Token(token) };
    // "f" has not arrived: its part will have these changes.
    let notes = vec![remove("b", 1), add("a", 7), add("f", 8), remove("g", 3)];
    bench.get(2, CentralMsg::Notes { term: term(1), first: 6, notes });
    assert_eq!(bench.turn().sent(), [], "nothing is acknowledged before the table is whole");
    bench.get(2, install(9, part(Some(place("d", 2)), &[("f", 8)], true)));
    assert_eq!(bench.copy().unwrap(), (label(1, 9), vec!["a:7".into(), "d:2".into(), "f:8".into()]));
    assert!(matches!(bench.turn().sent()[..], [(2, CentralMsg::Ack { seq: 9, .. })]));
}

#[test]
fn the_old_copy_counts_until_the_new_one_is_whole() {
    let mut bench = Bench::voter(1);
    bench.get(2, install(1, part(None, &[("a", 1)], true)));
    bench.get(2, install(8, part(None, &[("b", 1)], false)));
    assert_eq!(bench.copy().unwrap().0, label(1, 1));
    // The rest is lost with the connection.
    bench.input(Input::PeerDown(NodeId(2)));
    let report = bench.input(Input::PeerUp(NodeId(2))).sent();
    assert!(matches!(report[..], [(2, CentralMsg::Report { copy: Some(copy), .. })] if copy == label(1, 1)));
    assert!(!bench.machine().keeper().is_installing());
}

#[test]
fn parts_that_do_not_fit_are_no_table() {
    let behind = || Some(place("b", 1));
    let many: Vec<Entry> = (0..=BATCH_MAX as u64).map(|n| entry("c", n + 1, 9)).collect();
    let wrong = [
        install(6, part(behind(), &[("c", 1)], true)),
        install(5, part(Some(place("a", 1)), &[("c", 1)], true)),
        install(5, part(behind(), &[("b", 1)], true)),
        install(5, part(behind(), &[("d", 1), ("c", 1)], true)),
        install(5, part(behind(), &[], false)),
        install(5, Chunk { after: behind(), entries: many, last: true }),
    ];
    for message in wrong {
        let mut bench = Bench::voter(1);
        bench.get(2, install(5, part(None, &[("b", 1)], false)));
        let did = bench.get(2, message);
        assert!(matches!(did.sent()[..], [(2, CentralMsg::Report { copy: None, .. })]), "{did:?}");
        assert_eq!(bench.copy(), None);
    }
}

#[test]
fn a_missing_note_ends_the_installation() {
    let mut bench = Bench::voter(1);
    bench.get(2, install(5, part(None, &[("b", 1)], false)));
    let did = bench.get(2, CentralMsg::Notes { term: term(1), first: 7, notes: vec![add("a", 2)] });
    assert!(matches!(did.sent()[..], [(2, CentralMsg::Report { copy: None, .. })]), "{did:?}");
    assert!(!bench.machine().keeper().is_installing());
}
