//! Orders of an operator that last for a while: held leaders, members that rest, paused clusters.

use std::time::Duration;

use algorithms::election::bully::Bully;
use algorithms::election::bully_1982::Bully1982;
use algorithms::election::chang_roberts::OwnProbeFirst;
use algorithms::election::invitation::Invitation;
use algorithms::election::raft::Raft;
use algorithms::{Election, NodeId, TypedLink, View};
use member::{Authority, Classic, Command, FromDriver, Quorum, Role, Settings};

use crate::bench::{mesh, ring};
use crate::golden::led;
use crate::world::World;

const SECONDS: Duration = Duration::from_secs(6);
const STEP: Duration = Duration::from_millis(2);

fn to(id: u32, hold: bool) -> Command {
    Command::Transfer { to: NodeId(id), hold }
}

/// The members that lead one after the other, as they see it themselves, beginning with the present leader.
fn leaders<E: Election<Link: TypedLink>, A: Authority>(
    world: &mut World<E, A>,
    members: &[u32],
    time: Duration,
) -> Vec<u32> {
    let mut seen = Vec::new();
    let end = world.now() + time;
    while world.now() < end {
        for &id in members.iter().filter(|&&id| leads(world, id)) {
            if seen.last() != Some(&id) {
                seen.push(id);
            }
        }
        world.run_for(STEP);
    }
    seen
}

fn leads<E: Election<Link: TypedLink>, A: Authority>(world: &World<E, A>, id: u32) -> bool {
    world.driver(id).machine().standing().role == Role::Leader
}

fn followed<E: Election<Link: TypedLink>, A: Authority>(world: &World<E, A>, id: u32) -> Option<u32> {
    world.driver(id).machine().standing().leader.map(|leader| leader.0)
}

const FIVE: [u32; 5] = [1, 2, 3, 4, 5];

#[test]
fn a_transfer_is_undone_in_one_hop_by_the_best_member() {
    let mut world = led::<Bully, Quorum>("transfer", 5, Settings::default());
    // Several times: the moments at which members take over are drawn by chance.
    for _ in 0..6 {
        world.command(5, to(3, false));
        assert_eq!(leaders(&mut world, &FIVE, SECONDS), [5, 3, 5]);
    }
}

#[test]
fn a_second_best_member_takes_over_if_the_best_one_never_does() {
    let mut world = led::<Bully, Quorum>("transfer, slow disk", 5, Settings::default());
    world.command(5, to(3, false));
    world.run_until_leader(3);
    world.writes_take(5, Duration::from_millis(400));
    let seen = leaders(&mut world, &FIVE, SECONDS);
    assert_eq!(seen.first(), Some(&3));
    assert!(seen.contains(&4) || seen.contains(&5), "{seen:?}");
}

fn held<E: Election<Link: TypedLink>, A: Authority>() {
    let mut world = led::<E, A>("held", 5, Settings::default());
    world.command(5, to(3, true));
    assert_eq!(leaders(&mut world, &FIVE, SECONDS), [5, 3]);
    world.command(3, Command::Elect);
    world.run_until_leader(5);
    world.run_for(SECONDS);
    world.command(5, to(3, true));
    world.run_until_leader(3);
    world.run_for(SECONDS);
    assert!(leads(&world, 3), "held again");
    world.kill(3);
    world.run_until_leader(5);
    world.start(&[3]);
    world.run_for(SECONDS);
    assert!(leads(&world, 5), "the hold died with the process");
    world.command(5, to(3, false));
    world.run_until_leader(3);
    world.run_until_leader(5);
}

#[test]
fn a_held_leader_is_left_alone_until_it_dies_or_an_election_is_asked_for() {
    held::<Bully, Quorum>();
    held::<OwnProbeFirst, Quorum>();
}

#[test]
fn the_present_leader_can_be_held_and_its_hold_ends_with_its_leadership() {
    let mut world = led::<Bully, Quorum>("held itself", 3, Settings::default());
    world.command(3, to(1, false));
    world.run_until_leader(1);
    world.command(1, to(1, true));
    assert_eq!(leaders(&mut world, &[1, 2, 3], SECONDS), [1]);
    world.command(1, Command::StepDown(None));
    world.run_until_leader(3);
    world.command(3, to(1, false));
    assert_eq!(leaders(&mut world, &[1, 2, 3], SECONDS).last(), Some(&3));
}

#[test]
fn a_successor_that_does_not_come_to_lead_is_not_held_later() {
    let settings = Settings::default();
    let mut world = led::<Bully, Quorum>("no handover", 3, settings);
    world.cut(1, 2);
    world.cut(1, 3);
    world.command(3, to(1, true));
    world.run_for(SECONDS);
    assert!(leads(&world, 3));
    world.mend(1, 2);
    world.mend(1, 3);
    world.run_for(SECONDS);
    world.command(3, to(1, false));
    world.run_until_leader(1);
    world.run_until_leader(3);
}

