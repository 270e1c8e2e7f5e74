//! Bugs of raft, each of which breaks one rule.

use algorithms::drive::Effect;
use algorithms::election::raft::{Ballot, Raft};
use algorithms::{Ctx, Input};

use crate::wrapper::{Bug, start, step};

type List = Vec<Effect<Raft>>;

/// Answers leave before the record is on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct SendsBeforeWriting;

impl Bug<Raft> for SendsBeforeWriting {
    fn step(&mut self, raft: &mut Raft, ctx: &Ctx<'_>, input: Input<Raft>, out: &mut List) {
        step(raft, ctx, input, out);
        out.sort_by_key(|effect| matches!(effect, Effect::Persist(_)));
    }
}

/// A restarted node knows its term and not its vote.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct ForgetsVote;

impl Bug<Raft> for ForgetsVote {
    fn start(ctx: &Ctx<'_>, stored: Option<Ballot>, out: &mut List) -> Raft {
        start(ctx, stored.map(|ballot| Ballot { voted_for: None, ..ballot }), out)
    }
}
