//! The faults of a run, drawn from the seed before it starts.

use std::fmt;

use algorithms::{View, Wins};
use member::Settings;
use types::{Change, Listed, PeerRole, names};

use crate::rng::Rng;

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// How far chrony slews a clock unless configured otherwise.
const SLEW_PPM: u64 = 83_333;

/// After the heal the operator adds the members again, one at a time, until a leader has done so.
const RESTORES: u64 = 150;
const RESTORE_EVERY: u64 = 100 * MS;
/// So long after the heal all orders of maintenance have ended: a leader waits for a held successor no longer.
pub(crate) const MAINTAINED: u64 = 4 * SECOND;

/// The kinds of faults. Each seed switches some off altogether: a defect that shows only in the absence of another
/// fault would never be found if all were always on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FaultKind {
    Kill,
    /// Ends the process between two effects of a step.
    KillMidStep,
    Restart,
    Pause,
    Split,
    Isolate,
    OneWay,
    Flap,
    Operator,
    SlowNetwork,
    /// Every write is slow, and sometimes a disk does not answer for several leases.
    SlowDisk,
    Drift,
    /// NTP bends the clock of a node's kernel timers for a while.
    Slew,
    /// Restarts without the disk; under quorum only.
    Wipe,
    /// A child process acts on a member's leadership.
    Children,
    /// The operator changes the list of members; under quorum only, and only where a run asks for it.
    Changes,
    /// The operator, or a command of each member, changes priorities.
    Priorities,
    /// The operator pauses the cluster and ends that, holds leaders and lets members rest.
    Maintenance,
}

names!(FaultKind {
    Kill: "kill",
    KillMidStep: "kill-mid-step",
    Restart: "restart",
    Pause: "pause",
    Split: "split",
    Isolate: "isolate",
    OneWay: "one-way",
    Flap: "flap",
    Operator: "operator",
    SlowNetwork: "slow-network",
    SlowDisk: "slow-disk",
    Drift: "drift",
    Slew: "slew",
    Wipe: "wipe",
    Children: "children",
    Changes: "changes",
    Priorities: "priorities",
    Maintenance: "maintenance",
});

/// One action of the plan. Nodes are positions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Start(usize),
    Kill(usize),
    /// Kills after this many more effects.
    KillAfter(usize, u64),
    Pause(usize),
    Resume(usize),
    /// No message gets from the first to the second.
    Cut(usize, usize),
    Mend(usize, usize),
    Elect(usize),
    StepDown(usize),
    /// If it leads it steps down and rests for so many nanoseconds.
    Rest(usize, u64),
    /// If the first leads it is told to hand over to the second.
    Transfer(usize, usize),
    /// The same, and no better member takes over from the second.
    Hold(usize, usize),
    /// The member takes an order of a pause, or of its end.
    Maintain(usize, bool),
    /// A child process begins to depend on this member's leadership, or ends by itself.
    Attach(usize),
    Detach(usize),
    /// Kills the process and removes its disk.
    Wipe(usize),
    /// No write of this member ends before its disk answers again.
    HangDisk(usize),
    FreeDisk(usize),
    /// NTP makes the clock that it may bend run fast by so many millionths.
    Slew(usize, i64),
    /// The operator wants this change of the list, and asks every member: the leader makes it.
    Change(Change),
    /// From the next election on the member has this priority, restarts included.
    Priority(usize, u32),
    /// The last fault ends: all cuts end, all processes are resumed and restarted.
    Heal,
    /// All members must agree by now.
    Agreed,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub kinds: Vec<FaultKind>,
    /// Ascending by time.
    pub actions: Vec<(u64, Action)>,
    pub heal_at: u64,
    /// Longest message delay, and longest fsync of a disk that does not hang.
    pub delay_max: u64,
    pub fsync_max: u64,
    /// How much longer every write of each node takes.
    pub fsync_delay: Vec<u64>,
    /// By how many millionths each clock runs fast.
    pub drift_ppm: Vec<i64>,
    /// The node that is better than all others from the heal on, by its priority.
    pub raised: Option<usize>,
}