fn rests<E: Election<Link: TypedLink>, A: Authority>() {
    let minute = Duration::from_mins(1);
    let mut world = led::<E, A>("rests", 3, Settings::default());
    world.command(3, Command::StepDown(Some(minute)));
    world.run_until_leader(2);
    world.run_for(minute / 2);
    assert!(leads(&world, 2), "no preemption, though ten seconds are over");
    world.kill(2);
    world.run_until_leader(1);
    world.start(&[2]);
    world.run_for(Duration::from_secs(10));
    assert!(!leads(&world, 3));
    world.run_until_leader(3);
}

#[test]
fn a_member_rests_for_the_time_that_it_was_told() {
    rests::<Bully, Quorum>();
    rests::<Bully, Classic>();
    rests::<OwnProbeFirst, Quorum>();
}

#[test]
fn a_resting_member_stands_if_no_other_can_lead_and_leading_ends_its_rest() {
    let settings = Settings { witnesses: vec![NodeId(1)], ..Settings::default() };
    let mut world: World<Bully, Quorum> = World::new("last", mesh(&[1, 2, 3]), settings);
    world.start(&[1, 2, 3]);
    world.run_until_leader(3);
    world.command(3, Command::StepDown(Some(Duration::from_hours(1))));
    world.run_until_leader(2);
    world.kill(2);
    world.run_until_leader(3);
    world.start(&[2]);
    world.run_for(SECONDS);
    assert!(leads(&world, 3), "nothing takes it away again");
    world.command(3, to(2, false));
    world.run_until_leader(2);
    world.run_until_leader(3);
}

/// All members were told to rest, one leader after the other: no member waits for another one that stands only because it
/// waits as well.
fn all_rest<E: Election<Link: TypedLink>, A: Authority>() {
    let mut world = led::<E, A>("all rest", 3, Settings::default());
    for id in [3, 2, 1] {
        world.run_until_leader(id);
        world.run_for(SECONDS);
        world.command(id, Command::StepDown(Some(Duration::from_mins(5))));
    }
    let before = world.transcript().lines().count();
    let leader = next_leader(&mut world, &FIVE[..3]);
    world.run_for(SECONDS);
    assert!(leads(&world, leader), "nothing takes it away again");
    let told = world.transcript().lines().count() - before;
    assert!(told < 1000, "{told} lines in the time of an election and some heartbeats");
}

#[test]
fn of_members_that_all_rest_one_leads_and_they_do_not_take_turns_in_standing() {
    all_rest::<Bully, Classic>();
    all_rest::<Bully, Quorum>();
    all_rest::<Bully1982, Classic>();
    all_rest::<Invitation, Classic>();
    all_rest::<Invitation, Quorum>();
}

/// The member that leads now or next.
fn next_leader<E: Election<Link: TypedLink>, A: Authority>(world: &mut World<E, A>, among: &[u32]) -> u32 {
    let end = world.now() + Duration::from_mins(1);
    loop {
        if let Some(&id) = among.iter().find(|&&id| leads(world, id)) {
            return id;
        }
        assert!(world.now() < end, "nobody comes to lead:\n{}", world.transcript());
        world.run_for(STEP);
    }
}

/// A paused cluster does not replace its leader, the leader itself may return, and the end of the pause elects.
fn paused<E: Election<Link: TypedLink>, A: Authority>(view: View) {
    let ids: Vec<u32> = view.members().iter().map(|uid| uid.id.0).collect();
    let mut world: World<E, A> = World::new("paused", view, Settings::default());
    world.start(&ids);
    world.run_for(SECONDS);
    let leader = next_leader(&mut world, &ids);
    let others: Vec<u32> = ids.iter().copied().filter(|&id| id != leader).collect();
    world.command(1, Command::Pause(true));
    world.run_for(SECONDS);
    assert!(leads(&world, leader), "it leads on");
    assert!(others.iter().all(|&id| followed(&world, id) == Some(leader)));
    world.kill(leader);
    assert_eq!(leaders(&mut world, &others, 3 * SECONDS), [0; 0], "nobody replaces it");
    world.start(&[leader]);
    world.run_until_leader(leader);
    world.run_for(SECONDS);
    assert!(others.iter().all(|&id| followed(&world, id) == Some(leader)), "it came back, and keeps the pause");
    world.kill(leader);
    world.run_for(SECONDS);
    // Sooner than a watchdog would repeat an election.
    let soon = world.now() + Duration::from_millis(600);
    world.command(1, Command::Pause(false));
    next_leader(&mut world, &others);
    assert!(world.now() < soon, "{:?} is late", world.now());
}

