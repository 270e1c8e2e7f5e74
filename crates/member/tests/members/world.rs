//! A cluster under a virtual clock, for transcripts: reliable FIFO links with one millisecond per hop, connections that
//! open and close, disks whose writes take a given time. Every event is told with its effects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use algorithms::drive::{Dice, Driver, Effect};
use algorithms::{Ctx, Election, Input, NodeId, Protocol, View};
use member::{Authority, Beat, Command, Envelope, FullPos, Member, Record, Settings, Timer};

use crate::story::short;

const HOP: Duration = Duration::from_millis(1);

type Machine<E, A> = Member<E, A>;
type Disk<E, A> = Record<<A as Protocol>::Durable, <E as Protocol>::Durable>;
type Letter<E, A> = <Machine<E, A> as Protocol>::Message;

pub(crate) struct World<E: Election, A: Authority> {
    view: View,
    settings: Settings,
    ids: Vec<u32>,
    now: Duration,
    dice: Dice,
    nodes: BTreeMap<u32, Node<E, A>>,
    /// Pairs that are connected, the smaller id first, and which connection of the pair it is.
    connected: BTreeMap<(u32, u32), u64>,
    /// Pairs that cannot be connected.
    cut: BTreeSet<(u32, u32)>,
    connections: u64,
    events: BTreeMap<(Duration, u64), Happening<E, A>>,
    scheduled: u64,
    /// What each member last told another in a heartbeat.
    beats: BTreeMap<(u32, u32), Beat>,
    lines: Vec<String>,
    tells: bool,
}

struct Node<E: Election, A: Authority> {
    driver: Option<Driver<Machine<E, A>, Duration>>,
    disk: Option<Disk<E, A>>,
    write_time: Duration,
    starts: u64,
}

enum Happening<E: Election, A: Authority> {
    Arrives {
        from: u32,
        to: u32,
        connection: u64,
        message: Letter<E, A>,
    },
    /// The record that effects wait for is on the disk; of which start of the process.
    Written {
        node: u32,
        start: u64,
        record: Disk<E, A>,
    },
    Stored {
        node: u32,
        start: u64,
        record: Disk<E, A>,
    },
}

impl<E: Election, A: Authority> World<E, A> {
    /// Nobody runs yet.
    pub(crate) fn new(title: &str, view: View, settings: Settings) -> Self {
        let ids: Vec<u32> = view.members().iter().map(|uid| uid.id.0).collect();
        let node = || Node { driver: None, disk: None, write_time: Duration::ZERO, starts: 0 };
        World {
            nodes: ids.iter().map(|&id| (id, node())).collect(),
            view,
            settings,
            ids,
            now: Duration::ZERO,
            dice: Dice(1),
            connected: BTreeMap::new(),
            cut: BTreeSet::new(),
            connections: 0,
            events: BTreeMap::new(),
            scheduled: 0,
            beats: BTreeMap::new(),
            lines: vec![title.to_owned()],
            tells: true,
        }
    }

    /// All of it, to be compared with what it was.
    pub(crate) fn transcript(&self) -> String {
        self.lines.join("\n") + "\n"
    }

    /// A chapter: what the reader is to know.
    pub(crate) fn note(&mut self, text: &str) {
        self.lines.extend([String::new(), format!("# {text}")]);
    }

    /// The same without a word.
    pub(crate) fn quietly(&mut self, what: impl FnOnce(&mut Self)) {
        let told = std::mem::replace(&mut self.tells, false);
        what(self);
        self.tells = told;
    }

    pub(crate) fn start(&mut self, ids: &[u32]) {
        for &id in ids {
            let dice = self.dice.roll();
            let node = &self.nodes[&id];
            let ctx = Ctx { me: uid(&self.view, id), view: &self.view, settings: &self.settings, dice };
            let driver = Driver::start(&ctx, node.disk.clone());
            let node = self.nodes.get_mut(&id).expect("a member");
            node.driver = Some(driver);
            node.starts += 1;
            self.happens(id, "starts", false);
        }
        self.connect();
    }

    /// The process ends; its connections close. What it was writing is lost.
    pub(crate) fn kill(&mut self, id: u32) {
        let driver = self.nodes.get_mut(&id).and_then(|node| node.driver.take());
        let incarnation = driver.expect("it runs").machine().incarnation();
        self.say(id, "is killed");
        for peer in self.peers(id) {
            self.connected.remove(&pair(id, peer));
            self.input(peer, Input::Command(Command::Closed(NodeId(id), incarnation)));
            self.input(peer, Input::PeerDown(NodeId(id)));
        }
        self.connect();
    }

    pub(crate) fn lose_disk(&mut self, id: u32) {
        self.nodes.get_mut(&id).expect("a member").disk = None;
        self.say(id, "loses its disk");
    }

    pub(crate) fn writes_take(&mut self, id: u32, time: Duration) {
        self.nodes.get_mut(&id).expect("a member").write_time = time;
    }

