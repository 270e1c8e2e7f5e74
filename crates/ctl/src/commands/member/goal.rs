//! What an operator wants of the member list, and the next step towards it. Pure: the leader's word in, a step out. A
//! command repeats this until the goal is reached, so a step that was lost with its leader is taken again, and a goal that
//! is reached already needs no step.

use types::{Change, Listed, MemberList, Membership, NodeId, PeerRole, Stamp, Uid};

/// What the member list must say in the end. A command asks for its goal until the list in force says it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Goal {
    Votes(Candidate),
    Learns(Candidate),
    /// This member is in no list. `yes`: also if two voters remain.
    Gone {
        id: NodeId,
        yes: bool,
    },
    At {
        id: NodeId,
        address: String,
    },
    /// The new member has the place of the old one, which is in no list.
    Replaced {
        old: NodeId,
        new: NodeId,
        address: String,
    },
    /// No change is pending.
    Settled,
}

/// A member as the operator describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    pub(super) id: NodeId,
    /// `None`: it must be in the list already.
    pub(super) address: Option<String>,
    /// `None`: the role that it has if it votes, else `member`.
    pub(super) role: Option<PeerRole>,
    /// `None`: the priority that it has, else 0.
    pub(super) priority: Option<u32>,
}

/// The lists as the leader tells of them.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) leader: NodeId,
    pub(super) membership: Membership,
    /// The pending list, if a member told it.
    pub(super) pending: Option<MemberList>,
    /// A leader has accepted a step of this command.
    pub(super) accepted: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Done,
    Ask(Change),
    /// The leader is to be removed: this member leads first.
    HandOver(NodeId),
    /// Until this list is in force, or another one in its place.
    AwaitForce(Stamp),
    /// Until this learner is connected and knows what was granted.
    AwaitJoin(NodeId),
    /// The leader has just begun, or hears of a newer list.
    AwaitLeader,
    Refused(Refusal),
}

/// Why the goal cannot be reached from here, and what the operator can do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    pub(super) why: String,
    pub(super) next: String,
}

fn refused(why: impl Into<String>, next: impl Into<String>) -> Step {
    Step::Refused(Refusal { why: why.into(), next: next.into() })
}

pub(super) fn next_step(goal: &Goal, seen: &Seen) -> Step {
    let membership = &seen.membership;
    let Some(pending) = membership.pending else {
        return if membership.in_force == Some(membership.known.stamp) {
            plan(goal, &membership.known, seen)
        } else {
            Step::AwaitLeader
        };
    };
    // The first list of a reign has the members that the leader found: it only confirms them.
    if pending.n == 0 {
        return Step::AwaitForce(pending);
    }
    match (goal, &seen.pending) {
        (Goal::Settled, _) if !seen.accepted => Step::Ask(Change::Abort),
        (_, Some(list)) if !seen.accepted && !is_on_the_way(goal, list) => {
            let voters: Vec<String> = list.voters().map(|id| id.to_string()).collect();
            let why = format!("another change is pending: list {pending} with the voters {}", voters.join(", "));
            refused(why, "wait until it is in force (`ctl member list`), or give it up with `ctl member abort`")
        }
        _ => Step::AwaitForce(pending),
    }
}

/// Does this pending list come from the same wish?
fn is_on_the_way(goal: &Goal, list: &MemberList) -> bool {
    match goal {
        Goal::Votes(candidate) | Goal::Learns(candidate) => list.contains(candidate.id),
        Goal::Gone { id, .. } => !list.contains(*id),
        Goal::At { id, address } => list.get(*id).is_some_and(|listed| listed.address == *address),
        Goal::Replaced { new, .. } => list.contains(*new),
        Goal::Settled => true,
    }
}

/// The step from this list, which is in force.
fn plan(goal: &Goal, list: &MemberList, seen: &Seen) -> Step {
    match goal {
        Goal::Votes(candidate) => vote(candidate, list, seen),
        Goal::Learns(candidate) => learn(candidate, list),
        Goal::Gone { id, yes } => remove(*id, *yes, list, seen),
        Goal::At { id, address } => match list.get(*id) {
            None => unlisted(*id),
            Some(listed) if listed.address == *address => Step::Done,
            Some(listed) => Step::Ask(Change::List(Listed { address: address.clone(), ..listed.clone() })),
        },
        Goal::Replaced { old, new, address } => replace(*old, *new, address, list, seen),
        Goal::Settled => Step::Done,
    }
}

fn unlisted(id: NodeId) -> Step {
    refused(
        format!("member {id} is not in list"),
        format!("`ctl member list` shows it; `ctl member add {id} HOST:PORT` adds it"),
    )
}

