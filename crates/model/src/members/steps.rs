//! What can happen to a cluster, and what it does to it.

use std::time::Duration;

use super::properties::agree;
use super::{
    Action, Arc, BTreeMap, BTreeSet, Budget, Cause, Class, Command, Event, Input, Item, Members, Node, NodeSet, Span,
    State, Subject, VecDeque, pair,
};
use crate::effects::{Effect, Effects, after, earliest};

impl<P: Subject> Members<P> {
    /// What happens without any fault or wish. Nothing: the cluster is at rest.
    pub(super) fn progress(&self, state: &State<P>) -> Vec<Action<P::Timer>> {
        let mut actions: Vec<_> = state.wires.keys().map(|&(to, from)| step(to, Cause::Reads(from))).collect();
        for (at, node) in state.living() {
            if !node.writes.is_empty() {
                actions.push(step(at, Cause::Written));
            }
            for peer in node.member.iter().flat_map(|member| member.links(&self.view).iter().collect::<Vec<_>>()) {
                if peer == at || state.connected.contains(&pair(at, peer)) {
                    continue;
                }
                let dead = state.nodes[peer].member.is_none();
                if dead && !node.unreachable.contains(peer) && !state.wires.contains_key(&(at, peer)) {
                    actions.push(step(at, Cause::NotReached(peer)));
                } else if !dead && !actions.contains(&Action::Connect(at.min(peer), at.max(peer))) {
                    actions.push(Action::Connect(at.min(peer), at.max(peer)));
                }
            }
        }
        if actions.is_empty() {
            let due = earliest(self.counted(state));
            actions.extend(due.map(|(at, timer)| step(at, Cause::Fires(timer))));
            let beats = state.timers().filter(|&(at, timer, _)| {
                P::class(timer) == Class::Beat && self.matters(state, step(at, Cause::Fires(timer)))
            });
            actions.extend(beats.map(|(at, timer, _)| step(at, Cause::Fires(timer))));
        }
        actions
    }

    /// What happens only as often as the budget says.
    pub(super) fn faults(&self, state: &State<P>, progress: &[Action<P::Timer>]) -> Vec<Action<P::Timer>> {
        let left = state.left;
        let mut actions = Vec::new();
        for (at, timer, _) in state.timers() {
            let affordable = match P::class(timer) {
                Class::Beat => left.beats > 0,
                Class::Silence(peer) => left.suspicions > 0 && self.connected(state, at, peer),
                Class::Upkeep | Class::Other => left.early > 0,
            };
            if affordable && !progress.contains(&step(at, Cause::Fires(timer))) {
                actions.push(step(at, Cause::FiresEarly(timer)));
            }
        }
        for (at, node) in state.nodes.iter().enumerate() {
            match node.member {
                None if left.restarts > 0 => actions.push(step(at, Cause::Restart)),
                None => {}
                Some(_) => {
                    actions.extend((left.elects > 0).then(|| step(at, Cause::Elect)));
                    actions.extend((left.crashes > 0).then_some(Action::Crash(at)));
                }
            }
        }
        actions
    }

    /// Timers for which time passes: not those a steady heartbeat keeps from ending, nor the heartbeat itself.
    fn counted(&self, state: &State<P>) -> Vec<((usize, P::Timer), Span)> {
        let counts = |&(at, timer, _): &(usize, P::Timer, Span)| self.counts(state, at, timer);
        state.timers().filter(counts).map(|(at, timer, span)| ((at, timer), span)).collect()
    }

    fn counts(&self, state: &State<P>, at: usize, timer: P::Timer) -> bool {
        match P::class(timer) {
            Class::Beat => false,
            Class::Silence(peer) => !self.connected(state, at, peer),
            Class::Upkeep => !agree(self, state),
            Class::Other => true,
        }
    }

    fn connected(&self, state: &State<P>, at: usize, peer: super::NodeId) -> bool {
        self.view.position(peer).is_some_and(|peer| state.connected.contains(&pair(at, peer)))
    }

    /// Is anything different once this step and all that follows from it has been read?
    fn matters(&self, state: &State<P>, beat: Action<P::Timer>) -> bool {
        const MANY: usize = 200;
        let mut next = self.perform(state, beat);
        for _ in 0..MANY {
            let Some(&(to, from)) = next.wires.keys().next() else { return next != *state };
            next = self.perform(&next, step(to, Cause::Reads(from)));
        }
        true
    }

