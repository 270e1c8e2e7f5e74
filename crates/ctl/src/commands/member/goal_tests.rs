//! Every goal from every list that it may meet.

use types::{Change, Epoch, Listed, MemberList, Membership, NodeId, PeerRole, Stamp, Uid};

use super::goal::{Candidate, Goal, Refusal, Seen, Step, next_step};

fn stamp(n: u32) -> Stamp {
    Stamp::new(Epoch(7), n)
}

fn listed(id: u32, role: PeerRole) -> Listed {
    Listed { uid: Uid::plain(id), role, address: format!("n{id}:7400") }
}

/// Member 1 leads a list of these voters and learners, which is in force; all but `away` are ready.
fn seen(voters: &[u32], learners: &[u32], away: &[u32]) -> Seen {
    let voters = voters.iter().map(|&id| listed(id, PeerRole::Member));
    let members: Vec<Listed> = voters.chain(learners.iter().map(|&id| listed(id, PeerRole::Learner))).collect();
    let ready = members.iter().map(|member| member.uid.id).filter(|id| !away.contains(&id.0)).collect();
    let known = MemberList { stamp: stamp(1), members };
    let membership = Membership { known, on_disk: Some(stamp(1)), in_force: Some(stamp(1)), pending: None, ready };
    Seen { leader: NodeId(1), membership, pending: None, accepted: false }
}

/// The same, with a pending list of these voters and learners.
fn pending(seen: Seen, n: u32, voters: &[u32], learners: &[u32]) -> Seen {
    let list = self::seen(voters, learners, &[]).membership.known.stamped(stamp(n));
    let membership = Membership { pending: Some(stamp(n)), ..seen.membership };
    Seen { membership, pending: Some(list), ..seen }
}

fn six(address: Option<&str>, role: Option<PeerRole>) -> Candidate {
    Candidate { id: NodeId(6), address: address.map(str::to_owned), role, priority: None }
}

fn add() -> Goal {
    Goal::Votes(six(Some("n6:7400"), Some(PeerRole::Member)))
}

fn remove(id: u32) -> Goal {
    Goal::Gone { id: NodeId(id), yes: false }
}

fn replace() -> Goal {
    Goal::Replaced { old: NodeId(3), new: NodeId(6), address: "n6:7400".into() }
}

fn list_as(id: u32, role: PeerRole) -> Step {
    Step::Ask(Change::List(listed(id, role)))
}

fn why(step: &Step) -> &Refusal {
    let Step::Refused(refusal) = step else { panic!("{step:?}") };
    refusal
}

#[test]
fn a_member_is_listed_then_awaited_then_made_a_voter() {
    assert_eq!(next_step(&add(), &seen(&[1, 2, 3], &[], &[])), list_as(6, PeerRole::Learner));
    assert_eq!(next_step(&add(), &seen(&[1, 2, 3], &[6], &[6])), Step::AwaitJoin(NodeId(6)));
    assert_eq!(next_step(&add(), &seen(&[1, 2, 3], &[6], &[])), list_as(6, PeerRole::Member));
    assert_eq!(next_step(&add(), &seen(&[1, 2, 3, 6], &[], &[6])), Step::Done, "it votes, connected or not");
    let witness = Goal::Votes(six(Some("n6:7400"), Some(PeerRole::Witness)));
    assert_eq!(next_step(&witness, &seen(&[1, 2, 3], &[6], &[])), list_as(6, PeerRole::Witness));
    assert_eq!(next_step(&witness, &seen(&[1, 2, 6], &[], &[])), list_as(6, PeerRole::Witness), "another role");
}

#[test]
fn a_learner_is_listed_and_that_is_all() {
    let learner = Goal::Learns(six(Some("n6:7400"), None));
    assert_eq!(next_step(&learner, &seen(&[1, 2, 3], &[], &[])), list_as(6, PeerRole::Learner));
    assert_eq!(next_step(&learner, &seen(&[1, 2, 3], &[6], &[6])), Step::Done);
    let voter = next_step(&learner, &seen(&[1, 2, 6], &[], &[]));
    assert!(why(&voter).next.contains("remove 6"), "{voter:?}");
}

