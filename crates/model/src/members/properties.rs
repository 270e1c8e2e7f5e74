//! What must hold of a cluster, and what must be possible so that the model is not vacuous.

use algorithms::Topology;

use super::node::PATIENCE;
use super::{Budget, Child, Elects, Members, Node, State, Subject};
use crate::properties::{Properties, all_differ};

pub const EPOCHS_GROW: &str = "E2: no member's epoch goes back, restarts included";
pub const NO_REPEAT: &str = "E1: no member leads an epoch of an earlier process of its own";
pub const ONE_CLAIMANT: &str = "E1: one leader per epoch";
pub const ONE_LEADER: &str = "E1: one leader per attempt while nothing fails";
pub const ONE_AT_A_TIME: &str = "E3: no two members lead with a lease that runs";
pub const WITHIN_LEASE: &str = "E10: no leader claims past its lease";
pub const FITTING_CAUSE: &str = "a loss of leadership names its cause";
pub const CHILDREN_FIRST: &str = "E13: children stop before leadership is given away";
pub const AGREEMENT: &str = "E8: at rest all living members report one leader that lives, in one epoch";
pub const BEST_LEADS: &str = "E11: at rest the best living member leads";

pub(super) fn of<P: Subject>(model: &Members<P>) -> Properties<Members<P>> {
    let budget = model.budget;
    let mut all = Properties::of(model);
    all.always(EPOCHS_GROW, |_, state| state.nodes.iter().all(|node| !node.broken.went_back));
    all.always(NO_REPEAT, |_, state| state.nodes.iter().all(|node| !node.broken.repeated));
    all.always(ONE_CLAIMANT, |_, state| all_differ(state.announced_leaders.iter().map(|(epoch, _)| epoch.0)));
    all.always(FITTING_CAUSE, |_, state| state.nodes.iter().all(|node| !node.broken.wrong_cause));
    all.always(CHILDREN_FIRST, |_, state| state.nodes.iter().all(|node| !node.broken.left_child));
    all.always(AGREEMENT, |model, state| agree(model, state) || !rests(model, state));
    all.sometimes("the cluster rests", rests);
    all.sometimes("a member has a leader", |_, state| {
        state.living().any(|(_, node)| node.standing.is_some_and(|standing| standing.leader.is_some()))
    });

    // Which member is the best depends on what an operator said, and members hear of it at different moments.
    if model.elects == Elects::Best && budget.priorities == 0 {
        all.always(BEST_LEADS, |model, state| best_leads(model, state) || !rests(model, state));
    }
    if P::LEASES {
        all.always(ONE_AT_A_TIME, |_, state| state.nodes.iter().map(|node| node.running_leases()).sum::<usize>() < 2);
        all.always(WITHIN_LEASE, |_, state| state.living().all(|(_, node)| node.leads_within_lease()));
        all.sometimes("a lease runs", |_, state| state.living().any(|(_, node)| node.claims()));
    }
    if budget.crashes + budget.suspicions + budget.early == 0 && !P::LEASES {
        // Members that know different priorities may bring two winners of one attempt, each with an epoch of its own.
        if !P::features(&model.settings).has_terms && budget.priorities == 0 {
            all.always(ONE_LEADER, |model, state| {
                // Every attempt has one epoch for each member.
                let members = model.view.len() as u64;
                all_differ(state.announced_leaders.iter().map(|(epoch, _)| epoch.0 / members))
            });
        }
        all.sometimes("a leader is announced", |_, state| !state.announced_leaders.is_empty());
    }
    all.sometimes_if(budget.crashes > 0, "a crash between two effects", |_, state| state.torn);
    all.sometimes_if(budget.restarts > 0, "a restarted member rests among the others", |model, state| {
        state.left.restarts < model.budget.restarts && state.living().count() > 1 && rests(model, state)
    });
    of_writes_and_wishes(budget, &mut all);
    all.sometimes_if(budget.suspicions > 0, "rest after a false suspicion", |model, state| {
        state.left.suspicions < model.budget.suspicions && rests(model, state)
    });
    all.sometimes_if(budget.early > 0, "rest after an early timer", |model, state| {
        state.left.early < model.budget.early && rests(model, state)
    });
    all
}

fn of_writes_and_wishes<P: Subject>(budget: Budget, all: &mut Properties<Members<P>>) {
    if budget.slow_writes > 0 {
        all.sometimes("a machine is ahead of its effects", |_, state| {
            let ahead = |node: &Node<P>| {
                let machine = node.driver.as_ref().map(|driver| driver.machine().standing());
                node.in_flight.is_some() && machine != node.standing
            };
            state.living().any(|(_, node)| ahead(node))
        });
        all.sometimes("time passes while a write is in flight", |_, state| {
            state.living().any(|(_, node)| node.in_flight.as_ref().is_some_and(|write| write.patience < PATIENCE))
        });
    }
    all.sometimes_if(budget.priorities > 0, "rest after a priority changed", |model, state| {
        state.left.priorities < model.budget.priorities && rests(model, state)
    });
    all.sometimes_if(
        budget.children > 0 && budget.step_downs + budget.transfers > 0,
        "a child stops before its leader does",
        |_, state| state.living().any(|(_, node)| node.child == Child::Stops && node.leads()),
    );
    all.sometimes_if(
        budget.step_downs + budget.transfers > 0,
        "rest after leadership was given away",
        |model, state| {
            let told = state.left.step_downs + state.left.transfers;
            told < model.budget.step_downs + model.budget.transfers && rests(model, state)
        },
    );
}

fn rests<P: Subject>(model: &Members<P>, state: &State<P>) -> bool {
    state.wires.is_empty() && model.progress(state).is_empty()
}

/// The living members that can reach each other: all of them, unless they are linked as a graph and only so.
fn components<P: Subject>(model: &Members<P>, state: &State<P>) -> Vec<Vec<usize>> {
    let mut left: Vec<usize> = state.living().map(|(at, _)| at).collect();
    if P::LEASES || model.view.topology() != Topology::Graph {
        return vec![left];
    }
    let mut components = Vec::new();
    while let Some(&first) = left.first() {
        let reached = model.view.distances(first, |at| left.contains(&at));
        let (component, rest) = left.into_iter().partition(|&at| reached[at].is_some());
        components.push(component);
        left = rest;
    }
    components
}

/// In each component one leader, one epoch, and the leader lives in it.
pub(super) fn agree<P: Subject>(model: &Members<P>, state: &State<P>) -> bool {
    components(model, state).iter().all(|component| {
        let standing = |&at: &usize| state.nodes[at].standing.map(|s| (s.leader, s.epoch));
        let Some(first) = component.first().map(standing) else { return true };
        let lives = first.is_some_and(|(leader, _)| component.iter().any(|&at| leader == Some(model.id(at))));
        lives && component.iter().all(|at| standing(at) == first)
    })
}

fn best_leads<P: Subject>(model: &Members<P>, state: &State<P>) -> bool {
    components(model, state).iter().all(|component| {
        let best = model.settings.election.wins.best(component.iter().map(|&at| model.view.members()[at]));
        let leader = |&at: &usize| state.nodes[at].standing.and_then(|standing| standing.leader);
        component.iter().all(|at| leader(at) == best.map(|uid| uid.id))
    })
}
