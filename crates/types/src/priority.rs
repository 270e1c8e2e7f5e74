//! Which of two members an election prefers: by priority, then by id.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::NodeId;

/// What elections compare: the priority first, the id breaks ties. Unique because the id is.
///
/// The priority is 32 bits wide so that a uid fits one machine word: the simulator keeps 10^7 of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Uid {
    pub priority: u32,
    pub id: NodeId,
}

impl Uid {
    /// A uid of priority 0, where only the id counts.
    pub const fn plain(id: u32) -> Self {
        Uid { priority: 0, id: NodeId(id) }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.priority == 0 { write!(f, "{}", self.id) } else { write!(f, "{}:{}", self.priority, self.id) }
    }
}

/// Which uid an election chooses. The sources disagree: most elect the highest, one elects the lowest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wins {
    #[default]
    Highest,
    Lowest,
}

impl Wins {
    /// The only comparison of uids; every algorithm uses it.
    #[inline]
    pub fn beats(self, a: Uid, b: Uid) -> bool {
        match self {
            Wins::Highest => a > b,
            Wins::Lowest => a < b,
        }
    }

    #[inline]
    pub fn better(self, a: Uid, b: Uid) -> Uid {
        if self.beats(b, a) { b } else { a }
    }

    /// The uid that beats all others; `None` if there is none.
    pub fn best(self, of: impl IntoIterator<Item = Uid>) -> Option<Uid> {
        of.into_iter().reduce(|a, b| self.better(a, b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_outranks_id_and_id_breaks_ties() {
        let low_id_high_priority = Uid { priority: 2, id: NodeId(1) };
        let high_id = Uid { priority: 1, id: NodeId(9) };
        assert!(Wins::Highest.beats(low_id_high_priority, high_id));
        assert!(Wins::Lowest.beats(high_id, low_id_high_priority));
        assert!(Wins::Highest.beats(Uid::plain(2), Uid::plain(1)));
        assert!(!Wins::Highest.beats(Uid::plain(2), Uid::plain(2)));
        assert_eq!(Wins::Lowest.best([3, 1, 2].map(Uid::plain)), Some(Uid::plain(1)));
    }
}
