//! One process of a simulated cluster: its machine and its open effects, its disk, its child, its dials.

use std::sync::Arc;
use std::time::Duration;

use algorithms::Epoch;
use algorithms::drive::Driver;
use member::reign::Holder;
use member::{NodeSet, Settings, Standing};
use types::MemberList;

use super::disk::Disk;
use super::subject::Subject;

#[derive(Debug)]
pub(crate) struct Process<S: Subject> {
    /// `None`: dead.
    pub driver: Option<Driver<S, u64>>,
    /// Counts its starts; events for an earlier start are void.
    pub start: u32,
    /// Those of the run, with the time of this process's latest write.
    pub settings: Settings,
    pub paused: bool,
    pub disk: Disk<S>,
    /// By how many millionths NTP makes the machine's bendable clock run fast; outlives the process.
    pub slew_ppm: i64,
    /// The priority that it was told, which outlives the process; `None`: that of the list.
    pub priority: Option<u32>,
    /// When the world next fires its timers.
    pub wakes_at: Option<u64>,
    /// Dies when it has carried out this many more effects.
    pub doom: Option<u64>,
    pub dials: Dials,
    /// Its last announcement; `None` while it is dead.
    pub standing: Option<Standing>,
    /// Since when its voter is settled.
    pub settled_since: Option<u64>,
    /// Until when it may claim to lead.
    pub lease_until: u64,
    /// The list in force of its last leadership: a machine that leads no more has forgotten it while its announcement waits
    /// for the disk, and a child may act after its process has ended.
    pub in_force: Option<Arc<MemberList>>,
    pub child: Child,
    /// A child of an earlier leadership that acts until its lease ends, even if the process has ended.
    pub orphan: Option<Orphan>,
}

/// Connections this process wants and has.
#[derive(Debug)]
pub(crate) struct Dials {
    pub wanted: NodeSet,
    /// Failed dials in a row, by peer.
    pub failed: Vec<u32>,
    pub under_way: Vec<bool>,
    /// The incarnation of each peer, when it was connected.
    pub holders: Vec<Option<Holder>>,
}

/// A child process that depends on this member's leadership.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Child {
    None,
    /// Waits until a majority of the voters knows of it.
    Waits,
    /// Acts while the member leads.
    Acts,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Orphan {
    pub holder: Holder,
    pub epoch: Epoch,
    pub until: u64,
}

impl<S: Subject> Process<S> {
    pub(crate) fn new(nodes: usize, settings: Settings) -> Self {
        Process {
            driver: None,
            start: 0,
            settings,
            paused: false,
            disk: Disk::default(),
            slew_ppm: 0,
            priority: None,
            wakes_at: None,
            doom: None,
            dials: Dials {
                wanted: NodeSet::default(),
                failed: vec![0; nodes],
                under_way: vec![false; nodes],
                holders: vec![None; nodes],
            },
            standing: None,
            settled_since: None,
            lease_until: 0,
            in_force: None,
            child: Child::None,
            orphan: None,
        }
    }

    pub(crate) fn machine(&self) -> Option<&S> {
        self.driver.as_ref().map(Driver::machine)
    }

    pub(crate) fn runs(&self) -> bool {
        self.driver.is_some() && !self.paused
    }

    /// All that is lost with the process. Of the writes under way the first `survive` reach the disk.
    pub(crate) fn die(&mut self, survive: usize) {
        self.driver = None;
        self.settings.from_driver.write_time = Duration::ZERO;
        self.paused = false;
        self.disk.lose_writes(survive);
        self.wakes_at = None;
        self.doom = None;
        self.dials.wanted = NodeSet::default();
        self.dials.failed.fill(0);
        self.dials.under_way.fill(false);
        self.standing = None;
        self.lease_until = 0;
        self.settled_since = None;
        self.child = Child::None;
    }
}
