//! Randomness from a seed: splitmix64 to spread the seed, xoshiro256** to draw.

use algorithms::drive::Dice;

/// The same seed gives the same words on every machine, for ever: no library update may change them.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    pub fn new(seed: u64) -> Self {
        let mut spread = Dice(seed);
        Rng(std::array::from_fn(|_| spread.roll()))
    }

    /// An independent stream: draws from one do not move the other.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Rng::new(self.word())
    }

    #[inline]
    pub fn word(&mut self) -> u64 {
        let s = &mut self.0;
        let word = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        word
    }

    /// A number below `limit`, which must not be 0.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(limit)) >> 64) as u64
    }

    /// Both ends included.
    pub fn between(&mut self, min: u64, max: u64) -> u64 {
        min + self.below(max - min + 1)
    }

    /// True `percent` times out of a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

/// The word at a position of the seed's stream.
#[inline]
pub(crate) fn word_at(seed: u64, place: u64) -> u64 {
    Dice(seed.rotate_left(32) ^ place.wrapping_mul(0xd134_2543_de82_ef95)).roll()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_range_and_reach_both_ends() {
        let mut rng = Rng::new(1);
        let drawn: std::collections::BTreeSet<u64> = (0..200).map(|_| rng.between(3, 7)).collect();
        assert_eq!(drawn, (3..=7).collect());
    }

    #[test]
    fn a_shuffle_keeps_all_items() {
        let mut items: Vec<u32> = (0..50).collect();
        Rng::new(9).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
