//! Where a model begins.

use super::{
    Action, Arc, BTreeSet, Budget, Cause, Clock, Epoch, Flight, Incarnation, Node, Order, PhantomData, PreCheck, Realm,
    Safety, Settings, State, Subject, Tenure, Uid, View, Vote,
};

/// Voters.
const N: usize = 3;

/// `lease` is in ticks.
impl<P: Subject> Realm<P> {
    /// A new cluster: all disks are empty and everybody has just started.
    pub fn cold(lease: u8, budget: Budget) -> Self {
        Self::begun(lease, budget, None)
    }

    /// Nothing was ever granted, and everybody knows that.
    pub fn free(lease: u8, budget: Budget) -> Self {
        let settings = Settings::default();
        let vote = Vote { epoch: Epoch(0), holder: None, longest_lease: settings.timing.lease };
        let mut realm = Self::begun(lease, budget, Some(Tenure { life: Incarnation::default(), vote: Some(vote) }));
        for node in 0..N {
            realm.go(node, Cause::Fires(Clock::Settle));
        }
        realm
    }

    /// The first member leads with the votes of all, and nothing is under way.
    pub fn ruled(lease: u8, budget: Budget) -> Self {
        let mut realm = Self::free(lease, budget);
        realm.go(0, Cause::Told(Order::Want));
        realm.go(0, Cause::Assented);
        while let Some(Flight { to, from, message }) = realm.initial.flying.pop_first() {
            realm.go(to, Cause::Receives { from, message, again: false });
        }
        assert!(realm.initial.nodes[0].claim.is_some(), "the first member leads");
        realm
    }

    fn begun(lease: u8, budget: Budget, disk: Option<Tenure>) -> Self {
        let uids = (1..=N as u32).map(Uid::plain).collect();
        let settings = Settings { safety: Safety::Quorum, ..Settings::default() };
        let initial = State {
            nodes: (0..N).map(|_| Arc::new(Node::new(disk))).collect(),
            flying: BTreeSet::new(),
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
        for node in 0..N {
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
