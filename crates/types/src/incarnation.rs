//! One start of a process.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One start of a process: the counter grows with every start, the nonce distinguishes copies of a disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Incarnation {
    pub counter: u64,
    pub nonce: u64,
}

impl Incarnation {
    /// The start after this one.
    #[must_use]
    pub fn next(self, nonce: u64) -> Self {
        Incarnation { counter: self.counter + 1, nonce }
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:016x}", self.counter, self.nonce)
    }
}
