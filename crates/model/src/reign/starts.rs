//! The initial states of a model.

use types::{Change, Listed, MemberList, PeerRole, Stamp};

use super::{
    Action, Arc, BTreeSet, Budget, Cause, Epoch, Extent, Flight, Incarnation, Msg, Node, OnClose, Probes, QuorumModel,
    ReignCommand, ReignTimer, Settings, State, Subject, Uid, View, Vote, VoterRecord,
};

/// `lease` is in ticks.
impl<P: Subject> QuorumModel<P> {
    /// A new cluster: all disks are empty and all members have just started.
    pub fn cold(lease: u8, budget: Budget) -> Self {
        Self::begun_with(3, 3, lease, budget, None)
    }

    /// Nothing was ever granted, and all voters know that.
    pub fn free(lease: u8, budget: Budget) -> Self {
        Self::of(3, lease, budget)
    }

    /// The same with this many voters.
    pub fn of(voters: usize, lease: u8, budget: Budget) -> Self {
        Self::with_spares(voters, voters, lease, budget)
    }

    /// The same with this many voters among so many members; the others may be added to the list.
    pub fn with_spares(voters: usize, members: usize, lease: u8, budget: Budget) -> Self {
        let settings = Settings::default();
        let vote = Vote {
            epoch: Epoch(0),
            holder: None,
            longest_lease: settings.timing.lease,
            list: Arc::default(),
            locks: member::reign::LockPast::default(),
        };
        let record = VoterRecord { incarnation: Incarnation::default(), vote: Some(vote), cluster: None };
        let mut model = Self::begun_with(members, voters, lease, budget, Some(&record));
        for node in 0..members {
            model.go(node, Cause::Fires(ReignTimer::Settle));
        }
        model
    }

    /// Three voters, of which the first leads.
    pub fn led(lease: u8, budget: Budget) -> Self {
        Self::free(lease, budget).led_by_the_first()
    }

    /// The first member leads with the votes of all, and nothing is under way.
    #[must_use]
    pub fn led_by_the_first(mut self) -> Self {
        self.go(0, Cause::Told(ReignCommand::Want));
        self.go(0, Cause::Assented);
        while let Some(Flight { to, from, message }) = self.initial.flying.pop_first() {
            self.go(to, Cause::Receives { from, message, again: false });
        }
        assert!(self.initial.nodes[0].claim.is_some(), "the first member leads");
        self
    }

    /// From now on the voters agree on an id of the cluster.
    #[must_use]
    pub fn named(mut self) -> Self {
        self.settings.names_cluster = true;
        self
    }

    /// The first member leads and knows the id as agreed; the others have not heard that yet, and perhaps never will.
    #[must_use]
    pub fn named_by_the_first(mut self) -> Self {
        self = self.named();
        self.go(0, Cause::Fires(ReignTimer::Renew));
        let agreed = |state: &State<P>| {
            state.nodes[0].disk.as_ref().and_then(|record| record.cluster).is_some_and(|mark| mark.agreed)
        };
        while !agreed(&self.initial) {
            let Flight { to, from, message } = self.initial.flying.pop_first().expect("the voters answer");
            self.go(to, Cause::Receives { from, message, again: false });
        }
        self.initial.flying.clear();
        self
    }

    /// From now on voters take a closed connection for the end of a leader.
    #[must_use]
    pub fn freed_by_closing(mut self) -> Self {
        self.settings.on_close = OnClose::Immediate;
        self
    }

