//! One process of a simulated cluster: its machine, its timers, its disk and the effects it still owes.

use std::collections::{BTreeMap, VecDeque};

use algorithms::{NodeId, Outbox, Span};
use member::reign::Holder;
use member::{NodeSet, Standing};

use super::subject::Subject;

#[derive(Debug)]
pub(crate) struct Process<S: Subject> {
    /// `None`: dead.
    pub machine: Option<S>,
    /// Which start this is; what was meant for an earlier one is void.
    pub boot: u32,
    pub paused: bool,
    pub disk: Disk<S>,
    /// In order; behind a barrier they wait.
    pub effects: VecDeque<Effect<S>>,
    pub blocked: bool,
    pub timers: BTreeMap<S::Timer, u64>,
    /// Dies when it has carried out that many more effects.
    pub doom: Option<u64>,
    pub wanted: NodeSet,
    /// Failed dials in a row, by peer.
    pub failed: Vec<u32>,
    pub dialling: Vec<bool>,
    /// What it last announced; nothing while it is dead.
    pub standing: Option<Standing>,
    /// Since when its voter is settled.
    pub settled_since: Option<u64>,
    /// Until when it may claim to lead.
    pub lease_until: u64,
    /// The life of each peer, when it was connected.
    pub lives: Vec<Option<Holder>>,
}

/// Writes are done one after the other; a crash loses some of the last ones.
#[derive(Debug)]
pub(crate) struct Disk<S: Subject> {
    pub record: Option<S::Durable>,
    /// Not yet done, and whether effects wait for it.
    pub writes: VecDeque<(S::Durable, bool)>,
}

#[derive(Debug)]
pub(crate) enum Effect<S: Subject> {
    Send(NodeId, S::Message),
    SetTimer(S::Timer, Span),
    CancelTimer(S::Timer),
    Persist(S::Durable),
    Store(S::Durable),
    Announce(S::Event),
}

impl<S: Subject> Process<S> {
    pub(crate) fn new(nodes: usize) -> Self {
        Process {
            machine: None,
            boot: 0,
            paused: false,
            disk: Disk { record: None, writes: VecDeque::new() },
            effects: VecDeque::new(),
            blocked: false,
            timers: BTreeMap::new(),
            doom: None,
            wanted: NodeSet::default(),
            failed: vec![0; nodes],
            dialling: vec![false; nodes],
            standing: None,
            settled_since: None,
            lease_until: 0,
            lives: vec![None; nodes],
        }
    }

    pub(crate) fn runs(&self) -> bool {
        self.machine.is_some() && !self.paused
    }

    /// All that is lost with the process. Of the writes under way the first `survive` make it to the disk.
    pub(crate) fn die(&mut self, survive: usize) {
        self.machine = None;
        self.paused = false;
        for (record, _) in self.disk.writes.drain(..).take(survive) {
            self.disk.record = Some(record);
        }
        self.effects.clear();
        self.blocked = false;
        self.timers.clear();
        self.doom = None;
        self.wanted = NodeSet::default();
        self.failed.fill(0);
        self.dialling.fill(false);
        self.standing = None;
        self.lease_until = 0;
        self.settled_since = None;
    }
}

/// Takes a step's effects as they come; the world carries them out. A timer that is set anew or cancelled does not
/// fire for its old setting, even while the new one waits behind a barrier.
pub(crate) struct Effects<'a, S: Subject>(pub &'a mut VecDeque<Effect<S>>, pub &'a mut BTreeMap<S::Timer, u64>);

impl<S: Subject> Outbox<S> for Effects<'_, S> {
    fn send(&mut self, to: NodeId, message: S::Message) {
        self.0.push_back(Effect::Send(to, message));
    }

    fn forward(&mut self, to: NodeId, message: S::Message) {
        self.0.push_back(Effect::Send(to, message));
    }

    fn set_timer(&mut self, timer: S::Timer, after: Span) {
        self.1.remove(&timer);
        self.0.push_back(Effect::SetTimer(timer, after));
    }

    fn cancel_timer(&mut self, timer: S::Timer) {
        self.1.remove(&timer);
        self.0.push_back(Effect::CancelTimer(timer));
    }

    fn persist(&mut self, record: S::Durable) {
        self.0.push_back(Effect::Persist(record));
    }

    fn store(&mut self, record: S::Durable) {
        self.0.push_back(Effect::Store(record));
    }

    fn announce(&mut self, event: S::Event) {
        self.0.push_back(Effect::Announce(event));
    }
}
