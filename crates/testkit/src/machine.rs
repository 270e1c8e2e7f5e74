//! Which clusters may run at the same time: any number of them, or one that has the machine alone.
//!
//! A file lock, because nextest runs every test in a process of its own and `cargo test` runs them in threads of one.

use std::fs::File;

use rustix::fs::{FlockOperation, flock};

use crate::binaries::profile_directory;

/// Held while a cluster runs.
#[derive(Debug)]
pub(crate) struct Machine {
    _lock: File,
}

impl Machine {
    /// Beside any number of other clusters, and never beside one that is alone.
    pub(crate) fn shared() -> Self {
        Self::lock(FlockOperation::LockShared)
    }

    /// Waits for the end of all clusters of other tests.
    pub(crate) fn alone() -> Self {
        Self::lock(FlockOperation::LockExclusive)
    }

    fn lock(how: FlockOperation) -> Self {
        let path = profile_directory().join("test-clusters.lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = lock.unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display()));
        flock(&lock, how).unwrap_or_else(|error| panic!("cannot lock {}: {error}", path.display()));
        Machine { _lock: lock }
    }
}