#[test]
fn promote_needs_a_listed_member_and_keeps_the_role_of_a_voter() {
    let promote = Goal::Votes(six(None, None));
    let unknown = next_step(&promote, &seen(&[1, 2, 3], &[], &[]));
    assert!(why(&unknown).next.contains("ctl member add 6"), "{unknown:?}");
    assert_eq!(next_step(&promote, &seen(&[1, 2, 3], &[6], &[6])), Step::AwaitJoin(NodeId(6)));
    assert_eq!(next_step(&promote, &seen(&[1, 2, 3], &[6], &[])), list_as(6, PeerRole::Member));
    let mut witness = seen(&[1, 2, 6], &[], &[]);
    witness.membership.known.members[2].role = PeerRole::Witness;
    assert_eq!(next_step(&promote, &witness), Step::Done);
}

#[test]
fn an_address_changes_by_move_alone() {
    let elsewhere = Goal::Votes(six(Some("m:1"), Some(PeerRole::Member)));
    let refused = next_step(&elsewhere, &seen(&[1, 2, 3], &[6], &[]));
    assert!(why(&refused).next.contains("ctl member move 6 m:1"), "{refused:?}");
    let moved = |id| Goal::At { id: NodeId(id), address: "m:1".into() };
    let changed = Listed { address: "m:1".into(), ..listed(3, PeerRole::Member) };
    let mut there = seen(&[1, 2, 3], &[], &[]);
    assert_eq!(next_step(&moved(3), &there), Step::Ask(Change::List(changed.clone())));
    there.membership.known.members[2] = changed;
    assert_eq!(next_step(&moved(3), &there), Step::Done);
    why(&next_step(&moved(9), &there));
}

#[test]
fn a_removal_keeps_enough_voters_and_the_leader_hands_over_first() {
    assert_eq!(next_step(&remove(3), &seen(&[1, 2, 3, 4], &[], &[])), Step::Ask(Change::Unlist(NodeId(3))));
    assert_eq!(next_step(&remove(9), &seen(&[1, 2, 3], &[], &[])), Step::Done);
    assert_eq!(next_step(&remove(6), &seen(&[1, 2], &[6], &[])), Step::Ask(Change::Unlist(NodeId(6))), "a learner");
    let two_left = next_step(&remove(3), &seen(&[1, 2, 3], &[], &[]));
    assert!(why(&two_left).next.contains("--yes"), "{two_left:?}");
    let yes = Goal::Gone { id: NodeId(3), yes: true };
    assert_eq!(next_step(&yes, &seen(&[1, 2, 3], &[], &[])), Step::Ask(Change::Unlist(NodeId(3))));
    let one_left = next_step(&yes, &seen(&[1, 3], &[], &[]));
    assert!(why(&one_left).why.contains("one voter"), "{one_left:?}");
    assert_eq!(next_step(&remove(1), &seen(&[1, 2, 3, 4], &[], &[4])), Step::HandOver(NodeId(3)));
    let alone = next_step(&remove(1), &seen(&[1, 2, 3, 4], &[], &[2, 3, 4]));
    assert!(why(&alone).why.contains("no other member is ready"), "{alone:?}");
}

#[test]
fn a_replacement_adds_before_it_removes() {
    let goal = replace();
    assert_eq!(next_step(&goal, &seen(&[1, 2, 3], &[], &[])), list_as(6, PeerRole::Learner));
    assert_eq!(next_step(&goal, &seen(&[1, 2, 3], &[6], &[6])), Step::AwaitJoin(NodeId(6)));
    assert_eq!(next_step(&goal, &seen(&[1, 2, 3], &[6], &[3])), list_as(6, PeerRole::Member), "3 may be dead");
    assert_eq!(next_step(&goal, &seen(&[1, 2, 3, 6], &[], &[3])), Step::Ask(Change::Unlist(NodeId(3))));
    assert_eq!(next_step(&goal, &seen(&[1, 2, 6], &[], &[])), Step::Done);
    assert_eq!(next_step(&goal, &seen(&[1, 2], &[6], &[])), list_as(6, PeerRole::Member), "3 was removed by hand");
    why(&next_step(&goal, &seen(&[1, 2], &[], &[])));
    let learner = seen(&[1, 2, 4], &[3, 6], &[]);
    assert_eq!(next_step(&goal, &learner), Step::Ask(Change::Unlist(NodeId(3))), "a learner is replaced by a learner");
}

