//! What must hold of a bare election, and what must be possible so that the model is not vacuous.

use super::{Bare, Election, Elects, Outcome, State, Status, Timers, Uid};
use crate::properties::{Properties, all_differ};

pub const ONE_WINNER: &str = "at most one winner";
pub const AGREEMENT: &str = "all nodes that decided agree";
pub const ALL_DECIDE: &str = "when all is quiet every node has decided";
pub const BEST_WINS: &str = "E11: only the best wins";
pub const ONCE: &str = "no node decides twice";
pub const FINAL: &str = "E11: when all is quiet every node follows the best";
pub const ONE_VOTE: &str = "one vote per node and term";
pub const ONE_PER_TERM: &str = "E1: at most one winner per term";
const ASSERTION_1: &str = "assertions 1 and 3 of the state vectors";

pub(super) fn of<E: Election>(model: &Bare<E>) -> Properties<Bare<E>> {
    let mut all = Properties::of(model);
    all.sometimes("a node wins", |_, state| state.winners() > 0);
    let features = E::features(&model.settings);
    if features.has_terms {
        of_terms(model, &mut all);
        return all;
    }
    if model.timers != Timers::WhenQuiet {
        all.always(FINAL, |model, state| follows_best(model, state) || !over(model, state));
        all.sometimes("two winners on the way", |_, state| state.winners() > 1);
        all.sometimes("all is quiet", over);
        all.sometimes("no timer fires early", |model, state| {
            over(model, state) && model.timers == Timers::Anytime(state.early_left)
        });
        return all;
    }
    all.sometimes_if(model.crashes > 0, "a crash between two effects", |_, state| state.torn);
    all.always(ONE_WINNER, one_winner);
    all.always(AGREEMENT, agreement);
    if model.crashes == 0 {
        all.sometimes("the election is over", over);
        all.sometimes("one initiator suffices", |model, state| over(model, state) && state.starts() == 1);
        all.sometimes("all start that may", |model, state| over(model, state) && state.starts() == model.max_starts);
        if model.elects == Elects::Best {
            all.always(BEST_WINS, |model, state| {
                let best = best(model, state);
                state.nodes.iter().enumerate().all(|(at, node)| !node.ever_won || uid(model, state, at) == best)
            });
        }
        if !features.continuous {
            all.always(ONCE, |_, state| state.nodes.iter().all(|node| node.decisions < 2));
        }
    }
    if model.crashes == 0 || model.detects_crashes() {
        all.always(ALL_DECIDE, |model, state| decided(model, state) || !over(model, state));
    }
    if features.continuous {
        all.always(ASSERTION_1, assertion_1);
        all.sometimes("two nodes are Normal", |_, state| vectors(state, Status::Normal).count() > 1);
    }
    all
}

/// Where decisions have terms: an election may fail, and the next one may have another winner, in a later term.
fn of_terms<E: Election>(model: &Bare<E>, all: &mut Properties<Bare<E>>) {
    all.always(ONE_PER_TERM, |_, state| all_differ(state.winners_of_terms.iter().map(|&(term, _)| term)));
    all.always(ONE_VOTE, |_, state| all_differ(state.votes.iter().map(|&(node, term, _)| (node, term))));
    all.sometimes_if(model.crashes > 0, "a crash between two effects", |_, state| state.torn);
    all.sometimes_if(model.restarts > 0, "a node wins while a restarted one lives", |model, state| {
        state.restarts_left < model.restarts && !state.winners_of_terms.is_empty()
    });
}

/// A node has started, and nothing more happens unless another node starts.
fn over<E: Election>(_: &Bare<E>, state: &State<E>) -> bool {
    state.starts() > 0 && state.progress().is_empty()
}

/// A crash may leave a node asleep that received no message.
fn decided<E: Election>(model: &Bare<E>, state: &State<E>) -> bool {
    state.content() || (model.crashes > 0 && state.living().all(|(_, node)| node.asleep || node.outcome.is_some()))
}

/// A node that waits for ever is like a dead one, so a crash changes nothing where no timer detects it. Where a timer
/// does, a dead winner is replaced.
fn one_winner<E: Election>(model: &Bare<E>, state: &State<E>) -> bool {
    if groups_may_differ(model, state) {
        return true;
    }
    if model.crashes > 0 && model.detects_crashes() {
        return state.living().filter(|(_, node)| node.outcome == Some(Outcome::Won)).count() <= 1;
    }
    state.winners() <= 1
}

/// Where there are groups, a crash may leave several with a leader each until they have merged.
fn groups_may_differ<E: Election>(model: &Bare<E>, state: &State<E>) -> bool {
    let grouped = state.living().filter_map(|(_, node)| node.driver.as_ref()?.machine().state_vector());
    model.crashes > 0 && !over(model, state) && grouped.into_iter().any(|vector| vector.g.is_some())
}

fn agreement<E: Election>(model: &Bare<E>, state: &State<E>) -> bool {
    if groups_may_differ(model, state) {
        return true;
    }
    let replaced = model.crashes > 0 && model.detects_crashes();
    let lives = |leader: Uid| state.living().any(|(at, _)| uid(model, state, at) == leader);
    let mut leaders = state.living().filter_map(|(at, node)| leader(model, state, at, node.outcome));
    let first = leaders.by_ref().find(|&leader| !replaced || lives(leader));
    leaders.filter(|&leader| !replaced || lives(leader)).all(|leader| Some(leader) == first)
}

fn follows_best<E: Election>(model: &Bare<E>, state: &State<E>) -> bool {
    let best = best(model, state);
    state.living().all(|(at, node)| leader(model, state, at, node.outcome) == Some(best))
}

fn leader<E: Election>(model: &Bare<E>, state: &State<E>, at: usize, outcome: Option<Outcome>) -> Option<Uid> {
    match outcome {
        Some(Outcome::Won) => Some(uid(model, state, at)),
        Some(Outcome::Follow(leader)) => leader,
        _ => None,
    }
}

/// Two nodes (of the same group, where there are groups) in Reorganization or Normal have the same coordinator; two in
/// Normal the same task.
fn assertion_1<E: Election>(_: &Bare<E>, state: &State<E>) -> bool {
    let settled: Vec<_> = vectors(state, Status::Reorganization).chain(vectors(state, Status::Normal)).collect();
    settled.iter().enumerate().all(|(i, a)| {
        settled[..i].iter().filter(|b| b.g == a.g).all(|b| {
            let normal = a.s == Status::Normal && b.s == Status::Normal;
            a.c == b.c && (!normal || a.d == b.d)
        })
    })
}

fn vectors<E: Election>(state: &State<E>, s: Status) -> impl Iterator<Item = algorithms::StateVector> {
    state
        .living()
        .filter_map(|(_, node)| node.driver.as_ref()?.machine().state_vector())
        .filter(move |vector| vector.s == s)
}

fn uid<E: Election>(model: &Bare<E>, state: &State<E>, at: usize) -> Uid {
    model.views[state.view].members()[at]
}

fn best<E: Election>(model: &Bare<E>, state: &State<E>) -> Uid {
    let members = model.views[state.view].members();
    model.settings.wins.best(members.iter().copied()).expect("a view has members")
}
