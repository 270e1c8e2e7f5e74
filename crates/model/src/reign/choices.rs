//! The possible next events.

use algorithms::drive::Effect;

use super::{
    Action, Arc, Budget, Cause, Child, Extent, Flight, Msg, Node, Probes, QuorumModel, ReignCommand, ReignTimer, State,
    Subject,
};
use crate::extent::{rehearse, slow_writes};

impl<P: Subject> QuorumModel<P> {
    pub(super) fn choices(&self, state: &State<P>, actions: &mut Vec<Action>) {
        Self::time(state, actions);
        let mut steps = Vec::new();
        for (at, node, driver) in state.living() {
            if node.is_due() {
                let due = driver.timers().iter().filter(|&(_, left)| left == Some(0));
                steps.extend(due.map(|(timer, _)| (at, Cause::Fires(timer))));
            } else {
                self.inputs(state, at, node, &mut steps);
            }
            steps.extend(driver.is_blocked().then_some((at, Cause::Written)));
            if state.left.crashes > 0 {
                actions.push(Action::Crash { node: at, written: false });
                actions.extend(driver.is_blocked().then_some(Action::Crash { node: at, written: true }));
            }
        }
        for (at, node) in state.nodes.iter().enumerate().filter(|(_, node)| node.driver.is_none()) {
            steps.extend((state.left.restarts > 0).then_some((at, Cause::Restarts)));
            steps.extend((state.left.wipes > 0 && node.disk.is_some()).then_some((at, Cause::RestartsBlank)));
        }
        for (node, cause) in steps {
            let extents = self.extents(state, node, &cause).into_iter();
            actions.extend(extents.map(|extent| Action::Step { node, cause: cause.clone(), extent }));
        }
    }

    fn time(state: &State<P>, actions: &mut Vec<Action>) {
        if state.living().any(|(_, node, _)| node.is_due()) || !state.nodes.iter().any(|node| node.counts()) {
            return;
        }
        actions.push(Action::Tick { stalled: None });
        if state.left.stalls > 0 {
            let slow = state.living().filter(|(_, node, _)| node.timers().any(|(_, left)| left.is_some()));
            actions.extend(slow.map(|(at, ..)| Action::Tick { stalled: Some(at) }));
        }
    }

    /// The inputs that a member without a due timer may get.
    fn inputs(&self, state: &State<P>, at: usize, node: &Node<P>, steps: &mut Vec<(usize, Cause)>) {
        let left = state.left;
        for Flight { from, message, .. } in state.flying.iter().filter(|flight| flight.to == at) {
            let receives = |again| Cause::Receives { from: *from, message: message.clone(), again };
            steps.push((at, receives(false)));
            if left.duplicates > 0 {
                steps.push((at, receives(true)));
            }
        }
        let leads = node.claim.is_some();
        // A candidate's renewal only makes it renew as soon as it leads, which a leader here may do at any moment.
        let again = node.timers().filter(|&(timer, _)| match timer {
            ReignTimer::Renew => leads,
            ReignTimer::Retry | ReignTimer::Change => true,
            // No epoch of a model leaps.
            ReignTimer::Promise | ReignTimer::Settle | ReignTimer::Lease(_) | ReignTimer::Leap => false,
        });
        steps.extend(again.map(|(timer, _)| (at, Cause::Fires(timer))));
        steps.extend(node.asked.is_some().then_some((at, Cause::Assented)));
        // Useful to a member that leads or bids.
        let stands = leads || node.timers().any(|(timer, _)| matches!(timer, ReignTimer::Lease(_)));
        let mut tell = |may: bool, command| steps.extend(may.then_some((at, Cause::Told(command))));
        tell(left.wants.get(at).is_some_and(|&wants| wants > 0) && !leads, ReignCommand::Want);
        for change in &self.changes {
            tell(left.changes > 0 && leads, ReignCommand::Change(change.clone()));
        }
        tell(left.claims > 0 && !leads, ReignCommand::Claim);
        tell(left.step_downs > 0 && stands, ReignCommand::StepDown);
        for peer in self.view.others(self.id(at)) {
            tell(left.transfers > 0 && leads, ReignCommand::Transfer { to: peer.id, returns: true });
        }
        tell(left.children > 0 && stands && node.child == Child::None, ReignCommand::Attached(true));
        tell(node.child != Child::None, ReignCommand::Attached(false));
        if self.closing_frees() {
            let ends = state.ends.iter().filter(|end| end.to == at);
            steps.extend(ends.map(|end| (at, Cause::Sees(end.from, end.holder))));
            let open = (0..state.nodes.len()).filter(|&peer| left.closes > 0 && state.is_open(at, peer));
            steps.extend(open.map(|peer| (at, Cause::Closes(peer))));
        }
    }

