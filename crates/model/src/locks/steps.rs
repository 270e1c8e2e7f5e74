//! The steps of the members.

use std::time::Duration;

use algorithms::drive::{Driver, Effect};
use algorithms::{Input, Span};
use locks::central::Context;
use locks::wire::{SessionId, ToClerk};
use types::Incarnation;

use super::{
    Action, Breach, Central, CentralTimer, Flaw, Item, LockModel, LockName, LockSettings, Node, RequestId,
    ServiceCommand, ServiceEvent, State, StreamId, Subject, ToClient, Token,
};
use crate::queues::take;

/// The clerk's requests, with the tokens of those that hold a lock.
type Claims = Vec<((SessionId, RequestId), (LockName, Option<Token>))>;

impl<P: Subject> LockModel<P> {
    pub(super) fn perform(&self, state: &State<P>, action: &Action) -> State<P> {
        let mut next = state.clone();
        let state = &mut next;
        match *action {
            Action::Tick => Self::tick(state),
            Action::Fires(node, timer) => self.fire(state, node, timer),
            Action::Reads { node, from } => self.read(state, node, from),
            Action::Hears(stream) => self.hear(state, stream),
            Action::Vanishes(stream) => self.vanish(state, stream),
            Action::TurnEnds(node) => self.tell(state, node, ServiceCommand::TurnEnds),
            Action::Listens(client) => self.listen(state, client),
            Action::Asks(client) => self.ask(state, client),
            Action::Releases(client, request) => self.release(state, client, request),
            Action::Withdraws(client, request) => self.withdraw(state, client, request),
            Action::KeepsAlive(client) => self.keep_alive(state, client),
            Action::Moves(client, node) => self.moves(state, client, node),
            Action::Bids(node) => self.bid(state, node),
            Action::Grants { voter, won } => self.grant(state, voter, won),
            Action::Confirms(voter) => self.confirm(state, voter),
            Action::Wins => self.win(state),
            Action::Renews => self.renew(state),
            Action::Notices(node) => self.end_office(state, node),
            Action::StepsDown(node) => self.step_down(state, node),
            Action::Crashes(node) => self.crash(state, node),
            Action::Restarts(node) => self.restart(state, node),
            Action::Breaks(one, other) => Self::break_connection(state, one, other),
            Action::Changes => self.change(state),
        }
        note_acts(state);
        next
    }

    fn tick(state: &mut State<P>) {
        for at in 0..state.nodes.len() {
            let node = state.node(at);
            if let Some(office) = &mut node.office {
                office.wait = office.wait.saturating_sub(1);
            }
            if let Some(driver) = &mut node.driver {
                driver.timers_mut().shift(|_, left| left.map(|left| left.saturating_sub(1)));
            }
        }
        for client in 0..state.clients.len() {
            let client = state.client(client);
            client.right = client.right.saturating_sub(1);
            client.sent.retain(|_, left| {
                *left -= 1;
                *left > 0
            });
        }
        for reign in [&mut state.bid, &mut state.lease] {
            reign.take_if(|reign| {
                reign.left -= 1;
                reign.left == 0
            });
        }
    }

    pub(super) fn settings(&self, node: usize, life: u64) -> LockSettings {
        LockSettings { incarnation: Incarnation { counter: life, nonce: node as u64 }, ..self.settings.clone() }
    }

    pub(super) fn start(&self, node: usize, life: u64) -> Driver<P, Option<u8>> {
        let settings = self.settings(node, life);
        Driver::start(&self.ctx(node, &settings), None)
    }

    fn ctx<'a>(&'a self, node: usize, settings: &'a LockSettings) -> Context<'a> {
        Context { me: self.view.members()[node], view: &self.view, settings, dice: self.dice }
    }

    pub(super) fn tell(&self, state: &mut State<P>, node: usize, command: ServiceCommand) {
        self.step(state, node, Input::Command(command));
    }

