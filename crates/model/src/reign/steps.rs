//! The events of the voters of a quorum.

use algorithms::Span;
use algorithms::drive::{Driver, Effect};
use member::ListEvent;
use types::Stamp;

use super::{
    Action, Arc, Cause, Context, End, Extent, Flight, Input, LossCause, Msg, NodeId, PastClaim, Probes, QuorumModel,
    ReignCommand, ReignTimer, State, Subject,
};

impl<P: Subject> QuorumModel<P> {
    pub(super) fn perform(&self, state: &State<P>, action: Action) -> State<P> {
        let mut next = state.clone();
        match action {
            Action::Tick { stalled } => {
                for (_, node) in next.nodes.iter_mut().enumerate().filter(|&(at, _)| Some(at) != stalled) {
                    Arc::make_mut(node).tick();
                }
                next.left.stalls -= u8::from(stalled.is_some());
            }
            Action::Crash { node, written } => {
                if written {
                    Arc::make_mut(&mut next.nodes[node]).complete_write();
                }
                self.crash(&mut next, node);
            }
            Action::Step { node, cause, extent } => {
                self.run(&mut next, node, &cause);
                self.carry_out(&mut next, node, extent);
                match extent {
                    Extent::Crash(_) => self.crash(&mut next, node),
                    Extent::SlowWrite(_) => next.left.slow_writes -= 1,
                    Extent::Whole => {}
                }
            }
        }
        next.forget_idle_timers();
        next
    }

    /// Feeds the member; its effects are not yet carried out.
    pub(super) fn run(&self, state: &mut State<P>, node: usize, cause: &Cause) {
        let ctx = self.ctx(node, state.starts);
        state.left.spend(node, cause);
        match cause {
            Cause::Receives { from, message, again: false } => {
                state.flying.remove(&Flight { to: node, from: *from, message: message.clone() });
            }
            &Cause::Sees(from, holder) => {
                state.ends.remove(&End { to: node, from, holder });
                state.flying.retain(|flight| (flight.from, flight.to) != (from, node));
            }
            Cause::Restarts | Cause::RestartsBlank => {
                state.starts += 1;
                let at = Arc::make_mut(&mut state.nodes[node]);
                if *cause == Cause::RestartsBlank {
                    at.disk = None;
                    at.lost_disks += 1;
                }
                at.driver = Some(Driver::start(&ctx, at.disk.clone()));
                return;
            }
            _ => {}
        }
        let led = state.leads(node);
        let loss = self.loss(state, node, cause);
        self.feed(state, node, cause, &ctx);
        if led && !state.leads(node) {
            Arc::make_mut(&mut state.nodes[node]).losses.push_back(loss);
        }
    }

    /// The cause that a loss must name if this step causes it.
    fn loss(&self, state: &State<P>, node: usize, cause: &Cause) -> Option<LossCause> {
        match cause {
            &Cause::Fires(ReignTimer::Lease(lease)) => {
                let in_hand = state.nodes[node].claim.is_none_or(|claim| claim.until == lease);
                in_hand.then_some(LossCause::LeaseEnded)
            }
            Cause::Closes(_) | Cause::Sees(..) => self.closing_frees().then_some(LossCause::SupportersLost),
            Cause::Told(ReignCommand::StepDown) => Some(LossCause::SteppedDown),
            // It was told to step down before, and its children had to stop first.
            Cause::Told(ReignCommand::Attached(false)) => {
                (state.left.step_downs < self.budget.step_downs).then_some(LossCause::SteppedDown)
            }
            Cause::Receives { message: Msg::Ready { .. }, .. } => Some(LossCause::HandedOver),
            Cause::Receives { message: Msg::Bid { .. }, .. } => Some(LossCause::Superseded),
            _ => None,
        }
    }

