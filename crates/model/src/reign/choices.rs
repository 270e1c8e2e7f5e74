//! What can happen next.

use super::{Action, Budget, Cause, Child, Clock, Flight, Msg, Node, Order, PreCheck, Realm, State, Subject};
use crate::effects::Effect;

impl<P: Subject> Realm<P> {
    pub(super) fn choices(&self, state: &State<P>, actions: &mut Vec<Action>) {
        Self::time(state, actions);
        let mut steps = Vec::new();
        for (at, node, _) in state.living() {
            if node.is_due() {
                let due = node.timers.iter().filter(|&(_, &left)| left == Some(0));
                steps.extend(due.map(|(&clock, _)| (at, Cause::Fires(clock))));
            } else {
                self.inputs(state, at, node, &mut steps);
            }
            actions.extend((state.left.crashes > 0).then_some(Action::Crash(at)));
        }
        for (at, node) in state.nodes.iter().enumerate().filter(|(_, node)| node.member.is_none()) {
            steps.extend((state.left.restarts > 0).then_some((at, Cause::Restarts)));
            steps.extend((state.left.wipes > 0 && node.disk.is_some()).then_some((at, Cause::RestartsBlank)));
        }
        for (node, cause) in steps {
            actions.push(Action::Step { node, cause, torn: None });
            if state.left.crashes > 0 {
                let torn = self.crash_points(state, node, cause);
                actions.extend(torn.into_iter().map(|k| Action::Step { node, cause, torn: Some(k) }));
            }
        }
    }

    fn time(state: &State<P>, actions: &mut Vec<Action>) {
        let ghosts = state.nodes.iter().any(|node| !node.past.is_empty());
        let counts = |node: &Node<P>| node.timers.values().any(Option::is_some);
        if state.living().any(|(_, node, _)| node.is_due()) || !(ghosts || state.nodes.iter().any(|node| counts(node)))
        {
            return;
        }
        actions.push(Action::Tick { stalled: None });
        if state.left.stalls > 0 {
            let slow = state.living().filter(|(_, node, _)| counts(node));
            actions.extend(slow.map(|(at, ..)| Action::Tick { stalled: Some(at) }));
        }
    }

    /// What a member that is not due may be given.
    fn inputs(&self, state: &State<P>, at: usize, node: &Node<P>, steps: &mut Vec<(usize, Cause)>) {
        let left = state.left;
        for &Flight { from, message, .. } in state.flying.iter().filter(|flight| flight.to == at) {
            steps.push((at, Cause::Receives { from, message, again: false }));
            if left.duplicates > 0 {
                steps.push((at, Cause::Receives { from, message, again: true }));
            }
        }
        let again = [Clock::Renew, Clock::Retry].into_iter().filter(|clock| node.timers.contains_key(clock));
        steps.extend(again.map(|clock| (at, Cause::Fires(clock))));
        steps.extend(node.asked.is_some().then_some((at, Cause::Assented)));
        let leads = node.claim.is_some();
        // Of use to one that leads or bids.
        let stands = leads || node.timers.keys().any(|clock| matches!(clock, Clock::Lease(_)));
        let mut tell = |may: bool, order| steps.extend(may.then_some((at, Cause::Told(order))));
        tell(left.wants.get(at).is_some_and(|&wants| wants > 0) && !leads, Order::Want);
        tell(left.claims > 0 && !leads, Order::Claim);
        tell(left.step_downs > 0 && stands, Order::StepDown);
        for peer in self.view.others(self.id(at)) {
            tell(left.transfers > 0 && leads, Order::Transfer(peer.id));
        }
        tell(left.children > 0 && stands && node.child == Child::None, Order::Attached(true));
        tell(node.child != Child::None, Order::Attached(false));
        if self.closing_frees() {
            let ends = state.ends.iter().filter(|end| end.to == at);
            steps.extend(ends.map(|end| (at, Cause::Sees(end.from, end.life))));
            let open = (0..state.nodes.len()).filter(|&peer| left.closes > 0 && state.is_open(at, peer));
            steps.extend(open.map(|peer| (at, Cause::Closes(peer))));
        }
    }

    /// After how many effects a crash would be seen. After the last it is one between two steps.
    fn crash_points(&self, state: &State<P>, node: usize, cause: Cause) -> Vec<usize> {
        let effects = self.run(&mut state.clone(), node, cause).0;
        let seen = |effect: &Effect<P>| match effect {
            Effect::Send(_, message) => self.carries(*message),
            Effect::Persist(_) | Effect::Store(_) | Effect::Announce(_) => true,
            Effect::SetTimer(..) | Effect::CancelTimer(_) => false,
        };
        let last = effects.iter().rposition(seen).unwrap_or(0);
        (1..=last).filter(|&k| seen(&effects[k - 1])).collect()
    }

    /// Is this message worth a place in the network? What only asks for answers that are assumed is not.
    pub(super) fn carries(&self, message: Msg) -> bool {
        match message {
            Msg::PreAsk { .. } | Msg::PreOk { .. } | Msg::PreNo { .. } | Msg::Free => self.pre_check == PreCheck::Asked,
            Msg::Refuse { .. } => self.refusals,
            _ => true,
        }
    }
}

impl Budget {
    /// Of no use once it can fire no more: states that differ in it alone are one.
    pub(super) fn affords(self, clock: Clock) -> bool {
        match clock {
            Clock::Renew => self.renewals > 0,
            Clock::Retry => self.retries > 0,
            Clock::Promise | Clock::Settle | Clock::Lease(_) => true,
        }
    }

    pub(super) fn spend(&mut self, node: usize, cause: Cause) {
        let what = match cause {
            Cause::Receives { again: true, .. } => &mut self.duplicates,
            Cause::Fires(Clock::Renew) => &mut self.renewals,
            Cause::Fires(Clock::Retry) => &mut self.retries,
            Cause::Told(Order::Want) => &mut self.wants[node],
            Cause::Told(Order::Transfer(_)) => &mut self.transfers,
            Cause::Told(Order::Claim) => &mut self.claims,
            Cause::Told(Order::StepDown) => &mut self.step_downs,
            Cause::Told(Order::Attached(true)) => &mut self.children,
            Cause::Closes(_) => &mut self.closes,
            Cause::Restarts => &mut self.restarts,
            Cause::RestartsBlank => &mut self.wipes,
            Cause::Receives { .. } | Cause::Fires(_) | Cause::Assented | Cause::Told(_) | Cause::Sees(..) => return,
        };
        *what = what.saturating_sub(1);
    }
}
