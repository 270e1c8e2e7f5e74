//! Random runs: members crash, links and clients' connections break, reigns change, clients ask and go silent. While a
//! client may act on a lock by its own clock, no other client may act against it; tokens of a lock rise; and when the
//! faults end, every request is decided.
//!
//! `CONCLAVE_LOCK_RUNS` sets how many runs there are.

use std::collections::BTreeMap;
use std::time::Duration;

use locks::LockName;
use locks::service::LockSettings;
use locks::session::Output;
use locks::wire::{Mode, RequestId};
use types::{Dice, Token};

use crate::world::{Way, World};

const TTL: Duration = Duration::from_millis(400);
const MEMBERS: usize = 3;
const CLIENTS: usize = 4;
const STEPS: usize = 4_000;

struct Run {
    world: World,
    dice: Dice,
    /// Requests that were not given back, and whether each was granted.
    open: BTreeMap<(usize, RequestId), bool>,
    /// How much of what each client heard was looked at.
    read: Vec<usize>,
    /// The largest token of an exclusive grant, by lock.
    largest: BTreeMap<LockName, Token>,
    /// Former leaders that were not told.
    former: Vec<usize>,
    /// A client whose connection is slow: nothing arrives on it.
    slow: Option<usize>,
    grants: usize,
    reigns: usize,
}

fn compatible(one: Mode, other: Mode) -> bool {
    one == other && one != Mode::Exclusive
}

impl Run {
    fn new(seed: u64) -> Self {
        let settings = LockSettings {
            max_ttl: TTL,
            min_ttl: TTL / 8,
            requeue_window: TTL / 20,
            spread: if seed.is_multiple_of(2) { TTL / 100 } else { Duration::ZERO },
            close_ends_bare: seed.is_multiple_of(3),
            ..LockSettings::default()
        };
        let mut settings = settings;
        settings.limits.notes_kept = (seed % 5) as usize;
        let mut world = World::new(MEMBERS, settings);
        world.reign(0, &[0, 1, 2]);
        for client in 0..CLIENTS {
            world.client(TTL);
            world.dial(client, 0);
        }
        Run {
            world,
            // Seeds that follow each other must not give streams that follow each other.
            dice: Dice(Dice(seed).roll()),
            open: BTreeMap::new(),
            read: vec![0; CLIENTS],
            largest: BTreeMap::new(),
            former: Vec::new(),
            slow: None,
            grants: 0,
            reigns: 0,
        }
    }

    fn roll(&mut self, below: usize) -> usize {
        (self.dice.roll() % below.max(1) as u64) as usize
    }

    fn step(&mut self) {
        match self.roll(1_000) {
            0..600 => self.deliver(),
            600..780 => {
                let node = self.roll(MEMBERS);
                self.world.end_turn(node);
            }
            780..840 => {
                let longest = if self.roll(20) == 0 { 300 } else { 30 };
                let millis = self.roll(longest) as u64;
                self.world.pass(Duration::from_millis(millis));
            }
            840..970 => self.client_acts(),
            970..974 => self.new_reign(),
            974..980 => self.tell_former(),
            980..990 => self.late_grant(),
            990..994 => {
                let (one, other) = (self.roll(MEMBERS), self.roll(MEMBERS));
                if one != other {
                    self.world.disconnect(one, other);
                    self.world.connect(one, other);
                }
            }
            994..996 => self.crash_or_start(),
            996..998 => {
                let client = self.roll(CLIENTS);
                self.slow = Some(client).filter(|_| self.slow.is_none());
            }
            _ => {
                let client = self.roll(CLIENTS);
                self.world.hang_up(client);
            }
        }
        self.look();
    }

    fn deliver(&mut self) {
        let mut ways = self.world.ways();
        ways.retain(|way| match *way {
            Way::Peer(..) => true,
            Way::Up(client, _) | Way::Down(_, client) => self.slow != Some(client),
        });
        if !ways.is_empty() {
            let way: Way = ways[self.roll(ways.len())];
            self.world.deliver(way);
        }
    }