    fn fire(&self, state: &mut State<P>, node: usize, timer: CentralTimer) {
        let driver = state.node(node).driver.as_mut().expect("only the living have timers");
        driver.timers_mut().cancel(timer);
        self.step(state, node, Input::Timer(timer));
    }

    fn read(&self, state: &mut State<P>, node: usize, from: usize) {
        let item = take(&mut state.wires, &(node, from), 0);
        let from = self.id(from);
        match item {
            Some(Item::Message(message)) => self.step(state, node, Input::Message { from, message }),
            Some(Item::Down) => self.step(state, node, Input::PeerDown(from)),
            Some(Item::Up) => self.step(state, node, Input::PeerUp(from)),
            None => {}
        }
    }

    fn hear(&self, state: &mut State<P>, from: StreamId) {
        let Some(stream) = state.streams.get_mut(&from) else { return };
        let (node, message) = (stream.node, stream.up.pop_front());
        let Some(message) = message else { return self.vanish(state, from) };
        let leased = state.is_leased(node) || self.breach == Some(Breach::AlwaysLeased);
        if leased {
            note_end(state, node, from, &message);
        }
        self.tell(state, node, ServiceCommand::Message { from, message, leased });
    }

    fn vanish(&self, state: &mut State<P>, stream: StreamId) {
        if let Some(gone) = state.streams.remove(&stream) {
            self.tell(state, gone.node, ServiceCommand::StreamClosed(stream));
        }
    }

    /// Feeds the member, and carries its effects out.
    pub(super) fn step(&self, state: &mut State<P>, node: usize, input: Input<P>) {
        let Some(before) = state.central(node) else { return };
        let (claims, epoch) = (claims(before), before.clerk().map(locks::central::Clerk::epoch));
        self.feed(state, node, input);
        let owes = |state: &State<P>| state.central(node).is_some_and(Central::owes);
        if !self.long_turns && owes(state) {
            self.feed(state, node, Input::Command(ServiceCommand::TurnEnds));
        }
        self.note_step(state, node, &claims, epoch);
    }

    fn feed(&self, state: &mut State<P>, node: usize, input: Input<P>) {
        let settings = self.settings(node, state.nodes[node].life);
        let ctx = self.ctx(node, &settings);
        if let Some(driver) = &mut state.node(node).driver {
            driver.step(&ctx, input);
        }
        loop {
            let driver = state.node(node).driver.as_mut();
            let Some(effect) = driver.and_then(|driver| driver.next_effect(ticks)) else { return };
            match effect {
                Effect::Send { to, message, .. } => {
                    let to = self.position(to);
                    if state.is_connected(node, to) {
                        state.wires.entry((to, node)).or_default().push_back(Item::Message(message));
                    }
                }
                Effect::Announce(event) => Self::announced(state, node, event),
                Effect::SetTimer(..) | Effect::CancelTimer(_) | Effect::Persist(()) | Effect::Store(()) => {}
            }
        }
    }

    fn announced(state: &mut State<P>, node: usize, event: ServiceEvent) {
        match event {
            ServiceEvent::Tell { to, message } => {
                let extends =
                    matches!(message, ToClient::Opened { .. } | ToClient::Kept { .. } | ToClient::Queued { .. });
                let grants = matches!(message, ToClient::Granted { .. });
                if (extends && !state.is_leased(node)) || (grants && state.nodes[node].office.is_none()) {
                    state.flaws.insert(Flaw::NoLease);
                }
                if let Some(stream) = state.streams.get_mut(&to).filter(|stream| !stream.closed && !stream.gone) {
                    stream.down.push_back(message);
                }
            }
            ServiceEvent::VotersMayChange(may) => {
                if let Some(office) = &mut state.node(node).office {
                    office.may_change = may;
                }
            }
            ServiceEvent::Unlocked { .. } | ServiceEvent::NextEpoch => {}
        }
    }

