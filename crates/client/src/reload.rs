//! What became of a config that a member has read again.

use serde::{Deserialize, Serialize};

/// One key whose value in the file differs from the value that was in force.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReloadedKey {
    /// As `timing.heartbeat`, or `peers.3.address`.
    pub key: String,
    pub old: String,
    pub new: String,
    pub outcome: ReloadOutcome,
    /// Why it did not change, or what else to know.
    pub note: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReloadOutcome {
    /// The new value is in force.
    Changed,
    /// The old value stays in force until the process is restarted.
    NeedsRestart,
    /// The old value stays, and a restart would not change that.
    Refused,
}

impl ReloadOutcome {
    pub fn in_words(self) -> &'static str {
        match self {
            ReloadOutcome::Changed => "changed",
            ReloadOutcome::NeedsRestart => "needs a restart",
            ReloadOutcome::Refused => "refused",
        }
    }
}
