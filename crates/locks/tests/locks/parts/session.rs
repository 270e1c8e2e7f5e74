//! The client's side of a session.

use std::time::Duration;

use locks::session::{Ending, Output, Session};
use locks::wire::{Mode, Refusal, RequestId, SendNumber, SessionId, ToClerk, ToClient};
use types::{Epoch, Token};

use crate::bench::{TTL, name};

struct Side(Session);

impl Side {
    /// Open at the clerk of epoch 1.
    fn open() -> Self {
        let mut side = Side(Session::new(SessionId(1), TTL, false));
        side.clerk(1);
        side.opened(1, &[]);
        side
    }

    fn hear(&mut self, message: ToClient) -> Vec<Output> {
        let mut out = Vec::new();
        self.0.hear(message, |_| Duration::from_millis(40), &mut out);
        out
    }

    fn clerk(&mut self, epoch: u64) -> Vec<Output> {
        self.hear(ToClient::Clerk { epoch: Epoch(epoch) })
    }

    /// Answers the last Open.
    fn opened(&mut self, epoch: u64, lost: &[u64]) -> Vec<Output> {
        // The last number that was said is the Open's.
        let mut probe = self.0.clone();
        let mut out = Vec::new();
        probe.hear(ToClient::Clerk { epoch: Epoch(epoch) }, |_| Duration::ZERO, &mut out);
        let [Output::Say(ToClerk::Open { number, attach, .. })] = &out[..] else { panic!("{out:?}") };
        let (number, attach) = (SendNumber(number.0 - 1), locks::wire::AttachNumber(attach.0 - 1));
        let lost = lost.iter().copied().map(RequestId).collect();
        let (max_drift_ppm, margin) = (10_000, Duration::from_millis(5));
        self.hear(ToClient::Opened { number, epoch: Epoch(epoch), attach, ttl: TTL, max_drift_ppm, margin, lost })
    }

    fn acquire(&mut self, request: u64, wait: Option<Duration>) -> Vec<Output> {
        let mut out = Vec::new();
        self.0.acquire(RequestId(request), (name("a"), Mode::Exclusive, wait), &mut out);
        out
    }

    fn granted(&mut self, request: u64) -> Vec<Output> {
        self.hear(ToClient::Granted { number: None, request: RequestId(request), token: Token(7) })
    }

    fn release(&mut self, request: u64, durable: bool) -> Vec<Output> {
        let mut out = Vec::new();
        self.0.release(RequestId(request), durable, &mut out);
        out
    }
}

fn named(out: &[Output]) -> (Vec<u64>, Vec<u64>) {
    let [Output::Say(ToClerk::Open { holds, wants, .. })] = out else { panic!("{out:?}") };
    (holds.iter().map(|held| held.request.0).collect(), wants.iter().map(|wanted| wanted.request.0).collect())
}

#[test]
fn an_open_names_what_is_held_and_wanted_and_attach_numbers_rise() {
    let mut side = Side::open();
    side.acquire(1, None);
    side.granted(1);
    side.acquire(2, Some(Duration::from_millis(100)));
    let out = side.clerk(2);
    assert_eq!(named(&out), (vec![1], vec![2]));
    let [Output::Say(ToClerk::Open { attach, wants, .. })] = &out[..] else { unreachable!() };
    assert_eq!(
        (attach.0, wants[0].waited, wants[0].wait),
        (2, Duration::from_millis(40), Some(Duration::from_millis(60)))
    );
}

#[test]
fn nothing_of_an_older_clerk_counts() {
    let mut side = Side::open();
    side.acquire(1, None);
    side.clerk(3);
    // These were sent before the clerk of epoch 3 read the Open.
    for old in [
        ToClient::SessionLost,
        ToClient::Kept { number: SendNumber(1) },
        ToClient::Granted { number: Some(SendNumber(2)), request: RequestId(1), token: Token(9) },
        ToClient::Refused { request: RequestId(1), why: Refusal::Busy },
    ] {
        assert_eq!(side.hear(old), []);
    }
    assert!(!side.opened(3, &[]).is_empty());
    // A member that led once.
    assert_eq!(side.clerk(2), []);
    assert!(!side.0.is_open());
}

