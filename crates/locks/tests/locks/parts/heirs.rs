//! The first in the line is in the table in advance.

use std::time::Duration;

use locks::central::{CentralMsg, CentralTimer};
use locks::service::{LockSettings, LockView, ServiceCommand};
use locks::wire::{Mode, Refusal, RequestId, SessionId, ToClerk, ToClient};
use types::{Epoch, Token};

use super::attach::{held, lost, reopen, token, wanted};
use crate::bench::{Bench, Did, TTL, acquire, entry, label, name, open, term, whole};

/// Member 1 leads three voters, and sessions 1 to 3 are open.
pub(super) fn clerk(settings: &LockSettings) -> Bench {
    let mut bench = Bench::new(3, settings);
    bench.grant(1, 1);
    bench.begin(1, true);
    for voter in [2, 3] {
        bench.report(voter, 1, None);
    }
    bench.turn();
    ack(&mut bench, 1, 0);
    (1..=3).for_each(|session| drop(bench.open(session, 1)));
    bench
}

pub(super) fn ack(bench: &mut Bench, epoch: u64, seq: u64) -> Did {
    bench.get(2, CentralMsg::Ack { epoch: Epoch(epoch), seq })
}

/// Session 1 holds the lock and session 2 is its heir; a majority has noted the first so many notes.
fn contended(noted: u64) -> Bench {
    let mut bench = clerk(&LockSettings::default());
    bench.acquire(1, 1, "a", Mode::Exclusive);
    bench.acquire(2, 1, "a", Mode::Exclusive);
    bench.turn();
    ack(&mut bench, 1, noted);
    bench
}

fn release(bench: &mut Bench, session: u64, token: Token) -> Did {
    bench.say(session, ToClerk::Release { request: RequestId(1), token, durable: false })
}

pub(super) fn grants(did: &Did) -> Vec<(u64, Token)> {
    let told = did.told().into_iter();
    let grants = told.filter_map(|(to, message)| match message {
        ToClient::Granted { token, .. } => Some((to, token)),
        _ => None,
    });
    grants.collect()
}

pub(super) fn entries(bench: &Bench, of: &str) -> Vec<Token> {
    let copy = bench.machine().keeper().copy().unwrap();
    copy.table.entries(&name(of)).map(|(token, _)| token).collect()
}

/// A clerk that has taken a table over with session 1 as the holder and session 2 as the heir. Nobody is attached.
fn taken_over() -> Bench {
    let mut bench = Bench::voter(1);
    let (first, second) = (entry("a", token(1, 1).0, 1), entry("a", token(1, 2).0, 2));
    bench.get(2, CentralMsg::Install { term: term(1), seq: 2, chunk: whole(vec![first, second]) });
    bench.grant(2, 1);
    bench.begin(2, false);
    bench.report(2, 2, Some(label(1, 2)));
    ack(&mut bench, 2, 0);
    for session in 1..=3 {
        bench.tell(ServiceCommand::StreamOpened(locks::service::StreamId(session)));
    }
    bench
}

fn view(bench: &Bench) -> Option<(Vec<u128>, Vec<u128>)> {
    let LockView { holders, waiters, .. } = bench.machine().lock(&name("a"))?;
    Some((holders.iter().map(|held| held.session.0).collect(), waiters.iter().map(|id| id.0).collect()))
}

#[test]
fn an_heir_hears_of_its_lock_when_the_holder_lets_go_and_before_the_voters_do() {
    let mut bench = contended(2);
    let did = release(&mut bench, 1, token(1, 1));
    let told = did.told();
    assert!(matches!(told[..], [(2, ToClient::Granted { .. }), (1, ToClient::Released { .. })]), "{told:?}");
    assert_eq!(grants(&did), [(2, token(1, 2))]);
    assert!(did.sent().is_empty());
}

#[test]
fn an_heir_waits_until_a_majority_has_noted_it() {
    let mut bench = contended(1);
    assert!(grants(&release(&mut bench, 1, token(1, 1))).is_empty());
    assert_eq!(grants(&ack(&mut bench, 1, 2)), [(2, token(1, 2))]);
}

/// Its client may not know that it has ended, and would name the lock to a later clerk.
#[test]
fn the_end_of_a_holder_that_did_not_let_go_is_noted_first() {
    let closes = |bench: &mut Bench| {
        bench.settings.close_ends_bare = true;
        bench.tell(ServiceCommand::StreamClosed(locks::service::StreamId(1)))
    };
    let unlocks = |bench: &mut Bench| bench.tell(ServiceCommand::Unlock { name: name("a"), token: token(1, 1) });
    let expires = |bench: &mut Bench| bench.fire(CentralTimer::Session(SessionId(1)));
    let ends: [&dyn Fn(&mut Bench) -> Did; 3] = [&closes, &unlocks, &expires];
    for end in ends {
        let mut bench = contended(2);
        assert!(grants(&end(&mut bench)).is_empty());
        assert_eq!(view(&bench), Some((vec![2], vec![])));
        bench.turn();
        assert_eq!(grants(&ack(&mut bench, 1, 3)), [(2, token(1, 2))]);
    }
}

