//! The initial states of a model.

use super::{
    Action, Arc, BTreeSet, Budget, Cause, Epoch, Extent, Flight, Incarnation, Node, OnClose, PhantomData, Probes,
    QuorumModel, ReignCommand, ReignTimer, Settings, State, Subject, Uid, View, Vote, VoterRecord,
};

/// `lease` is in ticks.
impl<P: Subject> QuorumModel<P> {
    /// A new cluster: all disks are empty and all members have just started.
    pub fn cold(lease: u8, budget: Budget) -> Self {
        Self::begun(3, lease, budget, None)
    }

    /// Nothing was ever granted, and all voters know that.
    pub fn free(lease: u8, budget: Budget) -> Self {
        Self::of(3, lease, budget)
    }

    /// The same with this many voters.
    pub fn of(voters: usize, lease: u8, budget: Budget) -> Self {
        let settings = Settings::default();
        let vote = Vote { epoch: Epoch(0), holder: None, longest_lease: settings.timing.lease };
        let record = VoterRecord { incarnation: Incarnation::default(), vote: Some(vote), cluster: None };
        let mut model = Self::begun(voters, lease, budget, Some(record));
        for node in 0..voters {
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
        let agreed =
            |state: &State<P>| state.nodes[0].disk.and_then(|record| record.cluster).is_some_and(|mark| mark.agreed);
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

    fn begun(voters: usize, lease: u8, budget: Budget, disk: Option<VoterRecord>) -> Self {
        let uids = (1..=voters as u32).map(Uid::plain).collect();
        let settings = Settings::default();
        let initial = State {
            nodes: (0..voters).map(|_| Arc::new(Node::new(disk))).collect(),
            flying: BTreeSet::new(),
            ends: BTreeSet::new(),
            left: budget,
            starts: 1,
            announced_leaders: BTreeSet::new(),
            ballots: BTreeSet::new(),
        };
        let mut model = QuorumModel {
            view: View::mesh(uids),
            settings,
            budget,
            probes: Probes::Assumed,
            refusals: false,
            lease,
            only: None,
            initial,
            subject: PhantomData,
        };
        for node in 0..voters {
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