#[test]
fn only_the_answer_to_the_last_open_opens() {
    let mut side = Side(Session::new(SessionId(1), TTL, false));
    side.clerk(1);
    let before = side.0.clone();
    let late = ToClient::Opened {
        number: SendNumber(1),
        epoch: Epoch(1),
        attach: locks::wire::AttachNumber(0),
        ttl: TTL,
        max_drift_ppm: 0,
        margin: Duration::ZERO,
        lost: Vec::new(),
    };
    assert_eq!(side.hear(late), []);
    assert_eq!(side.0, before);
}

#[test]
fn a_request_that_was_made_while_there_was_no_clerk_is_told_when_there_is_one() {
    let mut side = Side::open();
    side.0.disconnected();
    assert_eq!(side.acquire(1, None), []);
    assert_eq!(named(&side.clerk(2)), (vec![], vec![1]));
    assert_eq!(side.acquire(2, None), []);
    let out = side.opened(2, &[]);
    assert!(matches!(&out[2..], [Output::Say(ToClerk::Acquire { request: RequestId(2), .. })]), "{out:?}");
}

#[test]
fn a_grant_of_a_finished_request_is_ignored() {
    let mut side = Side::open();
    side.acquire(1, None);
    let mut out = Vec::new();
    side.0.withdraw(RequestId(1), &mut out);
    assert!(matches!(out[..], [Output::Say(ToClerk::Withdraw { .. })]));
    assert_eq!(side.granted(1), []);
    assert_eq!(named(&side.clerk(2)), (vec![], vec![]));
}

#[test]
fn what_was_given_back_is_told_to_the_next_clerk() {
    for (durable, holds) in [(false, vec![]), (true, vec![1])] {
        let mut side = Side::open();
        side.acquire(1, None);
        side.granted(1);
        side.0.disconnected();
        assert_eq!(side.release(1, durable), []);
        assert_eq!(side.0.token(RequestId(1)), None, "given back is not held");
        assert_eq!(named(&side.clerk(2)).0, holds);
        let out = side.opened(2, &[]);
        assert!(matches!(out.last(), Some(Output::Say(ToClerk::Release { .. }))), "{out:?}");
        let refused = ToClient::Refused { request: RequestId(1), why: Refusal::NotHeld };
        assert_eq!(side.hear(refused), [Output::Released(RequestId(1))]);
    }
}

#[test]
fn a_lock_that_the_clerk_does_not_know_is_lost_and_the_session_lives() {
    let mut side = Side::open();
    side.acquire(1, None);
    side.granted(1);
    side.clerk(2);
    assert!(side.opened(2, &[1]).contains(&Output::Lost(RequestId(1))));
    assert_eq!(side.0.ended(), None);
}

#[test]
fn a_session_ends_once_and_for_good() {
    let mut side = Side::open();
    side.acquire(1, None);
    assert_eq!(side.hear(ToClient::SessionLost), [Output::Over(Ending::Lost)]);
    assert_eq!(side.clerk(2), []);
    assert_eq!(side.acquire(2, None), []);
    assert_eq!(side.0.ended(), Some(Ending::Lost));
    let mut out = Vec::new();
    let mut side = Side::open();
    side.0.close(&mut out);
    assert_eq!(out, [Output::Say(ToClerk::Close), Output::Over(Ending::Closed)]);
}

#[test]
fn a_request_whose_time_is_over_at_a_new_clerk_has_timed_out() {
    let busy = ToClient::Refused { request: RequestId(1), why: Refusal::Busy };
    for (wait, why) in [(Duration::ZERO, Refusal::Busy), (Duration::from_millis(30), Refusal::TimedOut)] {
        let mut side = Side::open();
        side.acquire(1, Some(wait));
        let out = side.clerk(2);
        let [Output::Say(ToClerk::Open { wants, .. })] = &out[..] else { panic!("{out:?}") };
        assert_eq!(wants[0].wait, Some(Duration::ZERO));
        side.opened(2, &[]);
        assert_eq!(side.hear(busy.clone()), [Output::Refused(RequestId(1), why)]);
    }
}
