//! One bare run from a description to a report.

use std::time::Duration;

use algorithms::catalog::{self, Row, Visitor};
use algorithms::drive::Counts;
use algorithms::theory::{self, Before, Bounds, Case, Expectation};
use algorithms::{Election, Kind, Message, NodeId, Rounds, Shape, Topology, Uid, View, Wins};
use types::names;

use crate::bare::{self, Initiators, Setup, Trail, Verdict};
use crate::check_run;
use crate::graph::Graph;
use crate::observe::{Blind, Observer, Recording};

/// Above this size the exact expectation of a run is not computed: it takes as long as the run.
const MAX_EXPECTED_NODES: usize = 1 << 20;

/// Above this size the cost of a run in a mesh is estimated, not computed, before it begins.
const MAX_COMPARED_NODES: usize = 4096;

/// The description of a run.
#[derive(Clone, Debug)]
pub struct Experiment {
    pub row: &'static Row,
    /// In clockwise order, which is the sending direction of unidirectional algorithms.
    pub ids: Vec<Uid>,
    /// Of a graph, as pairs of positions.
    pub links: Vec<(usize, usize)>,
    pub initiators: Initiators,
    pub schedule: Schedule,
    pub seed: u64,
    pub wins: Wins,
    /// Positions and the round before which they die. Round 0 is before the start: the dead node stays in the view.
    pub crashes: Vec<(usize, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Schedule {
    /// Every message takes one round.
    #[default]
    Sync,
    /// Every message takes a random part of a round.
    Random,
}

names!(Schedule { Sync: "sync", Random: "random" });

/// The cost of a run, and its violations.
#[derive(Clone, Debug)]
pub struct Report {
    pub algorithm: &'static str,
    pub nodes: usize,
    pub seed: u64,
    pub schedule: Schedule,
    pub initiators: usize,
    /// The winner, if there was exactly one.
    pub leader: Option<Uid>,
    /// Living nodes that know the result.
    pub decided: usize,
    pub messages: Messages,
    /// The round of the last delivery; synchronous schedule only.
    pub rounds: Option<u64>,
    pub steps: u64,
    pub wall: Duration,
    /// The part of the wall time in which the run was on a processor.
    pub busy: Duration,
    pub peak_in_flight: usize,
    /// The simulator's own arrays, machines included, per node.
    pub bytes_per_node: f64,
    pub theory: Bounds,
    pub expectation: Option<Expectation>,
    pub violations: Vec<String>,
    /// Nodes crashed and the election did not end: the published algorithm does not cover that.
    pub stuck: Option<String>,
    /// The list of active nodes at the end, for algorithms that keep one.
    pub active: Option<Vec<Uid>>,
    /// Was any node to crash?
    pub crashes: bool,
    /// Nodes that were to crash after the end of the run, and before which round.
    pub crashes_after_end: Vec<(Uid, u64)>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Messages {
    pub by_kind: Vec<KindCount>,
    pub total: u64,
    pub election: u64,
    pub announcement: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KindCount {
    pub name: &'static str,
    pub count: u64,
    pub announcement: bool,
}

impl Messages {
    fn new(kinds: &'static [Kind], counts: Counts) -> Self {
        let mut messages = Messages::default();
        for (kind, count) in counts.by_kind(kinds) {
            messages.by_kind.push(KindCount { name: kind.name, count, announcement: kind.announcement });
            messages.total += count;
            *(if kind.announcement { &mut messages.announcement } else { &mut messages.election }) += count;
        }
        messages
    }

    pub fn of(&self, kind: &str) -> Option<u64> {
        self.by_kind.iter().find(|counted| counted.name == kind).map(|counted| counted.count)
    }
}

impl Experiment {
    /// All nodes start at once, no node dies. A graph is as square as possible.
    pub fn new(row: &'static Row, ids: Vec<Uid>) -> Self {
        let graph = row.topology == Topology::Graph;
        let links = if graph { Graph::Square.links(ids.len(), 0).unwrap_or_default() } else { Vec::new() };
        Experiment {
            row,
            ids,
            links,
            initiators: Initiators::All,
            schedule: Schedule::Sync,
            seed: 0,
            wins: row.wins,
            crashes: Vec::new(),
        }
    }

    /// Reports an experiment that cannot be run, before it is run.
    pub fn check(&self) -> Result<(), String> {
        let nodes = self.ids.len();
        if nodes == 0 {
            return Err("an election needs at least one node".into());
        }
        if u32::try_from(nodes).is_err() {
            return Err("at most 2^32 - 1 nodes".into());
        }
        let mut sorted: Vec<NodeId> = self.ids.iter().map(|uid| uid.id).collect();
        sorted.sort_unstable();
        if let Some(twice) = sorted.iter().zip(&sorted[1..]).find(|(a, b)| a == b) {
            return Err(format!("id {} is there twice", twice.0));
        }
        if self.initiators.count(nodes) == 0 {
            return Err("at least one node has to start: no initiators".into());
        }
        if let Initiators::At(positions) = &self.initiators
            && (positions.last().is_some_and(|&at| at >= nodes) || positions.windows(2).any(|pair| pair[0] >= pair[1]))
        {
            return Err("initiators are positions on the ring, ascending".into());
        }
        if let Some(crash) = self.crashes.iter().find(|crash| crash.0 >= nodes) {
            return Err(format!("no node at position {} to crash", crash.0));
        }
        let dead_at_start = |at: usize| self.crashes.iter().any(|crash| crash.0 == at && crash.1 == 0);
        if !self.crashes.is_empty() && self.initiators.positions(nodes).into_iter().all(dead_at_start) {
            return Err("every node that is to start an election is dead before the start".into());
        }
        self.check_links()
    }

    fn check_links(&self) -> Result<(), String> {
        if self.row.topology != Topology::Graph {
            let other = format!("{} runs on a {}: links are for graphs", self.row.name, self.row.topology.name());
            return if self.links.is_empty() { Ok(()) } else { Err(other) };
        }
        let nodes = self.ids.len();
        if let Some((a, b)) = self.links.iter().find(|(a, b)| *a >= nodes || *b >= nodes) {
            return Err(format!("a link of the positions {a} and {b}, but there are {nodes} nodes"));
        }
        if let Some((own, _)) = self.links.iter().find(|(a, b)| a == b) {
            return Err(format!("a link joins {} to itself", self.ids[*own]));
        }
        let reached = View::graph(self.ids.clone(), &self.links).distances(0, |_| true);
        match reached.iter().position(Option::is_none) {
            Some(alone) => Err(format!(
                "no path of links leads from {} to {}: a graph must be connected",
                self.ids[0], self.ids[alone]
            )),
            None => Ok(()),
        }
    }

    /// About how many messages the run will send: theory's number for this run, or its mean, or its worst case.
    pub fn likely_messages(&self) -> f64 {
        let view = || View::of(self.row.topology, self.ids.clone(), &self.links);
        let graph = (self.row.topology == Topology::Graph).then(view);
        // In a mesh every initiator is compared with every node.
        let small = self.row.topology == Topology::Ring || self.ids.len() <= MAX_COMPARED_NODES;
        let exact = if graph.is_none() && small { self.expectation(None) } else { None };
        if let Some(exact) = exact.filter(|exact| exact.election.max != u64::MAX) {
            return exact.election.max as f64;
        }
        let bounds = graph.and_then(|view| theory::bounds_of_graph(&view));
        likely_of(&bounds.unwrap_or_else(|| (self.row.bounds)(self.ids.len())), self.row, self.ids.len())
    }

    pub fn run(&self) -> Result<Report, String> {
        self.run_with(Blind).map(|(report, Blind)| report)
    }

    /// Runs with a recording. It is of one type, so that crates that draw runs do not compile every machine of the catalog once more.
    pub fn observe(&self, recording: Recording) -> Result<(Report, Recording), String> {
        self.run_with(recording)
    }

    fn run_with<O: Observer>(&self, observer: O) -> Result<(Report, O), String> {
        self.check()?;
        let setup = self.setup();
        self.fits(&setup)?;
        let (trail, kinds, observer) = catalog::dispatch(self.row, Bare { setup: &setup, with: self, observer });
        Ok((self.report(&trail, kinds, &setup.view), observer))
    }

    /// Can the algorithm run with these ids?
    pub(crate) fn fits(&self, setup: &Setup) -> Result<(), String> {
        (self.row.check)(&setup.view, self.wins)
            .map_err(|why| format!("{} cannot run with these ids: {why}", self.row.name))
    }

    pub(crate) fn setup(&self) -> Setup {
        let mut crashes = self.crashes.clone();
        crashes.sort_by_key(|&(at, round)| (round, at));
        crashes.dedup_by_key(|crash| crash.0);
        // A graph may have more links than nodes.
        let nodes = self.ids.len().max(self.links.len()) as u64;
        Setup {
            view: View::of(self.row.topology, self.ids.clone(), &self.links),
            settings: bare::settings(self.row, self.wins),
            initiators: self.initiators.clone(),
            crashes,
            seed: self.seed,
            step_limit: nodes.saturating_mul(nodes).saturating_mul(16).saturating_add(1_000_000),
        }
    }

    /// Positions dead from the start, ascending; `None` if a node dies later: theory does not cover that.
    fn dead(&self) -> Option<Vec<usize>> {
        let mut dead: Vec<usize> = self.crashes.iter().map(|crash| crash.0).collect();
        dead.sort_unstable();
        dead.dedup();
        self.crashes.iter().all(|crash| crash.1 == 0).then_some(dead)
    }

    fn expectation(&self, shape: Option<Shape>) -> Option<Expectation> {
        if self.ids.len() > MAX_EXPECTED_NODES {
            return None;
        }
        let (dead, initiators) = (self.dead()?, self.initiators.positions(self.ids.len()));
        (self.row.expect)(&Case {
            ids: &self.ids,
            wins: self.wins,
            initiators: &initiators,
            dead: &dead,
            synchronous: self.schedule == Schedule::Sync,
            before: Before::Nothing,
            shape,
        })
    }

    fn report(&self, trail: &Trail, kinds: &'static [Kind], view: &View) -> Report {
        let nodes = self.ids.len();
        let winners: Vec<usize> = (0..nodes).filter(|&at| trail.verdicts[at] == Verdict::Won).take(2).collect();
        let mut report = Report {
            algorithm: self.row.name,
            nodes,
            seed: self.seed,
            schedule: self.schedule,
            initiators: self.initiators.count(nodes),
            leader: if let [only] = winners[..] { Some(self.ids[only]) } else { None },
            decided: trail.verdicts.iter().filter(|v| !v.undecided() && **v != Verdict::Dead).count(),
            messages: Messages::new(kinds, trail.counts),
            rounds: (self.schedule == Schedule::Sync).then_some(trail.rounds),
            steps: trail.steps,
            wall: trail.wall,
            busy: trail.busy,
            peak_in_flight: trail.peak_in_flight,
            bytes_per_node: trail.bytes as f64 / nodes as f64,
            theory: theory::bounds_of_graph(view).unwrap_or_else(|| (self.row.bounds)(nodes)),
            expectation: self.expectation(view.shape()),
            violations: Vec::new(),
            stuck: check_run::stuck(self, trail),
            active: trail.active.clone(),
            crashes: !self.crashes.is_empty(),
            crashes_after_end: Vec::new(),
        };
        let lives = |crash: &&(usize, u64)| trail.verdicts[crash.0] != Verdict::Dead;
        report.crashes_after_end =
            self.crashes.iter().filter(lives).map(|&(at, round)| (self.ids[at], round)).collect();
        report.violations = check_run::violations(self, trail, &report);
        report
    }
}

/// The mean over all orders where theory has one, else the worst case. Where there is no worst case because chance decides
/// or timers begin anew, what such algorithms usually need.
pub(crate) fn likely_of(bounds: &Bounds, row: &Row, nodes: usize) -> f64 {
    let n = nodes as f64;
    let usual = if row.topology == Topology::Ring { 2.0 * n * n.log2().max(1.0) } else { 6.0 * n * n };
    bounds.mean.unwrap_or(if bounds.worst.is_finite() { bounds.worst } else { usual })
}

/// Options of a run that an algorithm does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ignores {
    /// Synchronous algorithms have one schedule.
    pub schedule: bool,
    /// All nodes start, always.
    pub initiators: bool,
    /// No node knows an id.
    pub wins: bool,
}

impl Ignores {
    pub fn of(row: &'static Row) -> Self {
        catalog::dispatch(row, IgnoredBy)
    }
}

struct IgnoredBy;

impl Visitor for IgnoredBy {
    type Output = Ignores;

    fn election<E: Election>(self, _: &'static Row) -> Ignores {
        Ignores { schedule: false, initiators: false, wins: E::FEATURES.chance_decides }
    }

    fn rounds<R: Rounds>(self, _: &'static Row) -> Ignores {
        Ignores { schedule: true, initiators: R::ALL_START, wins: false }
    }
}

struct Bare<'a, O> {
    setup: &'a Setup,
    with: &'a Experiment,
    observer: O,
}

impl<O: Observer> Visitor for Bare<'_, O> {
    type Output = (Trail, &'static [Kind], O);

    fn election<E: Election>(self, _: &'static Row) -> Self::Output {
        let (trail, observer) = match self.with.schedule {
            Schedule::Sync => bare::run_sync::<E, O>(self.setup, self.observer),
            Schedule::Random => bare::run_random::<E, O>(self.setup, self.observer),
        };
        (trail, E::Message::KINDS, observer)
    }

    /// Synchronous machines have one schedule only.
    fn rounds<R: Rounds>(self, _: &'static Row) -> Self::Output {
        let (trail, observer) = bare::run_rounds::<R, O>(self.setup, self.observer);
        (trail, R::Message::KINDS, observer)
    }
}
