//! Members with lock services, the links between them, and clients: one clock, no election. The test plays the reign.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use algorithms::drive::{Driver, Effect};
use algorithms::{Ctx, Input, NodeId, Uid, View};
use locks::central::{Central, CentralMsg};
use locks::service::{Grantee, LockSettings, ServiceCommand, ServiceEvent, StreamId};
use locks::wire::{Mode, RequestId, ToClerk, ToClient};
use types::{Epoch, Incarnation};

use crate::client::Client;
use crate::story;

pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) driver: Driver<Central, Duration>,
    settings: LockSettings,
    pub(crate) may_change: bool,
    pub(crate) next_epochs: usize,
}

/// On its way.
#[derive(Clone, Debug)]
enum Flight {
    Peer(CentralMsg),
    ToClerk(StreamId, ToClerk),
    ToClient(StreamId, ToClient),
}

/// A direction of a connection: member to member, client to member, member to client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Way {
    Peer(usize, usize),
    Up(usize, usize),
    Down(usize, usize),
}

pub(crate) struct World {
    pub(crate) now: Duration,
    view: View,
    settings: LockSettings,
    pub(crate) nodes: Vec<Option<Node>>,
    pub(crate) clients: Vec<Client>,
    flights: BTreeMap<Way, VecDeque<Flight>>,
    starts: Vec<u64>,
    pub(crate) voters: Vec<usize>,
    /// The member whose lease runs, and its epoch.
    pub(crate) leader: Option<usize>,
    pub(crate) epoch: u64,
    streams: u64,
    pub(crate) story: Vec<String>,
    pub(crate) tells: bool,
}

impl World {
    pub(crate) fn new(members: usize, settings: LockSettings) -> Self {
        let view = View::mesh((1..=members as u32).map(Uid::plain).collect());
        let mut world = World {
            now: Duration::ZERO,
            view,
            settings,
            nodes: (0..members).map(|_| None).collect(),
            clients: Vec::new(),
            flights: BTreeMap::new(),
            starts: vec![0; members],
            voters: (0..members).collect(),
            leader: None,
            epoch: 0,
            streams: 0,
            story: Vec::new(),
            tells: false,
        };
        (0..members).for_each(|node| world.start(node));
        world
    }

    fn tell(&mut self, line: impl FnOnce() -> String) {
        if self.tells {
            let line = line();
            self.story.push(format!("{:>6} {line}", self.now.as_millis()));
        }
    }

    /// A heading of the transcript.
    pub(crate) fn chapter(&mut self, title: &str) {
        self.story.push(String::new());
        self.story.push(format!("== {title}"));
    }

    pub(crate) fn start(&mut self, node: usize) {
        self.starts[node] += 1;
        let incarnation = Incarnation { counter: self.starts[node], nonce: 0 };
        let settings = LockSettings { incarnation, ..self.settings.clone() };
        let id = NodeId(node as u32 + 1);
        let ctx = Ctx { me: Uid::plain(id.0), view: &self.view, settings: &settings, dice: 0 };
        let driver = Driver::start(&ctx, None);
        self.nodes[node] = Some(Node { id, driver, settings, may_change: false, next_epochs: 0 });
        for other in (0..self.nodes.len()).filter(|&other| other != node) {
            self.connect(node, other);
        }
    }

    pub(crate) fn crash(&mut self, node: usize) {
        self.tell(|| format!("member {} crashes", node + 1));
        for other in (0..self.nodes.len()).filter(|&other| other != node) {
            self.disconnect(node, other);
        }
        for client in 0..self.clients.len() {
            if self.clients[client].at.is_some_and(|(at, _)| at == node) {
                self.hang_up(client);
            }
        }
        self.nodes[node] = None;
        if self.leader == Some(node) {
            self.leader = None;
        }
    }

    pub(crate) fn connect(&mut self, one: usize, other: usize) {
        if self.nodes[one].is_some() && self.nodes[other].is_some() {
            self.input(one, Input::PeerUp(NodeId(other as u32 + 1)));
            self.input(other, Input::PeerUp(NodeId(one as u32 + 1)));
        }
    }

