//! The possible next events.

use super::{Action, Breach, CentralTimer, LockModel, State, Subject};

impl<P: Subject> LockModel<P> {
    pub(super) fn choices(&self, state: &State<P>, actions: &mut Vec<Action>) {
        let mut blocked = vec![false; state.nodes.len()];
        for (at, node) in state.nodes.iter().enumerate() {
            // A leader whose lease has ended ends its office before it fires timers of it.
            let may_fire = |timer: &CentralTimer| {
                !matches!(timer, CentralTimer::Session(_))
                    || state.is_leased(at)
                    || self.breach == Some(Breach::LateExpiry)
            };
            let before = actions.len();
            actions.extend(node.due().filter(may_fire).map(|timer| Action::Fires(at, timer)));
            blocked[at] = actions.len() > before;
        }
        if !blocked.contains(&true) && Self::counts(state) {
            actions.push(Action::Tick);
        }
        for (at, node) in state.nodes.iter().enumerate().filter(|&(at, node)| node.driver.is_some() && !blocked[at]) {
            let free = node.timers().filter(|&(_, left)| left.is_none());
            actions.extend(free.map(|(timer, _)| Action::Fires(at, timer)));
            if self.long_turns && state.central(at).is_some_and(super::Central::owes) {
                actions.push(Action::TurnEnds(at));
            }
        }
        let wires = state.wires.keys().filter(|&&(node, _)| !blocked[node]);
        actions.extend(wires.map(|&(node, from)| Action::Reads { node, from }));
        let heard = Self::audible(state).filter(|id| !blocked[state.streams[id].node]);
        for id in heard {
            actions.push(Action::Hears(id));
            if state.streams[&id].closed && !state.streams[&id].up.is_empty() {
                actions.push(Action::Vanishes(id));
            }
        }
        Self::client_choices(state, actions);
        self.reign_choices(state, &blocked, actions);
    }

    /// Does anything change with time?
    fn counts(state: &State<P>) -> bool {
        let runs = |left: Option<u8>| left.is_some_and(|left| left > 0);
        state.lease.is_some()
            || state.bid.is_some()
            || state.clients.iter().any(|client| client.right > 0 || !client.sent.is_empty())
            || state.nodes.iter().any(|node| node.timers().any(|(_, left)| runs(left)))
    }

    fn client_choices(state: &State<P>, actions: &mut Vec<Action>) {
        for (at, client) in state.clients.iter().enumerate() {
            let stream = client.stream.and_then(|id| state.streams.get(&id));
            if stream.is_some_and(|stream| !stream.down.is_empty() || stream.gone) {
                actions.push(Action::Listens(at));
            }
            if client.session.ended().is_some() {
                continue;
            }
            if state.left.requests[at] > 0 {
                actions.push(Action::Asks(at));
            }
            if state.left.releases > 0 {
                actions.extend(client.session.holds().map(|(request, ..)| Action::Releases(at, request)));
            }
            if state.left.withdrawals > 0 {
                actions.extend(client.waits.keys().map(|&request| Action::Withdraws(at, request)));
            }
            if state.left.keep_alives > 0 && client.session.is_open() {
                actions.push(Action::KeepsAlive(at));
            }
            if state.left.moves[at] > 0 {
                let offices = state.nodes.iter().enumerate().filter(|(_, node)| node.office.is_some());
                actions.extend(offices.map(|(node, _)| Action::Moves(at, node)));
            }
        }
    }

    fn reign_choices(&self, state: &State<P>, blocked: &[bool], actions: &mut Vec<Action>) {
        let left = &state.left;
        let voters = &self.lists[state.list];
        for (at, node) in state.nodes.iter().enumerate() {
            if node.driver.is_none() {
                actions.extend((left.restarts > 0).then_some(Action::Restarts(at)));
                continue;
            }
            actions.extend((left.crashes > 0).then_some(Action::Crashes(at)));
            for other in (at + 1..state.nodes.len()).filter(|&other| state.nodes[other].driver.is_some()) {
                let opens = state.is_connected(at, other) && state.is_connected(other, at);
                actions.extend((left.breaks > 0 && opens).then_some(Action::Breaks(at, other)));
            }
            if blocked[at] {
                continue;
            }
            let free = |holder| !Self::is_bound(state, at, holder);
            let stands = voters.contains(&at) && free(self.holder(state, at));
            actions.extend((left.bids[at] > 0 && stands).then_some(Action::Bids(at)));
            let grants = |bid: &super::Reign| {
                voters.contains(&at)
                    && !bid.granted.contains_key(&at)
                    && free(bid.holder)
                    && node.granted.is_none_or(|(epoch, _)| epoch < bid.epoch)
            };
            actions.extend(state.bid.as_ref().is_some_and(grants).then_some(Action::Grants { voter: at, won: false }));
            actions.extend(state.lease.as_ref().is_some_and(grants).then_some(Action::Grants { voter: at, won: true }));
            actions.extend(Self::is_unconfirmed(state, at).then_some(Action::Confirms(at)));
            let over = node.office.is_some() && !state.is_leased(at);
            actions.extend(over.then_some(Action::Notices(at)));
            actions.extend((left.step_downs > 0 && state.is_leased(at)).then_some(Action::StepsDown(at)));
        }
        let won = |bid: &super::Reign| !blocked[bid.at] && self.is_majority(state, |at| bid.granted.contains_key(&at));
        actions.extend(state.bid.as_ref().is_some_and(won).then_some(Action::Wins));
        if let Some(lease) = &state.lease {
            let lasts = lease.left < self.times.lease && state.bid.is_none();
            actions.extend((left.renewals > 0 && lasts).then_some(Action::Renews));
            let may = state.nodes[lease.at].office.is_some_and(|office| office.may_change)
                || self.breach == Some(Breach::HastyChanges);
            let next = left.changes > 0 && state.list + 1 < self.lists.len() && state.bid.is_none();
            actions.extend((next && may && !blocked[lease.at] && self.may_follow(state)).then_some(Action::Changes));
        }
    }

    /// A list comes into force when a majority of its voters has granted the lease.
    fn may_follow(&self, state: &State<P>) -> bool {
        let next = &self.lists[state.list + 1];
        let granted = |at: &&usize| state.lease.as_ref().is_some_and(|lease| lease.granted.contains_key(at));
        2 * next.iter().filter(granted).count() > next.len()
    }
}