    fn client_acts(&mut self) {
        let client = self.roll(CLIENTS);
        let lock = ["a", "a", "a", "b", "c"][self.roll(5)];
        match self.roll(12) {
            0..=2 => {
                let node = if self.roll(8) == 0 { Some(self.roll(MEMBERS)) } else { self.world.leader };
                let known = &self.world.clients[client];
                if !known.session.is_open() || self.roll(10) == 0 {
                    node.inspect(|&node| self.world.dial(client, node));
                }
            }
            3..=5 => self.world.keep_alive(client),
            6..=8 => {
                let mode = match lock {
                    "c" => Mode::Slots(2),
                    "b" if self.roll(2) == 0 => Mode::Shared,
                    _ => Mode::Exclusive,
                };
                let wait = [None, Some(Duration::ZERO), Some(TTL / 2)][self.roll(3)];
                let request = self.world.acquire(client, lock, mode, wait);
                self.open.insert((client, request), false);
            }
            _ => self.give_up_something(client),
        }
    }

    fn give_up_something(&mut self, client: usize) {
        let own: Vec<(RequestId, bool)> =
            self.open.iter().filter(|((of, _), _)| *of == client).map(|(&(_, id), &held)| (id, held)).collect();
        if own.is_empty() {
            return;
        }
        let (request, held) = own[self.roll(own.len())];
        self.open.remove(&(client, request));
        if held && self.roll(3) > 0 {
            let durable = self.roll(2) == 0;
            self.world.release(client, request, durable);
        } else {
            self.world.withdraw(client, request);
        }
    }

    /// The lease of the present leader has ended. A majority grants the next epoch to one of them.
    fn new_reign(&mut self) {
        let alive = self.world.alive();
        if 2 * alive.len() <= MEMBERS {
            return;
        }
        let leader = alive[self.roll(alive.len())];
        let mut voters = alive;
        while 2 * (voters.len() - 1) > MEMBERS && self.roll(2) == 0 {
            let out = self.roll(voters.len());
            if voters[out] != leader {
                voters.remove(out);
            }
        }
        self.former.extend(self.world.leader.take());
        // A member that grants to another knows that it does not lead.
        let told: Vec<usize> = self.former.iter().copied().filter(|node| voters.contains(node)).collect();
        self.former.retain(|node| !told.contains(node));
        told.into_iter().filter(|&node| node != leader).for_each(|node| self.world.end_office(node));
        self.world.reign(leader, &voters);
        self.reigns += 1;
    }

    fn tell_former(&mut self) {
        if let Some(node) = self.former.pop() {
            self.world.end_office(node);
        }
    }

    /// A voter that had not granted the present epoch, or has restarted since.
    fn late_grant(&mut self) {
        let (Some(leader), alive) = (self.world.leader, self.world.alive()) else { return };
        let voter = alive[self.roll(alive.len())];
        if voter != leader {
            if self.former.contains(&voter) {
                self.former.retain(|&node| node != voter);
                self.world.end_office(voter);
            }
            self.world.grant(voter, leader);
        }
    }

    fn crash_or_start(&mut self) {
        let node = self.roll(MEMBERS);
        if self.world.nodes[node].is_none() {
            return self.world.start(node);
        }
        self.former.retain(|&former| former != node);
        self.world.crash(node);
    }

