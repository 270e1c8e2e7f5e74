//! What breaks: a waiter, a holder, the member with the token, a connection, the leader, a tenancy.

use algorithms::mutex::ricart_agrawala::RicartAgrawala;
use algorithms::mutex::suzuki_kasami::SuzukiKasami;
use algorithms::mutex::token_ring::TokenRing;
use algorithms::{Input, Mutex, Topology};
use types::{NodeId, Token};

use super::super::ViewsSettings;
use super::super::seat::Phase;
use super::cluster::Cluster;
use super::{ForEach, every_algorithm};
use crate::service::{ServiceCommand, ServiceEvent};
use crate::wire::{ToClient, Unavailable};

/// Keeps these sessions alive for so long.
fn keep<M: Mutex>(cluster: &mut Cluster<M>, clients: &[u64], for_ms: u64) {
    for _ in 0..for_ms / 500 {
        for &client in clients {
            cluster.keep_alive(client);
        }
        cluster.run(500);
    }
}

struct OneAfterTheOther;
impl ForEach for OneAfterTheOther {
    fn run<M: Mutex>(&self, name: &str) {
        let clients = [1, 101, 201];
        let mut cluster = Cluster::<M>::led(3);
        cluster.ask_all(&clients, "x");
        cluster.run(200);
        assert_eq!(cluster.inside(&clients).len(), 1, "{name}");
        let mut tokens = Vec::new();
        for count in 1..=3 {
            let inside = cluster.inside(&clients);
            assert_eq!(inside.len(), count, "{name}: {:?}", cluster.told);
            let next = *inside.iter().find(|client| !tokens.iter().any(|(of, _)| of == *client)).expect("one more");
            tokens.push((next, cluster.granted(next, 1).expect("it is inside")));
            cluster.release(next, 1);
            keep(&mut cluster, &clients, 1000);
        }
        assert!(tokens.windows(2).all(|two| two[0].1 < two[1].1), "{name}: {tokens:?}");
    }
}

#[test]
fn every_algorithm_lets_clients_of_all_members_in_one_after_the_other() {
    every_algorithm(&OneAfterTheOther);
}

/// Each member crashes in turn while one client holds and two wait: the others get the lock, with larger tokens.
struct Crash;
impl ForEach for Crash {
    fn run<M: Mutex>(&self, name: &str) {
        for victim in 1..3 {
            let clients = [1, 101, 201];
            let mut cluster = Cluster::<M>::led(3);
            cluster.ask_all(&[101, 1, 201], "x");
            cluster.run(100);
            let first = cluster.inside(&clients);
            assert_eq!(first.len(), 1, "{name}");
            let token = cluster.granted(first[0], 1).expect("inside");
            cluster.crash(victim);
            let left: Vec<u64> = clients.into_iter().filter(|client| (client / 100) as usize != victim).collect();
            keep(&mut cluster, &left, 4000);
            assert_eq!(cluster.inside(&clients), first, "{name}: nobody enters before the tenancy is over");
            keep(&mut cluster, &left, 3000);
            if !left.contains(&first[0]) {
                let inside: Vec<u64> = cluster.inside(&left);
                assert_eq!(inside.len(), 1, "{name}, member {victim} crashed: {:?}", cluster.told);
                assert!(cluster.granted(inside[0], 1).expect("inside") > token, "{name}");
            }
            for round in 0..left.len() {
                let inside: Vec<u64> = cluster.inside(&left);
                assert_eq!(inside.len(), round + 1, "{name}, member {victim} crashed: {:?}", cluster.told);
                let held =
                    |client: &&u64| !cluster.told[client].iter().any(|told| matches!(told, ToClient::Released { .. }));
                let next = *inside.iter().find(held).expect("one holds");
                cluster.release(next, 1);
                keep(&mut cluster, &left, 1000);
            }
        }
    }
}

#[test]
fn a_crash_of_holder_waiter_or_token_holder_blocks_nobody_for_longer_than_a_tenancy() {
    every_algorithm(&Crash);
}

/// A connection breaks and comes back while a message is under way on it: requests, replies and tokens are lost.
struct Lost;
impl ForEach for Lost {
    fn run<M: Mutex>(&self, name: &str) {
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            for delay in 0..4 {
                let clients = [1, 101, 201];
                let mut cluster = Cluster::<M>::led(3);
                for client in clients {
                    cluster.open(client);
                }
                cluster.run(10);
                for client in clients {
                    cluster.acquire(client, 1, "x");
                }
                cluster.run(delay);
                cluster.cut(one, other);
                cluster.run(5);
                cluster.heal(one, other);
                keep(&mut cluster, &clients, 3000);
                for count in 1..=3 {
                    let inside = cluster.inside(&clients);
                    assert_eq!(inside.len(), count, "{name}, cut {one}-{other} after {delay} ms: {:?}", cluster.told);
                    let held = |client: &&u64| {
                        !cluster.told[client].iter().any(|told| matches!(told, ToClient::Released { .. }))
                    };
                    let next = *inside.iter().find(held).expect("one holds");
                    cluster.release(next, 1);
                    keep(&mut cluster, &clients, 1500);
                }
            }
        }
    }
}

