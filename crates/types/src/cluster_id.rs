//! The identity of one cluster's history.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Dice;

/// A random number that the voters of a cluster agree on once. Two volumes with different numbers belong to two
/// different histories: their epochs and runs cannot be compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ClusterId(pub u128);

impl ClusterId {
    /// From one random word. `salt` keeps the ids of two members apart even where both drew the same word.
    pub fn from_dice(word: u64, salt: u64) -> Self {
        let mut dice = Dice(word ^ Dice(salt).roll());
        ClusterId(u128::from(dice.roll()) << 64 | u128::from(dice.roll()))
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_members_with_the_same_random_word_make_two_ids() {
        let (one, two) = (ClusterId::from_dice(7, 1), ClusterId::from_dice(7, 2));
        assert_ne!(one, two);
        assert_eq!(one, ClusterId::from_dice(7, 1));
        assert_eq!(one.to_string().len(), 32);
        assert_eq!(ClusterId(0xab).to_string(), format!("{}ab", "0".repeat(30)));
    }
}