    /// Looks for wrong steps of the clerk.
    fn note_step(&self, state: &mut State<P>, node: usize, before: &Claims, epoch: Option<types::Epoch>) {
        let Some(central) = state.central(node) else { return };
        let Some(clerk) = central.clerk() else { return };
        let after = claims(central);
        let of = |claim: (SessionId, RequestId)| (clerk.epoch(), claim.0, claim.1);
        let mut revived = after.iter().any(|&(claim, _)| state.ended.contains(&of(claim)));
        if epoch == Some(clerk.epoch()) {
            // A lock that a request holds is not taken away while the request goes on.
            let changed = |(claim, (_, token)): &(_, (_, Option<Token>))| {
                let now = after.iter().find(|(other, _)| other == claim).map(|(_, (_, token))| token);
                token.is_some() && now.is_some_and(|now| now != token)
            };
            revived |= before.iter().any(changed);
        }
        let opened = epoch != Some(clerk.epoch());
        let rightful = state.nodes[node].office.is_some_and(|office| office.first || office.wait == 0);
        let early = opened && !rightful && !self.has_copies(state, node);
        state.flaws.extend(revived.then_some(Flaw::Revived));
        state.flaws.extend(early.then_some(Flaw::TooEarly));
    }

    /// Had a majority a copy when it granted this leader its epoch?
    fn has_copies(&self, state: &State<P>, node: usize) -> bool {
        let lease = state.lease.as_ref().filter(|lease| lease.at == node);
        lease.is_none_or(|lease| self.is_majority(state, |at| lease.granted.get(&at) == Some(&true)))
    }
}

/// The settings are in seconds: a second is a tick.
fn ticks(timer: CentralTimer, span: Span) -> Option<u8> {
    let counts = matches!(timer, CentralTimer::Office | CentralTimer::Session(_));
    counts.then(|| u8::try_from(span.min.as_secs()).expect("a few ticks"))
}

pub(super) fn seconds(ticks: u8) -> Duration {
    Duration::from_secs(ticks.into())
}

fn claims(central: &Central) -> Claims {
    let sessions = central.clerk().into_iter().flat_map(|clerk| clerk.sessions().iter());
    let all = sessions.flat_map(|(id, session)| {
        session.requests().iter().map(move |(&request, claim)| ((id, request), (claim.name.clone(), claim.token)))
    });
    all.collect()
}

/// The clerk is about to hear that a request is over.
fn note_end<P: Subject>(state: &mut State<P>, node: usize, from: StreamId, message: &ToClerk) {
    let Some(clerk) = state.central(node).and_then(Central::clerk) else { return };
    let bound = clerk.sessions().iter().find(|(_, session)| session.stream() == Some(from));
    let Some((session, epoch)) = bound.map(|(id, _)| (id, clerk.epoch())) else { return };
    if let ToClerk::Withdraw { request } | ToClerk::Release { request, .. } = *message {
        state.ended.insert((epoch, session, request));
    }
}

/// Tokens with which clients act never go back.
fn note_acts<P: Subject>(state: &mut State<P>) {
    let State { clients, acted, flaws, .. } = state;
    for client in clients {
        let session = client.session.id();
        for (name, token) in client.acts() {
            let last = acted.entry(name.clone()).or_insert((token, session));
            if token < last.0 || (token == last.0 && session != last.1) {
                flaws.insert(Flaw::TokenWentBack);
            }
            if token > last.0 {
                *last = (token, session);
            }
        }
    }
}

impl<P: Subject> State<P> {
    /// Does a message that is sent now arrive? Not while the sender has not seen that the connection came back.
    pub(super) fn is_connected(&self, from: usize, to: usize) -> bool {
        let lives = |at: usize| self.nodes[at].driver.is_some();
        let ended = |item: &Item| matches!(item, Item::Down | Item::Up);
        lives(from)
            && lives(to)
            && from != to
            && !self.wires.get(&(from, to)).is_some_and(|wire| wire.iter().any(ended))
    }
}

impl<P: Subject> Node<P> {
    /// Timers that fire before anything else happens to this member.
    pub(super) fn due(&self) -> impl Iterator<Item = CentralTimer> + '_ {
        self.timers().filter(|&(_, left)| left == Some(0)).map(|(timer, _)| timer)
    }
}
