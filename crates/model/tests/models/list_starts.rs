//! Ways to states in which a broken rule of lists would show soon. The machine that ships is explored from the same
//! states.

use algorithms::{NodeId, Uid};
use model::reign::Script::{self, Change as Order, Crash, Exchange, Idle, Lose, Renew, Reports, Stand, Tick, Wipe};
use model::reign::{Budget, QuorumModel, voter};
use types::{Change, Listed, PeerRole};

use crate::planted::kinds::Voter;

pub(crate) fn with(id: u32) -> Change {
    Change::List(voter(&Uid::plain(id)))
}

pub(crate) fn without(id: u32) -> Change {
    Change::Unlist(NodeId(id))
}

fn meet(one: usize, others: &[usize]) -> Vec<Script> {
    others.iter().map(|&other| Exchange(one, other)).chain([Lose]).collect()
}

/// A member stands, and these grant it.
fn stand(one: usize, others: &[usize]) -> Vec<Script> {
    [vec![Stand(one)], meet(one, others)].concat()
}

/// The list with the leader's own stamp: the first order for a change brings it about.
fn affirm(leader: usize, others: &[usize]) -> Vec<Script> {
    let learner = Listed { role: PeerRole::Learner, ..voter(&Uid::plain(9)) };
    change(leader, Change::List(learner), others)
}

fn change(leader: usize, change: Change, others: &[usize]) -> Vec<Script> {
    [vec![Order(leader, change)], meet(leader, others)].concat()
}

/// A tick, and another lease from these voters.
fn renew(leader: usize, others: &[usize]) -> Vec<Script> {
    [vec![Tick, Renew(leader)], meet(leader, others)].concat()
}

/// Four voters. 1 has proposed {1,2,4} to nobody but itself and leads no more; 2 leads, has {1,2,3} in force, and 4 has
/// heard nothing for a while: 1 may stand under its own proposal, and 4 is not a voter any more. `affirms`: leaders stamp
/// the list before they change it.
pub(crate) fn older_proposal(affirms: bool, budget: Budget) -> QuorumModel<Voter> {
    let affirm = |leader, others: &[usize]| if affirms { affirm(leader, others) } else { Vec::new() };
    let steps = [
        stand(0, &[1, 2, 3]),
        affirm(0, &[1, 2, 3]),
        change(0, without(3), &[]),
        vec![Idle],
        stand(1, &[2, 3]),
        // In vain, so that it knows of epoch 2.
        stand(0, &[]),
        affirm(1, &[2, 3]),
        change(1, without(4), &[2]),
        renew(1, &[2]),
        renew(1, &[2]),
    ];
    QuorumModel::of(4, 2, budget).after(&steps.concat())
}

/// Three voters and two members to be added. 1 leads, 3 has stood in vain, then 1 added 4 and 5: 2 and 3 have heard
/// nothing for a while, and are a majority of the first three.
pub(crate) fn failed_candidate(budget: Budget) -> QuorumModel<Voter> {
    let steps = [
        stand(0, &[1, 2]),
        vec![Reports(3, 0), Reports(4, 0)],
        affirm(0, &[1, 2]),
        renew(0, &[1]),
        renew(0, &[1]),
        renew(0, &[1]),
        stand(2, &[]),
        vec![Crash(2), Script::Restart(2)],
        change(0, with(4), &[1, 3]),
        change(0, with(5), &[3, 4]),
        renew(0, &[3, 4]),
        renew(0, &[3, 4]),
        renew(0, &[3, 4]),
    ];
    QuorumModel::with_spares(3, 5, 2, budget).after(&steps.concat())
}

/// Four voters. {1,2,4} is in force at 1 and 2, then 2 leads epoch 2 with the votes of these two, and 1 loses its disk:
/// 3 and 4 know nothing of all that.
pub(crate) fn half_of_the_others(budget: Budget) -> QuorumModel<Voter> {
    let steps = [
        stand(0, &[1, 2, 3]),
        affirm(0, &[1, 2, 3]),
        change(0, without(3), &[1]),
        vec![Idle],
        stand(1, &[0]),
        vec![Crash(0), Wipe(0), Idle],
    ];
    QuorumModel::of(4, 2, budget).after(&steps.concat())
}

/// Three voters, then 4 was added and 3 removed. 4 leads epoch 2 with the vote of 2, which loses its disk: 1 and 3 do not
/// know of epoch 2, and 3 votes no more.
pub(crate) fn removed_voter(budget: Budget) -> QuorumModel<Voter> {
    let steps = [
        stand(0, &[1, 2]),
        vec![Reports(3, 0)],
        affirm(0, &[1, 2]),
        change(0, with(4), &[1, 3]),
        change(0, without(3), &[1, 3]),
        vec![Idle],
        stand(3, &[1]),
        vec![Crash(1), Wipe(1), Idle],
    ];
    QuorumModel::with_spares(3, 4, 2, budget).after(&steps.concat())
}

/// Three voters. 1 leads with a stamped list that all have.
pub(crate) fn affirmed(members: usize, budget: Budget) -> QuorumModel<Voter> {
    let reports = (3..members).map(|spare| Reports(spare, 0)).collect();
    let steps = [stand(0, &[1, 2]), reports, affirm(0, &[1, 2])];
    QuorumModel::with_spares(3, members, 2, budget).after(&steps.concat())
}

/// The same with four voters.
pub(crate) fn affirmed_four(budget: Budget) -> QuorumModel<Voter> {
    let steps = [stand(0, &[1, 2, 3]), affirm(0, &[1, 2, 3])];
    QuorumModel::of(4, 1, budget).after(&steps.concat())
}
