//! Raft with crashes between any two effects, restarts, and timers that fire at any moment: no term has two leaders, and
//! no node votes twice in a term. Planted: a vote that is sent before it is written, and a vote that is forgotten.

use algorithms::Wins;
use algorithms::catalog;
use model::bare::properties::ONE_VOTE;
use model::bare::{Bare, Timers};
use model::check::{Limits, examine};

use crate::planted::kinds::{RaftBug, RaftNode};
use crate::planted::raft_bugs::{ForgetsVote, SendsBeforeWriting};

/// Of `n` nodes two start; one may crash between any two effects, and restarts.
fn with_restart(n: usize, max_term: u64, timers: Timers) -> Bare<RaftNode> {
    let mut model = Bare::new(catalog::row("raft").expect("a row"), n, Wins::Highest);
    (model.crashes, model.restarts, model.max_starts) = (1, 1, 2);
    (model.max_term, model.timers) = (max_term, timers);
    model
}

#[test]
fn two_nodes_never_share_a_term_and_never_vote_twice() {
    let model = with_restart(2, 3, Timers::Anytime(1));
    let report = examine("raft n=2", &model, Limits::new(2_000_000, 0));
    report.holds().is_complete();
}

#[test]
fn three_nodes_never_share_a_term_and_never_vote_twice() {
    for (label, max_term, timers) in
        [("raft n=3, term 1", 1, Timers::Anytime(1)), ("raft n=3, terms 1 to 3", 3, Timers::Anytime(2))]
    {
        let report = examine(label, &with_restart(3, max_term, timers), Limits::new(25_000, 10_000));
        report.holds();
    }
}

#[test]
fn a_vote_that_is_sent_before_it_is_written_is_given_twice() {
    let mut model = with_restart(3, 1, Timers::WhenQuiet);
    model.mistake = RaftBug::from(SendsBeforeWriting).mistake();
    let report = examine("raft, sends before it writes", &model, Limits::new(1_500_000, 0));
    report.breaks(ONE_VOTE);
}

#[test]
fn a_vote_that_is_forgotten_at_a_restart_is_given_twice() {
    let mut model = with_restart(3, 1, Timers::Anytime(1));
    model.mistake = RaftBug::from(ForgetsVote).mistake();
    let report = examine("raft, forgets its vote", &model, Limits::new(1_500_000, 0));
    report.breaks(ONE_VOTE);
}
