//! Child processes that depend on this member's leadership (`ctl lead`). Before leadership is given away they are told
//! to stop, and it waits until they have: the next leader's work does not overlap theirs.

use std::time::Duration;

/// A child that has not stopped by then is hung, and the deadline of its guard must do. Never less than a lease.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Children {
    attached: bool,
    /// They were told to stop.
    stopping: bool,
}

impl Children {
    pub(crate) fn attach(&mut self, attached: bool) {
        self.attached = attached;
        self.stopping &= attached;
    }

    pub(crate) fn are_stopping(&self) -> bool {
        self.stopping
    }

    /// False if they were told already.
    pub(crate) fn stop(&mut self) -> bool {
        !std::mem::replace(&mut self.stopping, true)
    }

    pub(crate) fn patience(lease: Duration) -> Duration {
        PATIENCE.max(lease)
    }
}
