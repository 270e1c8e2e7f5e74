//! The result of a fault run, in a form that reproduces it.

use std::fmt;

use algorithms::catalog::Row;
use member::Safety;

use super::subject::Subject;
use super::world::World;
use super::{FaultKind, FaultOptions};

#[derive(Clone, PartialEq, Debug)]
pub struct FaultReport {
    pub algorithm: &'static str,
    pub seed: u64,
    pub nodes: usize,
    pub options: FaultOptions,
    /// The kinds of faults this seed has.
    pub kinds: Vec<FaultKind>,
    pub stats: Stats,
    /// Digest of all events and announcements: equal for equal runs.
    pub digest: u64,
    pub violations: Vec<Violation>,
    /// The last lines before the violation.
    pub trace: Vec<String>,
}

/// Counts of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    pub events: u64,
    pub steps: u64,
    pub messages: u64,
    pub kills: u64,
    pub starts: u64,
    pub pauses: u64,
    pub hangs: u64,
    pub cuts: u64,
    /// Children that began to act on a leadership.
    pub children: u64,
    /// Lists of members that came into force.
    pub lists: u64,
    /// How often a member became leader.
    pub reigns: u64,
    /// How often a member that did not lead came to lead.
    pub accessions: u64,
    /// From the heal to the last change of any member's standing.
    pub settled_after_ms: u64,
}

/// A broken invariant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Its number, as in "E1".
    pub invariant: &'static str,
    /// What must hold.
    pub sentence: &'static str,
    /// What happened instead.
    pub how: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} broken ({}): {}", self.invariant, self.sentence.trim_end_matches('.'), self.how)
    }
}

pub(super) fn of<S: Subject>(row: &'static Row, seed: u64, options: &FaultOptions, world: World<'_, S>) -> FaultReport {
    let digest = world.digest();
    FaultReport {
        algorithm: row.name,
        seed,
        nodes: world.view.len(),
        options: options.clone(),
        kinds: world.plan.kinds.clone(),
        stats: world.stats,
        digest,
        violations: world.invariants.violations,
        trace: world.trace.into_lines(),
    }
}

impl FaultReport {
    pub fn ok(&self) -> bool {
        self.violations.is_empty()
    }

    /// The command that repeats this run.
    pub fn command(&self) -> String {
        let mut command = format!("ctl sim faults --algorithm {} --seed {}", self.algorithm, self.seed);
        if self.options.safety != Safety::Classic {
            command.extend([" --safety ", self.options.safety.name()]);
        }
        if !self.options.preempt {
            command += " --no-preempt";
        }
        if self.options.drift != 1.0 {
            command.extend([" --drift ", &self.options.drift.to_string()]);
        }
        if self.options.changes {
            command += " --changes";
        }
        if self.options.slewed_leases {
            command += " --slewed-leases";
        }
        if let Some(nodes) = self.options.nodes {
            command.extend([" --nodes ", &nodes.to_string()]);
        }
        command
    }
}

impl fmt::Display for FaultReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.name()).collect();
        writeln!(f, "{} seed {}: {} members, faults: {}", self.algorithm, self.seed, self.nodes, kinds.join(" "))?;
        for line in &self.trace {
            writeln!(f, "  {line}")?;
        }
        for violation in &self.violations {
            writeln!(f, "{violation}")?;
        }
        if self.ok() {
            writeln!(f, "all invariants hold; digest {:016x}", self.digest)
        } else {
            writeln!(f, "again: {}", self.command())
        }
    }
}