#[test]
fn messages_lost_with_a_connection_block_nobody() {
    every_algorithm(&Lost);
}

#[test]
fn members_that_stay_apart_lose_the_one_with_the_smaller_id() {
    let mut cluster = Cluster::<RicartAgrawala>::led(3);
    cluster.ask_all(&[1, 101, 201], "x");
    cluster.cut(1, 2);
    keep(&mut cluster, &[1, 101, 201], 12_000);
    assert!(cluster.lost(101), "the clients of the member that is left out are told");
    let office = cluster.machine(0).office().expect("it leads");
    assert_eq!(office.set.iter().map(|id| id.0).collect::<Vec<_>>(), [1, 3]);
    cluster.heal(1, 2);
    keep(&mut cluster, &[1, 201], 2000);
    assert_eq!(cluster.machine(0).office().map(|office| office.set.len()), Some(3));
    assert!(cluster.machine(1).serves().is_some());
}

#[test]
fn a_new_leader_keeps_the_holders_and_its_first_view_waits_for_the_silent() {
    let mut cluster = Cluster::<SuzukiKasami>::led(3);
    cluster.ask_all(&[101, 201], "x");
    assert_eq!(cluster.inside(&[101, 201]), [101]);
    let token = cluster.granted(101, 1).expect("inside");
    cluster.crash(0);
    cluster.lead(2, 2, false);
    keep(&mut cluster, &[101, 201], 4500);
    assert_eq!(cluster.machine(2).seat().phase, Phase::Frozen, "the old leader may still act");
    keep(&mut cluster, &[101, 201], 1500);
    assert_eq!(cluster.machine(2).seat().phase, Phase::Runs);
    assert!(!cluster.lost(101), "the holder was reported and acknowledged");
    cluster.connect(102);
    assert_eq!(cluster.told[&102], [ToClient::Clerk { epoch: types::Epoch(2) }]);
    assert_eq!(cluster.inside(&[101, 201]), [101]);
    cluster.release(101, 1);
    cluster.run(100);
    assert!(cluster.granted(201, 1).expect("its turn") > token);
}

#[test]
fn a_restarted_member_answers_only_a_tenancy_after_its_start() {
    let mut cluster = Cluster::<RicartAgrawala>::led(3);
    cluster.ask_all(&[201], "x");
    cluster.crash(2);
    cluster.run(100);
    cluster.start(2);
    cluster.ask_all(&[1], "x");
    keep(&mut cluster, &[1], 4500);
    assert!(cluster.granted(1, 1).is_none(), "a client of the process that crashed may still act");
    keep(&mut cluster, &[1], 2000);
    assert!(cluster.granted(1, 1) > cluster.granted(201, 1));
    keep(&mut cluster, &[1], 1000);
    assert!(cluster.machine(2).serves().is_some(), "it takes part again");
}

/// `first` says that no other process has ever led; this one has.
#[test]
fn the_next_epoch_of_the_only_leader_is_not_the_first_view() {
    let mut cluster = Cluster::<RicartAgrawala>::led(3);
    cluster.ask_all(&[201], "x");
    cluster.crash(2);
    cluster.start(2);
    cluster.lead(0, 2, true);
    cluster.ask_all(&[1], "x");
    keep(&mut cluster, &[1], 4000);
    assert!(cluster.granted(1, 1).is_none(), "a client of the process that crashed may still act");
    keep(&mut cluster, &[1], 3000);
    assert!(cluster.granted(1, 1) > cluster.granted(201, 1));
}

#[test]
fn a_lapsed_tenancy_is_final() {
    let mut cluster = Cluster::<RicartAgrawala>::led(3);
    cluster.ask_all(&[201, 1], "x");
    assert_eq!(cluster.inside(&[1, 201]), [201]);
    cluster.cut(0, 2);
    cluster.cut(1, 2);
    keep(&mut cluster, &[1], 6000);
    assert!(cluster.lost(201));
    assert!(cluster.granted(1, 1).is_some());
    assert!(matches!(cluster.told[&201].last(), Some(ToClient::Unavailable { why: Unavailable::WaitsFor(_), .. })));
    cluster.heal(0, 2);
    cluster.heal(1, 2);
    keep(&mut cluster, &[1], 1500);
    assert!(cluster.machine(2).locks_here().held().is_empty(), "not reported");
    cluster.connect(202);
    assert!(matches!(cluster.told[&202].last(), Some(ToClient::Clerk { .. })));
}

#[test]
fn without_a_lease_no_beat_is_acknowledged() {
    let mut cluster = Cluster::<RicartAgrawala>::led(3);
    cluster.ask_all(&[1, 101], "x");
    cluster.leased = false;
    for _ in 0..12 {
        cluster.keep_alive(1);
        cluster.keep_alive(101);
        cluster.run(500);
    }
    assert!(cluster.lost(1) && cluster.lost(101), "{:?}", cluster.told);
}