    fn feed(&self, state: &mut State<P>, node: usize, cause: &Cause, ctx: &Context<'_>) {
        let at = Arc::make_mut(&mut state.nodes[node]);
        let asked = if let Cause::Fires(ReignTimer::Retry) | Cause::Assented = cause { at.asked.take() } else { None };
        match *cause {
            Cause::Written => return at.complete_write(),
            Cause::Fires(ReignTimer::Lease(lease)) => {
                // A claim ends with its lease, whatever the member announces then.
                at.claim = at.claim.filter(|claim| claim.until != lease);
            }
            Cause::Told(ReignCommand::Attached(attached)) => at.child = super::Child::told(attached),
            Cause::Closes(peer) => at.closing.push_back(peer),
            _ => {}
        }
        let driver = at.driver.as_mut().expect("only the living take steps");
        match cause {
            Cause::Receives { from, message, .. } => {
                driver.step(ctx, Input::Message { from: self.id(*from), message: message.clone() });
            }
            Cause::Fires(timer) => driver.fire(ctx, *timer),
            Cause::Told(command) => {
                driver.step(ctx, Input::Command(command.clone()));
                // Otherwise a member that wants to lead bids for the next epoch, and the next, without end.
                driver.step(ctx, Input::Command(ReignCommand::Yield));
            }
            Cause::Closes(peer) => driver.step(ctx, Input::PeerDown(self.id(*peer))),
            Cause::Sees(from, holder) => {
                driver.step(ctx, Input::Command(ReignCommand::Closed(*holder)));
                driver.step(ctx, Input::PeerDown(self.id(*from)));
            }
            Cause::Assented => {
                let message = Msg::ProbeOk { request: asked.expect("a probe was sent") };
                for peer in self.view.others(ctx.me.id) {
                    driver.step(ctx, Input::Message { from: peer.id, message: message.clone() });
                }
            }
            Cause::Written | Cause::Restarts | Cause::RestartsBlank => unreachable!("it is no input"),
        }
    }

    /// Carries out the driver's effects, as far as the extent permits.
    fn carry_out(&self, state: &mut State<P>, node: usize, extent: Extent) {
        let mut done = 0;
        while extent.limit() != Some(done) {
            let at = Arc::make_mut(&mut state.nodes[node]);
            let Some(driver) = &mut at.driver else { return };
            let Some(effect) = driver.next_effect(|timer, _| self.ticks(timer)) else { break };
            done += 1;
            match effect {
                Effect::Send { to, message, .. } => self.send(state, node, to, message),
                Effect::SetTimer(timer, span) => self.check_length(timer, span),
                Effect::CancelTimer(_) => {}
                Effect::Persist(record) => {
                    at.in_flight = Some(record);
                    if extent != Extent::SlowWrite(done) {
                        at.complete_write();
                    }
                }
                Effect::Store(record) => at.write(record),
                Effect::Announce(event) => {
                    let left = driver.deadline_of(&event).flatten().unwrap_or(0);
                    let holder = driver.machine().reign().holder();
                    at.announced(&event, left, holder);
                    match event {
                        super::ReignEvent::Leading { epoch, .. } => {
                            state.announced_leaders.insert((epoch, holder));
                        }
                        super::ReignEvent::List(ListEvent::InForce(list)) => {
                            state.in_force.insert(list);
                        }
                        super::ReignEvent::List(ListEvent::Adopted(list)) => {
                            state.lists.insert(list);
                        }
                        _ => {}
                    }
                }
            }
        }
        Self::carried_out(state, node);
    }

    /// A member closes its end of a connection when everything that follows from it has been carried out.
    fn carried_out(state: &mut State<P>, node: usize) {
        let at = Arc::make_mut(&mut state.nodes[node]);
        if at.driver.as_ref().is_some_and(Driver::owes_effects) {
            return;
        }
        at.wrong_cause |= at.owes_handover;
        for peer in std::mem::take(&mut at.closing) {
            state.close(node, peer);
        }
    }

