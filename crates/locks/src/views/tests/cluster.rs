//! Some members, their connections and their clients.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use algorithms::drive::{Driver, Effect};
use algorithms::{Input, Mutex, View};
use types::{Epoch, NodeId, Token, Uid};

use super::super::{Context, Msg, Views, ViewsSettings, ViewsTimer};
use crate::name::LockName;
use crate::service::{ServiceCommand, ServiceEvent, StreamId};
use crate::wire::{AttachNumber, Mode, Refusal, RequestId, SendNumber, SessionId, ToClerk, ToClient};

const HOP: u64 = 1;

type At<M> = Driver<Views<M>, u64>;

/// Messages and when they arrive.
type Wire<M> = VecDeque<(u64, Msg<M>)>;

pub(crate) struct Cluster<M: Mutex> {
    view: View,
    pub(crate) settings: ViewsSettings,
    pub(crate) now: u64,
    /// `None`: crashed.
    nodes: Vec<Option<At<M>>>,
    /// By sender and receiver.
    wires: BTreeMap<(usize, usize), Wire<M>>,
    down: BTreeSet<(usize, usize)>,
    pub(crate) leader: Option<usize>,
    /// Does the leader's lease hold?
    pub(crate) leased: bool,
    /// What each client was told, and what it was told last.
    pub(crate) told: BTreeMap<u64, Vec<ToClient>>,
    pub(crate) events: Vec<(usize, ServiceEvent)>,
    /// Every input and effect, if a transcript is wanted.
    pub(crate) transcript: Option<Vec<String>>,
    sends: u64,
}

/// The stream of a client, which is also its session.
fn member_of(client: u64) -> usize {
    (client / 100) as usize
}

impl<M: Mutex> Cluster<M> {
    /// Members 1 to n, all connected; the first leads.
    pub(crate) fn led(n: u32) -> Self {
        Self::with(n, ViewsSettings::default())
    }

    pub(crate) fn with(n: u32, settings: ViewsSettings) -> Self {
        let members = (1..=n).map(Uid::plain).collect();
        let mut cluster = Cluster {
            view: View::mesh(members),
            settings,
            now: 0,
            nodes: (0..n).map(|_| None).collect(),
            wires: BTreeMap::new(),
            down: BTreeSet::new(),
            leader: None,
            leased: true,
            told: BTreeMap::new(),
            events: Vec::new(),
            transcript: None,
            sends: 0,
        };
        for at in 0..n as usize {
            cluster.start(at);
        }
        cluster.lead(0, 1, true);
        cluster.run(50);
        cluster
    }

    fn ctx<'a>(view: &'a View, settings: &'a ViewsSettings, at: usize) -> Context<'a> {
        Context { me: view.members()[at], view, settings, dice: 0 }
    }

    pub(crate) fn start(&mut self, at: usize) {
        self.nodes[at] = Some(Driver::start(&Self::ctx(&self.view, &self.settings, at), None));
        self.carry_out(at);
        if let Some(leader) = self.leader {
            self.input(at, Input::Command(ServiceCommand::Leader(Some(self.id(leader)))));
        }
        for peer in 0..self.nodes.len() {
            if peer != at && self.nodes[peer].is_some() && !self.down.contains(&pair(at, peer)) {
                self.input(at, Input::PeerUp(self.id(peer)));
                self.input(peer, Input::PeerUp(self.id(at)));
            }
        }
    }

    pub(crate) fn crash(&mut self, at: usize) {
        self.nodes[at] = None;
        if self.leader == Some(at) {
            self.leader = None;
        }
        for peer in 0..self.nodes.len() {
            self.lose_messages(at, peer);
            if self.nodes[peer].is_some() && !self.down.contains(&pair(at, peer)) {
                self.input(peer, Input::PeerDown(self.id(at)));
            }
        }
    }

    fn lose_messages(&mut self, one: usize, other: usize) {
        self.wires.remove(&(one, other));
        self.wires.remove(&(other, one));
    }

    pub(crate) fn cut(&mut self, one: usize, other: usize) {
        self.down.insert(pair(one, other));
        self.lose_messages(one, other);
        self.input(one, Input::PeerDown(self.id(other)));
        self.input(other, Input::PeerDown(self.id(one)));
    }

