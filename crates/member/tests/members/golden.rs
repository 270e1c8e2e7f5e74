//! Golden transcripts: what a few members do in one situation, every input and every effect, to be read by people.
//! Left out: heartbeats that tell nothing new, and stretches without news.
//!
//! `UPDATE_GOLDEN=1 cargo test -p member` rewrites them; read the difference before committing it.

use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs};

use algorithms::election::bully::Bully;
use algorithms::election::chang_roberts::OwnProbeFirst;
use algorithms::{Election, NodeId, Topology, TypedLink, Uid, View};
use member::{Authority, Classic, Command, Quorum, Settings};

use crate::world::World;

const MOMENT: Duration = Duration::from_millis(20);

#[track_caller]
fn check<E: Election<Link: TypedLink>, A: Authority>(name: &str, world: &World<E, A>) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.txt"));
    let transcript = world.transcript();
    if env::var_os("UPDATE_GOLDEN").is_some() {
        return fs::write(&path, transcript).expect("the golden directory can be written");
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    let first = known.lines().zip(transcript.lines()).position(|(old, new)| old != new);
    let line = first.unwrap_or_else(|| known.lines().count().min(transcript.lines().count()));
    let new = transcript.lines().nth(line).unwrap_or("the end");
    assert!(known == transcript, "{name}.txt differs in line {}: now {new:?}; UPDATE_GOLDEN=1 rewrites it", line + 1);
}

fn cluster<E: Election<Link: TypedLink>, A: Authority>(title: &str, members: u32, settings: Settings) -> World<E, A> {
    let uids: Vec<Uid> = (1..=members).map(Uid::plain).collect();
    let view = match <E::Link as algorithms::TypedLink>::TOPOLOGY {
        Topology::Ring => View::ring(uids),
        _ => View::mesh(uids),
    };
    World::new(title, view, settings)
}

/// All members run, and the best one leads; nothing of that is told.
pub(crate) fn led<E: Election<Link: TypedLink>, A: Authority>(
    title: &str,
    members: u32,
    settings: Settings,
) -> World<E, A> {
    let mut world = cluster(title, members, settings);
    world.quietly(|world| {
        world.start(&(1..=members).collect::<Vec<_>>());
        world.run_until_leader(members);
        world.run_for(MOMENT);
    });
    world
}

/// The first election among three.
fn first_election<E: Election<Link: TypedLink>, A: Authority>(title: &str) -> World<E, A> {
    let mut world = cluster(title, 3, Settings::default());
    world.start(&[1, 2, 3]);
    world.run_until_leader(3);
    world.run_for(MOMENT);
    world
}

#[test]
fn first_election_classic_mesh() {
    check("first-election-classic-mesh", &first_election::<Bully, Classic>("first election: classic, bully"));
}

#[test]
fn first_election_classic_ring() {
    let title = "first election: classic, chang-roberts";
    check("first-election-classic-ring", &first_election::<OwnProbeFirst, Classic>(title));
}

#[test]
fn first_election_quorum() {
    check("first-election-quorum", &first_election::<Bully, Quorum>("first election: quorum, bully"));
}

fn leader_killed<E: Election<Link: TypedLink>, A: Authority>(title: &str, members: u32) -> World<E, A> {
    let mut world = led(title, members, Settings::default());
    world.note(&format!("{members} leads"));
    world.kill(members);
    world.run_until_leader(members - 1);
    world.run_for(MOMENT);
    world
}

#[test]
fn leader_killed_classic_mesh() {
    check("leader-killed-classic-mesh", &leader_killed::<Bully, Classic>("leader killed: classic, bully", 3));
}

#[test]
fn leader_killed_classic_ring() {
    let title = "leader killed: classic, chang-roberts";
    check("leader-killed-classic-ring", &leader_killed::<OwnProbeFirst, Classic>(title, 4));
}

#[test]
fn leader_killed_quorum() {
    check("leader-killed-quorum", &leader_killed::<Bully, Quorum>("leader killed: quorum, bully", 3));
}

/// Member 1 is killed and starts again.
fn restart<E: Election<Link: TypedLink>, A: Authority>(title: &str) -> World<E, A> {
    let mut world = led(title, 3, Settings::default());
    world.note("3 leads; 1 is started again");
    world.kill(1);
    world.start(&[1]);
    world.run_for(MOMENT);
    world
}

#[test]
fn the_leader_moves_its_epoch_past_a_member_that_restarted() {
    check("restart-classic", &restart::<Bully, Classic>("restart: classic, bully"));
}

#[test]
fn a_voter_that_restarted_settles_before_it_stands() {
    let mut world = restart::<Bully, Quorum>("restart: quorum, bully");
    world.quietly(|world| world.run_for(Duration::from_millis(470)));
    world.note("its longest promise is over");
    world.run_for(Duration::from_millis(15));
    check("restart-quorum", &world);
}

