//! Whether this member takes part in elections: at its start, after it stepped down, and which winners are left out.

use std::time::Duration;

use algorithms::View;

use crate::positions::{FullPos, NodeSet};

/// How long a member that stepped down does not stand for election.
pub const ABSTAIN: Duration = Duration::from_secs(10);
/// How long a winner that never came to lead is left out.
pub const FORGIVE: Duration = Duration::from_secs(5);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Candidacy {
    startup: Startup,
    /// Stepped down; does not stand for election for a while.
    rest: Option<Rest>,
    /// Stands although an operator let it rest, because no other member could lead.
    last_resort: bool,
    /// Leads, may only lead with children, and has none: it gives its leadership away.
    gives_way: bool,
    /// The last value of `stands` that was sent to the other members.
    told_stands: bool,
    /// Winners that never came to lead: left out for a while.
    passed_over: NodeSet,
}

/// Why a member does not stand for a while.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Rest {
    /// It stepped down: until another member leads, and [`ABSTAIN`] longer.
    Brief,
    /// For a time that an operator chose, unless no other member can lead. From then on it stands until a member leads: two
    /// resting members that each stand while the other does not would change places for ever.
    Ordered,
}

/// The first election of a process.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Startup {
    /// The first election waits for all members until this is set.
    started: bool,
    /// Other members may still be starting: a refused dial is not a death yet.
    grace: bool,
    /// Another member follows a leader that this member cannot follow yet.
    others_follow: bool,
}

impl Default for Candidacy {
    fn default() -> Self {
        Candidacy {
            startup: Startup { started: false, grace: true, others_follow: false },
            rest: None,
            last_resort: false,
            gives_way: false,
            told_stands: true,
            passed_over: NodeSet::default(),
        }
    }
}

impl Candidacy {
    pub(crate) fn has_started(&self) -> bool {
        self.startup.started
    }

    pub(crate) fn start(&mut self) {
        self.startup.started = true;
    }

    pub(crate) fn in_grace(&self) -> bool {
        self.startup.grace
    }

    pub(crate) fn end_grace(&mut self) {
        self.startup.grace = false;
    }

    pub(crate) fn others_follow(&self) -> bool {
        self.startup.others_follow
    }

    pub(crate) fn hear_of_leader(&mut self) {
        self.startup.others_follow = true;
    }

    pub(crate) fn rest(&self) -> Option<Rest> {
        self.rest
    }

    pub(crate) fn begin_rest(&mut self, rest: Rest) {
        self.rest = Some(rest);
    }

    /// Returns the rest that ends.
    pub(crate) fn stand_again(&mut self) -> Option<Rest> {
        self.rest.take()
    }

    pub(crate) fn is_last_resort(&self) -> bool {
        self.last_resort
    }

    pub(crate) fn set_last_resort(&mut self, last_resort: bool) {
        self.last_resort = last_resort;
    }

    /// Whether this member must give way is told at every step; true the first time that it must.
    pub(crate) fn give_way(&mut self, must: bool) -> bool {
        let did = std::mem::replace(&mut self.gives_way, must);
        must && !did
    }

    pub(crate) fn told_stands(&self) -> bool {
        self.told_stands
    }

    /// False if the other members were sent this value already.
    pub(crate) fn tell_stands(&mut self, stands: bool) -> bool {
        std::mem::replace(&mut self.told_stands, stands) != stands
    }

    pub(crate) fn passes_over(&self, at: FullPos) -> bool {
        self.passed_over.contains(at)
    }

    pub(crate) fn pass_over(&mut self, at: FullPos) {
        self.passed_over.insert(at);
    }

    /// The view has changed.
    pub(crate) fn reseat(&mut self, old: &View, new: &View) {
        self.passed_over = self.passed_over.reseated(old, new);
    }

    pub(crate) fn take_passed_over(&mut self) -> NodeSet {
        std::mem::take(&mut self.passed_over)
    }
}