    /// What is on its way is lost.
    pub(crate) fn disconnect(&mut self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            self.flights.remove(&Way::Peer(from, to));
            if self.nodes[from].is_some() {
                self.input(from, Input::PeerDown(NodeId(to as u32 + 1)));
            }
        }
    }

    pub(crate) fn command(&mut self, node: usize, command: ServiceCommand) {
        self.input(node, Input::Command(command));
    }

    /// A member whose lease has ended learns that before its next timer or command.
    fn input(&mut self, node: usize, input: Input<Central>) {
        let serves = |node: &Node| node.driver.machine().clerk().is_some() || node.driver.machine().taking().is_some();
        let late = matches!(input, Input::Timer(_) | Input::Command(_)) && self.leader != Some(node);
        if late && self.nodes[node].as_ref().is_some_and(serves) {
            self.step(node, Input::Command(ServiceCommand::OfficeEnded));
        }
        self.step(node, input);
    }

    fn step(&mut self, node: usize, input: Input<Central>) {
        let Some(Node { id, driver, settings, .. }) = &mut self.nodes[node] else { return };
        let ctx = Ctx { me: Uid::plain(id.0), view: &self.view, settings, dice: 0 };
        driver.step(&ctx, input);
        self.carry_out(node);
    }

    fn carry_out(&mut self, node: usize) {
        let now = self.now;
        while let Some(known) = &mut self.nodes[node]
            && let Some(effect) = known.driver.next_effect(|_, after| now + after.min)
        {
            match effect {
                Effect::Send { to, message, .. } => {
                    let to = to.0 as usize - 1;
                    self.tell(|| format!("{} to {}: {}", node + 1, to + 1, story::peer(&message)));
                    if self.nodes[to].is_some() {
                        self.flights.entry(Way::Peer(node, to)).or_default().push_back(Flight::Peer(message));
                    }
                }
                Effect::Announce(ServiceEvent::Tell { to, message }) => {
                    let at = self.clients.iter().position(|client| client.at == Some((node, to)));
                    if let Some(client) = at {
                        let flight = Flight::ToClient(to, message);
                        self.flights.entry(Way::Down(node, client)).or_default().push_back(flight);
                    }
                }
                Effect::Announce(ServiceEvent::VotersMayChange(may)) => known.may_change = may,
                Effect::Announce(ServiceEvent::NextEpoch) => known.next_epochs += 1,
                _ => {}
            }
        }
    }

    /// Delivers the first message on this way; false if there is none.
    pub(crate) fn deliver(&mut self, way: Way) -> bool {
        let Some(flight) = self.flights.get_mut(&way).and_then(VecDeque::pop_front) else { return false };
        match (way, flight) {
            (Way::Peer(from, to), Flight::Peer(message)) => {
                self.input(to, Input::Message { from: NodeId(from as u32 + 1), message });
            }
            (Way::Up(_, node), Flight::ToClerk(from, message)) => {
                let leased = self.leader == Some(node);
                self.command(node, ServiceCommand::Message { from, message, leased });
            }
            (Way::Down(_, client), Flight::ToClient(stream, message)) => {
                if self.clients[client].at.is_some_and(|(_, present)| present == stream) {
                    self.tell(|| format!("client {client} hears {}", story::to_client(&message)));
                    let said = self.clients[client].hear(self.now, message);
                    self.say(client, said);
                }
            }
            _ => unreachable!("a way has one kind of messages"),
        }
        true
    }

    pub(crate) fn ways(&self) -> Vec<Way> {
        self.flights.iter().filter(|(_, flights)| !flights.is_empty()).map(|(&way, _)| way).collect()
    }

    pub(crate) fn end_turn(&mut self, node: usize) -> bool {
        let owes = self.nodes[node].as_ref().is_some_and(|node| node.driver.machine().owes());
        if owes {
            self.command(node, ServiceCommand::TurnEnds);
        }
        owes
    }

    /// Delivers everything, and what follows from it, without time passing.
    pub(crate) fn settle(&mut self) {
        loop {
            while let Some(&way) = self.ways().first() {
                self.deliver(way);
            }
            if !(0..self.nodes.len()).fold(false, |some, node| self.end_turn(node) | some) {
                return;
            }
        }
    }

    /// Time passes; timers fire when they are due.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let due = |node: &Option<Node>| node.as_ref().and_then(|node| node.driver.next_due());
            let next = self.nodes.iter().filter_map(due).min().filter(|&due| due <= end);
            self.now = next.unwrap_or(end).max(self.now);
            self.fire_due();
            if next.is_none() {
                return;
            }
        }
    }

    pub(crate) fn fire_due(&mut self) {
        for node in 0..self.nodes.len() {
            while let Some(known) = &mut self.nodes[node]
                && let Some(timer) = known.driver.pop_due(self.now)
            {
                self.tell(|| format!("{}: timer {}", node + 1, story::timer(timer)));
                self.input(node, Input::Timer(timer));
            }
        }
    }
}

