//! A stream of random words from a seed (splitmix64): fair enough for jitter, schedules and nonces.

/// Bytes at the limits of integers on the wire.
const EDGES: &[u8] = &[0, 1, 2, 127, 128, 250, 251, 252, 253, 254, 255];

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Dice(pub u64);

impl Dice {
    #[inline]
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of `0..n`; 0 if there is none.
    pub fn below(&mut self, n: usize) -> usize {
        (self.roll() % n.max(1) as u64) as usize
    }

    /// An honest frame with a few bytes flipped, replaced by limits of integers, removed, added, cut off or repeated:
    /// for tests of parsers.
    pub fn mutated(&mut self, honest: &[u8]) -> Vec<u8> {
        let mut bytes = honest.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(6) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                1 if !bytes.is_empty() => bytes[at] = EDGES[self.below(EDGES.len())],
                2 if !bytes.is_empty() => _ = bytes.remove(at),
                3 => bytes.insert(at, self.below(256) as u8),
                4 => bytes.truncate(at),
                _ => {
                    let piece = bytes[at..].to_vec();
                    bytes.extend_from_slice(&piece[..piece.len().min(64)]);
                }
            }
        }
        bytes
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_gives_its_published_first_words() {
        let mut dice = Dice(1_234_567);
        let words = std::array::from_fn(|_| dice.roll());
        assert_eq!(words, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