impl Plan {
    /// Only deaths for good and nothing slow: the conditions of Garcia-Molina's assertions.
    pub(crate) fn calm(&self) -> bool {
        self.kinds.iter().all(|kind| matches!(kind, FaultKind::Kill | FaultKind::KillMidStep))
    }

    pub(crate) fn draw(nodes: usize, max_drift: f64, quorum: bool, rng: &mut Rng) -> Self {
        let kinds: Vec<FaultKind> = if rng.chance(15) {
            vec![FaultKind::Kill, FaultKind::KillMidStep]
        } else {
            let share = rng.between(25, 90);
            let apart = [FaultKind::Slew, FaultKind::Changes, FaultKind::Priorities, FaultKind::Maintenance];
            let possible = FaultKind::ALL.into_iter().filter(|kind| !apart.contains(kind));
            let possible = possible.filter(|&kind| kind != FaultKind::Wipe || quorum);
            possible.filter(|_| rng.chance(share)).collect()
        };
        let on = |kind| kinds.contains(&kind);
        let drift = (max_drift * 1e6) as i64;
        let drift_ppm = (0..nodes)
            .map(|_| if on(FaultKind::Drift) { rng.below(2 * drift as u64 + 1).cast_signed() - drift } else { 0 })
            .collect();
        let delay_max = if on(FaultKind::SlowNetwork) { 15 * MS } else { rng.between(200 * US, 2 * MS) };
        let fsync_max = if on(FaultKind::SlowDisk) { 15 * MS } else { 2 * MS };
        let mut drawing = Drawing { nodes, quorum, actions: Vec::new(), kinds: &kinds, rng };
        drawing.starts();
        let heal_at = drawing.faults();
        let mut actions = drawing.actions;
        actions.retain(|(at, _)| *at < heal_at);
        actions.push((heal_at, Action::Heal));
        actions.sort_by_key(|action| action.0);
        Plan { kinds, actions, heal_at, delay_max, fsync_max, fsync_delay: vec![0; nodes], drift_ppm, raised: None }
    }

    /// NTP slews clocks in half of the runs. Drawn from a generator of its own: all other faults of a seed are the same with
    /// and without slews.
    pub(crate) fn add_slews(&mut self, rng: &mut Rng) {
        if self.calm() || rng.chance(50) {
            return;
        }
        self.kinds.push(FaultKind::Slew);
        for _ in 0..rng.between(1, 8) {
            let (node, at) = (rng.index(self.drift_ppm.len()), rng.below(self.heal_at));
            let span = rng.between(100 * MS, 5 * SECOND);
            let ppm = rng.below(2 * SLEW_PPM + 1).cast_signed() - SLEW_PPM.cast_signed();
            self.actions.extend([(at, Action::Slew(node, ppm)), (at + span, Action::Slew(node, 0))]);
        }
        self.actions.retain(|(at, action)| *at < self.heal_at || !matches!(action, Action::Slew(..)));
        self.actions.sort_by_key(|action| action.0);
    }
}

impl Plan {
    /// The operator removes members, makes them learners and adds them again, and after the heal adds all of them. Drawn
    /// from a generator of its own, as slews are. No disk is lost: of two voters nobody could tell what was granted.
    pub(crate) fn add_changes(&mut self, view: &View, rng: &mut Rng) {
        self.kinds.push(FaultKind::Changes);
        self.actions.retain(|(_, action)| !matches!(action, Action::Wipe(_)));
        let listed = |at: usize, role| Listed { uid: view.members()[at], role, address: String::new() };
        for _ in 0..rng.between(10, 40) {
            let (at, node) = (rng.below(self.heal_at), rng.index(view.len()));
            let change = match rng.below(6) {
                0 | 1 => Change::Unlist(view.members()[node].id),
                2 => Change::List(listed(node, PeerRole::Learner)),
                3 => Change::Abort,
                _ => Change::List(listed(node, PeerRole::Member)),
            };
            self.actions.push((at, Action::Change(change)));
        }
        for step in 0..RESTORES {
            let change = Change::List(listed(step as usize % view.len(), PeerRole::Member));
            self.actions.push((self.heal_at + step * RESTORE_EVERY, Action::Change(change)));
        }
        self.actions.sort_by_key(|action| action.0);
    }
}

