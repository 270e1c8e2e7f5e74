//! The reign around the lock services, and what happens to members and their connections.

use algorithms::Input;
use locks::central::{CentralMsg, Chunk, Term};

use super::steps::seconds;
use super::{
    BTreeMap, Breach, Central, Grantee, Item, LockModel, Office, Reign, ServiceCommand, State, StreamId, Subject,
    VecDeque,
};
use types::{Epoch, Incarnation};

impl<P: Subject> LockModel<P> {
    pub(super) fn holder(&self, state: &State<P>, node: usize) -> Grantee {
        let counter = state.nodes[node].life;
        Grantee { id: self.id(node), incarnation: Incarnation { counter, nonce: node as u64 } }
    }

    /// Is this voter bound to another holder than this one?
    pub(super) fn is_bound(state: &State<P>, voter: usize, holder: Grantee) -> bool {
        let binds = |reign: &Reign| reign.holder != holder && reign.granted.contains_key(&voter);
        state.lease.iter().chain(&state.bid).any(binds)
    }

    pub(super) fn bid(&self, state: &mut State<P>, node: usize) {
        state.left.bids[node] = state.left.bids[node].saturating_sub(1);
        state.epoch = Epoch(state.epoch.0 + 1);
        let (epoch, holder, left) = (state.epoch, self.holder(state, node), self.times.lease);
        state.bid = Some(Reign { epoch, at: node, holder, left, granted: BTreeMap::new() });
        self.grant(state, node, false);
    }

    /// A voter that grants another member's bid knows that it leads no more.
    pub(super) fn grant(&self, state: &mut State<P>, voter: usize, won: bool) {
        let offer = if won { &state.lease } else { &state.bid };
        let Some(Reign { epoch, holder, at, .. }) = offer.clone() else { return };
        if at != voter {
            self.end_office(state, voter);
        }
        let copies = state.central(voter).is_some_and(|central| central.keeper().copy().is_some());
        if let Some(offer) = if won { &mut state.lease } else { &mut state.bid } {
            offer.granted.insert(voter, copies);
        }
        let disk = state.node(voter);
        disk.only_holder = disk.granted.is_none_or(|(_, before)| disk.only_holder && before == holder);
        disk.granted = Some((epoch, holder));
        self.tell(state, voter, ServiceCommand::Granted { epoch, to: holder });
    }

    pub(super) fn confirm(&self, state: &mut State<P>, voter: usize) {
        if let Some((epoch, to)) = state.nodes[voter].granted {
            self.tell(state, voter, ServiceCommand::Granted { epoch, to });
        }
    }

    pub(super) fn win(&self, state: &mut State<P>) {
        let Some(won) = state.bid.take() else { return };
        let (at, epoch, wait) = (won.at, won.epoch, self.times.ttl);
        let first = won.granted.keys().all(|&voter| state.nodes[voter].only_holder);
        state.lease = Some(won);
        state.node(at).office = Some(Office { epoch, first, wait, may_change: false });
        let voters = self.voters(state);
        self.tell(state, at, ServiceCommand::Voters(voters));
        self.tell(state, at, ServiceCommand::OfficeBegan { epoch, first, wait: seconds(wait) });
    }

    pub(super) fn renew(&self, state: &mut State<P>) {
        state.left.renewals -= 1;
        if let Some(lease) = &mut state.lease {
            lease.left = self.times.lease;
        }
    }

    pub(super) fn end_office(&self, state: &mut State<P>, node: usize) {
        if state.node(node).office.take().is_some() {
            self.tell(state, node, ServiceCommand::OfficeEnded);
        }
    }

    pub(super) fn step_down(&self, state: &mut State<P>, node: usize) {
        state.left.step_downs -= 1;
        self.end_office(state, node);
        state.lease = None;
    }

