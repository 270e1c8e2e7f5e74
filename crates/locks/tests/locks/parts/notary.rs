//! Notes and acknowledgements: when a grant counts, what a voter gets that has missed some, and when voters may change.

use std::time::Duration;

use algorithms::{Input, NodeId};
use locks::central::{CentralMsg, CentralTimer, Note};
use locks::service::{LockSettings, ServiceCommand, ServiceEvent};
use locks::wire::{Mode, RequestId, SendNumber, ToClerk, ToClient};
use types::{Epoch, Token};

use crate::bench::{Bench, acquire, label};

/// Leads the first reign with so many voters, all of which have the empty table; session 1 is open.
fn clerk(voters: u32, settings: &LockSettings) -> Bench {
    let mut bench = Bench::new(voters, settings);
    bench.grant(1, 1);
    bench.begin(1, true);
    for voter in 2..=voters {
        bench.report(voter, 1, None);
    }
    let installs = bench.turn().sent();
    assert_eq!(installs.len() as u32, voters - 1);
    for voter in 2..=voters {
        ack(&mut bench, voter, 0);
    }
    bench.open(1, 1);
    bench
}

fn ack(bench: &mut Bench, voter: u32, seq: u64) -> Vec<(u64, ToClient)> {
    bench.get(voter, CentralMsg::Ack { epoch: Epoch(1), seq }).told()
}

fn granted(request: u64, n: u32) -> (u64, ToClient) {
    let (number, request) = (Some(SendNumber(request + 1)), RequestId(request));
    (1, ToClient::Granted { number, request, token: Token::new(Epoch(1), n) })
}

fn batches(sent: &[(u32, CentralMsg)]) -> Vec<(u32, u64, usize)> {
    let batch = |(to, message): &(u32, CentralMsg)| match message {
        CentralMsg::Notes { first, notes, .. } => (*to, *first, notes.len()),
        other => panic!("{other:?}"),
    };
    sent.iter().map(batch).collect()
}

#[test]
fn a_lock_is_granted_when_a_majority_has_noted_it_and_not_before() {
    let mut bench = clerk(5, &LockSettings::default());
    assert_eq!(bench.acquire(1, 1, "a", Mode::Exclusive).told(), []);
    assert_eq!(batches(&bench.turn().sent()), [(2, 1, 1), (3, 1, 1), (4, 1, 1), (5, 1, 1)]);
    assert_eq!(ack(&mut bench, 2, 1), []);
    assert_eq!(ack(&mut bench, 2, 1), [], "the same voter twice is one voter");
    assert_eq!(bench.get(3, CentralMsg::Ack { epoch: Epoch(0), seq: 1 }).told(), [], "of an earlier epoch");
    assert_eq!(bench.get(9, CentralMsg::Ack { epoch: Epoch(1), seq: 1 }).told(), [], "of no voter");
    assert_eq!(ack(&mut bench, 3, 9), [], "of a note that does not exist");
    assert_eq!(ack(&mut bench, 4, 1), [granted(1, 1)]);
}

#[test]
fn a_majority_of_different_acknowledgements_counts_as_far_as_all_of_it_goes() {
    let mut bench = clerk(5, &LockSettings::default());
    for request in 1..=4 {
        bench.acquire(1, request, &format!("lock {request}"), Mode::Exclusive);
    }
    bench.turn();
    assert_eq!(ack(&mut bench, 2, 4), []);
    assert_eq!(ack(&mut bench, 3, 2), [granted(1, 1), granted(2, 2)]);
    assert_eq!(ack(&mut bench, 4, 3), [granted(3, 3)]);
}

#[test]
fn all_requests_of_a_turn_go_out_in_one_batch_and_the_next_batch_does_not_wait() {
    let mut bench = clerk(3, &LockSettings::default());
    for request in 1..=16 {
        bench.acquire(1, request, &format!("lock {request}"), Mode::Exclusive);
    }
    assert_eq!(batches(&bench.turn().sent()), [(2, 1, 16), (3, 1, 16)]);
    assert!(!bench.machine().owes());
    bench.acquire(1, 17, "more", Mode::Exclusive);
    assert_eq!(batches(&bench.turn().sent()), [(2, 17, 1), (3, 17, 1)]);
}