/// The reign.
impl World {
    pub(crate) fn alive(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&node| self.nodes[node].is_some()).collect()
    }

    fn grantee(&self, node: usize) -> Grantee {
        let incarnation = Incarnation { counter: self.starts[node], nonce: 0 };
        Grantee { id: NodeId(node as u32 + 1), incarnation }
    }

    pub(crate) fn grant(&mut self, voter: usize, to: usize) {
        let (epoch, to) = (Epoch(self.epoch), self.grantee(to));
        self.command(voter, ServiceCommand::Granted { epoch, to });
    }

    pub(crate) fn end_office(&mut self, node: usize) {
        self.tell(|| format!("member {} leads no more", node + 1));
        if self.leader == Some(node) {
            self.leader = None;
        }
        self.command(node, ServiceCommand::OfficeEnded);
    }

    pub(crate) fn tell_voters(&mut self, node: usize) {
        let voters = self.voters.iter().map(|&node| NodeId(node as u32 + 1)).collect();
        self.command(node, ServiceCommand::Voters(voters));
    }

    /// These voters grant the next epoch to this member, which leads in it.
    pub(crate) fn reign(&mut self, leader: usize, voters: &[usize]) {
        let first = self.epoch == 0;
        self.epoch += 1;
        let epoch = self.epoch;
        self.tell(|| format!("member {} leads in epoch {epoch}", leader + 1));
        self.leader = Some(leader);
        for &voter in voters {
            self.grant(voter, leader);
        }
        self.tell_voters(leader);
        let (epoch, wait) = (Epoch(epoch), self.settings.max_ttl);
        self.command(leader, ServiceCommand::OfficeBegan { epoch, first, wait });
    }
}

/// Clients.
impl World {
    pub(crate) fn client(&mut self, ttl: Duration) -> usize {
        let id = self.clients.len();
        self.clients.push(Client::new(id as u128 + 1, ttl));
        id
    }

    pub(crate) fn dial(&mut self, client: usize, node: usize) {
        self.hang_up(client);
        if self.nodes[node].is_some() {
            self.streams += 1;
            let stream = StreamId(self.streams);
            self.clients[client].at = Some((node, stream));
            self.command(node, ServiceCommand::StreamOpened(stream));
        }
    }

    /// What is on its way is lost. Where the end of the connection ends the session, a client gives its locks up first.
    pub(crate) fn hang_up(&mut self, client: usize) {
        if let Some((node, stream)) = self.clients[client].at.take() {
            if self.settings.close_ends_bare {
                self.clients[client].tell(self.now, locks::session::Session::close);
            }
            self.clients[client].session.disconnected();
            self.flights.remove(&Way::Down(node, client));
            self.flights.remove(&Way::Up(client, node));
            self.command(node, ServiceCommand::StreamClosed(stream));
        }
    }

    fn say(&mut self, client: usize, said: Vec<ToClerk>) {
        for message in said {
            self.tell(|| format!("client {client} says {}", story::to_clerk(&message)));
            if let Some((node, stream)) = self.clients[client].at {
                let flights = self.flights.entry(Way::Up(client, node)).or_default();
                flights.push_back(Flight::ToClerk(stream, message));
            }
        }
    }

    pub(crate) fn acquire(&mut self, client: usize, name: &str, mode: Mode, wait: Option<Duration>) -> RequestId {
        let (request, said) = self.clients[client].acquire(self.now, name, mode, wait);
        self.say(client, said);
        request
    }

    pub(crate) fn release(&mut self, client: usize, request: RequestId, durable: bool) {
        let said = self.clients[client].tell(self.now, |session, out| session.release(request, durable, out));
        self.say(client, said);
    }

    pub(crate) fn withdraw(&mut self, client: usize, request: RequestId) {
        let said = self.clients[client].tell(self.now, |session, out| session.withdraw(request, out));
        self.say(client, said);
    }

    pub(crate) fn keep_alive(&mut self, client: usize) {
        let said = self.clients[client].tell(self.now, locks::session::Session::keep_alive);
        self.say(client, said);
    }
}
