//! What happens to a realm.

use super::{
    Action, Arc, BTreeMap, Ballot, Cause, Child, Claim, Clock, Ctx, End, Fact, Flight, Ghost, Holder, Input, Msg, Node,
    NodeId, Order, PreCheck, Realm, State, Subject, Tenure,
};
use crate::effects::{Effect, Effects};

impl<P: Subject> Realm<P> {
    pub(super) fn perform(&self, state: &State<P>, action: Action) -> State<P> {
        let mut next = state.clone();
        match action {
            Action::Tick { stalled } => {
                for (_, node) in next.nodes.iter_mut().enumerate().filter(|&(at, _)| Some(at) != stalled) {
                    Arc::make_mut(node).tick();
                }
                next.left.stalls -= u8::from(stalled.is_some());
            }
            Action::Crash(node) => self.crash(&mut next, node),
            Action::Step { node, cause, torn } => {
                let effects = self.run(&mut next, node, cause).0;
                let kept = torn.unwrap_or(effects.len());
                self.carry_out(&mut next, node, cause, effects.into_iter().take(kept));
                if torn.is_some() {
                    self.crash(&mut next, node);
                } else if let Cause::Closes(peer) = cause {
                    // Not before the member has done what follows.
                    next.close(node, peer);
                }
            }
        }
        next.forget_idle_timers();
        next
    }

    /// Feeds the member; its effects are not yet carried out.
    pub(super) fn run(&self, state: &mut State<P>, node: usize, cause: Cause) -> Effects<P> {
        let mut out = Effects(Vec::new());
        let ctx = self.ctx(node, state.starts);
        state.left.spend(node, cause);
        if let Cause::Receives { from, message, again: false } = cause {
            state.flying.remove(&Flight { to: node, from, message });
        }
        if let Cause::Sees(from, life) = cause {
            state.ends.remove(&End { to: node, from, life });
            state.flying.retain(|flight| (flight.from, flight.to) != (from, node));
        }
        let at = Arc::make_mut(&mut state.nodes[node]);
        if let Cause::Restarts | Cause::RestartsBlank = cause {
            if cause == Cause::RestartsBlank {
                at.disk = None;
                at.lost_disks += 1;
            }
            at.member = Some(P::start(&ctx, at.disk, &mut out));
            state.starts += 1;
            return out;
        }
        if let Cause::Fires(clock) = cause {
            at.fired(clock);
        }
        let asked = if let Cause::Fires(Clock::Retry) | Cause::Assented = cause { at.asked.take() } else { None };
        let member = at.member.as_mut().expect("only the living take steps");
        match cause {
            Cause::Receives { from, message, .. } => {
                member.step(&ctx, Input::Message { from: self.id(from), message }, &mut out);
            }
            Cause::Fires(clock) => member.step(&ctx, Input::Timer(clock), &mut out),
            Cause::Told(order) => {
                if let Order::Attached(attached) = order {
                    at.child = if attached { Child::Waits } else { Child::None };
                }
                member.step(&ctx, Input::Command(order), &mut out);
                // Else whoever wants to lead bids for the next epoch, and the next, without end.
                member.step(&ctx, Input::Command(Order::Yield), &mut out);
            }
            Cause::Closes(peer) => member.step(&ctx, Input::PeerDown(self.id(peer)), &mut out),
            Cause::Sees(from, life) => {
                member.step(&ctx, Input::Command(Order::Closed(life)), &mut out);
                member.step(&ctx, Input::PeerDown(self.id(from)), &mut out);
            }
            Cause::Assented => self.assent(member, &ctx, asked.expect("somebody has asked"), &mut out),
            Cause::Restarts | Cause::RestartsBlank => unreachable!("a start is no input"),
        }
        out
    }

    fn assent(&self, member: &mut P, ctx: &Ctx<'_>, k: u64, out: &mut Effects<P>) {
        for peer in self.view.others(ctx.me.id) {
            member.step(ctx, Input::Message { from: peer.id, message: Msg::PreOk { k } }, out);
        }
    }

    pub(super) fn carry_out(
        &self,
        state: &mut State<P>,
        node: usize,
        cause: Cause,
        effects: impl IntoIterator<Item = Effect<P>>,
    ) {
        let running = state.nodes[node].running();
        for effect in effects {
            match effect {
                Effect::Send(to, message) => self.send(state, node, cause, to, message),
                Effect::SetTimer(clock, span) => {
                    self.check_length(clock, span);
                    Arc::make_mut(&mut state.nodes[node]).timers.insert(clock, self.ticks(clock));
                }
                Effect::CancelTimer(clock) => {
                    Arc::make_mut(&mut state.nodes[node]).timers.remove(&clock);
                }
                Effect::Persist(record) | Effect::Store(record) => {
                    Arc::make_mut(&mut state.nodes[node]).write(record);
                }
                Effect::Announce(fact) => Self::heard(state, node, fact, running),
            }
        }
    }

    fn send(&self, state: &mut State<P>, node: usize, cause: Cause, to: NodeId, message: Msg) {
        let at = Arc::make_mut(&mut state.nodes[node]);
        let disk = at.lost_disks;
        match (message, cause) {
            (Msg::PreAsk { k, .. }, _) if self.pre_check == PreCheck::Assumed => at.asked = Some(k),
            (Msg::Bid { epoch, holder, after, .. }, _) => {
                at.succeeds = after.map(|_| epoch);
                state.ballots.insert(Ballot { epoch, voter: node, disk, holder });
            }
            (Msg::Ack { epoch, .. }, Cause::Receives { message: Msg::Bid { holder, .. }, .. }) => {
                state.ballots.insert(Ballot { epoch, voter: node, disk, holder });
            }
            _ => {}
        }
        let arrives = |&to: &usize| self.carries(message) && (!self.closing_frees() || state.is_open(node, to));
        if let Some(to) = self.view.position(to).filter(arrives) {
            state.flying.insert(Flight { to, from: node, message });
        }
    }

