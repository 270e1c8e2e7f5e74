//! One bare run from a description to a report.

use std::fmt;
use std::time::Duration;

use algorithms::catalog::{self, Row, Visitor};
use algorithms::drive::Counts;
use algorithms::theory::{Bounds, Case, Expectation};
use algorithms::{Election, Kind, Message, NodeId, Rounds, Uid, Wins};

use crate::bare::{self, Initiators, Setup, Trail, Verdict};
use crate::check_run;
use crate::observe::{Blind, Observer};

/// Above this size the exact expectation of a run is not computed: it takes as long as the run.
const MAX_EXPECTED_NODES: usize = 1 << 20;

/// The description of a run.
#[derive(Clone, Debug)]
pub struct Experiment {
    pub row: &'static Row,
    /// In clockwise order, which is the sending direction of unidirectional algorithms.
    pub ids: Vec<Uid>,
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

impl Schedule {
    pub fn name(self) -> &'static str {
        match self {
            Schedule::Sync => "sync",
            Schedule::Random => "random",
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

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
    /// All nodes start at once, no node dies.
    pub fn new(row: &'static Row, ids: Vec<Uid>) -> Self {
        Experiment {
            row,
            ids,
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
        Ok(())
    }

    pub fn run(&self) -> Result<Report, String> {
        self.observe(Blind).map(|(report, Blind)| report)
    }

    /// Runs with an observer.
    pub fn observe<O: Observer>(&self, observer: O) -> Result<(Report, O), String> {
        self.check()?;
        let setup = self.setup();
        self.fits(&setup)?;
        let (trail, kinds, observer) = catalog::dispatch(self.row, Bare { setup: &setup, with: self, observer });
        Ok((self.report(&trail, kinds), observer))
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
        let nodes = self.ids.len() as u64;
        Setup {
            view: bare::view(self.row, self.ids.clone()),
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

    fn expectation(&self) -> Option<Expectation> {
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
        })
    }

    fn report(&self, trail: &Trail, kinds: &'static [Kind]) -> Report {
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
            theory: (self.row.bounds)(nodes),
            expectation: self.expectation(),
            violations: Vec::new(),
        };
        report.violations = check_run::violations(self, trail, &report);
        report
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