    /// The extents that the effects of this step may have. A crash is checked where it makes a difference; after the
    /// last effect it is a crash between two steps.
    fn extents(&self, state: &State<P>, node: usize, cause: &Cause) -> Vec<Extent> {
        let mut extents = vec![Extent::Whole];
        if state.left.crashes + state.left.slow_writes == 0 {
            return extents;
        }
        let mut next = state.clone();
        self.run(&mut next, node, cause);
        let driver = Arc::make_mut(&mut next.nodes[node]).driver.as_mut().expect("only the living take steps");
        let effects = rehearse(driver, |timer, _| self.ticks(timer));
        if state.left.crashes > 0 {
            let seen = |effect: &Effect<P>| match effect {
                Effect::Send { message, .. } => self.carries(message),
                Effect::Persist(_) | Effect::Store(_) | Effect::Announce(_) => true,
                Effect::SetTimer(..) | Effect::CancelTimer(_) => false,
            };
            let last = effects.iter().rposition(seen).unwrap_or(0);
            extents.extend((1..=last).filter(|&k| seen(&effects[k - 1])).map(Extent::Crash));
        }
        if state.left.slow_writes > 0 {
            extents.extend(slow_writes(&effects));
        }
        extents
    }

    /// Does this message need to be in the network? A request for answers that are assumed does not.
    pub(super) fn carries(&self, message: &Msg) -> bool {
        match message {
            Msg::Probe { .. } | Msg::ProbeOk { .. } | Msg::ProbeDenied { .. } | Msg::Free => {
                self.probes == Probes::Asked
            }
            Msg::Refuse { .. } => self.refusals,
            // What a list is reported for shows in bids and answers as well.
            Msg::List { .. } => false,
            _ => true,
        }
    }
}

impl Budget {
    /// A timer that can fire no more is useless: states that differ in it alone are one.
    pub(super) fn affords(self, timer: ReignTimer) -> bool {
        match timer {
            ReignTimer::Renew => self.renewals > 0,
            ReignTimer::Retry => self.retries > 0,
            ReignTimer::Change => self.reverts > 0,
            // The epochs of a model are small.
            ReignTimer::Leap => false,
            ReignTimer::Promise | ReignTimer::Settle | ReignTimer::Lease(_) => true,
        }
    }

    pub(super) fn spend(&mut self, node: usize, cause: &Cause) {
        let what = match cause {
            Cause::Receives { again: true, .. } => &mut self.duplicates,
            Cause::Fires(ReignTimer::Renew) => &mut self.renewals,
            Cause::Fires(ReignTimer::Retry) => &mut self.retries,
            Cause::Fires(ReignTimer::Change) => &mut self.reverts,
            Cause::Told(ReignCommand::Change(_)) => &mut self.changes,
            Cause::Told(ReignCommand::Want) => &mut self.wants[node],
            Cause::Told(ReignCommand::Transfer { .. }) => &mut self.transfers,
            Cause::Told(ReignCommand::Claim) => &mut self.claims,
            Cause::Told(ReignCommand::StepDown) => &mut self.step_downs,
            Cause::Told(ReignCommand::Attached(true)) => &mut self.children,
            Cause::Closes(_) => &mut self.closes,
            Cause::Restarts => &mut self.restarts,
            Cause::RestartsBlank => &mut self.wipes,
            Cause::Receives { .. }
            | Cause::Fires(_)
            | Cause::Assented
            | Cause::Told(_)
            | Cause::Sees(..)
            | Cause::Written => return,
        };
        *what = what.saturating_sub(1);
    }
}
