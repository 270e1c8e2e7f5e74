//! Fencing tokens.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Epoch;

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
