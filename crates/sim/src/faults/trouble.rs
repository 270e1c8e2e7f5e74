//! The best member keeps failing and everything else is well: how often does the leader change?

use std::time::Duration;

use algorithms::catalog::{AnyElection, Row};
use algorithms::{Ranks, Uid, View};
use member::{Classic, Member, Quorum, Safety, Settings};

use super::invariants::InvariantSet;
use super::plan::{Action, FaultKind, MS, Plan, SECOND};
use super::subject::Subject;
use super::trace::Trace;
use super::world::World;
use super::{FaultOptions, FaultReport, links, report, settings};
use crate::rng::Rng;

const NODES: usize = 5;
/// A process that was killed is started again after this.
const DOWN: u64 = 100 * MS;

/// What is wrong with the best member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// Every write takes this much longer.
    SlowDisk(Duration),
    /// Its process is killed this long after every start.
    CrashLoop(Duration),
}

/// One run of this length from a seed.
pub fn run_trouble(
    row: &'static Row,
    seed: u64,
    options: &FaultOptions,
    trouble: Trouble,
    length: Duration,
) -> FaultReport {
    match options.safety {
        Safety::Classic => run::<Member<AnyElection, Classic>>(row, seed, options, trouble, length),
        Safety::Quorum => run::<Member<AnyElection, Quorum>>(row, seed, options, trouble, length),
    }
}

fn run<S: Subject>(
    row: &'static Row,
    seed: u64,
    options: &FaultOptions,
    trouble: Trouble,
    length: Duration,
) -> FaultReport {
    let preempt_after_max = Settings::default().preempt_after_max;
    let settings = Settings { preempt_after_max, ..settings(row, options) };
    let uids: Vec<Uid> = (1..=NODES as u32).map(Uid::plain).collect();
    let view = View::of(row.topology, uids.clone(), &links(row, NODES, &mut Rng::new(seed)));
    let best = settings.wins().best(uids).and_then(|uid| view.position(uid.id));
    let end = length.as_nanos() as u64;
    let plan = plan(best.expect("some member is the best"), trouble, end);
    let invariants = InvariantSet::of::<S>(row, &view, &settings, &plan);
    let trace = Trace::keeping(options.trace_lines);
    let mut world: World<'_, S> = World::new(&view, &settings, &plan, invariants, trace, Rng::new(seed));
    world.run_until(end);
    report::of(row, seed, options, world)
}
fn plan(best: usize, trouble: Trouble, end: u64) -> Plan {
    let mut actions: Vec<(u64, Action)> = (0..NODES).map(|node| (0, Action::Start(node))).collect();
    let mut fsync_delay = vec![0; NODES];
    match trouble {
        Trouble::SlowDisk(delay) => fsync_delay[best] = delay.as_nanos() as u64,
        Trouble::CrashLoop(up) => {
            let mut at = 2 * SECOND;
            while at < end {
                actions.extend([(at, Action::Kill(best)), (at + DOWN, Action::Start(best))]);
                at += DOWN + up.as_nanos() as u64;
            }
        }
    }
    let kinds = vec![FaultKind::Restart];
    let drift_ppm = vec![0; NODES];
    Plan { kinds, actions, heal_at: end, delay_max: MS, fsync_max: 2 * MS, fsync_delay, drift_ppm, raised: None }
}