#[test]
fn a_paused_cluster_elects_nobody_but_the_leader_that_it_had() {
    let three = || mesh(&[1, 2, 3]);
    paused::<Bully, Quorum>(three());
    paused::<Bully, Classic>(three());
    paused::<Bully1982, Quorum>(three());
    paused::<Bully1982, Classic>(three());
    paused::<Invitation, Quorum>(three());
    paused::<Invitation, Classic>(three());
    paused::<Raft, Quorum>(three());
    paused::<Raft, Classic>(three());
    paused::<OwnProbeFirst, Quorum>(ring(&[1, 2, 3, 4]));
    paused::<OwnProbeFirst, Classic>(ring(&[1, 2, 3, 4]));
}

#[test]
fn a_pause_prevents_takeovers_and_follows_a_leader_that_is_moved() {
    let mut world = led::<Bully, Quorum>("paused, transfer", 3, Settings::default());
    world.command(2, Command::Pause(true));
    world.run_for(SECONDS);
    world.command(3, to(1, false));
    world.run_until_leader(1);
    assert_eq!(leaders(&mut world, &[1, 2, 3], SECONDS), [1], "3 is better and waits");
    world.kill(1);
    assert_eq!(leaders(&mut world, &[2, 3], SECONDS), [0; 0], "1 is the leader that is kept now");
    world.start(&[1]);
    world.run_until_leader(1);
    world.command(3, Command::Pause(false));
    world.run_until_leader(3);
}

#[test]
fn a_pause_outlives_restarts_of_all_members_and_reaches_a_member_that_was_away() {
    let mut world = led::<Bully, Quorum>("paused, restart", 3, Settings::default());
    world.kill(1);
    world.command(2, Command::Pause(true));
    world.run_for(SECONDS);
    world.start(&[1]);
    world.run_for(SECONDS);
    assert!(world.driver(1).machine().mode().is_some_and(|mode| mode.paused));
    for id in [1, 2, 3] {
        world.kill(id);
    }
    world.start(&[1, 2]);
    assert_eq!(leaders(&mut world, &[1, 2], SECONDS), [0; 0]);
    world.start(&[3]);
    world.run_until_leader(3);
}

/// The pairs of members 1, 2, 3 and members 4, 5.
const BETWEEN: [(u32, u32); 6] = [(1, 4), (2, 4), (3, 4), (1, 5), (2, 5), (3, 5)];

/// Two leaders of a paused cluster hear of each other's orders, at once or from other members.
fn two_leaders_paused<E: Election<Link: TypedLink>>(mended: &[(u32, u32)]) {
    let mut world: World<E, Classic> = World::new("two leaders, paused", mesh(&FIVE), Settings::default());
    world.start(&FIVE);
    world.run_until_leader(5);
    for (a, b) in BETWEEN {
        world.cut(a, b);
    }
    world.run_until_leader(3);
    world.run_for(SECONDS);
    world.command(4, Command::Pause(true));
    world.command(1, Command::Pause(true));
    for &(a, b) in mended {
        world.mend(a, b);
    }
    world.run_for(SECONDS);
    for id in FIVE {
        let mode = world.driver(id).machine().mode().expect("an order");
        assert!(mode.paused && mode.number <= 2, "one answer for the order of an operator: {mode:?}");
        assert!(mode.keeps.is_some_and(|kept| leads(&world, kept.0)), "{mode:?}");
    }
    world.command(1, Command::Pause(false));
    for (a, b) in BETWEEN {
        world.mend(a, b);
    }
    world.run_for(SECONDS);
    assert!(FIVE.iter().all(|&id| followed(&world, id) == Some(5)), "the pause has ended");
}

#[test]
fn two_leaders_of_a_paused_cluster_do_not_answer_each_others_orders_for_ever() {
    // All of them, or the leaders themselves stay apart.
    for mended in [&BETWEEN[..], &[(2, 4)], &[(2, 4), (2, 5), (3, 4)], &[(3, 4)], &[(2, 5)]] {
        two_leaders_paused::<Invitation>(mended);
        two_leaders_paused::<Bully1982>(mended);
        two_leaders_paused::<Bully>(mended);
    }
}

/// The leader waits for its successor for four leases, and for its children as long as they may need.
#[test]
fn a_handover_waits_for_children_that_need_long_to_stop() {
    let from_driver = FromDriver { child_grace: Duration::from_secs(6), ..FromDriver::default() };
    let settings = Settings { from_driver, preempt: false, ..Settings::default() };
    let mut world = led::<Bully, Quorum>("slow child", 3, settings);
    world.command(3, Command::Attached(true));
    world.command(3, to(1, true));
    world.run_for(Duration::from_secs(5));
    assert!(leads(&world, 3), "its child has not stopped");
    world.command(3, Command::Attached(false));
    world.run_until_leader(1);
    world.command(1, Command::Attached(true));
    world.command(1, to(2, true));
    world.run_for(Duration::from_secs(6));
    assert!(leads(&world, 1));
    world.run_for(Duration::from_secs(1));
    assert!(leads(&world, 2), "a child that does not stop is given up");
}