#[test]
fn a_remove_waits_for_the_next_add_or_for_a_heartbeat() {
    let mut bench = clerk(3, &LockSettings { reserves: false, ..LockSettings::default() });
    bench.acquire(1, 1, "a", Mode::Exclusive);
    bench.turn();
    ack(&mut bench, 2, 1);
    let token = Token::new(Epoch(1), 1);
    let release = |durable| ToClerk::Release { request: RequestId(1), token, durable };
    let did = bench.say(1, release(false));
    assert_eq!(did.told(), [(1, ToClient::Released { request: RequestId(1) })]);
    assert_eq!(did.sets(CentralTimer::Flush), Some(bench.settings.heartbeat));
    assert!(!bench.machine().owes());
    assert_eq!(batches(&bench.fire(CentralTimer::Flush).sent()), [(2, 2, 1), (3, 2, 1)]);
    // With the next Add it goes before it, in one batch.
    bench.acquire(1, 2, "a", Mode::Exclusive);
    bench.turn();
    bench.say(1, ToClerk::Release { request: RequestId(2), token: Token::new(Epoch(1), 2), durable: false });
    bench.acquire(1, 3, "a", Mode::Exclusive);
    let sent = bench.turn().sent();
    let [(2, CentralMsg::Notes { notes, .. }), _] = &sent[..] else { panic!("{sent:?}") };
    assert!(matches!(notes[..], [Note::Remove { .. }, Note::Add(_)]), "{notes:?}");
}

#[test]
fn with_a_spread_only_a_majority_gets_notes_at_once_and_the_others_when_it_is_over() {
    let settings = LockSettings { spread: Duration::from_millis(2), ..LockSettings::default() };
    let mut bench = clerk(3, &settings);
    bench.acquire(1, 1, "a", Mode::Exclusive);
    let did = bench.turn();
    assert_eq!(did.sets(CentralTimer::Flush), Some(settings.spread));
    assert_eq!(batches(&did.sent()), [(2, 1, 1)], "both have the table, and this voter was faster");
    bench.acquire(1, 2, "b", Mode::Exclusive);
    let did = bench.turn();
    assert_eq!(did.sets(CentralTimer::Flush), None, "it runs, and is not put off");
    assert_eq!(batches(&did.sent()), [(2, 2, 1)]);
    // The first voter hangs: the other one makes the majority, and is the first from then on.
    assert_eq!(batches(&bench.fire(CentralTimer::Flush).sent()), [(3, 1, 2)]);
    assert_eq!(ack(&mut bench, 3, 2), [granted(1, 1), granted(2, 2)]);
    bench.acquire(1, 3, "c", Mode::Exclusive);
    assert_eq!(batches(&bench.turn().sent()), [(3, 3, 1)]);
    assert_eq!(ack(&mut bench, 3, 3), [granted(3, 3)]);
    assert_eq!(batches(&bench.fire(CentralTimer::Flush).sent()), [(2, 3, 1)]);
}

#[test]
fn with_a_spread_of_five_voters_two_get_notes_at_once_and_all_where_fewer_follow() {
    let settings = LockSettings { spread: Duration::from_millis(2), ..LockSettings::default() };
    let mut bench = clerk(5, &settings);
    bench.acquire(1, 1, "a", Mode::Exclusive);
    assert_eq!(batches(&bench.turn().sent()), [(2, 1, 1), (5, 1, 1)]);
    assert_eq!(ack(&mut bench, 2, 1), []);
    assert_eq!(ack(&mut bench, 5, 1), [granted(1, 1)]);
    for voter in [2, 4, 5] {
        bench.input(Input::PeerDown(NodeId(voter)));
    }
    bench.acquire(1, 2, "b", Mode::Exclusive);
    assert_eq!(batches(&bench.turn().sent()), [(3, 1, 2)], "there is no majority to wait for");
}

