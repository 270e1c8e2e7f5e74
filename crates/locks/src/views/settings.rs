//! What the operator chose, as far as views know it, and the lengths that follow.

use std::time::Duration;

use algorithms::catalog::mutex::LiveMutex;

use crate::service::LockSettings;

/// What the operator chose for an algorithm that runs in views.
#[derive(Clone, PartialEq, Debug)]
pub struct ViewsSettings {
    pub locks: LockSettings,
    /// The algorithm, where the machines are [`AnyMutex`](algorithms::catalog::mutex::AnyMutex).
    pub machine: Option<LiveMutex>,
    /// How long the word of the leader lasts: a member that the leader has not heard for this long is out, and no client
    /// of it acts any more. The same at all members of a cluster.
    pub tenancy: Duration,
    /// How often a member asks the leader for the next tenancy.
    pub beat: Duration,
    /// How long a try waits for the answers of the other members before it is refused as busy.
    pub try_for: Duration,
    /// How long a member keeps a circulating token that it does not need.
    pub idle_hold: Duration,
    /// Does the leader have the promises of a majority? If not, there is one view of all members, and while one of them
    /// is missing no client enters.
    pub quorum: bool,
    /// Messages of the next view that a member keeps until it may read them.
    pub kept_messages: usize,
    /// Tokens of one lock in one view.
    pub tokens: u32,
    /// Views of one epoch.
    pub views: u32,
}

impl Default for ViewsSettings {
    fn default() -> Self {
        ViewsSettings {
            locks: LockSettings::default(),
            machine: None,
            tenancy: Duration::from_secs(5),
            beat: Duration::from_millis(500),
            try_for: Duration::from_millis(100),
            idle_hold: Duration::from_millis(20),
            quorum: true,
            kept_messages: 16_384,
            tokens: (1 << 16) - 1,
            views: super::messages::ViewId::NUMBER_MAX,
        }
    }
}

impl ViewsSettings {
    /// How long a member counts on its tenancy, from the send time of the beat: shorter than the leader's tenancy by
    /// what two clocks may differ. The largest ttl of a session, which the client shortens by drift again.
    pub fn promise(&self) -> Duration {
        let drift = f64::from(self.locks.max_drift_ppm.min(999_999)) / 1e6;
        self.tenancy.mul_f64((1.0 - drift) / (1.0 + drift)).saturating_sub(self.locks.margin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_counts_on_less_than_the_leader_waits() {
        let settings = ViewsSettings { tenancy: Duration::from_secs(10), ..ViewsSettings::default() };
        assert!(settings.promise() < Duration::from_millis(9_810));
        assert!(settings.promise() > Duration::from_millis(9_780));
    }
}
