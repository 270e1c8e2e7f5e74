//! The harness: nodes in ticks, messages that take up to two ticks, crashes, restarts, cuts and losses drawn from a seed.

use std::collections::{BTreeMap, BTreeSet};

use algorithms::drive::Dice;

/// Ticks of an election timeout; a heartbeat is sent every tick.
pub const TIMEOUT: u64 = 10;
const NODES: u64 = 5;
const FAULTY: u64 = 300;

/// One implementation of a node. Ids begin at 1.
pub trait Node: Sized {
    type Message;
    type Disk: Clone;

    fn blank(id: u64, nodes: u64) -> Self::Disk;
    fn start(id: u64, nodes: u64, disk: Self::Disk, seed: u64) -> Self;
    fn tick(&mut self);
    fn receive(&mut self, from: u64, message: Self::Message);
    /// What was sent since the last call, and who gets it.
    fn sent(&mut self) -> Vec<(u64, Self::Message)>;
    /// The term in which this node leads.
    fn leads(&self) -> Option<u64>;
    fn disk(&self) -> Self::Disk;
}

#[derive(Debug)]
pub struct Means {
    pub cold: f64,
    pub after_crash: f64,
    pub after_faults: f64,
    pub leaders: usize,
    pub shared_terms: usize,
}

struct World<N: Node> {
    dice: Dice,
    now: u64,
    nodes: BTreeMap<u64, N>,
    disks: BTreeMap<u64, N::Disk>,
    /// By the tick of arrival; in one tick in the order of sending.
    flights: BTreeMap<u64, Vec<(u64, u64, N::Message)>>,
    /// The nodes on one side of a cut.
    side: BTreeSet<u64>,
    /// Of a hundred messages.
    lost: usize,
    leaders: BTreeSet<(u64, u64)>,
}

impl<N: Node> World<N> {
    fn new(seed: u64) -> Self {
        let mut world = World {
            dice: Dice(seed),
            now: 0,
            nodes: BTreeMap::new(),
            disks: (1..=NODES).map(|id| (id, N::blank(id, NODES))).collect(),
            flights: BTreeMap::new(),
            side: BTreeSet::new(),
            lost: 0,
            leaders: BTreeSet::new(),
        };
        (1..=NODES).for_each(|id| world.restart(id));
        world
    }

    fn restart(&mut self, id: u64) {
        let seed = self.dice.roll();
        self.nodes.insert(id, N::start(id, NODES, self.disks[&id].clone(), seed));
    }

    fn crash(&mut self, id: u64) {
        if let Some(node) = self.nodes.remove(&id) {
            self.disks.insert(id, node.disk());
        }
    }

    fn post(&mut self, from: u64) {
        let sent = self.nodes.get_mut(&from).map(Node::sent).unwrap_or_default();
        for (to, message) in sent {
            let cut = self.side.contains(&from) != self.side.contains(&to);
            if !cut && self.dice.below(100) >= self.lost {
                let at = self.now + self.dice.below(3) as u64;
                self.flights.entry(at).or_default().push((from, to, message));
            }
        }
    }

    /// Messages first; those that take no time arrive in the same tick.
    fn tick(&mut self) {
        self.now += 1;
        let ids: Vec<u64> = self.nodes.keys().copied().collect();
        for id in ids {
            self.nodes.get_mut(&id).expect("it lives").tick();
            self.post(id);
        }
        while self.flights.first_key_value().is_some_and(|(&at, _)| at <= self.now) {
            let (_, due) = self.flights.pop_first().expect("one is due");
            for (from, to, message) in due {
                if let Some(node) = self.nodes.get_mut(&to) {
                    node.receive(from, message);
                    self.post(to);
                }
            }
        }
        let leading = self.nodes.iter().filter_map(|(&id, node)| Some((node.leads()?, id)));
        self.leaders.extend(leading);
    }

    /// Ticks until a node leads in a later term than any before.
    fn until_leader(&mut self) -> u64 {
        let (began, last) = (self.now, self.leaders.last().map_or(0, |&(term, _)| term));
        while self.leaders.last().is_none_or(|&(term, _)| term <= last) {
            self.tick();
            assert!(self.now - began < 5000, "no leader");
        }
        self.now - began
    }

    fn leader(&self) -> Option<u64> {
        self.nodes.iter().filter_map(|(&id, node)| Some((node.leads()?, id))).max().map(|(_, id)| id)
    }

    fn fault(&mut self) {
        match self.dice.below(5) {
            0 => self.leader().into_iter().for_each(|id| self.crash(id)),
            1 => {
                let id = 1 + self.dice.below(NODES as usize) as u64;
                self.crash(id);
            }
            2 => {
                let dead = (1..=NODES).find(|id| !self.nodes.contains_key(id));
                dead.into_iter().for_each(|id| self.restart(id));
            }
            3 => self.side = (1..=NODES).filter(|_| self.dice.below(2) == 0).collect(),
            _ => self.lost = self.dice.below(40),
        }
    }

    fn heal(&mut self) {
        self.side.clear();
        self.lost = 0;
        (1..=NODES).filter(|id| !self.nodes.contains_key(id)).collect::<Vec<_>>().into_iter().for_each(|id| self.restart(id));
    }
}

/// A cold start, a crash of the leader, a time of faults, and another crash of the leader.
pub fn survey<N: Node>(runs: u64) -> Means {
    let (mut cold, mut after_crash, mut after_faults) = (0, 0, 0);
    let (mut leaders, mut shared_terms) = (0, 0);
    for seed in 0..runs {
        let mut world = World::<N>::new(seed);
        cold += world.until_leader();
        after_crash += crash_leader(&mut world);
        for _ in 0..FAULTY {
            world.tick();
            if world.dice.below(8) == 0 {
                world.fault();
            }
        }
        world.heal();
        (0..10 * TIMEOUT).for_each(|_| world.tick());
        after_faults += crash_leader(&mut world);
        let terms: BTreeSet<u64> = world.leaders.iter().map(|&(term, _)| term).collect();
        leaders += world.leaders.len();
        shared_terms += world.leaders.len() - terms.len();
    }
    let mean = |ticks: u64| ticks as f64 / (runs * TIMEOUT) as f64;
    Means { cold: mean(cold), after_crash: mean(after_crash), after_faults: mean(after_faults), leaders, shared_terms }
}

/// The time to the next leader; the crashed one returns after that.
fn crash_leader<N: Node>(world: &mut World<N>) -> u64 {
    (0..5 * TIMEOUT).for_each(|_| world.tick());
    let leader = world.leader().expect("all is healthy");
    world.crash(leader);
    let ticks = world.until_leader();
    world.restart(leader);
    ticks
}
