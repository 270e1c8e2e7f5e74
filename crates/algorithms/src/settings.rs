//! What the operator configured and any machine may read.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{NodeId, Wins};

#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    pub wins: Wins,
    pub safety: Safety,
    /// May a recovered better id take over from a healthy leader?
    pub preempt: bool,
    pub preempt_after: Duration,
    pub timing: Timing,
    pub on_close: OnClose,
    /// Vote and never lead.
    pub witnesses: Vec<NodeId>,
    /// Neither vote nor lead.
    pub learners: Vec<NodeId>,
}

impl Settings {
    pub fn votes(&self, id: NodeId) -> bool {
        !self.learners.contains(&id)
    }

    pub fn may_lead(&self, id: NodeId) -> bool {
        self.votes(id) && !self.witnesses.contains(&id)
    }
}

/// What a voter makes of its holder's connection being closed from the far side.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnClose {
    /// Nothing: the promise runs until its end.
    #[default]
    WaitLease,
    /// The holder's process is gone, so its promise is void, unless a child of it may still act.
    Immediate,
}

impl OnClose {
    pub fn name(self) -> &'static str {
        match self {
            OnClose::WaitLease => "wait-lease",
            OnClose::Immediate => "immediate",
        }
    }
}

/// Who may claim to lead.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Safety {
    /// Whoever the algorithm elects: one leader per connected component, as in the papers.
    Classic,
    /// Whoever the algorithm elects and a majority granted a lease to.
    Quorum,
}

impl Safety {
    pub fn name(self) -> &'static str {
        match self {
            Safety::Classic => "classic",
            Safety::Quorum => "quorum",
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Timing {
    /// How often a monitored member is heard.
    pub heartbeat: Duration,
    /// Silence that makes a member suspected.
    pub suspect_after: Duration,
    /// Bully's T: an answer that has not come by now will not come.
    pub answer_timeout: Duration,
    /// Bully's T': whoever answered must have announced a coordinator by now.
    pub coordinator_timeout: Duration,
    /// The first election after a start waits this long for all members.
    pub start_grace: Duration,
    /// How long a voter's promise runs.
    pub lease: Duration,
    /// By how much each clock's rate may be wrong, as a fraction.
    pub max_drift: f64,
}

impl Timing {
    /// How long a leader may count on a promise of `lease`, by its own clock: both clocks may err, in opposite
    /// directions, and the faces need a moment.
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
            answer_timeout: Duration::from_millis(100),
            coordinator_timeout: Duration::from_millis(300),
            start_grace: Duration::from_millis(500),
            lease: Duration::from_millis(500),
            max_drift: 0.01,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            wins: Wins::Highest,
            safety: Safety::Classic,
            preempt: true,
            preempt_after: Duration::from_secs(1),
            timing: Timing::default(),
            on_close: OnClose::WaitLease,
            witnesses: Vec::new(),
            learners: Vec::new(),
        }
    }
}
