//! Fault runs: whole members in a world where processes die, pause and return, links break, disks are slow and clocks
//! drift, all from one seed. First there are faults; then all faults end and progress is required.

mod actions;
mod children;
mod disk;
mod invariants;
mod network;
mod pace;
mod plan;
mod process;
mod report;
mod run_many;
mod schedule;
mod snapshot;
mod subject;
mod trace;
mod trouble;
mod world;

use std::time::Duration;

use algorithms::catalog::{AnyElection, Row};
use algorithms::{Topology, Uid, View};
use member::{ABSTAIN, Classic, FORGIVE, Guarantee, Member, OnClose, Quorum, Safety, Settings, Timing};

pub use invariants::{Announced, INVARIANTS, InvariantInfo};
pub use plan::FaultKind;
pub use report::{FaultReport, Stats, Violation};
pub use run_many::{ManyReport, run_many};
pub use subject::Subject;
pub use trouble::{Trouble, run_trouble};

use crate::graph::Graph;
use crate::rng::Rng;
use invariants::InvariantSet;
use plan::{Action, Plan};
use trace::Trace;
use world::{BACKOFF_MAX, DIAL_TIMEOUT, World};

/// Tells the generator of changes from those of other faults.
const PRIORITIES: u64 = 0x7072_696f_7269_7479;
const CHANGES: u64 = 0x6d65_6d62_6572_7321;
const MAINTENANCE: u64 = 0x7061_7573_6520_6974;
/// By then all members are in the list again.
const RESTORED: Duration = Duration::from_secs(16);
/// How long an agreement is observed.
const KEEPS: Duration = Duration::from_secs(3);

#[derive(Clone, PartialEq, Debug)]
pub struct FaultOptions {
    pub safety: Safety,
    pub preempt: bool,
    /// The number of members; drawn from the seed (2..7) if it is `None`.
    pub nodes: Option<usize>,
    /// The error of the clocks, as a multiple of `max_drift`.
    pub drift: f64,
    /// The operator changes the list of members, under quorum.
    pub changes: bool,
    /// A planted mistake: members measure leases with the clock that NTP bends.
    pub slewed_leases: bool,
    /// The number of last lines that a broken run shows.
    pub trace_lines: usize,
}

impl Default for FaultOptions {
    fn default() -> Self {
        FaultOptions {
            safety: Safety::Classic,
            preempt: true,
            nodes: None,
            drift: 1.0,
            changes: false,
            slewed_leases: false,
            trace_lines: 30,
        }
    }
}

/// One run of a row's member from a seed.
pub fn run_faults(row: &'static Row, seed: u64, options: &FaultOptions) -> FaultReport {
    match options.safety {
        Safety::Classic => run_subject::<Member<AnyElection, Classic>>(row, seed, options),
        Safety::Quorum => run_subject::<Member<AnyElection, Quorum>>(row, seed, options),
    }
}

/// The same for anything that behaves like a member; `row` describes what is expected of it.
pub fn run_subject<S: Subject>(row: &'static Row, seed: u64, options: &FaultOptions) -> FaultReport {
    let report = one_run::<S>(row, seed, options, Trace::default());
    if report.violations.is_empty() {
        return report;
    }
    // The same run again, this time with a trace.
    one_run::<S>(row, seed, options, Trace::keeping(options.trace_lines))
}

fn one_run<S: Subject>(row: &'static Row, seed: u64, options: &FaultOptions, trace: Trace) -> FaultReport {
    let mut rng = Rng::new(seed);
    let mut settings = settings(row, options);
    let quorum = S::GUARANTEE == Guarantee::Majority;
    if quorum && rng.chance(30) {
        settings.on_close = OnClose::Immediate;
    }
    let nodes = options.nodes.unwrap_or_else(|| rng.between(2, 7) as usize);
    let view = view(row, &settings, nodes, &mut rng);
    let changes = quorum && options.changes && nodes > 2;
    if quorum && rng.chance(30) && !changes {
        roles(&mut settings, &view, &mut rng);
    }
    let mut plan = Plan::draw(nodes, settings.timing.max_drift * options.drift, quorum, &mut rng);
    plan.add_slews(&mut Rng::new(!seed));
    if !S::features(&settings).plain_ids {
        plan.add_priorities(&view, &settings, &mut Rng::new(seed ^ PRIORITIES));
    }
    if S::TAKES_MAINTENANCE {
        plan.add_maintenance(nodes, &mut Rng::new(seed ^ MAINTENANCE));
    }
    if changes {
        plan.add_changes(&view, &mut Rng::new(seed ^ CHANGES));
    }
    let agreed_at = plan.heal_at + bound(S::GUARANTEE, &settings, &plan, nodes).as_nanos() as u64;
    plan.actions.push((agreed_at, Action::Agreed));
    let invariants = InvariantSet::of::<S>(row, &view, &settings, &plan);
    let mut world: World<'_, S> = World::new(&view, &settings, &plan, invariants, trace, rng.fork());
    world.slewed_leases = options.slewed_leases;
    world.run_until(agreed_at + KEEPS.as_nanos() as u64);
    report::of(row, seed, options, world)
}