#[test]
fn withdrawn_closed_and_no_longer_named_locks_pass_at_once() {
    let withdraws = |bench: &mut Bench| bench.say(1, ToClerk::Withdraw { request: RequestId(1) });
    let closes = |bench: &mut Bench| bench.say(1, ToClerk::Close);
    let opens = |bench: &mut Bench| bench.say(1, open(1, 1, 2));
    let ends: [&dyn Fn(&mut Bench) -> Did; 3] = [&withdraws, &closes, &opens];
    for end in ends {
        let mut bench = contended(2);
        assert_eq!(grants(&end(&mut bench)), [(2, token(1, 2))]);
    }
}

#[test]
fn the_next_heir_is_noted_with_the_end_of_the_holder() {
    let mut bench = contended(2);
    bench.acquire(3, 1, "a", Mode::Exclusive);
    release(&mut bench, 1, token(1, 1));
    assert_eq!(entries(&bench, "a"), [token(1, 2), token(1, 3)]);
    let sent = bench.turn().sent();
    assert!(matches!(&sent[..], [(2, CentralMsg::Notes { first: 3, notes, .. }), _] if notes.len() == 2), "{sent:?}");
}

#[test]
fn an_heir_that_gives_up_makes_room_for_the_next_one_with_a_new_token() {
    let mut bench = contended(2);
    bench.acquire(3, 1, "a", Mode::Exclusive);
    bench.say(2, ToClerk::Withdraw { request: RequestId(1) });
    assert_eq!(entries(&bench, "a"), [token(1, 1), token(1, 3)]);
    assert!(grants(&release(&mut bench, 1, token(1, 1))).is_empty(), "the note of the other heir does not count");
    bench.turn();
    assert_eq!(grants(&ack(&mut bench, 1, 4)), [(3, token(1, 3))]);
}

#[test]
fn the_session_of_an_heir_expires_and_its_wait_ends_without_the_holder() {
    let mut bench = contended(2);
    bench.fire(CentralTimer::Session(SessionId(2)));
    assert_eq!((entries(&bench, "a"), view(&bench)), (vec![token(1, 1)], Some((vec![1], vec![]))));
    bench.say(3, acquire(1, "a", Mode::Exclusive, Some(TTL)));
    assert_eq!(entries(&bench, "a").len(), 2);
    let did = bench.fire(CentralTimer::Wait(SessionId(3), RequestId(1)));
    assert!(did.told().contains(&(3, ToClient::Refused { request: RequestId(1), why: Refusal::TimedOut })));
    assert_eq!((entries(&bench, "a"), bench.machine().totals()), (vec![token(1, 1)], Some((1, 0))));
}

#[test]
fn people_see_an_heir_as_the_first_waiter_and_cannot_unlock_it() {
    let mut bench = contended(2);
    bench.acquire(3, 1, "a", Mode::Exclusive);
    assert_eq!(view(&bench), Some((vec![1], vec![2, 3])));
    assert_eq!(bench.machine().totals(), Some((1, 2)));
    bench.tell(ServiceCommand::Unlock { name: name("a"), token: token(1, 2) });
    assert_eq!(entries(&bench, "a").len(), 2);
}

#[test]
fn readers_and_slots_have_no_heirs() {
    for (holder, waiter) in
        [(Mode::Shared, Mode::Exclusive), (Mode::Exclusive, Mode::Shared), (Mode::Slots(1), Mode::Slots(1))]
    {
        let mut bench = clerk(&LockSettings::default());
        bench.acquire(1, 1, "a", holder);
        bench.acquire(2, 1, "a", waiter);
        assert_eq!(entries(&bench, "a").len(), 1, "{waiter:?} behind {holder:?}");
    }
}

#[test]
fn a_holder_and_an_heir_that_were_taken_over_keep_all_others_out() {
    let mut bench = taken_over();
    bench.fire(CentralTimer::Requeue);
    bench.say(3, open(3, 2, 1));
    assert!(grants(&bench.acquire(3, 1, "a", Mode::Exclusive)).is_empty());
    assert_eq!((view(&bench), entries(&bench, "a").len()), (Some((vec![1], vec![2, 3])), 2));
    // Both sessions have their whole time to live.
    let ttl = |session| bench.driver.timers().get(CentralTimer::Session(SessionId(session)));
    assert_eq!((ttl(1), ttl(2)), (Some(TTL), Some(TTL)));
}

