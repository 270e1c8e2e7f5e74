//! What must hold of a quorum, and what must be possible so that the model is not vacuous.

use algorithms::drive::Driver;

use super::{Arc, Ballot, Budget, Holder, MemberList, Msg, Node, NodeId, QuorumModel, ReignTimer, State, Subject};
use crate::properties::{Properties, all_differ};

pub const ONE_PER_EPOCH: &str = "E1: one holder leads an epoch";
pub const ONE_AT_A_TIME: &str = "E3: no two lead at the same time";
pub const ONE_GRANT: &str = "E4: a voter grants an epoch to one holder";
pub const MAJORITY: &str = "E5: a leader has the grants of a majority";
pub const WITHIN_LEASE: &str = "E10: no leader claims past its lease";
pub const BOUND: &str = "E3: a majority is bound to the holder of a running lease";
pub const EPOCHS_GROW: &str = "E2: no epoch on a disk goes back";
pub const ONE_ID: &str = "E14: no two voters agree on different ids";
pub const ONE_LIST: &str = "E15: no two lists have one stamp";
pub const LISTS_GROW: &str = "E16: no list on a disk is replaced by an older one";
pub const ONE_APART: &str = "E17: lists in force one after the other differ by one voter";
pub const ON_DISKS: &str = "E18: a list in force is on the disks of a majority of its voters";
pub const FITTING_CAUSE: &str = "a loss of leadership names its cause";

pub(super) fn of<P: Subject>(model: &QuorumModel<P>) -> Properties<QuorumModel<P>> {
    let budget = model.budget;
    let mut all = Properties::of(model);
    all.always(ONE_PER_EPOCH, |_, state| all_differ(state.announced_leaders.iter().map(|&(epoch, _)| epoch)));
    all.always(ONE_AT_A_TIME, |_, state| claims(state).len() < 2);
    all.always(ONE_GRANT, |_, state| all_differ(state.ballots.iter().map(|vote| (vote.epoch, vote.voter, vote.disk))));
    all.always(MAJORITY, granted_by_majority);
    all.always(WITHIN_LEASE, |_, state| state.living().all(|(_, node, driver)| claims_within_lease(node, driver)));
    all.always(FITTING_CAUSE, |_, state| state.nodes.iter().all(|node| !node.wrong_cause));
    all.always(BOUND, |model, state| {
        claims(state).into_iter().all(|holder| {
            let bound = |id| is_bound(&state.nodes[model.position(id)], holder);
            list_of(state, holder).is_none_or(|list| list.is_majority(bound))
        })
    });
    all.always(EPOCHS_GROW, |_, state| state.nodes.iter().all(|node| !node.went_back));
    all.sometimes("a member leads", |_, state| !claims(state).is_empty());
    all.sometimes("a lease ends by itself", |_, state| {
        !state.announced_leaders.is_empty()
            && state.living().all(|(_, node, _)| node.timers().all(|(_, left)| left.is_none()))
    });
    of_lists(model.budget, &mut all);
    if model.settings.names_cluster {
        all.always(ONE_ID, |_, state| {
            let agreed: Vec<_> = agreed_ids(state).collect();
            agreed.windows(2).all(|pair| pair[0] == pair[1])
        });
        all.sometimes("all voters have the id", |model, state| agreed_ids(state).count() == model.view.len());
    }
    all.sometimes_if(
        budget.wants.iter().filter(|&&wants| wants > 0).count() > 1,
        "two members lead, each in its epoch",
        |_, state| {
            let leaders: Vec<NodeId> = state.announced_leaders.iter().map(|(_, holder)| holder.id).collect();
            leaders.windows(2).any(|pair| pair[0] != pair[1])
        },
    );
    all.sometimes_if(budget.renewals > 0, "a lease is extended", |_, state| {
        state.living().any(|(_, node, _)| node.claim.is_some_and(|claim| claim.extended))
    });
    all.sometimes_if(budget.renewals > 0 && model.refusals, "a leader moves on to a later epoch", |_, state| {
        !all_differ(state.announced_leaders.iter().map(|&(_, holder)| holder))
    });
    all.sometimes_if(budget.transfers + budget.claims > 0, "a leader has handed over to another", |_, state| {
        state.living().any(|(_, node, _)| node.claim.is_some_and(|claim| claim.handed_over))
    });
    all.sometimes_if(budget.restarts > 0, "a restarted voter grants again", |_, state| {
        let restarted = |at: usize| state.nodes[at].disk.as_ref().is_some_and(|record| record.incarnation.counter > 1);
        state.flying.iter().any(|flight| matches!(flight.message, Msg::Ack { .. }) && restarted(flight.from))
    });
    all.sometimes_if(
        model.closing_frees() && budget.crashes > 0,
        "a leader is followed before its lease would have ended",
        |_, state| {
            let past = || state.nodes.iter().any(|node| node.past.values().any(|claim| !claim.acts));
            state.living().any(|(_, node, _)| node.running().is_some()) && past()
        },
    );
    all.sometimes_if(budget.slow_writes > 0, "a member leads while a write is in flight", |_, state| {
        state.living().any(|(_, _, driver)| driver.is_blocked()) && !claims(state).is_empty()
    });
    all.sometimes_if(budget.wipes > 0, "a voter that lost its disk has learnt", |_, state| {
        let votes = |node: &Node<P>| node.disk.as_ref().is_some_and(|record| record.vote.is_some());
        state.nodes.iter().any(|node| node.lost_disks > 0 && votes(node))
    });
    all
}

