//! What the harness runs: a machine of either trait behind one face, and what a run leaves behind.

use std::marker::PhantomData;

use algorithms::catalog::{self, Row, Visitor};
use algorithms::{Election, Kind, Message, Outcome, Rounds, Settings, Topology, Uid, View, Wins};

use crate::{driver, lockstep};

pub(crate) struct Plan<'a> {
    pub(crate) view: &'a View,
    pub(crate) wins: Wins,
    pub(crate) initiators: &'a [usize],
    pub(crate) dead: &'a [usize],
    pub(crate) schedule: Schedule,
    /// All chance of the run: the machines' dice and, in a random schedule, the order.
    pub(crate) seed: u64,
}

impl Plan<'_> {
    pub(crate) fn settings(&self) -> Settings {
        Settings { wins: self.wins, ..Settings::default() }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Schedule {
    /// All start in round 0, every message takes one round.
    Synchronous,
    /// Starts and deliveries in random order; links stay FIFO. Synchronous algorithms: starts in random rounds.
    Random,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Run {
    pub(crate) continuous: bool,
    /// Everything each position announced, in order.
    pub(crate) outcomes: Vec<Vec<Outcome>>,
    pub(crate) counts: Vec<(Kind, u64)>,
    /// When the last message was read, in rounds; means nothing in a random schedule.
    pub(crate) rounds: u64,
    /// When the last announcement was made, in rounds: the messages on the longest way from a start to it.
    pub(crate) announced: u64,
    /// A changed record was persisted after something of the same step had been sent or announced.
    pub(crate) persisted_late: bool,
    pub(crate) endless: bool,
}

impl Run {
    pub(crate) fn new<M: Message>(n: usize, continuous: bool) -> Self {
        Run {
            continuous,
            outcomes: vec![Vec::new(); n],
            counts: M::KINDS.iter().map(|&kind| (kind, 0)).collect(),
            rounds: 0,
            announced: 0,
            persisted_late: false,
            endless: false,
        }
    }

    pub(crate) fn count(&mut self, message: &impl Message) {
        self.counts[message.kind()].1 += 1;
    }

    fn sum(&self, announcement: bool) -> u64 {
        self.counts.iter().filter(|(kind, _)| kind.announcement == announcement).map(|(_, count)| count).sum()
    }

    pub(crate) fn election(&self) -> u64 {
        self.sum(false)
    }

    pub(crate) fn announcement(&self) -> u64 {
        self.sum(true)
    }
}

/// A transcript, if somebody wants one.
pub(crate) type Log<'a> = Option<&'a mut Vec<String>>;

pub(crate) trait Subject {
    fn run(&self, plan: &Plan<'_>, log: Log<'_>) -> Run;

    /// The election of the plan, after one in which all members lived and all started.
    fn run_second(&self, plan: &Plan<'_>) -> Run;
}

pub(crate) struct Machine<E>(pub(crate) PhantomData<E>);

impl<E: Election> Subject for Machine<E> {
    fn run(&self, plan: &Plan<'_>, log: Log<'_>) -> Run {
        driver::run::<E>(plan, log)
    }

    fn run_second(&self, plan: &Plan<'_>) -> Run {
        driver::run_second::<E>(plan)
    }
}

pub(crate) struct Lockstep<R>(pub(crate) PhantomData<R>);

impl<R: Rounds> Subject for Lockstep<R> {
    fn run(&self, plan: &Plan<'_>, log: Log<'_>) -> Run {
        lockstep::run::<R>(plan, true, log)
    }

    /// Synchronous machines remember nothing.
    fn run_second(&self, plan: &Plan<'_>) -> Run {
        self.run(plan, None)
    }
}

pub(crate) fn subject(row: &'static Row) -> Box<dyn Subject> {
    struct Boxed;
    impl Visitor for Boxed {
        type Output = Box<dyn Subject>;
        fn election<E: Election>(self, _: &'static Row) -> Self::Output {
            Box::new(Machine::<E>(PhantomData))
        }
        fn rounds<R: Rounds>(self, _: &'static Row) -> Self::Output {
            Box::new(Lockstep::<R>(PhantomData))
        }
    }
    catalog::dispatch(row, Boxed)
}

/// Graphs get the ring's edges: the least a connected graph without a bridge has.
pub(crate) fn view(topology: Topology, members: Vec<Uid>) -> View {
    let n = members.len();
    match topology {
        Topology::Ring => View::ring(members),
        Topology::Mesh => View::mesh(members),
        Topology::Graph => {
            let links: Vec<_> = (0..n).map(|at| (at, (at + 1) % n)).filter(|(a, b)| a != b).collect();
            View::graph(members, &links)
        }
    }
}

pub(crate) fn uids(ids: &[u32]) -> Vec<Uid> {
    ids.iter().map(|&id| Uid::plain(id)).collect()
}

/// Debug output with ids as plain numbers, for people.
pub(crate) fn readable(view: &View, value: &dyn std::fmt::Debug) -> String {
    let mut text = format!("{value:?}");
    for member in view.members() {
        text = text.replace(&format!("{member:?}"), &member.to_string());
        text = text.replace(&format!("{:?}", member.id), &member.id.to_string());
    }
    text
}