/// The member in the list at the address that the operator gave; `Err`: what to do instead.
fn listed_at<'a>(candidate: &Candidate, list: &'a MemberList) -> Result<Option<&'a Listed>, Step> {
    let Candidate { id, address, .. } = candidate;
    match (list.get(*id), address) {
        (None, None) => Err(unlisted(*id)),
        (Some(listed), Some(address)) if listed.address != *address => Err(refused(
            format!("member {id} is in the list with the address {}", listed.address),
            format!(
                "`ctl member move {id} {address}` if it is the same member at another address; another member needs another id"
            ),
        )),
        (listed, _) => Ok(listed),
    }
}

fn as_learner(candidate: &Candidate) -> Listed {
    let uid = Uid { priority: candidate.priority.unwrap_or(0), id: candidate.id };
    Listed { uid, role: PeerRole::Learner, address: candidate.address.clone().unwrap_or_default() }
}

fn vote(candidate: &Candidate, list: &MemberList, seen: &Seen) -> Step {
    let listed = match listed_at(candidate, list) {
        Ok(Some(listed)) => listed,
        // Listed first: all members dial it, and it learns what was granted before it votes.
        Ok(None) => return Step::Ask(Change::List(as_learner(candidate))),
        Err(step) => return step,
    };
    let keeps = if listed.role.votes() { listed.role } else { PeerRole::Member };
    let priority = candidate.priority.unwrap_or(listed.uid.priority);
    let uid = Uid { priority, id: candidate.id };
    let wanted = Listed { uid, role: candidate.role.unwrap_or(keeps), address: listed.address.clone() };
    if *listed == wanted {
        Step::Done
    } else if !listed.role.votes() && !seen.membership.ready.contains(&candidate.id) {
        Step::AwaitJoin(candidate.id)
    } else {
        Step::Ask(Change::List(wanted))
    }
}

fn learn(candidate: &Candidate, list: &MemberList) -> Step {
    match listed_at(candidate, list) {
        Err(step) => step,
        Ok(None) => Step::Ask(Change::List(as_learner(candidate))),
        Ok(Some(listed)) if listed.role.votes() => refused(
            format!("member {} votes, as {}", candidate.id, listed.role),
            format!("`ctl member remove {0}`, then add it again as a learner", candidate.id),
        ),
        Ok(Some(listed)) => match candidate.priority.filter(|&priority| priority != listed.uid.priority) {
            None => Step::Done,
            Some(priority) => {
                let uid = Uid { priority, id: candidate.id };
                Step::Ask(Change::List(Listed { uid, ..listed.clone() }))
            }
        },
    }
}

fn remove(id: NodeId, yes: bool, list: &MemberList, seen: &Seen) -> Step {
    if !list.contains(id) {
        return Step::Done;
    }
    if list.votes(id) {
        match list.voters().count() - 1 {
            0 | 1 => {
                return refused("one voter would remain", "add another voter first: `ctl member add ID HOST:PORT`");
            }
            2 if !yes => {
                let why = "two voters would remain, and nobody could lead without either of them";
                return refused(why, format!("add a voter first, or `ctl member remove {id} --yes`"));
            }
            _ => {}
        }
    }
    if id != seen.leader {
        return Step::Ask(Change::Unlist(id));
    }
    let ready = |heir: &NodeId| *heir != id && list.may_lead(*heir) && seen.membership.ready.contains(heir);
    let heirs = list.voters().filter(ready);
    match heirs.max_by_key(|heir| list.get(*heir).map(|listed| listed.uid)) {
        Some(heir) => Step::HandOver(heir),
        None => refused(
            format!("member {id} leads, and no other member is ready to lead"),
            "`ctl status` shows who is missing",
        ),
    }
}

/// Adds first and removes then, so that there are never fewer voters than before.
fn replace(old: NodeId, new: NodeId, address: &str, list: &MemberList, seen: &Seen) -> Step {
    let place = list.get(old);
    if place.is_none() && !list.contains(new) {
        return unlisted(old);
    }
    let role = place.map(|listed| listed.role);
    let (address, priority) = (Some(address.to_owned()), place.map(|listed| listed.uid.priority));
    let candidate = Candidate { id: new, address, role, priority };
    let added = if role == Some(PeerRole::Learner) { learn(&candidate, list) } else { vote(&candidate, list, seen) };
    match (added, place) {
        (Step::Done, Some(_)) => remove(old, true, list, seen),
        (step, _) => step,
    }
}
