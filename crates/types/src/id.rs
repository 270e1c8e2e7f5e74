//! Node ids, uids, epochs and the values derived from them.

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

/// The number of a reign. Never decreases at a member, restarts included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The largest epoch that a [`Token`] has room for.
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

/// A fencing token: a resource that refuses smaller tokens than it has seen is safe from deposed leaders.
///
/// `epoch << 28 | n`, below 2^63. No two leaders share an epoch, so the leader's own token needs no id: its `n` is 0,
/// and tokens that it issues under its reign count from 1. Tokens exceed 2^53: JSON carries them as decimal strings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Token(pub u64);

impl Token {
    /// How many bits `n` has.
    const COUNT_BITS: u32 = 28;
    /// The largest `n`.
    pub const COUNT_MAX: u32 = (1 << Self::COUNT_BITS) - 1;

    /// The token of the leader of this epoch.
    pub const fn leader(epoch: Epoch) -> Self {
        Token::new(epoch, 0)
    }

    /// The epoch of the leader that issued it.
    pub const fn epoch(self) -> Epoch {
        Epoch(self.0 >> Self::COUNT_BITS)
    }

    /// The n-th token of a reign. A value without room counts as the largest value that has room: a token too many
    /// equals another one and is never smaller.
    pub const fn new(epoch: Epoch, n: u32) -> Self {
        let epoch = if epoch.0 > Epoch::MAX.0 { Epoch::MAX.0 } else { epoch.0 };
        let n = if n > Self::COUNT_MAX { Self::COUNT_MAX } else { n };
        Token(epoch << Self::COUNT_BITS | n as u64)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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

    #[test]
    fn a_token_is_the_epoch_and_28_bits_that_are_0_for_the_leader() {
        assert_eq!(Token::leader(Epoch(1)), Token(1 << 28));
        assert_eq!(Token::leader(Epoch(7)), Token::new(Epoch(7), 0));
        assert_eq!(Token::new(Epoch(7), 5), Token(7 << 28 | 5));
        assert_eq!(Token::new(Epoch(7), 5).epoch(), Epoch(7));
        assert_eq!(Token::new(Epoch(7), 5).to_string(), (7 * 268_435_456 + 5).to_string());
    }

    #[test]
    fn tokens_order_by_epoch_and_then_by_count() {
        assert!(Token::leader(Epoch(2)) > Token::new(Epoch(1), Token::COUNT_MAX));
        assert!(Token::new(Epoch(2), 1) > Token::leader(Epoch(2)));
        assert!(Token::new(Epoch(2), 2) > Token::new(Epoch(2), 1));
    }

    #[test]
    fn no_token_reaches_2_to_the_63_nor_gets_smaller_for_want_of_room() {
        let largest = Token::new(Epoch::MAX, Token::COUNT_MAX);
        assert_eq!(largest, Token((1 << 63) - 1));
        assert_eq!(Token::new(Epoch(u64::MAX), u32::MAX), largest);
        assert_eq!(Token::leader(Epoch::MAX.next()), Token::leader(Epoch::MAX));
        assert_eq!(Token::new(Epoch(1), Token::COUNT_MAX + 1), Token::new(Epoch(1), Token::COUNT_MAX));
    }
}