impl Plan {
    /// Priorities change in half of the runs. After the heal one member that may lead is raised above every priority that a
    /// leader may have been elected with. Drawn from a generator of its own, as slews are.
    pub(crate) fn add_priorities(&mut self, view: &View, settings: &Settings, rng: &mut Rng) {
        if self.calm() || rng.chance(50) {
            return;
        }
        self.kinds.push(FaultKind::Priorities);
        for _ in 0..rng.between(3, 20) {
            let action = Action::Priority(rng.index(view.len()), rng.below(4) as u32);
            self.actions.push((rng.below(self.heal_at), action));
        }
        let raised = rng.index(view.len());
        if settings.election.wins == Wins::Highest {
            self.actions.push((self.heal_at + MS, Action::Priority(raised, u32::MAX)));
            self.raised = Some(raised).filter(|&at| settings.may_lead(view.members()[at].id));
        }
        self.actions.sort_by_key(|action| action.0);
    }
}

impl Plan {
    /// In a third of the runs the operator pauses the cluster and ends that, holds leaders and lets members rest. After the heal
    /// all of it ends: the pause by an order, the holds by an election. Drawn from a generator of its own, as slews are.
    pub(crate) fn add_maintenance(&mut self, nodes: usize, rng: &mut Rng) {
        if self.calm() || rng.chance(67) {
            return;
        }
        self.kinds.push(FaultKind::Maintenance);
        for _ in 0..rng.between(2, 10) {
            let at = rng.below(self.heal_at);
            let span = rng.between(10 * MS, 4 * SECOND);
            let (node, to) = (rng.index(nodes), rng.index(nodes));
            match rng.below(4) {
                0 | 1 => {
                    self.actions.push((at, Action::Maintain(node, true)));
                    self.actions.push(((at + span).min(self.heal_at - 1), Action::Maintain(to, false)));
                }
                2 => self.actions.extend((0..nodes).map(|from| (at, Action::Hold(from, to)))),
                _ => {
                    let rest = (self.heal_at - at).min(span * 2);
                    self.actions.extend((0..nodes).map(|node| (at, Action::Rest(node, rest))));
                }
            }
        }
        for node in 0..nodes {
            self.actions.push((self.heal_at + MAINTAINED / 2, Action::Maintain(node, false)));
            self.actions.push((self.heal_at + MAINTAINED, Action::Elect(node)));
        }
        self.actions.sort_by_key(|action| action.0);
    }
}

struct Drawing<'a> {
    nodes: usize,
    quorum: bool,
    actions: Vec<(u64, Action)>,
    kinds: &'a [FaultKind],
    rng: &'a mut Rng,
}