/// What must hold of the lists of members.
fn of_lists<P: Subject>(budget: Budget, all: &mut Properties<QuorumModel<P>>) {
    all.always(LISTS_GROW, |_, state| state.nodes.iter().all(|node| !node.list_went_back));
    all.always(ONE_LIST, |_, state| all_differ(state.lists.iter().map(|list| list.stamp)));
    all.always(ONE_APART, |model, state| {
        let lists: Vec<_> = std::iter::once(&model.first).chain(&state.in_force).collect();
        lists.windows(2).all(|pair| pair[0].voters_apart(pair[1]) <= 1)
    });
    all.always(ON_DISKS, |model, state| {
        let has = |id, list: &MemberList| {
            let node = &state.nodes[model.position(id)];
            let vote = node.disk.as_ref().and_then(|record| record.vote.as_ref());
            node.lost_disks > 0 || vote.is_some_and(|vote| vote.list.stamp >= list.stamp)
        };
        state.in_force.iter().all(|list| list.is_majority(|id| has(id, list)))
    });
    all.sometimes_if(budget.changes > 0, "a list with other voters is in force", |model, state| {
        let before = model.initial.in_force.len();
        state.in_force.len() > before && state.in_force.iter().any(|list| list.voters_apart(&model.first) > 0)
    });
}

/// The ids that voters have on disk as agreed.
fn agreed_ids<P: Subject>(state: &State<P>) -> impl Iterator<Item = member::ClusterId> + '_ {
    let marks = state.nodes.iter().filter_map(|node| node.disk.as_ref().and_then(|record| record.cluster));
    marks.filter(|mark| mark.agreed).map(|mark| mark.id)
}

/// The holders of running leases: also dead ones, since clients may still act on their announcements.
fn claims<P: Subject>(state: &State<P>) -> Vec<Holder> {
    let past = state.nodes.iter().flat_map(|node| node.past.iter().filter(|(_, claim)| claim.acts).map(|(&of, _)| of));
    let living = state.living().filter(|(_, node, _)| node.running().is_some()).map(|(at, ..)| state.holder(at));
    past.chain(living).collect()
}

/// Without open effects the machine and its announcements agree. A machine ahead of its effects may have ended its
/// leadership already.
fn claims_within_lease<P: Subject>(node: &Node<P>, driver: &Driver<P, Option<u8>>) -> bool {
    match (driver.machine().reign().leads(), node.claim) {
        _ if driver.owes_effects() => true,
        (Some(epoch), Some(claim)) => {
            epoch == claim.epoch && driver.timers().get(ReignTimer::Lease(claim.until)).is_some()
        }
        (None, None) => true,
        _ => false,
    }
}

/// A crashed voter will settle with the record on its disk before it grants anything. A leader that knows that it leads
/// no more, and has not announced it yet, grants nothing to another holder before the announcement.
fn is_bound<P: Subject>(node: &Node<P>, to: Holder) -> bool {
    if let Some(driver) = &node.driver {
        let reign = driver.machine().reign();
        return reign.binds(to) || (reign.holder() == to && driver.owes_effects());
    }
    let vote = node.disk.as_ref().and_then(|record| record.vote.as_ref());
    vote.is_none_or(|vote| vote.holder == Some(to))
}

/// The list that the lease of this holder stands on, if its process runs.
fn list_of<P: Subject>(state: &State<P>, holder: Holder) -> Option<&Arc<MemberList>> {
    let mut living = state.living().map(|(_, _, driver)| driver.machine().reign());
    living.find(|reign| reign.holder() == holder)?.proposal().map(|(force, _)| force)
}

fn granted_by_majority<P: Subject>(model: &QuorumModel<P>, state: &State<P>) -> bool {
    state.announced_leaders.iter().all(|&(epoch, holder)| {
        let granted = |voter: usize| {
            let of = |vote: &Ballot| (vote.epoch, vote.voter, vote.holder) == (epoch, voter, holder);
            state.ballots.iter().any(of)
        };
        std::iter::once(&model.first).chain(&state.lists).any(|list| list.is_majority(|id| granted(model.position(id))))
    })
}
