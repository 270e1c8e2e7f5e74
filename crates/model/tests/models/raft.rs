//! Raft with crashes between any two effects, restarts, and timers that fire at any moment: no term has two leaders, and
//! no node votes twice in a term. Planted: a vote that is sent before it is written, and a vote that is forgotten.

use algorithms::catalog;
use algorithms::drive::Effect;
use algorithms::election::raft::{Ballot, Raft};
use algorithms::{Ctx, Election, Input, Wins};
use model::bare::properties::ONE_VOTE;
use model::bare::{Bare, Timers};
use model::check::{Limits, examine};

use crate::planted::wrapper::{Bug, Planted, start, step};

type List = Vec<Effect<Raft>>;

/// Of `n` nodes two start; one may crash between any two effects, and restarts.
fn with_restart<E: Election>(n: usize, max_term: u64, timers: Timers) -> Bare<E> {
    let mut model = Bare::<E>::new(catalog::row("raft").expect("a row"), n, Wins::Highest);
    (model.crashes, model.restarts, model.max_starts) = (1, 1, 2);
    (model.max_term, model.timers) = (max_term, timers);
    model
}

#[test]
fn two_nodes_never_share_a_term_and_never_vote_twice() {
    let model = with_restart::<Raft>(2, 3, Timers::Anytime(1));
    let report = examine("raft n=2", &model, Limits::new(2_000_000, 0));
    report.holds().is_complete();
}

#[test]
fn three_nodes_never_share_a_term_and_never_vote_twice() {
    for (label, max_term, timers) in
        [("raft n=3, term 1", 1, Timers::Anytime(1)), ("raft n=3, terms 1 to 3", 3, Timers::Anytime(2))]
    {
        let report = examine(label, &with_restart::<Raft>(3, max_term, timers), Limits::new(300_000, 100_000));
        report.holds();
    }
}

/// Answers leave before the record is on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct SendsBeforeWriting;

impl Bug<Raft> for SendsBeforeWriting {
    fn step(&mut self, raft: &mut Raft, ctx: &Ctx<'_>, input: Input<Raft>, out: &mut List) {
        step(raft, ctx, input, out);
        out.sort_by_key(|effect| matches!(effect, Effect::Persist(_)));
    }
}

/// A restarted node knows its term and not its vote.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct ForgetsVote;

impl Bug<Raft> for ForgetsVote {
    fn start(ctx: &Ctx<'_>, stored: Option<Ballot>, out: &mut List) -> Raft {
        start(ctx, stored.map(|ballot| Ballot { voted_for: None, ..ballot }), out)
    }
}

#[test]
fn a_vote_that_is_sent_before_it_is_written_is_given_twice() {
    let model = with_restart::<Planted<Raft, SendsBeforeWriting>>(3, 1, Timers::WhenQuiet);
    let report = examine("raft, sends before it writes", &model, Limits::new(1_500_000, 0));
    report.breaks(ONE_VOTE);
}

#[test]
fn a_vote_that_is_forgotten_at_a_restart_is_given_twice() {
    let model = with_restart::<Planted<Raft, ForgetsVote>>(3, 1, Timers::Anytime(1));
    let report = examine("raft, forgets its vote", &model, Limits::new(1_500_000, 0));
    report.breaks(ONE_VOTE);
}