impl Drawing<'_> {
    /// All in the same millisecond, or one after the other within a second.
    fn starts(&mut self) {
        let spread = if self.rng.chance(50) { MS } else { SECOND };
        for node in 0..self.nodes {
            let at = self.rng.below(spread);
            self.actions.push((at, Action::Start(node)));
        }
    }

    fn faults(&mut self) -> u64 {
        let end = self.rng.between(3 * SECOND, 12 * SECOND);
        // Some runs settle first, some are disturbed while they start.
        let mut at = if self.rng.chance(60) { 2 * SECOND } else { self.rng.below(600 * MS) };
        while at < end {
            let what = self.rng.index(self.kinds.len().max(1));
            if let Some(&kind) = self.kinds.get(what) {
                self.fault(at, kind);
            }
            // Bursts: a second fault while the election about the first is under way.
            at += if self.rng.chance(35) { self.rng.below(4 * MS) } else { self.rng.below(1200 * MS) };
        }
        end
    }

    fn fault(&mut self, at: u64, kind: FaultKind) {
        let node = self.rng.index(self.nodes);
        let span = if self.rng.chance(50) { self.rng.below(200 * MS) } else { self.rng.below(3 * SECOND) } + MS;
        match kind {
            FaultKind::Kill => self.kill(at, Action::Kill(node), node, span),
            FaultKind::KillMidStep => {
                let effects = self.rng.below(12);
                self.kill(at, Action::KillAfter(node, effects), node, span);
            }
            FaultKind::Restart => self.actions.push((at, Action::Start(node))),
            FaultKind::Pause => {
                self.actions.push((at, Action::Pause(node)));
                self.actions.push((at + span, Action::Resume(node)));
            }
            FaultKind::Split => {
                let side: Vec<bool> = (0..self.nodes).map(|_| self.rng.chance(50)).collect();
                self.cut(at, span, |a, b| side[a] != side[b]);
            }
            FaultKind::Isolate => self.cut(at, span, |a, b| a == node || b == node),
            FaultKind::OneWay => {
                let from = self.rng.index(self.nodes);
                self.cut(at, span, |a, b| a == from && b == node);
            }
            FaultKind::Flap => {
                let other = self.rng.index(self.nodes);
                for _ in 0..self.rng.between(2, 6) {
                    let begin = at + self.rng.below(span);
                    let flap = self.rng.below(300 * MS);
                    self.cut(begin, flap, |a, b| (a, b) == (node, other) || (b, a) == (node, other));
                }
            }
            FaultKind::Operator => {
                let action = if self.rng.chance(50) { Action::Elect(node) } else { Action::StepDown(node) };
                self.actions.push((at, action));
                if self.quorum {
                    // The member that leads a little later.
                    let to = self.rng.index(self.nodes);
                    self.actions.extend((0..self.nodes).map(|from| (at + span, Action::Transfer(from, to))));
                }
            }
            FaultKind::Wipe => {
                self.actions.push((at, Action::Wipe(node)));
                self.actions.push((at + span, Action::Start(node)));
            }
            FaultKind::Children => {
                // One of them is the member that leads then.
                self.actions.extend((0..self.nodes).map(|node| (at, Action::Attach(node))));
                self.actions.extend((0..self.nodes).map(|node| (at + span, Action::Detach(node))));
            }
            FaultKind::SlowDisk => {
                self.actions.push((at, Action::HangDisk(node)));
                self.actions.push((at + span, Action::FreeDisk(node)));
                // A leader that is to open the next epoch grants it to itself first, and that waits for its disk.
                if self.kinds.contains(&FaultKind::Operator) {
                    self.actions.push((at + span / 4, Action::Elect(node)));
                }
            }
            FaultKind::SlowNetwork
            | FaultKind::Drift
            | FaultKind::Slew
            | FaultKind::Changes
            | FaultKind::Priorities
            | FaultKind::Maintenance => {}
        }
    }

    fn kill(&mut self, at: u64, action: Action, node: usize, span: u64) {
        self.actions.push((at, action));
        if self.kinds.contains(&FaultKind::Restart) {
            self.actions.push((at + span, Action::Start(node)));
        }
    }

    fn cut(&mut self, at: u64, span: u64, separated: impl Fn(usize, usize) -> bool) {
        for a in 0..self.nodes {
            for b in (0..self.nodes).filter(|&b| b != a && separated(a, b)) {
                self.actions.push((at, Action::Cut(a, b)));
                self.actions.push((at + span, Action::Mend(a, b)));
            }
        }
    }
}
