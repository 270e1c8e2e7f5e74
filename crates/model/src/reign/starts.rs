//! Where a model begins.

use super::{
    Action, Arc, BTreeSet, Budget, Cause, Clock, Epoch, Flight, Incarnation, Node, OnClose, Order, PhantomData,
    PreCheck, Realm, Safety, Settings, State, Subject, Tenure, Uid, View, Vote,
};

/// `lease` is in ticks.
impl<P: Subject> Realm<P> {
    /// A new cluster: all disks are empty and everybody has just started.
    pub fn cold(lease: u8, budget: Budget) -> Self {
        Self::begun(3, lease, budget, None)
    }

    /// Nothing was ever granted, and everybody knows that.
    pub fn free(lease: u8, budget: Budget) -> Self {
        Self::of(3, lease, budget)
    }

    /// The same with so many voters.
    pub fn of(voters: usize, lease: u8, budget: Budget) -> Self {
        let settings = Settings::default();
        let vote = Vote { epoch: Epoch(0), holder: None, longest_lease: settings.timing.lease };
        let record = Tenure { life: Incarnation::default(), vote: Some(vote) };
        let mut realm = Self::begun(voters, lease, budget, Some(record));
        for node in 0..voters {
            realm.go(node, Cause::Fires(Clock::Settle));
        }
        realm
    }

    /// Three of them, of whom the first leads.
    pub fn ruled(lease: u8, budget: Budget) -> Self {
        Self::free(lease, budget).led()
    }

    /// The first member leads with the votes of all, and nothing is under way.
    #[must_use]
    pub fn led(mut self) -> Self {
        self.go(0, Cause::Told(Order::Want));
        self.go(0, Cause::Assented);
        while let Some(Flight { to, from, message }) = self.initial.flying.pop_first() {
            self.go(to, Cause::Receives { from, message, again: false });
        }
        assert!(self.initial.nodes[0].claim.is_some(), "the first member leads");
        self
    }

    /// From now on voters take a closed connection for the end of a leader.
    #[must_use]
    pub fn freed_by_closing(mut self) -> Self {
        self.settings.on_close = OnClose::Immediate;
        self
    }

    fn begun(voters: usize, lease: u8, budget: Budget, disk: Option<Tenure>) -> Self {
        let uids = (1..=voters as u32).map(Uid::plain).collect();
        let settings = Settings { safety: Safety::Quorum, ..Settings::default() };
        let initial = State {
            nodes: (0..voters).map(|_| Arc::new(Node::new(disk))).collect(),
            flying: BTreeSet::new(),
            ends: BTreeSet::new(),
            left: budget,
            starts: 1,
            crowned: BTreeSet::new(),
            ballots: BTreeSet::new(),
        };
        let mut realm = Realm {
            view: View::mesh(uids),
            settings,
            budget,
            pre_check: PreCheck::Assumed,
            refusals: false,
            lease,
            only: None,
            initial,
            subject: PhantomData,
        };
        for node in 0..voters {
            realm.go(node, Cause::Restarts);
        }
        realm
    }

    /// A step on the way to the first state: costs nothing.
    fn go(&mut self, node: usize, cause: Cause) {
        self.initial = self.perform(&self.initial, Action::Step { node, cause, torn: None });
        self.initial.left = self.budget;
    }
}
