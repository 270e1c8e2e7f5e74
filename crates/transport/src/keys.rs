//! The map of links by key. Keys are counted up by this process, so no stranger chooses them, and every frame looks for its link
//! several times.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub(crate) type ByKey<T> = HashMap<u64, T, BuildHasherDefault<KeyHasher>>;

#[derive(Default, Debug)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    /// The golden ratio: keys that follow each other are far apart in the upper bits, and differ in the lower ones.
    fn write_u64(&mut self, key: u64) {
        self.0 = (self.0 ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
