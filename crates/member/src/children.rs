//! Child processes that depend on this member's leadership (`ctl lead`). Before a member gives leadership away it tells
//! its children to stop and waits for them: the work of the next leader's children does not overlap theirs.

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

    pub(crate) fn are_attached(&self) -> bool {
        self.attached
    }

    pub(crate) fn are_stopping(&self) -> bool {
        self.stopping
    }

    /// False if they were told to stop before.
    pub(crate) fn stop(&mut self) -> bool {
        !std::mem::replace(&mut self.stopping, true)
    }
}