#[test]
fn a_durable_release_is_answered_when_a_majority_has_noted_it() {
    let mut bench = clerk(3, &LockSettings { reserves: false, ..LockSettings::default() });
    bench.acquire(1, 1, "a", Mode::Exclusive);
    bench.turn();
    ack(&mut bench, 2, 1);
    let token = Token::new(Epoch(1), 1);
    let release = ToClerk::Release { request: RequestId(1), token, durable: true };
    let released = (1, ToClient::Released { request: RequestId(1) });
    assert_eq!(bench.say(1, release.clone()).told(), []);
    assert!(bench.machine().owes());
    bench.turn();
    // Asked again, it is not answered sooner because the clerk does not have it any more.
    assert_eq!(bench.say(1, release).told(), []);
    assert_eq!(ack(&mut bench, 3, 2), [released.clone(), released]);
}

#[test]
fn a_repeated_request_waits_for_the_note_too() {
    let mut bench = clerk(3, &LockSettings::default());
    bench.acquire(1, 1, "a", Mode::Exclusive);
    assert_eq!(bench.acquire(1, 1, "a", Mode::Exclusive).told(), []);
    bench.turn();
    assert_eq!(ack(&mut bench, 2, 1), [granted(1, 1), granted(1, 1)]);
}

#[test]
fn a_voter_that_missed_notes_gets_them_and_one_that_missed_too_many_gets_the_table() {
    let mut settings = LockSettings::default();
    settings.limits.notes_kept = 3;
    let mut bench = clerk(3, &settings);
    for request in 1..=6 {
        bench.acquire(1, request, &format!("lock {request}"), Mode::Exclusive);
        bench.turn();
    }
    bench.report(2, 1, Some(label(1, 4)));
    assert_eq!(batches(&bench.turn().sent()), [(2, 5, 2)]);
    bench.report(2, 1, Some(label(1, 2)));
    let sent = bench.turn().sent();
    assert!(matches!(&sent[..], [(2, CentralMsg::Install { seq: 6, chunk, .. })] if chunk.entries.len() == 6));
    bench.report(2, 1, Some(label(1, 7)));
    assert!(matches!(bench.turn().sent()[..], [(2, CentralMsg::Install { .. })]), "more than the clerk has");
}

#[test]
fn equal_labels_are_adopted_and_the_others_get_a_table_before_the_first_note() {
    let mut bench = clerk(3, &LockSettings::default());
    bench.acquire(1, 1, "a", Mode::Exclusive);
    bench.turn();
    bench.grant(2, 1);
    bench.begin(2, false);
    let did = bench.report(2, 2, Some(label(1, 1)));
    assert!(matches!(did.sent()[..], [(2, CentralMsg::Adopt { label: of, .. })] if of == label(1, 1)), "{did:?}");
    bench.report(3, 2, Some(label(1, 0)));
    bench.say(1, crate::bench::open(1, 2, 2));
    bench.say(1, acquire(2, "b", Mode::Exclusive, None));
    let sent = bench.turn().sent();
    let kinds: Vec<_> = sent
        .iter()
        .map(|(to, message)| match message {
            CentralMsg::Notes { first, notes, .. } => (*to, "notes", *first, notes.len()),
            CentralMsg::Install { seq, chunk, .. } => (*to, "install", *seq, chunk.entries.len()),
            other => panic!("{other:?}"),
        })
        .collect();
    // Lock "a" was freed by the Open, and "b" added: the table after both notes has one entry.
    assert_eq!(kinds, [(2, "notes", 1, 2), (3, "install", 2, 1)]);
}

#[test]
fn a_large_table_is_pulled_in_parts() {
    let mut bench = clerk(3, &LockSettings::default());
    for request in 1..=600 {
        bench.acquire(1, request, &format!("lock {request:04}"), Mode::Exclusive);
    }
    bench.turn();
    bench.input(Input::PeerDown(NodeId(2)));
    bench.report(2, 1, None);
    let mut parts = Vec::new();
    loop {
        let sent = bench.turn().sent();
        let [(2, CentralMsg::Install { chunk, .. })] = &sent[..] else { panic!("{sent:?}") };
        parts.push(chunk.entries.len());
        assert!(!bench.machine().owes(), "the next part is not sent unasked");
        if chunk.last {
            break;
        }
        let last = chunk.entries.last().unwrap();
        let after = locks::central::Place { name: last.name.clone(), token: last.token };
        bench.get(2, CentralMsg::Pull { epoch: Epoch(1), after });
    }
    assert_eq!(parts, [256, 256, 88]);
}