fn settings(row: &Row, options: &FaultOptions) -> Settings {
    let election = algorithms::Settings::of(row);
    let timing = Timing::default();
    // Setbacks count here too. A wait of minutes would only be a run of minutes: `trouble` has those.
    let preempt_after_max = 2 * Settings::default().preempt_after;
    let preempt = options.preempt;
    Settings { election, preempt, preempt_after_max, timing, names_cluster: true, ..Settings::default() }
}

/// Shuffled ids, sometimes with priorities, unless the row does not support them.
fn view(row: &Row, settings: &Settings, nodes: usize, rng: &mut Rng) -> View {
    let mut ids: Vec<Uid> = (1..=nodes as u32).map(Uid::plain).collect();
    rng.shuffle(&mut ids);
    let mut ranked = ids.clone();
    if rng.chance(30) {
        for uid in &mut ranked {
            uid.priority = rng.below(3) as u32;
        }
    }
    let links = links(row, nodes, rng);
    let ranked = View::of(row.topology, ranked, &links);
    if (row.check)(&ranked, settings.election.wins).is_ok() { ranked } else { View::of(row.topology, ids, &links) }
}

/// Of a graph: a tree, or with more links; nothing is drawn for other topologies.
fn links(row: &Row, nodes: usize, rng: &mut Rng) -> Vec<(usize, usize)> {
    if row.topology != Topology::Graph {
        return Vec::new();
    }
    let probability = rng.below(4) as f64 / 5.0;
    Graph::Random { probability }.links(nodes, rng.word()).expect("a small graph")
}

/// Some members never lead, and some have no vote; at least one may lead.
fn roles(settings: &mut Settings, view: &View, rng: &mut Rng) {
    for uid in &view.members()[1..] {
        match rng.below(4) {
            0 => settings.witnesses.push(uid.id),
            1 => settings.election.learners.push(uid.id),
            _ => {}
        }
    }
}

/// The time after the heal by which all members must agree again.
fn bound(guarantee: Guarantee, settings: &Settings, plan: &Plan, nodes: usize) -> Duration {
    let (timing, election) = (&settings.timing, &settings.election);
    let hops = Duration::from_millis(5) * nodes as u32;
    let watchdog = election.answer_timeout + election.coordinator_timeout + timing.suspect_after + hops;
    let dials = Duration::from_nanos(BACKOFF_MAX + DIAL_TIMEOUT);
    // Every span may be drawn half as long again.
    let elections = timing.lease + timing.start_grace + 4 * watchdog + 2 * settings.preempt_after_max;
    // If all members stepped down, none stands for the first while, and all but one do not stand for a second one.
    let abstains = if plan.kinds.contains(&FaultKind::Operator) { 2 * ABSTAIN } else { Duration::ZERO };
    // A voter settles; a winner that did not come to lead is left out for a while.
    let reign = if guarantee == Guarantee::Component { Duration::ZERO } else { 4 * timing.lease + FORGIVE };
    let restored = if plan.kinds.contains(&FaultKind::Changes) { RESTORED } else { Duration::ZERO };
    let maintained = plan.kinds.contains(&FaultKind::Maintenance);
    let maintained = if maintained { Duration::from_nanos(plan::MAINTAINED) } else { Duration::ZERO };
    reign + maintained + dials + elections * 3 / 2 + timing.suspect_after * 2 + abstains + restored
}