#[test]
fn an_heir_that_was_granted_the_lock_by_an_earlier_clerk_says_so() {
    let mut bench = taken_over();
    let did = bench.say(2, reopen(2, (2, 2), vec![held(1, "a", token(1, 2))], vec![]));
    assert_eq!(lost(&did.told()), []);
    assert_eq!((view(&bench), entries(&bench, "a")), (Some((vec![2], vec![])), vec![token(1, 2)]));
    // A release that its client waits to be durable: it names the lock still.
    let did = bench.say(1, reopen(1, (2, 2), vec![held(1, "a", token(1, 1))], vec![]));
    assert_eq!(lost(&did.told()), [RequestId(1)]);
}

#[test]
fn a_holder_that_does_not_name_the_lock_leaves_it_to_the_heir() {
    let mut bench = taken_over();
    bench.say(2, reopen(2, (2, 2), vec![], vec![wanted(1, "a", 5)]));
    assert_eq!(grants(&bench.say(1, reopen(1, (2, 2), vec![], vec![]))), [(2, token(1, 2))]);
}

#[test]
fn a_holder_that_names_the_lock_keeps_it_and_its_heir() {
    let mut bench = taken_over();
    bench.say(1, reopen(1, (2, 2), vec![held(1, "a", token(1, 1))], vec![]));
    let did = bench.say(2, reopen(2, (2, 2), vec![], vec![wanted(1, "a", 5)]));
    assert!(grants(&did).is_empty() && lost(&did.told()).is_empty());
    assert_eq!(view(&bench), Some((vec![1], vec![2])));
    bench.say(2, reopen(2, (2, 3), vec![], vec![]));
    assert_eq!((view(&bench), entries(&bench, "a")), (Some((vec![1], vec![])), vec![token(1, 1)]));
}

#[test]
fn the_wait_of_an_heir_goes_on_at_a_later_clerk() {
    let mut bench = taken_over();
    let mut want = wanted(1, "a", 5);
    want.wait = Some(Duration::from_millis(30));
    let did = bench.say(2, reopen(2, (2, 2), vec![], vec![want]));
    assert_eq!(did.sets(CentralTimer::Wait(SessionId(2), RequestId(1))), Some(Duration::from_millis(30)));
}

/// It would take an heir for a holder.
#[test]
fn a_member_of_an_earlier_build_sees_no_table_with_heirs() {
    let knows = |peer: u32, knows: bool| ServiceCommand::KnowsHeirs { peer: algorithms::NodeId(peer), knows };
    let mut bench = contended(2);
    bench.tell(knows(3, false));
    assert_eq!((entries(&bench, "a"), view(&bench)), (vec![token(1, 1)], Some((vec![1], vec![2]))));
    bench.report(3, 1, Some(label(1, 2)));
    let sent = bench.turn().sent();
    let whole = |message: &CentralMsg| matches!(message, CentralMsg::Install { chunk, .. } if chunk.entries.len() == 1);
    assert!(sent.iter().any(|(to, message)| *to == 3 && whole(message)), "no notes with heirs: {sent:?}");
    assert!(grants(&release(&mut bench, 1, token(1, 1))).is_empty());
    assert_eq!(entries(&bench, "a"), [token(1, 3)]);
    bench.tell(knows(3, true));
    bench.acquire(1, 2, "a", Mode::Exclusive);
    assert_eq!(entries(&bench, "a").len(), 2);
}

#[test]
fn an_heir_that_was_taken_over_stays_and_members_of_an_earlier_build_wait_for_their_table() {
    let old = ServiceCommand::KnowsHeirs { peer: algorithms::NodeId(3), knows: false };
    let mut bench = taken_over();
    bench.tell(old.clone());
    bench.report(3, 2, None);
    assert!(bench.turn().sent().iter().all(|(to, _)| *to != 3));
    bench.say(2, reopen(2, (2, 2), vec![held(1, "a", token(1, 2))], vec![]));
    assert!(bench.turn().sent().iter().any(|(to, message)| *to == 3 && matches!(message, CentralMsg::Install { .. })));
    // As a voter: a leader of that build learns of no copy, and waits until all sessions have expired.
    let mut bench = taken_over();
    bench.tell(old);
    let did = bench.grant(3, 3);
    assert!(matches!(did.sent()[..], [(3, CentralMsg::Report { copy: None, .. })]), "{did:?}");
}