    pub(super) fn change(&self, state: &mut State<P>) {
        state.left.changes -= 1;
        state.list += 1;
        let voters = self.voters(state);
        if let Some(at) = state.lease.as_ref().map(|lease| lease.at) {
            self.tell(state, at, ServiceCommand::Voters(voters));
        }
    }

    /// The lease of a leader that crashes may end at once: voters may take a closed connection for the end of a leader.
    pub(super) fn crash(&self, state: &mut State<P>, node: usize) {
        state.left.crashes -= 1;
        for peer in (0..state.nodes.len()).filter(|&peer| peer != node) {
            state.wires.remove(&(node, peer));
            if state.nodes[peer].driver.is_some() {
                state.wires.entry((peer, node)).or_default().push_back(Item::Down);
            }
        }
        let of = |reign: &mut Reign| reign.at == node;
        state.lease.take_if(of);
        state.bid.take_if(of);
        for stream in state.streams.values_mut().filter(|stream| stream.node == node) {
            (stream.up, stream.gone) = (VecDeque::new(), true);
        }
        state.streams.retain(|_, stream| !(stream.gone && stream.closed));
        let lost = state.central(node).and_then(|central| central.keeper().copy()).map(|copy| copy.label);
        let at = state.node(node);
        (at.driver, at.office) = (None, None);
        at.lost = lost.filter(|_| self.breach == Some(Breach::RestartKeepsLabel));
    }

    pub(super) fn restart(&self, state: &mut State<P>, node: usize) {
        state.left.restarts -= 1;
        let at = state.node(node);
        at.life += 1;
        let (life, lost) = (at.life, at.lost.take());
        at.driver = Some(self.start(node, life));
        if let Some(label) = lost {
            self.install_nothing(state, node, label);
        }
        for peer in (0..state.nodes.len()).filter(|&peer| peer != node && state.nodes[peer].driver.is_some()) {
            state.wires.entry((peer, node)).or_default().push_back(Item::Up);
            state.wires.entry((node, peer)).or_default().push_back(Item::Up);
        }
    }

    /// A planted bug: the restarted member has an empty table under its old label.
    fn install_nothing(&self, state: &mut State<P>, node: usize, label: locks::central::Label) {
        let peer = self.id((node + 1) % state.nodes.len());
        let incarnation = Incarnation { counter: u64::MAX, nonce: u64::MAX };
        let term = Term { epoch: label.epoch, life: incarnation };
        let chunk = Chunk { after: None, entries: Vec::new(), last: true };
        let to = Grantee { id: peer, incarnation };
        self.tell(state, node, ServiceCommand::Granted { epoch: label.epoch, to });
        let message = CentralMsg::Install { term, seq: label.seq, chunk };
        self.step(state, node, Input::Message { from: peer, message });
        // What it said to that clerk is not meant.
        state.wires.remove(&(self.position(peer), node));
    }

    /// What is in flight is lost, and both members see the end and the new connection.
    pub(super) fn break_connection(state: &mut State<P>, one: usize, other: usize) {
        state.left.breaks -= 1;
        for wire in [(one, other), (other, one)] {
            state.wires.insert(wire, VecDeque::from([Item::Down, Item::Up]));
        }
    }

    /// Streams that members can read.
    pub(super) fn audible(state: &State<P>) -> impl Iterator<Item = StreamId> + '_ {
        let readable =
            state.streams.iter().filter(|(_, stream)| !stream.gone && (!stream.up.is_empty() || stream.closed));
        readable.map(|(&id, _)| id)
    }

    /// A restarted voter whose service does not know yet what is on its disk.
    pub(super) fn is_unconfirmed(state: &State<P>, voter: usize) -> bool {
        let Some(lease) = &state.lease else { return false };
        let on_disk = state.nodes[voter].granted == Some((lease.epoch, lease.holder));
        let told = state.central(voter).map(Central::keeper).is_some_and(|keeper| keeper.granted().is_some());
        on_disk && !told && state.nodes[voter].driver.is_some() && lease.at != voter
    }
}