    pub(crate) fn heal(&mut self, one: usize, other: usize) {
        self.down.remove(&pair(one, other));
        self.input(one, Input::PeerUp(self.id(other)));
        self.input(other, Input::PeerUp(self.id(one)));
    }

    pub(crate) fn id(&self, at: usize) -> NodeId {
        self.view.members()[at].id
    }

    pub(crate) fn lead(&mut self, at: usize, epoch: u64, first: bool) {
        if let Some(old) = self.leader.filter(|&old| old != at) {
            self.input(old, Input::Command(ServiceCommand::OfficeEnded));
        }
        self.leader = Some(at);
        for node in 0..self.nodes.len() {
            self.input(node, Input::Command(ServiceCommand::Leader(Some(self.id(at)))));
        }
        let wait = self.settings.locks.max_ttl;
        self.input(at, Input::Command(ServiceCommand::OfficeBegan { epoch: Epoch(epoch), first, wait }));
    }

    pub(crate) fn machine(&self, at: usize) -> &Views<M> {
        self.nodes[at].as_ref().expect("it runs").machine()
    }

    pub(crate) fn input(&mut self, at: usize, input: Input<Views<M>>) {
        let ctx = Self::ctx(&self.view, &self.settings, at);
        let Some(driver) = &mut self.nodes[at] else { return };
        if let Some(lines) = &mut self.transcript
            && !is_reading(&input)
        {
            lines.push(format!("{} {}", ctx.me.id, short(&format!("{input:?}"))));
        }
        driver.step(&ctx, input);
        self.carry_out(at);
        if self.leader == Some(at) && self.leased && self.machine(at).owes() {
            self.input(at, Input::Command(ServiceCommand::LeaseHolds));
        }
    }

    fn carry_out(&mut self, at: usize) {
        let now = self.now;
        while let Some(effect) =
            self.nodes[at].as_mut().and_then(|driver| driver.next_effect(|_, span| now + span.min.as_millis() as u64))
        {
            if let Some(lines) = &mut self.transcript
                && !matches!(effect, Effect::SetTimer(..) | Effect::CancelTimer(_))
            {
                lines.push(format!("    {}", short(&format!("{effect:?}"))));
            }
            match effect {
                Effect::Send { to, message, .. } => {
                    let to = self.view.position(to).expect("a member");
                    if self.nodes[to].is_some() && !self.down.contains(&pair(at, to)) {
                        self.wires.entry((at, to)).or_default().push_back((now + HOP, message));
                    }
                }
                Effect::Announce(ServiceEvent::Tell { to, message }) => {
                    self.told.entry(to.0).or_default().push(message);
                }
                Effect::Announce(event) => self.events.push((at, event)),
                _ => {}
            }
        }
    }

    /// Lets this many milliseconds pass.
    pub(crate) fn run(&mut self, for_ms: u64) {
        let end = self.now + for_ms;
        while let Some(next) = self.next_moment().filter(|&next| next <= end) {
            self.now = next.max(self.now);
            if !self.fire_one() {
                self.deliver_one();
            }
        }
        self.now = end;
    }

    fn next_moment(&self) -> Option<u64> {
        let timers = self.nodes.iter().flatten().filter_map(Driver::next_due);
        let messages = self.wires.values().filter_map(|wire| wire.front()).map(|&(when, _)| when);
        timers.chain(messages).min()
    }

    fn fire_one(&mut self) -> bool {
        let now = self.now;
        let mut due = self.nodes.iter_mut().enumerate();
        let due = due.find_map(|(at, driver)| Some((at, driver.as_mut()?.pop_due(now)?)));
        let Some((at, timer)) = due else { return false };
        self.input(at, Input::Timer(timer));
        true
    }

    fn deliver_one(&mut self) {
        let now = self.now;
        let due = self.wires.iter().find(|(_, wire)| wire.front().is_some_and(|&(when, _)| when <= now));
        let Some(&(from, to)) = due.map(|(ends, _)| ends) else { return };
        let (_, message) = self.wires.get_mut(&(from, to)).and_then(VecDeque::pop_front).expect("it is due");
        if self.wires[&(from, to)].is_empty() {
            self.wires.remove(&(from, to));
        }
        self.input(to, Input::Message { from: self.id(from), message });
    }