#[test]
fn used_up_tokens_and_views_make_the_leader_open_its_next_epoch() {
    let settings = ViewsSettings { tokens: 2, ..ViewsSettings::default() };
    let mut cluster = Cluster::<RicartAgrawala>::with(3, settings);
    cluster.open(1);
    cluster.run(10);
    for request in 1..=2 {
        cluster.acquire(1, request, "x");
        cluster.run(10);
        cluster.release(1, request);
    }
    cluster.acquire(1, 3, "x");
    keep(&mut cluster, &[1], 1000);
    assert_eq!(cluster.granted(1, 3), None);
    assert!(cluster.events.contains(&(0, ServiceEvent::NextEpoch)));
    cluster.lead(0, 2, false);
    keep(&mut cluster, &[1], 500);
    assert_eq!(cluster.granted(1, 3), Some(Token(2 << 28 | 1 << 16 | 1)));

    let settings = ViewsSettings { views: 1, ..ViewsSettings::default() };
    let mut cluster = Cluster::<RicartAgrawala>::with(3, settings);
    cluster.cut(1, 2);
    cluster.heal(1, 2);
    cluster.run(600);
    assert!(cluster.events.contains(&(0, ServiceEvent::NextEpoch)));
}

#[test]
fn too_many_names_are_refused_and_a_new_view_forgets_those_not_in_use() {
    let mut settings = ViewsSettings::default();
    settings.locks.limits.names = 2;
    let mut cluster = Cluster::<RicartAgrawala>::with(3, settings);
    cluster.open(1);
    cluster.run(10);
    for (request, name) in [(1, "a"), (2, "b"), (3, "c")] {
        cluster.acquire(1, request, name);
        cluster.run(10);
        if request == 1 {
            cluster.release(1, 1);
        }
    }
    assert_eq!(cluster.refused(1, 3), Some(crate::wire::Refusal::TooManyNames));
    keep(&mut cluster, &[1], 1000);
    cluster.acquire(1, 4, "c");
    cluster.run(10);
    assert!(cluster.granted(1, 4).is_some(), "{:?}", cluster.told);
}

/// A token of the ring that never rests does not outlive its view.
#[test]
fn timers_of_machines_end_with_their_view() {
    let mut cluster = Cluster::<TokenRing>::led(3);
    assert_eq!(<<TokenRing as algorithms::Protocol>::Link as algorithms::TypedLink>::TOPOLOGY, Topology::Ring);
    cluster.ask_all(&[101], "x");
    cluster.run(100);
    cluster.release(101, 1);
    cluster.run(100);
    cluster.cut(1, 2);
    cluster.heal(1, 2);
    cluster.run(600);
    assert_eq!(cluster.machine(0).seat().view.number, 2);
    let of_machines =
        |at| cluster.timers(at).iter().filter(|timer| matches!(timer, super::super::ViewsTimer::Machine(..))).count();
    assert_eq!((0..3).map(of_machines).sum::<usize>(), 0, "no client uses the lock: no machine of the new view runs");
}

#[test]
fn under_classic_safety_nobody_enters_while_a_member_is_missing() {
    let settings = ViewsSettings { quorum: false, ..ViewsSettings::default() };
    let mut cluster = Cluster::<RicartAgrawala>::with(3, settings);
    cluster.leased = false;
    cluster.ask_all(&[1, 101], "x");
    assert_eq!(cluster.inside(&[1, 101]), [1]);
    cluster.crash(2);
    cluster.release(1, 1);
    keep(&mut cluster, &[1, 101], 20_000);
    assert_eq!(cluster.inside(&[1, 101]), [1], "nobody enters: {:?}", cluster.told);
    assert_eq!(cluster.machine(0).missing(NodeId(1)), [NodeId(3)]);
    cluster.start(2);
    cluster.connect(301 - 100);
    let why = Unavailable::WaitsFor(vec![]);
    assert!(cluster.told[&201].iter().all(|told| !matches!(told, ToClient::Clerk { .. })), "not {why:?}");
    keep(&mut cluster, &[1, 101], 4500);
    assert_eq!(cluster.inside(&[1, 101]), [1], "its clients may still act");
    keep(&mut cluster, &[1, 101], 2000);
    assert_eq!(cluster.inside(&[1, 101]), [1, 101]);
}

#[test]
fn an_operator_takes_a_lock_from_a_client_of_this_member() {
    let mut cluster = Cluster::<RicartAgrawala>::led(3);
    cluster.ask_all(&[101, 201], "x");
    let token = cluster.granted(101, 1).expect("inside");
    let name = crate::name::LockName::new("x").expect("a name");
    let unlock = |token| Input::Command(ServiceCommand::Unlock { name: name.clone(), token });
    cluster.input(1, unlock(Token(7)));
    cluster.input(1, unlock(token));
    cluster.run(100);
    let done: Vec<bool> = cluster
        .events
        .iter()
        .filter_map(|(_, event)| if let ServiceEvent::Unlocked { done, .. } = event { Some(*done) } else { None })
        .collect();
    assert_eq!(done, [false, true]);
    assert!(cluster.told[&101].contains(&ToClient::Lost { request: crate::wire::RequestId(1) }));
    assert!(cluster.granted(201, 1).is_some());
}