    fn send(&self, state: &mut State<P>, node: usize, to: NodeId, message: Msg) {
        let at = Arc::make_mut(&mut state.nodes[node]);
        let disk = at.lost_disks;
        match &message {
            &Msg::Probe { request, .. } if self.probes == Probes::Assumed => at.asked = Some(request),
            Msg::Bid { epoch, holder, after, list, .. } => {
                at.succeeds = after.map(|_| *epoch);
                state.ballots.insert(super::Ballot { epoch: *epoch, voter: node, disk, holder: *holder });
                if list.stamp > Stamp::FIRST {
                    state.lists.insert(Arc::clone(list));
                }
            }
            &Msg::Ack { epoch, incarnation, .. } => {
                let holder = super::Holder { id: to, incarnation };
                state.ballots.insert(super::Ballot { epoch, voter: node, disk, holder });
            }
            Msg::Handover(_) => at.owes_handover = false,
            _ => {}
        }
        let arrives = |&to: &usize| self.carries(&message) && (!self.closing_frees() || state.is_open(node, to));
        if let Some(to) = self.view.position(to).filter(arrives) {
            state.flying.insert(Flight { to, from: node, message });
        }
    }

    /// The leader's announcements may be acted on until its lease ends, even after the end of its process; unless only
    /// its process acts on them.
    fn crash(&self, state: &mut State<P>, node: usize) {
        state.left.crashes = state.left.crashes.saturating_sub(1);
        let holder = state.holder(node);
        if self.closing_frees() {
            for peer in 0..state.nodes.len() {
                state.close(node, peer);
            }
            // Its own ends no longer exist.
            state.ends.retain(|end| end.to != node);
        }
        let at = Arc::make_mut(&mut state.nodes[node]);
        let acts = !self.closing_frees() || at.child == super::Child::Acts;
        if let Some(claim) = at.running() {
            at.past.insert(holder, PastClaim { left: claim.left, acts });
        }
        at.ends();
    }

    pub(super) fn ticks(&self, timer: ReignTimer) -> Option<u8> {
        match timer {
            ReignTimer::Lease(_) => Some(self.lease),
            ReignTimer::Promise | ReignTimer::Settle => Some(self.lease + 1),
            ReignTimer::Renew | ReignTimer::Retry | ReignTimer::Leap | ReignTimer::Change => None,
        }
    }

    /// The model counts ticks: the order of the real lengths must be the same.
    fn check_length(&self, timer: ReignTimer, span: Span) {
        let timing = &self.settings.timing;
        match timer {
            ReignTimer::Promise => assert_eq!(span.min, timing.lease),
            ReignTimer::Settle => assert!(span.min >= timing.lease),
            ReignTimer::Lease(_) => assert!(span.max <= timing.reign() && timing.reign() < timing.lease),
            ReignTimer::Renew | ReignTimer::Retry | ReignTimer::Leap | ReignTimer::Change => {}
        }
    }
}

impl<P: Subject> State<P> {
    /// Does its machine lead? Its announcements may be behind.
    fn leads(&self, node: usize) -> bool {
        self.nodes[node].driver.as_ref().is_some_and(|driver| driver.machine().reign().leads().is_some())
    }

    /// May a message pass between the two? A dead member has no connections.
    pub(super) fn is_open(&self, one: usize, other: usize) -> bool {
        let lives = |at: usize| self.nodes[at].driver.is_some();
        let ended = |end: &End| (end.to, end.from) == (one, other) || (end.from, end.to) == (one, other);
        one != other && lives(one) && lives(other) && !self.ends.iter().any(ended)
    }

    /// Messages to the closing end are lost; the other end will see the close.
    fn close(&mut self, node: usize, peer: usize) {
        if self.is_open(node, peer) {
            let holder = self.holder(node);
            self.ends.insert(End { to: peer, from: node, holder });
        }
        self.flying.retain(|flight| (flight.from, flight.to) != (peer, node));
    }

    /// Removes timers that the budget does not let fire any more.
    fn forget_idle_timers(&mut self) {
        let left = self.left;
        for node in &mut self.nodes {
            if node.timers().any(|(timer, _)| !left.affords(timer)) {
                let driver = Arc::make_mut(node).driver.as_mut().expect("it has timers");
                driver.timers_mut().retain(|timer| left.affords(timer));
            }
        }
    }
}