#[test]
fn notes_for_a_voter_whose_table_is_on_its_way_are_kept_until_they_are_sent() {
    let mut settings = LockSettings::default();
    settings.limits.notes_kept = 0;
    let mut bench = clerk(3, &settings);
    for request in 1..=300 {
        bench.acquire(1, request, &format!("lock {request:04}"), Mode::Exclusive);
    }
    bench.turn();
    bench.input(Input::PeerDown(NodeId(3)));
    bench.report(2, 1, None);
    bench.turn();
    // Releases wait, and the next part of the table does not come before them.
    for request in 1..=3 {
        let token = Token::new(Epoch(1), request);
        bench.say(1, ToClerk::Release { request: RequestId(u64::from(request)), token, durable: false });
    }
    let last = format!("lock {:04}", 256);
    let after = locks::central::Place { name: crate::bench::name(&last), token: Token::new(Epoch(1), 256) };
    bench.get(2, CentralMsg::Pull { epoch: Epoch(1), after });
    let sent = bench.turn().sent();
    let [(2, CentralMsg::Notes { first: 301, notes, .. }), (2, CentralMsg::Install { seq: 303, chunk, .. })] =
        &sent[..]
    else {
        panic!("{sent:?}")
    };
    assert_eq!((notes.len(), chunk.entries.len()), (3, 44));
}

#[test]
fn voters_may_change_once_a_majority_has_what_was_there_when_they_came_into_force() {
    let may = |did: &crate::bench::Did| {
        did.events().iter().find_map(|event| match event {
            ServiceEvent::VotersMayChange(may) => Some(*may),
            _ => None,
        })
    };
    let mut bench = Bench::new(3, &LockSettings::default());
    bench.grant(1, 1);
    bench.begin(1, true);
    bench.report(2, 1, None);
    bench.turn();
    let ack = |bench: &mut Bench, voter, seq| may(&bench.get(voter, CentralMsg::Ack { epoch: Epoch(1), seq }));
    assert_eq!(ack(&mut bench, 2, 0), Some(true));
    bench.open(1, 1);
    bench.acquire(1, 1, "a", Mode::Exclusive);
    bench.turn();
    ack(&mut bench, 2, 1);
    // A majority has a copy, but not of the table as it is now: lock "b" is noted by nobody.
    let voters = |ids: &[u32]| ServiceCommand::Voters(ids.iter().copied().map(NodeId).collect());
    bench.acquire(1, 2, "b", Mode::Exclusive);
    assert_eq!(may(&bench.tell(voters(&[1, 2]))), Some(false));
    bench.turn();
    assert_eq!(ack(&mut bench, 2, 2), Some(true));
    // Voters 1, 3, 4 and 5: none of them but the clerk has lock "a".
    assert_eq!(may(&bench.tell(voters(&[1, 3, 4, 5]))), Some(false));
    for voter in [3, 4] {
        bench.report(voter, 1, None);
        bench.turn();
    }
    // Under load the newest note is never acknowledged by all; an earlier one is enough.
    bench.acquire(1, 3, "c", Mode::Exclusive);
    bench.turn();
    assert_eq!(ack(&mut bench, 3, 2), None);
    assert_eq!(ack(&mut bench, 4, 2), Some(true));
    assert_eq!(may(&bench.tell(ServiceCommand::OfficeEnded)), Some(false));
}

#[test]
fn used_up_tokens_ask_for_the_next_epoch_once_and_grant_nothing() {
    let mut settings = LockSettings::default();
    settings.limits.tokens = 2;
    let mut bench = clerk(3, &settings);
    let mut asked = 0;
    for request in 1..=4 {
        let did = bench.acquire(1, request, &format!("lock {request}"), Mode::Exclusive);
        asked += did.events().iter().filter(|event| **event == ServiceEvent::NextEpoch).count();
    }
    assert_eq!((asked, bench.copy().unwrap().1.len()), (1, 2));
    assert_eq!(bench.machine().clerk().unwrap().queues().waiters(), 2);
}