    /// What clients heard since, and what they may do now.
    fn look(&mut self) {
        for client in 0..CLIENTS {
            let heard = self.world.clients[client].heard[self.read[client]..].to_vec();
            self.read[client] += heard.len();
            for output in heard {
                match output {
                    Output::Granted(request, token) => self.granted(client, request, token),
                    Output::Refused(request, _) | Output::Lost(request) => {
                        self.open.remove(&(client, request));
                    }
                    Output::Over(_) => self.replace(client),
                    _ => {}
                }
            }
        }
        let mut acting: BTreeMap<LockName, Vec<Mode>> = BTreeMap::new();
        for client in &self.world.clients {
            for (name, _, mode) in client.acts_on(self.world.now) {
                acting.entry(name).or_default().push(mode);
            }
        }
        for (name, modes) in acting {
            let fits = modes.len() == 1
                || modes.windows(2).all(|pair| compatible(pair[0], pair[1]))
                    && !matches!(modes[0], Mode::Slots(slots) if modes.len() > slots as usize);
            assert!(fits, "M3: clients act at once on {name:?}: {modes:?}");
        }
    }

    fn granted(&mut self, client: usize, request: RequestId, token: Token) {
        self.open.entry((client, request)).and_modify(|held| *held = true);
        self.grants += 1;
        let (name, mode) = self.world.clients[client].mode(request);
        let acts = self.world.now < self.world.clients[client].until();
        if acts && mode == Mode::Exclusive {
            let largest = self.largest.insert(name.clone(), token);
            assert!(largest < Some(token), "M2: {name:?} was granted with {largest:?} and then with {token:?}");
        }
    }

    /// The program begins another session.
    fn replace(&mut self, client: usize) {
        self.open.retain(|(of, _), _| *of != client);
        self.world.hang_up(client);
        let id = u128::from(self.dice.roll()) | 1 << 64;
        self.world.clients[client] = crate::client::Client::new(id, TTL);
        self.read[client] = 0;
    }

    /// The faults end, clients are attentive and give back what they get: every request is decided.
    fn heal(&mut self) {
        self.slow = None;
        for node in 0..MEMBERS {
            if self.world.nodes[node].is_none() {
                self.world.start(node);
            }
        }
        self.world.leader = None;
        let former = std::mem::take(&mut self.former);
        for node in former {
            self.world.end_office(node);
        }
        self.world.epoch = self.world.epoch.max(1);
        let all: Vec<usize> = (0..MEMBERS).collect();
        (0..MEMBERS).for_each(|node| self.world.end_office(node));
        self.world.reign(0, &all);
        for round in 0..60 {
            self.world.settle();
            for client in 0..CLIENTS {
                if self.world.clients[client].at.is_none_or(|(node, _)| node != 0) {
                    self.world.dial(client, 0);
                }
                self.world.keep_alive(client);
            }
            self.world.settle();
            self.look();
            if round > 30 {
                let held: Vec<_> = self.open.iter().filter(|(_, held)| **held).map(|(&key, _)| key).collect();
                for (client, request) in held {
                    self.open.remove(&(client, request));
                    self.world.release(client, request, false);
                }
            }
            self.world.settle();
            self.look();
            self.world.pass(TTL / 8);
        }
        assert!(self.open.is_empty(), "M5: never decided: {:?}", self.open);
        let leader = self.world.nodes[0].as_ref().unwrap();
        assert!(leader.may_change, "the voters may be changed");
        let copy = leader.driver.machine().keeper().copy().unwrap();
        assert_eq!(leader.driver.machine().totals(), Some((0, 0)), "everything was given back: {copy:?}");
        for other in self.world.nodes.iter().flatten() {
            assert_eq!(other.driver.machine().keeper().copy(), Some(copy), "the copies are equal");
        }
    }
}

#[test]
fn random_runs_keep_locks_exclusive_and_decide_every_request() {
    let runs = std::env::var("CONCLAVE_LOCK_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(60);
    let (mut grants, mut reigns) = (0, 0);
    for seed in 1..=runs {
        let mut run = Run::new(seed);
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..STEPS).for_each(|_| run.step());
            run.heal();
        }));
        assert!(done.is_ok(), "seed {seed}");
        grants += run.grants;
        reigns += run.reigns;
    }
    println!("{runs} runs: {grants} grants in {reigns} reigns");
    assert!(grants as u64 > 10 * runs && reigns as u64 > 4 * runs, "the runs do something");
}
