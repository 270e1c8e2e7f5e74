//! What must hold of a realm, and what must be possible lest the model be vacuous.

use super::{Ballot, Epoch, Holder, Msg, Node, NodeId, Property, Realm, State, Subject};

pub const ONE_PER_EPOCH: &str = "E1: one holder leads an epoch";
pub const ONE_AT_A_TIME: &str = "E3: no two lead at the same time";
pub const ONE_GRANT: &str = "E4: a voter grants an epoch to one holder";
pub const MAJORITY: &str = "E5: whoever leads has the grants of a majority";
pub const WITHIN_LEASE: &str = "E10: nobody leads past its lease";
pub const BOUND: &str = "a majority is bound to whoever leads";
pub const EPOCHS_GROW: &str = "E2: no epoch on a disk goes back";

pub(super) fn of<P: Subject>(model: &Realm<P>) -> Vec<Property<Realm<P>>> {
    let budget = model.budget;
    let mut all = vec![
        Property::always(ONE_PER_EPOCH, |_, state: &State<P>| {
            let epochs: Vec<Epoch> = state.crowned.iter().map(|&(epoch, _)| epoch).collect();
            epochs.windows(2).all(|pair| pair[0] != pair[1])
        }),
        Property::always(ONE_AT_A_TIME, |_, state| claims(state).len() < 2),
        Property::always(ONE_GRANT, |_, state: &State<P>| {
            let votes: Vec<_> = state.ballots.iter().map(|vote| (vote.epoch, vote.voter, vote.disk)).collect();
            votes.windows(2).all(|pair| pair[0] != pair[1])
        }),
        Property::always(MAJORITY, granted_by_majority),
        Property::always(WITHIN_LEASE, |_, state: &State<P>| {
            state.living().all(|(_, node, member)| match (member.reign().leads(), node.claim) {
                (Some(epoch), Some(claim)) => {
                    epoch == claim.epoch && node.timers.contains_key(&super::Clock::Lease(claim.until))
                }
                (None, None) => true,
                _ => false,
            })
        }),
        Property::always(BOUND, |model, state| {
            claims(state)
                .into_iter()
                .all(|holder| model.is_majority(state.nodes.iter().filter(|node| is_bound(node, holder)).count()))
        }),
        Property::always(EPOCHS_GROW, |_, state: &State<P>| state.nodes.iter().all(|node| !node.went_back)),
        Property::sometimes("somebody leads", |_, state| !claims(state).is_empty()),
        Property::sometimes("a lease ends by itself", |_, state: &State<P>| {
            !state.crowned.is_empty() && state.living().all(|(_, node, _)| node.timers.values().all(Option::is_none))
        }),
    ];
    if budget.wants.iter().filter(|&&wants| wants > 0).count() > 1 {
        all.push(Property::sometimes("two members lead, each in its epoch", |_, state: &State<P>| {
            let leaders: Vec<NodeId> = state.crowned.iter().map(|(_, holder)| holder.id).collect();
            leaders.windows(2).any(|pair| pair[0] != pair[1])
        }));
    }
    if budget.renewals > 0 {
        all.push(Property::sometimes("a lease is extended", |_, state: &State<P>| {
            state.living().any(|(_, node, _)| node.claim.is_some_and(|claim| claim.extended))
        }));
    }
    if budget.renewals > 0 && model.refusals {
        all.push(Property::sometimes("a leader moves on to a later epoch", |_, state: &State<P>| {
            let leaders: Vec<Holder> = state.crowned.iter().map(|&(_, holder)| holder).collect();
            leaders.windows(2).any(|pair| pair[0] == pair[1])
        }));
    }
    if budget.transfers + budget.claims > 0 {
        all.push(Property::sometimes("a leader has handed over to another", |_, state: &State<P>| {
            state.living().any(|(_, node, _)| node.claim.is_some_and(|claim| claim.handed_over))
        }));
    }
    if budget.restarts > 0 {
        all.push(Property::sometimes("a restarted voter grants again", |_, state: &State<P>| {
            let restarted = |at: usize| state.nodes[at].disk.is_some_and(|record| record.life.counter > 1);
            state.flying.iter().any(|flight| matches!(flight.message, Msg::Ack { .. }) && restarted(flight.from))
        }));
    }
    if model.closing_frees() && budget.crashes > 0 {
        all.push(Property::sometimes(
            "a leader is followed before its lease would have ended",
            |_, state: &State<P>| {
                let ghosts = || state.nodes.iter().any(|node| node.past.values().any(|ghost| !ghost.acts));
                state.living().any(|(_, node, _)| node.running().is_some()) && ghosts()
            },
        ));
    }
    if budget.wipes > 0 {
        all.push(Property::sometimes("a voter that lost its disk has learnt", |_, state: &State<P>| {
            state.nodes.iter().any(|node| node.lost_disks > 0 && node.disk.is_some_and(|record| record.vote.is_some()))
        }));
    }
    all
}

/// Whose lease runs: also a dead holder's, since others may still act on what it said.
fn claims<P: Subject>(state: &State<P>) -> Vec<Holder> {
    let past = state.nodes.iter().flat_map(|node| node.past.iter().filter(|(_, ghost)| ghost.acts).map(|(&of, _)| of));
    let living =
        state.living().filter(|(_, node, _)| node.running().is_some()).map(|(at, ..)| Realm::holder(state, at));
    past.chain(living).collect()
}

/// One that crashed will settle with what its disk says before it grants anything.
fn is_bound<P: Subject>(node: &Node<P>, to: Holder) -> bool {
    match &node.member {
        Some(member) => member.reign().binds(to),
        None => node.disk.and_then(|record| record.vote).is_none_or(|vote| vote.holder == Some(to)),
    }
}

fn granted_by_majority<P: Subject>(model: &Realm<P>, state: &State<P>) -> bool {
    state.crowned.iter().all(|&(epoch, holder)| {
        let granted = |voter: usize| {
            let of = |vote: &Ballot| (vote.epoch, vote.voter, vote.holder) == (epoch, voter, holder);
            state.ballots.iter().any(of)
        };
        model.is_majority((0..model.view.len()).filter(|&voter| granted(voter)).count())
    })
}
