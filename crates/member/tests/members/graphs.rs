//! Members that are linked as a graph: who is reached over others, and what a death divides.

use std::time::Duration;

use algorithms::election::dfs::Dfs;
use algorithms::election::echo::Echo;
use algorithms::{Election, NodeId, Uid, View};
use member::{Classic, FullPos, Quorum, Settings};

use crate::world::World;

/// Longer than any election, suspicion or preemption here takes.
const A_WHILE: Duration = Duration::from_secs(6);

fn graph(members: u32, links: &[(u32, u32)]) -> View {
    let links: Vec<(usize, usize)> = links.iter().map(|&(a, b)| (a as usize - 1, b as usize - 1)).collect();
    View::graph((1..=members).map(Uid::plain).collect(), &links)
}

/// The members 1 to n run, and n leads.
fn led<E: Election>(members: u32, links: &[(u32, u32)]) -> World<E, Classic> {
    let mut world = World::new("a graph", graph(members, links), Settings::default());
    world.start(&(1..=members).collect::<Vec<_>>());
    world.run_until_leader(members);
    world.run_for(A_WHILE);
    follow(&world, members, &(1..=members).collect::<Vec<_>>());
    world
}

/// All of these follow this leader in one epoch, which is returned.
fn follow<E: Election>(world: &World<E, Classic>, leader: u32, members: &[u32]) -> u64 {
    let standing = |id: u32| world.driver(id).machine().standing();
    let epoch = standing(leader).epoch;
    for &id in members {
        let found = (standing(id).leader, standing(id).epoch);
        assert_eq!(found, (Some(NodeId(leader)), epoch), "member {id}:\n{}", world.transcript());
    }
    epoch.0
}

const PATH: [(u32, u32); 4] = [(1, 2), (2, 3), (3, 4), (4, 5)];

fn parts_and_merges<E: Election>() {
    let mut world = led::<E>(5, &PATH);
    world.kill(3);
    world.run_for(A_WHILE);
    follow(&world, 2, &[1, 2]);
    follow(&world, 5, &[4, 5]);
    let participants = world.driver(1).machine().round_participants();
    assert_eq!(participants, [0, 1].map(FullPos).into_iter().collect(), "a path of links joins them");
    world.start(&[3]);
    world.run_for(A_WHILE);
    follow(&world, 5, &[1, 2, 3, 4, 5]);
}

#[test]
fn a_death_that_divides_a_graph_leaves_a_leader_in_each_part_until_the_member_returns() {
    parts_and_merges::<Echo>();
    let mut settings = Settings::default();
    settings.election.wins = algorithms::Wins::Lowest;
    let mut world: World<Dfs, Classic> = World::new("a graph", graph(5, &PATH), settings);
    world.start(&[1, 2, 3, 4, 5]);
    world.run_until_leader(1);
    world.kill(3);
    world.run_for(A_WHILE);
    follow(&world, 1, &[1, 2]);
    follow(&world, 4, &[4, 5]);
}

/// No member knows of both deaths when the second one divides the graph.
#[test]
fn two_deaths_far_apart_divide_a_circle() {
    let mut world = led::<Echo>(6, &[(1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 1)]);
    world.kill(1);
    world.run_for(A_WHILE);
    follow(&world, 6, &[2, 3, 4, 5, 6]);
    world.kill(4);
    world.run_for(A_WHILE);
    follow(&world, 6, &[5, 6]);
    follow(&world, 3, &[2, 3]);
    world.start(&[1]);
    world.run_for(A_WHILE);
    follow(&world, 6, &[1, 2, 3, 5, 6]);
}

#[test]
fn the_death_of_a_member_that_no_other_depends_on_opens_no_election() {
    let mut world = led::<Echo>(4, &[(1, 2), (2, 3), (3, 4)]);
    let epoch = follow(&world, 4, &[1, 2, 3, 4]);
    world.kill(1);
    world.run_for(A_WHILE);
    assert_eq!(follow(&world, 4, &[2, 3, 4]), epoch);
}

#[test]
fn a_broken_link_divides_nothing_where_another_path_leads_around_it() {
    let mut world = led::<Echo>(4, &[(1, 2), (2, 3), (3, 4), (4, 1)]);
    world.cut(4, 1);
    world.run_for(A_WHILE);
    follow(&world, 4, &[1, 2, 3, 4]);
    world.kill(4);
    world.run_for(A_WHILE);
    follow(&world, 3, &[1, 2, 3]);
}

/// The parts of a graph elect on their own; all members are connected, and a majority of them decides.
#[test]
fn under_quorum_a_divided_graph_has_one_leader() {
    let mut world: World<Echo, Quorum> = World::new("a graph", graph(5, &PATH), Settings::default());
    world.start(&[1, 2, 3, 4, 5]);
    world.run_until_leader(5);
    world.kill(3);
    world.kill(5);
    world.run_for(A_WHILE);
    let leaders = [1, 2, 4].map(|id| world.driver(id).machine().standing().leader);
    assert!(leaders[0].is_some() && leaders.iter().all(|leader| *leader == leaders[0]), "{leaders:?}");
}