    pub(super) fn perform(&self, state: &State<P>, action: Action<P::Timer>) -> State<P> {
        let mut next = state.clone();
        match action {
            Action::Connect(a, b) => {
                next.connected.insert((a, b));
                next.put(a, b, Item::Up);
                next.put(b, a, Item::Up);
            }
            Action::Crash(node) => self.crash(&mut next, node),
            Action::Step { node, cause, face, torn } => {
                let effects = self.run(&mut next, node, cause, face).0;
                let kept = torn.unwrap_or(effects.len());
                self.carry_out(&mut next, node, effects.into_iter().take(kept));
                if torn.is_some() {
                    next.torn = true;
                    self.crash(&mut next, node);
                }
            }
        }
        next
    }

    /// Feeds the member; its effects are not yet carried out.
    pub(super) fn run(&self, state: &mut State<P>, node: usize, cause: Cause<P::Timer>, face: usize) -> Effects<P> {
        let mut out = Effects(Vec::new());
        let ctx = self.ctx(node, face);
        if let Cause::Restart = cause {
            state.left.restarts = state.left.restarts.saturating_sub(1);
            let at = Arc::make_mut(&mut state.nodes[node]);
            at.member = Some(P::start(&ctx, at.disk, &mut out));
            return out;
        }
        if let Cause::Fires(timer) = cause {
            self.pass(state, node, timer);
        }
        if let Cause::FiresEarly(timer) = cause {
            state.left.spend(P::class(timer));
        }
        let input = self.input(state, node, cause);
        let at = Arc::make_mut(&mut state.nodes[node]);
        if let Cause::Fires(timer) | Cause::FiresEarly(timer) = cause {
            at.timers.remove(&timer);
        }
        at.member.as_mut().expect("only the living take steps").step(&ctx, input, &mut out);
        out
    }

    fn input(&self, state: &mut State<P>, node: usize, cause: Cause<P::Timer>) -> Input<P> {
        match cause {
            Cause::Reads(peer) => {
                let from = self.id(peer);
                match state.take(node, peer) {
                    Item::Up => {
                        Arc::make_mut(&mut state.nodes[node]).unreachable.remove(peer);
                        Input::PeerUp(from)
                    }
                    Item::Down => Input::PeerDown(from),
                    Item::Frame(message) => Input::Message { from, message },
                }
            }
            Cause::NotReached(peer) => {
                Arc::make_mut(&mut state.nodes[node]).unreachable.insert(peer);
                Input::PeerDown(self.id(peer))
            }
            Cause::Written => {
                let at = Arc::make_mut(&mut state.nodes[node]);
                let record = at.writes.pop_front().expect("something was written");
                at.disk = Some(record);
                Input::Stored(record)
            }
            Cause::Elect => {
                state.left.elects -= 1;
                Input::Command(Command::Elect)
            }
            Cause::Fires(timer) | Cause::FiresEarly(timer) => Input::Timer(timer),
            Cause::Restart => unreachable!("a start is no input"),
        }
    }

    pub(super) fn carry_out(&self, state: &mut State<P>, node: usize, effects: impl IntoIterator<Item = Effect<P>>) {
        for effect in effects {
            match effect {
                Effect::Send(to, message) => {
                    if let Some(to) = self.view.position(to) {
                        state.send(node, to, message);
                    }
                }
                Effect::SetTimer(timer, span) => {
                    Arc::make_mut(&mut state.nodes[node]).timers.insert(timer, span);
                }
                Effect::CancelTimer(timer) => {
                    Arc::make_mut(&mut state.nodes[node]).timers.remove(&timer);
                }
                Effect::Persist(record) => Arc::make_mut(&mut state.nodes[node]).disk = Some(record),
                Effect::Store(record) => Arc::make_mut(&mut state.nodes[node]).writes.push_back(record),
                Effect::Announce(Event::Became { now, .. }) => {
                    if now.leader == Some(self.id(node)) {
                        state.crowned.insert((now.epoch, self.id(node)));
                    }
                    Arc::make_mut(&mut state.nodes[node]).became(now, self.id(node));
                }
                Effect::Announce(Event::Suspects(peer)) => {
                    if let Some(peer) = self.view.position(peer) {
                        state.close(node, peer);
                    }
                }
                // Of a quorum reign, which has a model of its own.
                Effect::Announce(_) => {}
            }
        }
    }

