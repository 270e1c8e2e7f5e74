//! Identifies one of the machines of a process.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Names one machine of a process; the same number names its counterparts in the other processes of the cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct InstanceId(pub u16);

impl InstanceId {
    /// The election that every cluster has.
    pub const ELECTION: InstanceId = InstanceId(0);
    /// The lock service; the names of locks are inside its messages.
    pub const LOCKS: InstanceId = InstanceId(1);
    /// No machine: frames with a reading of the sender's clock.
    pub const CLOCKS: InstanceId = InstanceId(2);
    /// The first number that a config may give to an instance of its own.
    pub const FIRST_CONFIGURED: InstanceId = InstanceId(256);

    /// The cluster's own election, or one that a config adds: both keep the records of a member.
    pub fn is_election(self) -> bool {
        self == Self::ELECTION || self >= Self::FIRST_CONFIGURED
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