#[test]
fn the_own_pending_list_is_awaited_and_another_ones_refuses() {
    let three = || seen(&[1, 2, 3], &[], &[]);
    let listing = pending(three(), 2, &[1, 2, 3], &[6]);
    let voting = pending(three(), 2, &[1, 2, 3, 6], &[]);
    let leaving = pending(three(), 2, &[1, 2], &[]);
    for goal in [add(), Goal::Votes(six(None, None)), replace()] {
        assert_eq!(next_step(&goal, &listing), Step::AwaitForce(stamp(2)), "{goal:?}");
        assert_eq!(next_step(&goal, &voting), Step::AwaitForce(stamp(2)), "{goal:?}");
        let other = next_step(&goal, &leaving);
        assert!(why(&other).why.contains("list 7.2 with the voters 1, 2"), "{other:?}");
        assert!(why(&other).next.contains("ctl member abort"), "{other:?}");
    }
    assert_eq!(next_step(&remove(3), &leaving), Step::AwaitForce(stamp(2)));
    why(&next_step(&remove(3), &voting));
    // What this command has caused is awaited, also while the leader takes it back.
    let taken_back = Seen { accepted: true, ..pending(three(), 3, &[1, 2, 3], &[]) };
    assert_eq!(next_step(&add(), &taken_back), Step::AwaitForce(stamp(3)));
    // Nobody told the pending list: a removal that only the leader has.
    let untold = Seen { pending: None, ..leaving };
    assert_eq!(next_step(&add(), &untold), Step::AwaitForce(stamp(2)));
}

#[test]
fn a_list_that_the_leader_only_confirms_is_no_change() {
    let confirming = pending(seen(&[1, 2, 3], &[], &[]), 0, &[1, 2, 3], &[]);
    for goal in [add(), remove(3), Goal::Settled] {
        assert_eq!(next_step(&goal, &confirming), Step::AwaitForce(stamp(0)), "{goal:?}");
    }
    let mut ahead = seen(&[1, 2, 3], &[], &[]);
    ahead.membership.in_force = Some(stamp(0));
    assert_eq!(next_step(&add(), &ahead), Step::AwaitLeader, "the leader has heard of a newer list");
}

#[test]
fn abort_asks_once_and_is_done_when_nothing_pends() {
    let voting = pending(seen(&[1, 2, 3], &[], &[]), 2, &[1, 2, 3, 6], &[]);
    assert_eq!(next_step(&Goal::Settled, &voting), Step::Ask(Change::Abort));
    let taken_back = Seen { accepted: true, ..pending(voting, 3, &[1, 2, 3], &[]) };
    assert_eq!(next_step(&Goal::Settled, &taken_back), Step::AwaitForce(stamp(3)));
    assert_eq!(next_step(&Goal::Settled, &seen(&[1, 2, 3], &[], &[])), Step::Done);
}

/// A leader that carries out every step reaches every goal, within a few steps and never with fewer voters than the goal
/// leaves.
#[test]
fn every_goal_is_reached_and_then_needs_no_step() {
    let goals = [add(), Goal::Learns(six(Some("n6:7400"), None)), remove(2), remove(1), replace(), Goal::Settled];
    for goal in goals {
        let mut now = seen(&[1, 2, 3, 4], &[], &[]);
        let mut steps = Vec::new();
        loop {
            let step = next_step(&goal, &now);
            let list = &mut now.membership.known;
            match &step {
                Step::Done => break,
                Step::Ask(Change::List(new)) => {
                    list.members.retain(|old| old.uid.id != new.uid.id);
                    list.members.push(new.clone());
                    now.membership.ready.push(new.uid.id);
                }
                Step::Ask(Change::Unlist(id)) => list.members.retain(|old| old.uid.id != *id),
                Step::HandOver(heir) => now.leader = *heir,
                other => panic!("{goal:?}: {other:?}"),
            }
            assert!(now.membership.known.voters().count() >= 3, "{goal:?}");
            steps.push(step);
            assert!(steps.len() < 5, "{goal:?}: {steps:?}");
        }
        assert_eq!(next_step(&goal, &now), Step::Done);
    }
}