    /// A client speaks. Client 100 * at + k is connected to the member at this position.
    pub(crate) fn say(&mut self, client: u64, message: ToClerk) {
        let message = ServiceCommand::Message { from: StreamId(client), message, leased: true };
        self.input(member_of(client), Input::Command(message));
    }

    pub(crate) fn connect(&mut self, client: u64) {
        self.input(member_of(client), Input::Command(ServiceCommand::StreamOpened(StreamId(client))));
    }

    /// Opens a session of 3 s.
    pub(crate) fn open(&mut self, client: u64) {
        self.connect(client);
        let epoch = self.machine(member_of(client)).serves().unwrap_or_default();
        let message = ToClerk::Open {
            session: SessionId(u128::from(client)),
            number: self.number(),
            epoch,
            attach: AttachNumber(1),
            ttl: Duration::from_secs(3),
            bare: true,
            holds: vec![],
            wants: vec![],
        };
        self.say(client, message);
    }

    pub(crate) fn number(&mut self) -> SendNumber {
        self.sends += 1;
        SendNumber(self.sends)
    }

    pub(crate) fn acquire(&mut self, client: u64, request: u64, name: &str) {
        self.acquire_in(client, request, name, Mode::Exclusive, None);
    }

    pub(crate) fn acquire_in(&mut self, client: u64, request: u64, name: &str, mode: Mode, wait: Option<Duration>) {
        let number = self.number();
        let name = LockName::new(name).expect("a name");
        self.say(client, ToClerk::Acquire { number, request: RequestId(request), name, mode, wait });
    }

    pub(crate) fn keep_alive(&mut self, client: u64) {
        let number = self.number();
        self.say(client, ToClerk::KeepAlive { number });
    }

    pub(crate) fn release(&mut self, client: u64, request: u64) {
        let token = self.granted(client, request).expect("it was granted");
        self.say(client, ToClerk::Release { request: RequestId(request), token, durable: false });
    }

    pub(crate) fn granted(&self, client: u64, request: u64) -> Option<Token> {
        self.told.get(&client)?.iter().rev().find_map(|told| match told {
            ToClient::Granted { request: of, token, .. } if of.0 == request => Some(*token),
            _ => None,
        })
    }

    pub(crate) fn refused(&self, client: u64, request: u64) -> Option<Refusal> {
        self.told.get(&client)?.iter().rev().find_map(|told| match told {
            ToClient::Refused { request: of, why } if of.0 == request => Some(*why),
            _ => None,
        })
    }

    pub(crate) fn lost(&self, client: u64) -> bool {
        self.told.get(&client).is_some_and(|told| told.contains(&ToClient::SessionLost))
    }

    /// Opens a session for each of these clients, and a request for this lock, in turn.
    pub(crate) fn ask_all(&mut self, clients: &[u64], name: &str) {
        for &client in clients {
            self.open(client);
            self.run(10);
            self.acquire(client, 1, name);
            self.run(10);
        }
    }

    /// The clients that were granted their first request.
    pub(crate) fn inside(&self, clients: &[u64]) -> Vec<u64> {
        clients.iter().copied().filter(|&client| self.granted(client, 1).is_some()).collect()
    }

    pub(crate) fn timers(&self, at: usize) -> Vec<ViewsTimer<M::Timer>> {
        self.nodes[at].as_ref().expect("it runs").timers().iter().map(|(timer, _)| timer).collect()
    }
}

fn pair(one: usize, other: usize) -> (usize, usize) {
    (one.min(other), one.max(other))
}

fn is_reading<M: Mutex>(input: &Input<Views<M>>) -> bool {
    matches!(input, Input::Command(ServiceCommand::LeaseHolds))
}

/// Without what is the same in every line.
fn short(text: &str) -> String {
    let mut text = text.to_owned();
    for (long, short) in
        [("NodeId(", "("), ("SessionId(", "("), ("StreamId(", "("), ("RequestId(", "("), ("SendNumber(", "(")]
    {
        text = text.replace(long, short);
    }
    text
}