    /// The first `voters` of these members are in the first list.
    fn begun_with(members: usize, voters: usize, lease: u8, budget: Budget, disk: Option<&VoterRecord>) -> Self {
        let uids: Vec<Uid> = (1..=members as u32).map(Uid::plain).collect();
        let first = Arc::new(MemberList { stamp: Stamp::FIRST, members: uids[..voters].iter().map(voter).collect() });
        let settings = Settings { list: Arc::clone(&first), ..Settings::default() };
        let initial = State {
            nodes: (0..members).map(|_| Arc::new(Node::new(disk.cloned()))).collect(),
            flying: BTreeSet::new(),
            ends: BTreeSet::new(),
            left: budget,
            starts: 1,
            announced_leaders: BTreeSet::new(),
            ballots: BTreeSet::new(),
            in_force: BTreeSet::new(),
            lists: BTreeSet::new(),
        };
        let mut model = QuorumModel {
            view: View::mesh(uids),
            settings,
            budget,
            probes: Probes::Assumed,
            refusals: false,
            changes: Vec::new(),
            lease,
            first,
            only: None,
            initial,
        };
        for node in 0..members {
            model.go(node, Cause::Restarts);
        }
        model
    }

    /// A step towards the initial state: costs nothing.
    fn go(&mut self, node: usize, cause: Cause) {
        self.initial = self.perform(&self.initial, Action::Step { node, cause, extent: Extent::Whole });
        self.initial.left = self.budget;
    }
}

/// A voter of a list. Addresses do not matter here.
pub fn voter(&uid: &Uid) -> Listed {
    Listed { uid, role: PeerRole::Member, address: String::new() }
}

/// A step of a way to an initial state. Members are positions, as everywhere in the model.
#[derive(Clone, PartialEq, Debug)]
pub enum Script {
    /// This member wants to lead, and would be granted it.
    Stand(usize),
    /// All that the first has sent to the second arrives, and the answers to it.
    Exchange(usize, usize),
    /// Everything under way is lost.
    Lose,
    Tick,
    /// Until no promise and no lease runs.
    Idle,
    /// The operator tells this member.
    Change(usize, Change),
    Renew(usize),
    Crash(usize),
    Restart(usize),
    /// Restarts without its disk.
    Wipe(usize),
    /// The first member has reported to the second one that it knows what was granted.
    Reports(usize, usize),
}

impl<P: Subject> QuorumModel<P> {
    /// The model from the state that these steps lead to.
    #[must_use]
    pub fn after(mut self, steps: &[Script]) -> Self {
        for step in steps {
            self.follow(step);
        }
        self
    }

    fn follow(&mut self, step: &Script) {
        match *step {
            Script::Stand(node) => {
                self.go(node, Cause::Told(ReignCommand::Want));
                self.go(node, Cause::Assented);
            }
            Script::Exchange(a, b) => {
                let between =
                    |flight: &&Flight| (flight.from, flight.to) == (a, b) || (flight.from, flight.to) == (b, a);
                while let Some(Flight { to, from, message }) = self.initial.flying.iter().find(between).cloned() {
                    self.go(to, Cause::Receives { from, message, again: false });
                }
            }
            Script::Lose => self.initial.flying.clear(),
            Script::Tick => self.tick(),
            Script::Idle => {
                while self.initial.nodes.iter().any(|node| node.counts()) {
                    self.tick();
                }
            }
            Script::Change(node, ref change) => self.go(node, Cause::Told(ReignCommand::Change(change.clone()))),
            Script::Renew(node) => self.go(node, Cause::Fires(ReignTimer::Renew)),
            Script::Crash(node) => {
                self.initial = self.perform(&self.initial, Action::Crash { node, written: false });
                self.initial.left = self.budget;
            }
            Script::Restart(node) => self.go(node, Cause::Restarts),
            Script::Wipe(node) => self.go(node, Cause::RestartsBlank),
            Script::Reports(node, to) => {
                let list = Arc::clone(&self.first);
                let message = Msg::List { list, blank: false, in_force: false };
                self.go(to, Cause::Receives { from: node, message, again: false });
            }
        }
    }

    fn tick(&mut self) {
        self.initial = self.perform(&self.initial, Action::Tick { stalled: None });
        self.initial.left = self.budget;
        let due = |node: &Node<P>| node.timers().find(|&(_, left)| left == Some(0)).map(|(timer, _)| timer);
        while let Some((at, timer)) =
            self.initial.nodes.iter().enumerate().find_map(|(at, node)| due(node).map(|timer| (at, timer)))
        {
            self.go(at, Cause::Fires(timer));
        }
    }
}