    /// No connection between the two from now on.
    pub(crate) fn cut(&mut self, a: u32, b: u32) {
        self.cut.insert(pair(a, b));
        if self.connected.remove(&pair(a, b)).is_some() {
            self.input(a, Input::PeerDown(NodeId(b)));
            self.input(b, Input::PeerDown(NodeId(a)));
        }
        self.connect();
    }

    /// The two may be connected again.
    pub(crate) fn mend(&mut self, a: u32, b: u32) {
        self.cut.remove(&pair(a, b));
        self.connect();
    }

    pub(crate) fn command(&mut self, id: u32, command: Command) {
        self.input(id, Input::Command(command));
        self.connect();
    }

    pub(crate) fn driver(&self, id: u32) -> &Driver<Machine<E, A>, Duration> {
        self.nodes[&id].driver.as_ref().expect("it runs")
    }

    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.next_event(end) {}
        self.now = end;
    }

    /// Until the member has announced that it leads.
    pub(crate) fn run_until_leader(&mut self, id: u32) {
        let end = self.now + Duration::from_mins(1);
        while self.driver(id).machine().standing().role != member::Role::Leader {
            assert!(self.next_event(end), "{id} does not come to lead:\n{}", self.transcript());
        }
    }

    fn next_event(&mut self, end: Duration) -> bool {
        let event = self.events.keys().next().copied().map(|(when, _)| when);
        let due = |(&id, node): (&u32, &Node<E, A>)| node.driver.as_ref()?.next_due().map(|when| (when, id));
        let timer = self.nodes.iter().filter_map(due).min();
        if let Some(when) = event.filter(|&when| when <= end && timer.is_none_or(|(due, _)| when <= due)) {
            self.now = when;
            let (_, happening) = self.events.pop_first().expect("there is one");
            self.happen(happening);
        } else if let Some((when, id)) = timer.filter(|&(when, _)| when <= end) {
            self.now = when;
            let node = self.nodes.get_mut(&id).and_then(|node| node.driver.as_mut());
            if let Some(timer) = node.and_then(|driver| driver.pop_due(when)) {
                self.input(id, Input::Timer(timer));
            }
        } else {
            return false;
        }
        self.connect();
        true
    }

    fn happen(&mut self, happening: Happening<E, A>) {
        match happening {
            Happening::Arrives { from, to, connection, message } => {
                if from == to || self.connected.get(&pair(from, to)) == Some(&connection) {
                    self.input(to, Input::Message { from: NodeId(from), message });
                }
            }
            Happening::Written { node: id, start, record } => {
                let node = self.nodes.get_mut(&id).expect("a member");
                let Some(driver) = node.driver.as_mut().filter(|_| node.starts == start) else { return };
                node.disk = Some(record);
                driver.written();
                self.happens(id, "has written", false);
            }
            Happening::Stored { node: id, start, record } => {
                let node = self.nodes.get_mut(&id).expect("a member");
                if node.driver.is_some() && node.starts == start {
                    node.disk = Some(record.clone());
                    self.input(id, Input::Stored(record));
                }
            }
        }
    }

    fn input(&mut self, id: u32, input: Input<Machine<E, A>>) {
        let known = match &input {
            Input::Message { from, message: Envelope::Beat(beat) } => {
                let told = Beat { ask: false, ..*beat };
                self.beats.insert((from.0, id), told) == Some(told)
            }
            // That a connection closed matters only where it frees a voter.
            Input::Timer(Timer::Beat) | Input::Command(Command::Closed(..)) => true,
            _ => false,
        };
        let what = match &input {
            Input::Message { from, message } => format!("gets {} from {from}", short(message, &self.ids)),
            Input::Timer(timer) => format!("timer {} is due", short(timer, &self.ids)),
            Input::PeerUp(peer) => format!("is connected to {peer}"),
            Input::PeerDown(peer) => format!("has lost {peer}"),
            Input::Command(command) => format!("is told {}", short(command, &self.ids)),
            Input::Stored(_) => "has stored".to_owned(),
        };
        let dice = self.dice.roll();
        let ctx = Ctx { me: uid(&self.view, id), view: &self.view, settings: &self.settings, dice };
        let node = self.nodes.get_mut(&id).and_then(|node| node.driver.as_mut());
        if let Some(driver) = node {
            driver.step(&ctx, input);
            self.happens(id, &what, known);
        }
    }

    /// Carries out what the member wants. `known`: the input tells nothing new, and is not worth a line if its effects
    /// are not.
    fn happens(&mut self, id: u32, what: &str, known: bool) {
        let mut effects = Vec::new();
        let mut news = !known;
        loop {
            let (now, dice) = (self.now, &mut self.dice);
            let driver = self.nodes.get_mut(&id).and_then(|node| node.driver.as_mut()).expect("it runs");
            let when = |_, span: algorithms::Span| {
                let width = span.max.saturating_sub(span.min).as_millis() as u64;
                now + span.min + Duration::from_millis(dice.roll() % (width + 1))
            };
            let Some(effect) = driver.next_effect(when) else { break };
            news |= !self.is_routine(id, &effect);
            effects.extend(self.tell(&effect));
            self.carry_out(id, effect);
        }
        let blocked = self.driver(id).is_blocked() && self.driver(id).owes_effects();
        effects.extend((blocked && effects.is_empty()).then(|| "what it says waits for the disk".to_owned()));
        if news && self.tells {
            self.lines.push(format!("{:.6} {id}: {what}", self.now.as_secs_f64()));
            self.lines.extend(effects.into_iter().map(|effect| format!("    {effect}")));
        }
    }

    /// Heartbeats that tell nothing new, and the timers that bring them.
    fn is_routine(&self, id: u32, effect: &Effect<Machine<E, A>>) -> bool {
        match effect {
            Effect::Send { to, message: Envelope::Beat(beat), .. } => {
                self.beats.get(&(id, to.0)) == Some(&Beat { ask: false, ..*beat })
            }
            Effect::SetTimer(Timer::Beat | Timer::Silence(_), _) => true,
            _ => false,
        }
    }

    /// `None`: not worth a line. Which members are watched shows when one is lost.
    fn tell(&self, effect: &Effect<Machine<E, A>>) -> Option<String> {
        Some(match effect {
            Effect::SetTimer(timer, _) | Effect::CancelTimer(timer)
                if matches!(timer, Timer::Beat | Timer::Silence(_)) =>
            {
                return None;
            }
            Effect::Send { to, message, .. } => format!("send {} to {to}", short(message, &self.ids)),
            Effect::SetTimer(timer, span) if span.min == span.max => {
                format!("set timer {} to {:?}", short(timer, &self.ids), span.min)
            }
            Effect::SetTimer(timer, span) => {
                format!("set timer {} to {:?}..{:?}", short(timer, &self.ids), span.min, span.max)
            }
            Effect::CancelTimer(timer) => format!("cancel timer {}", short(timer, &self.ids)),
            Effect::Persist(record) => format!("persist {}", short(record, &self.ids)),
            Effect::Store(record) => format!("store {}", short(record, &self.ids)),
            Effect::Announce(event) => format!("announce {}", short(event, &self.ids)),
        })
    }

    fn carry_out(&mut self, id: u32, effect: Effect<Machine<E, A>>) {
        let node = self.nodes.get_mut(&id).expect("a member");
        let (start, write_time) = (node.starts, node.write_time);
        match effect {
            // A ring of one.
            Effect::Send { to: NodeId(to), message, .. } if to == id => {
                self.schedule(HOP, Happening::Arrives { from: id, to, connection: 0, message });
            }
            Effect::Send { to: NodeId(to), message, .. } => {
                if let Some(&connection) = self.connected.get(&pair(id, to)) {
                    self.schedule(HOP, Happening::Arrives { from: id, to, connection, message });
                }
            }
            Effect::Persist(record) if write_time.is_zero() => {
                node.disk = Some(record);
                node.driver.as_mut().expect("it runs").written();
            }
            Effect::Persist(record) => self.schedule(write_time, Happening::Written { node: id, start, record }),
            Effect::Store(record) => self.schedule(write_time, Happening::Stored { node: id, start, record }),
            Effect::SetTimer(..) | Effect::CancelTimer(_) | Effect::Announce(_) => {}
        }
    }

    fn schedule(&mut self, after: Duration, happening: Happening<E, A>) {
        self.scheduled += 1;
        self.events.insert((self.now + after, self.scheduled), happening);
    }

    /// Members that one of the two wants a link to, and that can be reached, are connected.
    fn connect(&mut self) {
        loop {
            let wanted = self.ids.iter().flat_map(|&id| self.links(id).into_iter().map(move |peer| (id, peer)));
            let alive = |id: u32| self.nodes[&id].driver.is_some();
            let open = |&(a, b): &(u32, u32)| {
                let pair = pair(a, b);
                alive(a) && alive(b) && !self.cut.contains(&pair) && !self.connected.contains_key(&pair)
            };
            let Some((a, b)) = wanted.into_iter().find(open) else { return };
            self.connections += 1;
            self.connected.insert(pair(a, b), self.connections);
            self.beats.retain(|&(from, to), _| pair(from, to) != pair(a, b));
            self.input(a, Input::PeerUp(NodeId(b)));
            self.input(b, Input::PeerUp(NodeId(a)));
        }
    }

    fn links(&self, id: u32) -> Vec<u32> {
        let Some(driver) = &self.nodes[&id].driver else { return Vec::new() };
        let links = driver.machine().links(&self.view);
        links.iter().map(|FullPos(at)| self.ids[at]).collect()
    }

    fn peers(&self, id: u32) -> Vec<u32> {
        let with = |&(a, b): &(u32, u32)| [(a == id).then_some(b), (b == id).then_some(a)].into_iter().flatten();
        self.connected.keys().flat_map(with).collect()
    }

    fn say(&mut self, id: u32, what: &str) {
        if self.tells {
            self.lines.push(format!("{:.6} {id}: {what}", self.now.as_secs_f64()));
        }
    }
}

fn pair(a: u32, b: u32) -> (u32, u32) {
    (a.min(b), a.max(b))
}

fn uid(view: &View, id: u32) -> algorithms::Uid {
    view.uid(NodeId(id)).expect("a member")
}
