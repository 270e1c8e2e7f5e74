//! Golden transcripts: whole exchanges between clients, the clerk and the voters, to be read by people.
//! `UPDATE_GOLDEN=1 cargo test -p locks` rewrites them; read the difference before committing it.

use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs};

use locks::service::LockSettings;
use locks::wire::Mode;

use crate::world::World;

const TTL: Duration = Duration::from_secs(1);
const MOMENT: Duration = Duration::from_millis(10);

fn check(name: &str, world: &World) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.txt"));
    let transcript = world.story.join("\n") + "\n";
    if env::var_os("UPDATE_GOLDEN").is_some() {
        return fs::write(&path, transcript).expect("the golden directory can be written");
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    let first = known.lines().zip(transcript.lines()).position(|(old, new)| old != new);
    assert!(
        known == transcript,
        "{name}.txt differs in line {:?}: UPDATE_GOLDEN=1 rewrites it",
        first.map(|at| at + 1)
    );
}

/// Three members, the first of which leads, and clients that are connected to it.
fn served(clients: usize) -> World {
    let mut world = World::new(3, LockSettings { max_ttl: 10 * TTL, ..LockSettings::default() });
    world.reign(0, &[0, 1, 2]);
    for client in 0..clients {
        let id = world.client(TTL);
        assert_eq!(id, client);
        world.dial(client, 0);
    }
    world.settle();
    world.tells = true;
    world
}

fn step(world: &mut World, title: &str) {
    world.pass(MOMENT);
    world.settle();
    world.chapter(title);
}

#[test]
fn first_grant_contention_and_release() {
    let mut world = World::new(3, LockSettings::default());
    world.tells = true;
    world.chapter("the first reign serves at once");
    world.reign(0, &[0, 1, 2]);
    let one = world.client(TTL);
    world.dial(one, 0);
    step(&mut world, "a lock is granted when a majority has noted it");
    world.acquire(one, "backup", Mode::Exclusive, None);
    let two = world.client(TTL);
    world.dial(two, 0);
    step(&mut world, "another session waits, and a third only tries");
    world.acquire(two, "backup", Mode::Exclusive, None);
    let three = world.client(TTL);
    world.dial(three, 0);
    world.settle();
    world.acquire(three, "backup", Mode::Exclusive, Some(Duration::ZERO));
    step(&mut world, "the heir is noted already, and hears of the lock before the voters hear of the release");
    world.release(one, locks::wire::RequestId(1), false);
    step(&mut world, "the next request is withdrawn before it is granted; a release that waits for a majority");
    let again = world.acquire(one, "backup", Mode::Exclusive, None);
    world.settle();
    world.withdraw(one, again);
    world.release(two, locks::wire::RequestId(1), true);
    step(&mut world, "the end");
    check("first-grant", &world);
}

#[test]
fn failover_with_reattaching() {
    let mut world = served(3);
    world.chapter("client 0 holds, clients 1 and 2 wait");
    for client in 0..3 {
        world.acquire(client, "leader", Mode::Exclusive, None);
        world.pass(MOMENT);
        world.settle();
    }
    world.acquire(0, "other", Mode::Exclusive, None);
    step(&mut world, "the clerk crashes while a grant is on its way to its client: the voters have noted it");
    world.acquire(1, "third", Mode::Exclusive, None);
    let way = |world: &mut World, way| assert!(world.deliver(way));
    way(&mut world, crate::world::Way::Up(1, 0));
    world.end_turn(0);
    way(&mut world, crate::world::Way::Peer(0, 1));
    way(&mut world, crate::world::Way::Peer(0, 2));
    world.end_turn(1);
    world.crash(0);
    step(&mut world, "a new clerk; labels agree, so no table moves");
    world.reign(1, &[1, 2]);
    world.settle();
    world.chapter("clients reattach, the later waiter first");
    for client in [2, 0, 1] {
        world.dial(client, 1);
        world.settle();
    }
    step(&mut world, "the queue has its old order");
    world.release(0, locks::wire::RequestId(1), false);
    world.pass(Duration::from_millis(200));
    step(&mut world, "the crashed member is back, with no copy, and gets the table");
    world.start(0);
    world.grant(0, 1);
    step(&mut world, "the end");
    check("failover", &world);
}

#[test]
fn expiry_and_a_wait_for_lost_copies() {
    let mut world = served(2);
    world.chapter("client 0 holds and goes silent, client 1 waits and keeps alive");
    world.acquire(0, "job", Mode::Exclusive, None);
    world.settle();
    world.acquire(1, "job", Mode::Exclusive, None);
    world.settle();
    for _ in 0..4 {
        world.pass(TTL / 4);
        world.keep_alive(1);
        world.settle();
    }
    step(&mut world, "all members restart: nobody has a copy, so the new clerk waits for the largest ttl");
    for node in [0, 1, 2] {
        world.crash(node);
    }
    (0..3).for_each(|node| world.start(node));
    world.reign(2, &[0, 1, 2]);
    world.settle();
    world.dial(1, 2);
    world.settle();
    world.pass(10 * TTL);
    world.settle();
    step(&mut world, "the end");
    check("expiry", &world);
}

#[test]
fn readers_writers_and_slots() {
    let mut world = served(4);
    world.chapter("two readers share; a writer waits, and stops the next reader");
    let readers: Vec<_> = (0..2).map(|client| world.acquire(client, "page", Mode::Shared, None)).collect();
    world.settle();
    let writer = world.acquire(2, "page", Mode::Exclusive, None);
    world.settle();
    world.acquire(3, "page", Mode::Shared, None);
    step(&mut world, "the readers leave, the writer writes, the next reader reads");
    for (client, &request) in readers.iter().enumerate() {
        world.release(client, request, false);
        world.settle();
    }
    world.release(2, writer, false);
    step(&mut world, "two slots for three, and a request that names another number");
    let slots: Vec<_> = (0..3).map(|client| world.acquire(client, "seat", Mode::Slots(2), None)).collect();
    world.settle();
    world.acquire(3, "seat", Mode::Slots(3), None);
    world.settle();
    world.release(0, slots[0], false);
    step(&mut world, "the end");
    check("readers-and-slots", &world);
}
