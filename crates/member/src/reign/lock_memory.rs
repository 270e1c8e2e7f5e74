//! What a voter remembers for the lock service: how long sessions of earlier reigns may live, and whether there can be any.

use std::time::Duration;

use super::LockPast;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct LockMemory {
    past: LockPast,
    /// No process has ever led by grants of this voter: the only one that it granted to has given up. Not on disk.
    never_led: bool,
}

impl LockMemory {
    pub(super) fn start(stored: LockPast, lock_ttl_max: Duration) -> Self {
        let longest_ttl = stored.longest_ttl.max(lock_ttl_max);
        LockMemory { past: LockPast { longest_ttl, ..stored }, never_led: false }
    }

    pub(super) fn past(&self) -> LockPast {
        self.past
    }

    /// The voter grants an epoch. `first`: it has never granted one. `same`: to the same process as before.
    pub(super) fn grant(&mut self, first: bool, same: bool) {
        let never = first || std::mem::take(&mut self.never_led);
        let only = never || (self.past.only_holder && same);
        self.past.only_holder = only && !self.past.longest_ttl.is_zero();
    }

    /// The holder of the last grant has given up, and has never led.
    pub(super) fn abandoned(&mut self) {
        self.never_led = self.past.only_holder;
    }
}