/// The best member starts again when another one leads.
fn preemption<E: Election<Link: TypedLink>, A: Authority>(title: &str) -> World<E, A> {
    let mut world = led(title, 3, Settings::default());
    world.quietly(|world| {
        world.kill(3);
        world.run_until_leader(2);
        world.run_for(MOMENT);
    });
    world.note("2 leads; 3 starts again");
    world.start(&[3]);
    world.run_for(MOMENT);
    world.note("later");
    world.quietly(|world| {
        let time = preempting(world);
        world.run_for(time);
    });
    world.run_until_leader(3);
    world.run_for(MOMENT);
    world
}

/// Until shortly before member 3 has waited long enough to take over.
fn preempting<E: Election<Link: TypedLink>, A: Authority>(world: &mut World<E, A>) -> Duration {
    let preempt = |world: &World<E, A>| world.driver(3).timers().get(member::Timer::Preempt);
    for _ in 0..200 {
        if let Some(due) = preempt(world) {
            return due.saturating_sub(world.now() + Duration::from_millis(1));
        }
        world.run_for(MOMENT);
    }
    panic!("3 does not want to take over")
}

#[test]
fn preemption_classic() {
    check("preemption-classic", &preemption::<Bully, Classic>("preemption: classic, bully"));
}

#[test]
fn preemption_quorum() {
    check("preemption-quorum", &preemption::<Bully, Quorum>("preemption: quorum, bully"));
}

/// The leader and member 1 cannot reach each other; member 2 reaches both.
fn bridge<E: Election<Link: TypedLink>, A: Authority>(title: &str) -> World<E, A> {
    let mut world = led(title, 3, Settings { preempt: false, ..Settings::default() });
    world.note("3 leads; the connection between 1 and 3 breaks");
    world.cut(1, 3);
    world.run_for(Duration::from_millis(60));
    world
}

#[test]
fn bridge_classic() {
    check("bridge-classic", &bridge::<Bully, Classic>("bridge: classic, bully"));
}

#[test]
fn followers_believe_a_member_that_has_heard_the_leader_itself() {
    let mut world = bridge::<Bully, Quorum>("bridge: quorum, bully");
    world.note("2 loses the leader too: it was the only source of 1");
    world.cut(2, 3);
    world.run_for(Duration::from_millis(60));
    check("bridge-quorum", &world);
}

#[test]
fn transfer_to_a_chosen_member() {
    let settings = Settings { preempt: false, ..Settings::default() };
    let mut world = led::<Bully, Quorum>("handover: quorum, bully", 3, settings);
    world.note("3 leads; it is to hand over to 1");
    world.command(3, Command::Transfer { to: NodeId(1), hold: false });
    world.run_until_leader(1);
    world.run_for(MOMENT);
    check("handover-quorum", &world);
}

/// The followers name the leader that no longer stands until it says itself that it leads no more.
#[test]
fn step_down_with_a_child_attached() {
    let mut world = led::<Bully, Quorum>("step-down with a child: quorum, bully", 3, Settings::default());
    world.note("3 leads, and a child depends on that");
    world.quietly(|world| {
        world.command(3, Command::Attached(true));
        world.run_for(MOMENT);
    });
    world.command(3, Command::StepDown(None));
    world.run_for(MOMENT);
    world.note("the child has stopped");
    world.command(3, Command::Attached(false));
    world.run_until_leader(2);
    world.run_for(MOMENT);
    check("step-down-quorum", &world);
}

/// The others name the leader until its child has stopped.
#[test]
fn step_down_with_a_child_attached_classic() {
    let mut world = led::<Bully, Classic>("step-down with a child: classic, bully", 3, Settings::default());
    world.note("3 leads, and a child depends on that");
    world.quietly(|world| world.command(3, Command::Attached(true)));
    world.command(3, Command::StepDown(None));
    world.run_for(MOMENT);
    world.note("the child has stopped");
    world.command(3, Command::Attached(false));
    world.run_until_leader(2);
    world.run_for(MOMENT);
    check("step-down-classic", &world);
}

#[test]
fn a_voter_that_lost_its_disk_asks_the_others_what_was_granted() {
    let mut world = led::<Bully, Quorum>("lost disk: quorum, bully", 3, Settings::default());
    world.note("3 leads");
    world.kill(1);
    world.lose_disk(1);
    world.start(&[1]);
    world.run_for(MOMENT);
    world.note("its longest promise is over");
    world.quietly(|world| world.run_for(Duration::from_millis(475)));
    world.run_for(Duration::from_millis(10));
    check("lost-disk-quorum", &world);
}

#[test]
fn a_grant_waits_for_the_disk_and_messages_do_not() {
    let mut world = led::<Bully, Quorum>("slow disk: quorum, bully", 3, Settings::default());
    world.note("3 is killed; a write of 1 takes 80 ms from now on");
    world.writes_take(1, Duration::from_millis(80));
    world.quietly(|world| world.kill(3));
    world.quietly(|world| world.run_for(Duration::from_millis(460)));
    world.run_for(Duration::from_millis(40));
    world.note("3 starts again while 1 writes");
    world.start(&[3]);
    world.run_until_leader(2);
    world.run_for(MOMENT);
    check("slow-disk-quorum", &world);
}