    fn crash(&self, state: &mut State<P>, node: usize) {
        state.left.crashes -= 1;
        for peer in (0..self.view.len()).filter(|&peer| peer != node) {
            state.close(node, peer);
        }
        state.wires.retain(|&(to, _), _| to != node);
        let at = Arc::make_mut(&mut state.nodes[node]);
        let epoch = at.standing.map(|standing| standing.epoch);
        let past = at.past.max(epoch);
        *at = Node { disk: at.disk, past, went_back: at.went_back, repeated: at.repeated, ..Node::blank() };
    }

    /// Time passes until a timer is due.
    fn pass(&self, state: &mut State<P>, node: usize, timer: P::Timer) {
        if !self.counts(state, node, timer) {
            return;
        }
        let elapsed = state.nodes[node].timers.get(&timer).map_or(Duration::ZERO, |span| span.min);
        for ((at, timer), span) in self.counted(state) {
            Arc::make_mut(&mut state.nodes[at]).timers.insert(timer, after(span, elapsed));
        }
    }
}

impl<P: Subject> State<P> {
    pub(super) fn blank(n: usize) -> Self {
        State {
            nodes: (0..n).map(|_| Arc::new(Node::blank())).collect(),
            wires: BTreeMap::new(),
            connected: BTreeSet::new(),
            left: Budget::default(),
            torn: false,
            crowned: BTreeSet::new(),
        }
    }

    pub(super) fn living(&self) -> impl Iterator<Item = (usize, &Node<P>)> {
        self.nodes.iter().map(Arc::as_ref).enumerate().filter(|(_, node)| node.member.is_some())
    }

    fn timers(&self) -> impl Iterator<Item = (usize, P::Timer, Span)> {
        self.living().flat_map(|(at, node)| node.timers.iter().map(move |(&timer, &span)| (at, timer, span)))
    }

    fn put(&mut self, to: usize, from: usize, item: Item<P::Message>) {
        self.wires.entry((to, from)).or_default().push_back(item);
    }

    fn take(&mut self, to: usize, from: usize) -> Item<P::Message> {
        let queue = self.wires.get_mut(&(to, from)).expect("only queues with items are kept");
        let item = queue.pop_front().expect("only queues with items are kept");
        if queue.is_empty() {
            self.wires.remove(&(to, from));
        }
        item
    }

    /// Lost unless the sender knows the connection that is there now: one that has broken since carries nothing.
    fn send(&mut self, from: usize, to: usize, message: P::Message) {
        let unread = self.wires.get(&(from, to));
        let stale = unread.is_some_and(|items| items.iter().any(|item| !matches!(item, Item::Frame(_))));
        if from == to || (self.connected.contains(&pair(from, to)) && !stale) {
            self.put(to, from, Item::Frame(message));
        }
    }

    /// One side closes the connection: it reads no more of it, the other side reads all that was sent and then the end.
    fn close(&mut self, side: usize, other: usize) {
        if self.connected.remove(&pair(side, other)) {
            self.wires.remove(&(side, other));
            self.put(other, side, Item::Down);
        }
    }
}

impl<P: Subject> Node<P> {
    fn blank() -> Self {
        Node {
            member: None,
            disk: None,
            timers: BTreeMap::new(),
            writes: VecDeque::new(),
            unreachable: NodeSet::default(),
            standing: None,
            past: None,
            went_back: false,
            repeated: false,
        }
    }

    fn became(&mut self, now: super::Standing, me: super::NodeId) {
        let before = self.standing.map(|standing| standing.epoch).max(self.past);
        self.went_back |= Some(now.epoch) < before;
        self.repeated |= now.leader == Some(me) && Some(now.epoch) <= self.past;
        self.standing = Some(now);
    }
}

impl Budget {
    fn spend(&mut self, class: Class) {
        match class {
            Class::Beat => self.beats -= 1,
            Class::Silence(_) => self.suspicions -= 1,
            Class::Upkeep | Class::Other => self.early -= 1,
        }
    }
}

fn step<T>(node: usize, cause: Cause<T>) -> Action<T> {
    Action::Step { node, cause, face: 0, torn: None }
}
