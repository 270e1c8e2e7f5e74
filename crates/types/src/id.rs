//! The numbers of members and of reigns.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The configured number of a member. Unique in a cluster, never reused for another machine while the cluster exists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct NodeId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a reign. Never decreases at a member, restarts included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The largest epoch that a [`Token`](crate::Token) has room for.
    pub const MAX: Epoch = Epoch((1 << 35) - 1);
    /// Limits how far one message of a peer can raise epochs, attempts and terms: they would run out.
    pub const MAX_LEAP: u64 = 1 << 20;
    /// A smaller step is no leap: the numbers of an active cluster take such steps at any time.
    pub const MAX_STEP: u64 = 1 << 10;

    #[must_use]
    pub fn next(self) -> Self {
        Epoch(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
