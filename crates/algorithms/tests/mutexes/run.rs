//! What the harness runs, and what a run leaves behind.

use std::marker::PhantomData;
use std::time::Duration;

use algorithms::catalog::mutex::{self, Links, Row, Visitor};
use algorithms::mutex::clock::Stamp;
use algorithms::{Access, Kind, Mutex, MutexSettings, Token, Topology, Uid, View};

use crate::world;

pub(crate) struct Plan<'a> {
    pub(crate) view: &'a View,
    /// The requests of each position, one after the other.
    pub(crate) requests: &'a [Vec<Access>],
    /// The position that begins inside its section.
    pub(crate) holder: Option<usize>,
    /// Where the clock of each position begins: 0 for positions that are not listed.
    pub(crate) clocks: &'a [u64],
    pub(crate) schedule: Schedule,
    pub(crate) links: Links,
    /// How many messages of the application go from a random member to a random member.
    pub(crate) gossip: usize,
    /// The idle token never rests.
    pub(crate) restless: bool,
    pub(crate) seed: u64,
}

/// Tokens up to this one were given before the run.
pub(crate) const FLOOR: Token = Token(100);

impl Plan<'_> {
    pub(crate) fn settings(&self, at: usize) -> MutexSettings {
        MutexSettings {
            holder: self.holder.map(|holder| self.view.members()[holder].id),
            floor: FLOOR,
            clock: self.clocks.get(at).copied().unwrap_or_default(),
            idle_hold: if self.restless { Duration::ZERO } else { Duration::from_millis(1) },
            machine: None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Schedule {
    /// Every member asks at once and again when it is out; a message and a section take one round.
    Synchronous,
    /// Requests, deliveries and exits in random order.
    Random,
}

/// One section, in the order of entries.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Entry {
    pub(crate) at: usize,
    pub(crate) access: Access,
    pub(crate) token: Token,
    pub(crate) stamp: Option<Stamp>,
    /// The vector clock of the request.
    pub(crate) asked: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Problem {
    /// Two sections that exclude each other overlap.
    Overlap,
    /// A request is not served although nothing is left to happen.
    Starved,
    /// A token is not larger than one of an earlier section that excludes it.
    Token,
    /// A request happened before another one and entered after it.
    Unfair,
    /// Sections do not follow the timestamps of their requests.
    Order,
    /// More or fewer messages than theory says.
    Cost,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Run {
    pub(crate) entries: Vec<Entry>,
    pub(crate) counts: Vec<(Kind, u64)>,
    pub(crate) overlap: bool,
    /// Positions whose requests were not all served.
    pub(crate) starved: Vec<usize>,
    /// The largest number of members that were inside at the same time.
    pub(crate) together: usize,
}

impl Run {
    pub(crate) fn messages(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    pub(crate) fn count(&self, kind: &str) -> u64 {
        self.counts.iter().find(|(known, _)| known.name == kind).map_or(0, |&(_, count)| count)
    }
}

/// A transcript, if one is wanted.
pub(crate) type Log<'a> = Option<&'a mut Vec<String>>;

pub(crate) trait Subject {
    fn run(&self, plan: &Plan<'_>, log: Log<'_>) -> Run;
}

pub(crate) struct Machine<M> {
    /// The mistake that it makes on purpose, 0 for none: see `planted`.
    bug: u8,
    machine: PhantomData<M>,
}

pub(crate) fn machine<M: Mutex>(bug: u8) -> Machine<M> {
    Machine { bug, machine: PhantomData }
}

impl<M: Mutex> Subject for Machine<M> {
    fn run(&self, plan: &Plan<'_>, log: Log<'_>) -> Run {
        world::run::<M>(plan, u64::from(self.bug), log)
    }
}

pub(crate) fn subject(row: &'static Row) -> Box<dyn Subject> {
    struct Boxed;
    impl Visitor for Boxed {
        type Output = Box<dyn Subject>;
        fn mutex<M: Mutex>(self, _: &'static Row) -> Self::Output {
            Box::new(machine::<M>(0))
        }
    }
    mutex::dispatch(row, Boxed)
}

pub(crate) fn view(topology: Topology, ids: &[u32]) -> View {
    let members = ids.iter().map(|&id| Uid::plain(id)).collect();
    match topology {
        Topology::Ring => View::ring(members),
        Topology::Mesh | Topology::Graph => View::mesh(members),
    }
}

/// Members whose positions are not in the order of their ids.
pub(crate) fn shuffled(topology: Topology, n: usize) -> View {
    let ids: Vec<u32> = [3, 1, 7, 2, 8, 5, 4, 6].into_iter().filter(|&id| id as usize <= n).collect();
    view(topology, &ids)
}

/// The requests of writers: as many from each position as listed.
pub(crate) fn writers(counts: &[usize]) -> Vec<Vec<Access>> {
    counts.iter().map(|&count| vec![Access::Exclusive; count]).collect()
}

/// A plan in which nothing is special.
pub(crate) fn plain<'a>(view: &'a View, requests: &'a [Vec<Access>]) -> Plan<'a> {
    Plan {
        view,
        requests,
        holder: None,
        clocks: &[],
        schedule: Schedule::Synchronous,
        links: Links::Fifo,
        gossip: 0,
        restless: false,
        seed: 1,
    }
}