    /// `running`: the claim before this step.
    fn heard(state: &mut State<P>, node: usize, fact: Fact, running: Option<(Claim, u8)>) {
        let at = Arc::make_mut(&mut state.nodes[node]);
        match fact {
            Fact::Leading { epoch, until, bare } => {
                let handed_over = at.succeeds == Some(epoch);
                at.claim = Some(Claim { epoch, until, extended: false, handed_over });
                at.child.starts(bare);
                state.crowned.insert((epoch, Self::holder(state, node)));
            }
            Fact::Extended { until, bare } => {
                at.claim = at.claim.map(|claim| Claim { until, extended: true, ..claim });
                at.child.starts(bare);
            }
            Fact::Lost => {
                // The word that it leads no more does not reach its child before its lease ends.
                if let Some((_, left)) = running.filter(|_| at.child == Child::Acts) {
                    let holder = Self::holder(state, node);
                    Arc::make_mut(&mut state.nodes[node]).past.insert(holder, Ghost { left, acts: true });
                }
                let at = Arc::make_mut(&mut state.nodes[node]);
                at.claim = None;
                at.child = Child::None;
            }
            Fact::Granted { .. } | Fact::PromiseEnded { .. } | Fact::StopChildren => {}
        }
    }

    /// The life of a member that runs.
    pub(super) fn holder(state: &State<P>, node: usize) -> Holder {
        let member = state.nodes[node].member.as_ref().expect("it lives");
        member.reign().holder()
    }

    /// What the leader told others may be acted on until its lease ends, whatever becomes of its process; unless only
    /// its process acts on it.
    fn crash(&self, state: &mut State<P>, node: usize) {
        state.left.crashes = state.left.crashes.saturating_sub(1);
        let holder = Self::holder(state, node);
        if self.closing_frees() {
            for peer in 0..state.nodes.len() {
                state.close(node, peer);
            }
            // Its own ends are gone.
            state.ends.retain(|end| end.to != node);
        }
        let at = Arc::make_mut(&mut state.nodes[node]);
        let acts = !self.closing_frees() || at.child == Child::Acts;
        if let Some((_, left)) = at.running() {
            at.past.insert(holder, Ghost { left, acts });
        }
        at.member = None;
        at.timers = BTreeMap::new();
        at.asked = None;
        at.claim = None;
        at.child = Child::None;
        at.succeeds = None;
    }

    fn ticks(&self, clock: Clock) -> Option<u8> {
        match clock {
            Clock::Lease(_) => Some(self.lease),
            Clock::Promise | Clock::Settle => Some(self.lease + 1),
            Clock::Renew | Clock::Retry => None,
        }
    }

    /// The model counts ticks: the real lengths must be ordered as they are.
    fn check_length(&self, clock: Clock, span: algorithms::Span) {
        let timing = &self.settings.timing;
        match clock {
            Clock::Promise => assert_eq!(span.min, timing.lease),
            Clock::Settle => assert!(span.min >= timing.lease),
            Clock::Lease(_) => assert!(span.max <= timing.reign() && timing.reign() < timing.lease),
            Clock::Renew | Clock::Retry => {}
        }
    }
}

impl<P: Subject> State<P> {
    /// May anything go between the two? A dead member has no connections.
    pub(super) fn is_open(&self, one: usize, other: usize) -> bool {
        let lives = |at: usize| self.nodes[at].member.is_some();
        let ended = |end: &End| (end.to, end.from) == (one, other) || (end.from, end.to) == (one, other);
        one != other && lives(one) && lives(other) && !self.ends.iter().any(ended)
    }

    /// What was sent to the end that closes is lost; the other end will see it.
    fn close(&mut self, node: usize, peer: usize) {
        if self.is_open(node, peer) {
            let life = Realm::holder(self, node);
            self.ends.insert(End { to: peer, from: node, life });
        }
        self.flying.retain(|flight| (flight.from, flight.to) != (peer, node));
    }

    fn forget_idle_timers(&mut self) {
        let left = self.left;
        for node in &mut self.nodes {
            if node.timers.keys().any(|&clock| !left.affords(clock)) {
                Arc::make_mut(node).timers.retain(|&clock, _| left.affords(clock));
            }
        }
    }
}

impl Child {
    /// `ctl lead` is told that it may begin when a lease was won with the voters' knowledge of it.
    fn starts(&mut self, bare: bool) {
        if *self == Child::Waits && !bare {
            *self = Child::Acts;
        }
    }
}

impl<P: Subject> Node<P> {
    pub(super) fn new(disk: Option<Tenure>) -> Self {
        Node {
            member: None,
            disk,
            lost_disks: 0,
            timers: BTreeMap::new(),
            asked: None,
            claim: None,
            child: Child::None,
            past: BTreeMap::new(),
            succeeds: None,
            went_back: false,
        }
    }

    fn tick(&mut self) {
        for left in self.timers.values_mut().flatten() {
            *left -= 1;
        }
        self.past.retain(|_, ghost| {
            ghost.left -= 1;
            ghost.left > 0
        });
    }

    /// A claim ends with its lease, whatever the member says then.
    fn fired(&mut self, clock: Clock) {
        self.timers.remove(&clock);
        self.claim = self.claim.filter(|claim| Clock::Lease(claim.until) != clock);
    }

    fn write(&mut self, record: Tenure) {
        let epoch = |disk: Option<Tenure>| disk.and_then(|record| record.vote).map(|vote| vote.epoch);
        self.went_back |= epoch(Some(record)) < epoch(self.disk);
        self.disk = Some(record);
    }
}
