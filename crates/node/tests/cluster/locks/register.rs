//! A register that accepts only tokens that do not fall, written by many processes under one lock, while members are killed,
//! paused, cut off and robbed of their disks, and clients are killed, paused and cut off.
//!
//! The long form: `CONCLAVE_LOCK_CYCLES=200000 CONCLAVE_LOCK_CLIENTS=50`; `CONCLAVE_LOCK_SEED` chooses other faults.

mod clients;
mod faults;
mod stall;

use std::cell::Cell;
use std::time::{Duration, Instant};

use client::Client;
use locks::catalog::{Kind, rows};
use testkit::client_log::Told;
use testkit::lock_history::judge;
use testkit::register::Register;
use testkit::{Live, PATIENCE, Plan, number};
use types::Dice;

use self::clients::Clients;
use self::stall::Progress;
use super::{FIVE, five};

/// How much is done before the faults end.
struct Soak {
    cycles: u64,
    clients: u32,
    /// Faults of members; those of clients come beside them.
    faults: u32,
    /// Between two faults of members, and of clients, up to three times this long.
    rest: Duration,
    algorithm: &'static str,
    /// Of the config.
    timing: &'static str,
}

/// What the clients told, all of them together.
#[derive(Default)]
struct Outcome {
    all: Told,
    /// Of clients that nothing was done to.
    lost_by_steady: Vec<(u32, Duration)>,
}

#[tokio::test]
async fn no_stale_write_is_accepted_and_no_waiter_is_lost_whatever_fails() {
    let soak = Soak {
        cycles: number("CONCLAVE_LOCK_CYCLES", 300),
        clients: number("CONCLAVE_LOCK_CLIENTS", 10) as u32,
        faults: faults::KINDS,
        rest: rest(),
        algorithm: "central",
        timing: "",
    };
    let outcome = soak.run().await;
    assert_eq!(outcome.lost_by_steady, [], "waiters that were there all the time");
}

/// A session belongs to the member that it is connected to, and ends with it: that is an error which the client hears.
#[tokio::test]
async fn no_stale_write_is_accepted_under_any_algorithm_in_views() {
    for row in rows().filter(|row| matches!(row.kind, Kind::Views(_))) {
        let soak = Soak {
            cycles: number("CONCLAVE_LOCK_VIEW_CYCLES", 10),
            clients: number("CONCLAVE_LOCK_VIEW_CLIENTS", 5) as u32,
            faults: 2,
            rest: rest(),
            algorithm: row.name,
            timing: "[timing]\nlease = \"1s\"\nsuspect_after = \"500ms\"\n",
        };
        soak.run().await;
    }
}

fn rest() -> Duration {
    Duration::from_millis(number("CONCLAVE_LOCK_REST_MS", 50))
}

impl Soak {
    async fn run(&self) -> Outcome {
        let seed = number("CONCLAVE_LOCK_SEED", 1);
        let mut dice = Dice(seed);
        let plan = Plan { chaos: true, ..five() };
        let lines = format!("\n{}[locks]\nmax_ttl = \"8s\"\nalgorithm = \"{}\"\n", self.timing, self.algorithm);
        let mut live = Live::alone_with(&plan, &lines);
        live.agreement(FIVE).await;
        live.voting(FIVE).await;
        let mut clients = Clients::start(&live, self.clients, &mut dice).await;
        let (over, began) = (Cell::new(false), Instant::now());
        let register = Register::open(&clients.register()).unwrap();
        let mut moods = Dice(dice.roll());
        let mut progress = Progress::new(&clients.logs());
        let (members, ()) = tokio::join!(
            faults::of_members(&mut live, (&register, &mut progress), self, &mut dice, &over),
            clients.faults(self.rest, &mut moods, &over)
        );
        clients.stop().await;
        let outcome = clients.outcome();
        println!(
            "{}: {} grants and {} writes of {} clients in {:?}, seed {seed}: faults of members {members}, of clients {}; {} late writes refused, \
             {} sessions lost",
            self.algorithm,
            outcome.all.holds.len(),
            register.count().unwrap(),
            self.clients,
            began.elapsed(),
            clients.faulted(),
            outcome.all.refused,
            outcome.all.lost.len(),
        );
        check(register, &outcome);
        nothing_left(&live).await;
        outcome
    }
}

fn check(mut register: Register, outcome: &Outcome) {
    assert_eq!(judge(&outcome.all.holds), None, "not linearizable");
    let accepted = register.accepted().unwrap();
    assert!(accepted.is_sorted_by_key(|(token, _)| *token), "a stale write was accepted");
    let granted: std::collections::BTreeMap<u64, u32> =
        outcome.all.holds.iter().map(|hold| (hold.token.0, hold.client)).collect();
    for (token, client) in accepted {
        assert_eq!(granted.get(&token), Some(&client), "the token {token} of client {client} was not granted to it");
    }
}

/// Killed processes leave their locks to their ttl.
async fn nothing_left(live: &Live) {
    let endpoints = live.cluster.endpoints();
    let empty = async {
        loop {
            let (mut asked, mut left) = (0, Vec::new());
            for endpoint in &endpoints {
                // Under `central` only the leader knows.
                let Ok(client) = Client::connect(&endpoint.address, live.cluster.settings()).await else { continue };
                let Ok(page) = client.locks(None).await else { continue };
                asked += 1;
                left.extend(page.locks);
            }
            if asked > 0 && left.is_empty() {
                return;
            }
            eprintln!("left at {asked} members: {left:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, empty).await.expect("a lock is left");
}
