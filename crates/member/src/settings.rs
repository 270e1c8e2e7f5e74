//! What the operator chose for a member.

use std::sync::Arc;
use std::time::Duration;

use algorithms::{Epoch, NodeId, Ranks, View, Wins};
use serde::{Deserialize, Serialize};
use types::{Listed, MemberList, PeerRole, Stamp, names};

/// The shortest time that children have to stop.
const CHILDREN_PATIENCE: Duration = Duration::from_secs(1);

#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// What the textbook machine inside may know.
    pub election: algorithms::Settings,
    /// May a recovered better id take over from a healthy leader?
    pub preempt: bool,
    pub stand: Stand,
    pub preempt_after: Duration,
    /// The longest that setbacks make a member wait before it takes over from a healthy leader.
    pub preempt_after_max: Duration,
    pub timing: Timing,
    pub on_close: OnClose,
    /// Vote and never lead. Members that do neither are the learners of `election`.
    pub witnesses: Vec<NodeId>,
    pub founding: Founding,
    /// Do the voters of this election agree on an id of the cluster? One election of a process does.
    pub names_cluster: bool,
    /// The newest list of members that this member knows: the view and the roles follow it. At the start of a member
    /// without a record it is the list of the config file. Without members: the members of the view.
    pub list: Arc<MemberList>,
    pub from_driver: FromDriver,
}

/// What only the driver of a machine knows. It may change before every step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FromDriver {
    /// The longest grace of the children that are attached: how long one of them may need to stop.
    pub child_grace: Duration,
    /// How long the latest write of this member took: machines have no clock.
    pub write_time: Duration,
}

impl Settings {
    pub fn votes(&self, id: NodeId) -> bool {
        self.election.votes(id)
    }

    pub fn may_lead(&self, id: NodeId) -> bool {
        self.votes(id) && !self.witnesses.contains(&id)
    }

    /// The list that a member without a record begins with.
    pub(crate) fn first_list(&self, view: &View) -> Arc<MemberList> {
        if !self.list.members.is_empty() {
            return Arc::clone(&self.list);
        }
        let role = |id| match (self.votes(id), self.may_lead(id)) {
            (true, true) => PeerRole::Member,
            (true, false) => PeerRole::Witness,
            (false, _) => PeerRole::Learner,
        };
        let listed = |&uid: &algorithms::Uid| Listed { uid, role: role(uid.id), address: String::new() };
        Arc::new(MemberList { stamp: Stamp::FIRST, members: view.members().iter().map(listed).collect() })
    }

    /// How long a leader that gives its leadership away waits for its children. A child that runs longer is hung: its guard
    /// has killed it, or the end of the lease does.
    pub fn children_patience(&self) -> Duration {
        let grace = self.from_driver.child_grace;
        let stopped = if grace.is_zero() { Duration::ZERO } else { grace + self.timing.lease };
        CHILDREN_PATIENCE.max(self.timing.lease).max(stopped)
    }

    /// A new leader has written its own grant before it asks the voters, and its lease counts from before that write.
    /// With half of the lease left the voters have time to write and answer.
    pub fn is_slow(&self, write_time: Duration) -> bool {
        write_time > self.timing.lease / 2
    }
}

impl Ranks for Settings {
    fn wins(&self) -> Wins {
        self.election.wins
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            election: algorithms::Settings::default(),
            preempt: true,
            stand: Stand::Always,
            preempt_after: Duration::from_secs(1),
            preempt_after_max: Duration::from_mins(5),
            timing: Timing::default(),
            on_close: OnClose::WaitLease,
            witnesses: Vec::new(),
            founding: Founding::default(),
            names_cluster: false,
            list: Arc::default(),
            from_driver: FromDriver::default(),
        }
    }
}

/// When a member stands for election. Each member decides for itself; the others learn of it by heartbeats.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stand {
    #[default]
    Always,
    /// While a process is attached that runs, or waits to run, under this member's leadership. A leader to which none is
    /// attached any more gives its leadership away.
    Attached,
}

/// How a cluster begins in which nothing was ever granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Founding {
    pub bootstrap: Bootstrap,
    pub first_epoch: Epoch,
}

impl Default for Founding {
    fn default() -> Self {
        Founding { bootstrap: Bootstrap::Auto, first_epoch: Epoch(1) }
    }
}

/// When a new cluster begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bootstrap {
    /// When all voters of the list in the config file are there and none of them has ever granted anything.
    #[default]
    Auto,
    /// The same, and besides the operator has said so to one of them.
    Manual,
}

/// What a voter does when the leader closes its end of their connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnClose {
    /// Nothing: the promise runs until its end.
    #[default]
    WaitLease,
    /// The leader's process has ended, so the promise is void, unless a child of that process may still run.
    Immediate,
}

names!(OnClose { WaitLease: "wait-lease", Immediate: "immediate" });

#[derive(Clone, PartialEq, Debug)]
pub struct Timing {
    /// How often a monitored member sends a heartbeat.
    pub heartbeat: Duration,
    /// Silence that makes a member suspected.
    pub suspect_after: Duration,
    /// The first election after a start waits this long for all members.
    pub start_grace: Duration,
    /// How long a voter's promise runs.
    pub lease: Duration,
    /// The largest error of each clock's rate, as a fraction.
    pub max_drift: f64,
    /// The largest time to live that a session with locks may ask for. Zero: this reign has no lock service.
    pub lock_ttl_max: Duration,
}

impl Timing {
    /// How long a proposed list may take to come into force, before the leader proposes the last list in force again.
    pub fn change_timeout(&self) -> Duration {
        4 * self.lease
    }

    /// How long a leader may rely on a promise of `lease`, by its own clock: both clocks may err in opposite
    /// directions, and publishing the leadership needs a moment.
    pub fn reign(&self) -> Duration {
        let drift = self.max_drift;
        self.lease.mul_f64((1.0 - drift) / (1.0 + drift)).saturating_sub(self.lease / 100)
    }
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            heartbeat: Duration::from_millis(50),
            suspect_after: Duration::from_millis(250),
            start_grace: Duration::from_millis(500),
            lease: Duration::from_millis(500),
            max_drift: 0.01,
            lock_ttl_max: Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_have_a_second_a_lease_or_their_grace() {
        let patience = |lease, grace| {
            let timing = Timing { lease: Duration::from_millis(lease), ..Timing::default() };
            let from_driver = FromDriver { child_grace: Duration::from_millis(grace), ..FromDriver::default() };
            Settings { timing, from_driver, ..Settings::default() }.children_patience()
        };
        assert_eq!(patience(500, 0), Duration::from_secs(1));
        assert_eq!(patience(3000, 100), Duration::from_millis(3100));
        assert_eq!(patience(500, 5000), Duration::from_millis(5500), "it is killed after its grace");
    }

    #[test]
    fn a_lease_is_shorter_than_its_promise_even_if_both_clocks_err_as_far_as_they_may() {
        for drift in [0.0, 0.01, 0.1] {
            let timing = Timing { max_drift: drift, ..Timing::default() };
            // The leader's clock is slow, the voter's is fast.
            let lease = timing.reign().as_secs_f64() / (1.0 - drift);
            let promise = timing.lease.as_secs_f64() / (1.0 + drift);
            assert!(lease < promise, "drift {drift}: {lease} against {promise}");
        }
    }
}
