//! One lock: a machine per member and the messages between them. The workload drives it from outside.

use std::collections::BinaryHeap;

use algorithms::drive::Counts;
use algorithms::{Ctx, Input, Message, Mutex, MutexSettings, Token, TypedLink, View, Want};

use super::TokenFault;
use super::knowledge::Knowledge;
use super::watch::MutexObserver;
use super::wire::Wire;
use crate::bare::queue::Due;
use crate::bare::timers::Timers;
use crate::experiment::Schedule;
use crate::observe::ROUND;
use crate::rng::{Rng, word_at};

/// The name that every machine gives to the message that carries the right to enter.
const TOKEN: &str = "token";

/// Does the machine have a token that can be lost or duplicated?
pub(crate) fn has_token<M: Mutex>() -> bool {
    M::Message::KINDS.iter().any(|kind| kind.name == TOKEN)
}

/// A message under way.
#[derive(Clone, Debug)]
pub(crate) struct Flight<M: Mutex, T> {
    pub from: u32,
    pub to: u32,
    pub parcel: Parcel<M>,
    /// The vector clock of its sender.
    copy: u32,
    pub tag: T,
}

#[derive(Clone, Debug)]
pub(crate) enum Parcel<M: Mutex> {
    /// The receiver's name of the link, and the message.
    Machine(M::Link, M::Message),
    /// A message of the application, with the Lamport clock of its sender.
    Application(Option<u64>),
}

/// How the links of a run behave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    pub schedule: Schedule,
    pub fifo: bool,
}

/// Everything that a step may write to.
pub(crate) struct Net<M: Mutex, O: MutexObserver> {
    flights: BinaryHeap<Due<Flight<M, O::Tag>>>,
    pub timers: Timers<M::Timer>,
    pub knowledge: Knowledge,
    pub counts: Counts,
    /// Members that entered, for the workload to take.
    pub entered: Vec<(usize, Token)>,
    pub observer: O,
    pub now: u64,
    /// The fault that happens to the next token.
    pub fault: Option<TokenFault>,
    links: Links,
    /// When the latest message of each pair of members arrives.
    latest: Vec<u64>,
    members: usize,
    rng: Rng,
    seq: u64,
}

impl<M: Mutex, O: MutexObserver> Net<M, O> {
    pub(crate) fn send(&mut self, from: usize, to: usize, link: M::Link, message: M::Message) {
        let kind = M::Message::KINDS[message.kind()];
        self.counts.add(&message);
        let tag = self.observer.sent(self.now, from, to, kind, &message);
        let copy = self.knowledge.attach(from);
        let flight = Flight { from: from as u32, to: to as u32, parcel: Parcel::Machine(link, message), copy, tag };
        if self.fault.is_some() && kind.name == TOKEN {
            return self.spoil(flight);
        }
        self.push(flight, 0);
    }

    /// The fault of this run happens to this token.
    fn spoil(&mut self, flight: Flight<M, O::Tag>) {
        match self.fault.take() {
            Some(TokenFault::Lose) => {
                self.observer.lost(self.now, flight.tag);
                self.knowledge.drop_copy(flight.copy);
            }
            // The copy arrives when its receiver has used the original and passed it on.
            Some(TokenFault::Duplicate) => {
                let copy = Flight { tag: self.observer.repeated(self.now, flight.tag), ..flight.clone() };
                self.knowledge.share(flight.copy);
                self.push(flight, 0);
                self.push(copy, 2 * ROUND);
            }
            None => self.push(flight, 0),
        }
    }

    fn push(&mut self, flight: Flight<M, O::Tag>, later: u64) {
        let delay = match self.links.schedule {
            Schedule::Sync => ROUND,
            Schedule::Random => self.rng.between(1, ROUND),
        };
        let mut at = self.now + delay + later;
        if self.links.fifo && later == 0 {
            let latest = &mut self.latest[flight.from as usize * self.members + flight.to as usize];
            at = at.max(*latest);
            *latest = at;
        }
        self.seq += 1;
        self.flights.push(Due { at, seq: self.seq, what: flight });
    }
}

/// All machines of one lock and the net between them.
pub(crate) struct World<'a, M: Mutex, O: MutexObserver> {
    view: &'a View,
    settings: Vec<MutexSettings>,
    machines: Vec<M>,
    dead: Vec<bool>,
    pub net: Net<M, O>,
    seed: u64,
    pub steps: u64,
}

impl<'a, M: Mutex, O: MutexObserver> World<'a, M, O> {
    /// `settings`: one for each member.
    pub(crate) fn new(view: &'a View, settings: Vec<MutexSettings>, links: Links, seed: u64, observer: O) -> Self {
        let members = view.len();
        let mut net = Net {
            flights: BinaryHeap::new(),
            timers: Timers::new(),
            knowledge: Knowledge::new(members),
            counts: Counts::default(),
            entered: Vec::new(),
            observer,
            now: 0,
            fault: None,
            links,
            latest: vec![0; members * members],
            members,
            rng: Rng::new(seed ^ 0x6d75_7465_785f_6e65),
            seq: 0,
        };
        let machines = (0..members)
            .map(|me| {
                let dice = word_at(seed, u64::MAX - me as u64);
                let ctx = Ctx { me: view.members()[me], view, settings: &settings[me], dice };
                net.knowledge.begin_step();
                let machine = M::start(&ctx, None, &mut Wire { net: &mut net, view, me, dice });
                net.observer.step_over(me, machine.clock(), machine.stamp());
                machine
            })
            .collect();
        World { view, settings, machines, dead: vec![false; members], net, seed, steps: 0 }
    }

    pub(crate) fn machine(&self, at: usize) -> &M {
        &self.machines[at]
    }

    pub(crate) fn is_dead(&self, at: usize) -> bool {
        self.dead[at]
    }

    fn step(&mut self, me: usize, input: Input<M>) {
        self.steps += 1;
        self.net.knowledge.begin_step();
        let (view, dice) = (self.view, word_at(self.seed, self.steps));
        let ctx = Ctx { me: view.members()[me], view, settings: &self.settings[me], dice };
        let machine = &mut self.machines[me];
        machine.step(&ctx, input, &mut Wire { net: &mut self.net, view, me, dice });
        self.net.observer.step_over(me, machine.clock(), machine.stamp());
    }

    pub(crate) fn request(&mut self, at: usize, access: algorithms::Access) {
        self.net.knowledge.ask(at);
        self.net.observer.asked(self.net.now, at);
        self.step(at, Input::Command(Want::Request(access)));
    }

    pub(crate) fn exit(&mut self, at: usize) {
        self.net.observer.left(self.net.now, at);
        self.step(at, Input::Command(Want::Exit));
    }

    /// A message of the application, from one member to another one.
    pub(crate) fn tell(&mut self, from: usize, to: usize) {
        self.net.knowledge.begin_step();
        let tag = self.net.observer.told(self.net.now, from, to);
        let copy = self.net.knowledge.attach(from);
        let parcel = Parcel::Application(self.machines[from].clock());
        self.net.push(Flight { from: from as u32, to: to as u32, parcel, copy, tag }, 0);
    }

    pub(crate) fn crash(&mut self, at: usize) {
        self.dead[at] = true;
        self.net.observer.crashed(self.net.now, at);
    }

    /// When the next message arrives or the next timer is due.
    pub(crate) fn next_at(&mut self) -> Option<u64> {
        let message = self.net.flights.peek().map(|due| due.at);
        message.into_iter().chain(self.net.timers.next_at()).min()
    }

    /// Lets the next message arrive, or the next timer fire. Returns the member that heard from the application.
    pub(crate) fn advance(&mut self) -> Option<usize> {
        self.net.now = self.next_at()?.max(self.net.now);
        if let Some((at, timer)) = self.net.timers.pop_due(self.net.now) {
            if !self.dead[at as usize] {
                self.step(at as usize, Input::Timer(timer));
            }
            return None;
        }
        let flight = self.net.flights.pop()?.what;
        self.deliver(flight)
    }

    fn deliver(&mut self, flight: Flight<M, O::Tag>) -> Option<usize> {
        let to = flight.to as usize;
        if self.dead[to] {
            self.net.observer.lost(self.net.now, flight.tag);
            self.net.knowledge.drop_copy(flight.copy);
            return None;
        }
        self.net.observer.delivered(self.net.now, flight.tag);
        self.net.knowledge.arrive(to, flight.copy);
        match flight.parcel {
            Parcel::Machine(from, message) => {
                self.step(to, Input::Message { from, message });
                None
            }
            Parcel::Application(clock) => {
                let machine = &mut self.machines[to];
                if let Some(time) = clock {
                    machine.heard(time);
                }
                self.net.observer.step_over(to, machine.clock(), machine.stamp());
                Some(to)
            }
        }
    }

    /// Messages under way, in the order of sending: for a run by hand.
    pub(crate) fn under_way(&self) -> Vec<(u64, &Flight<M, O::Tag>)> {
        let mut flights: Vec<_> = self.net.flights.iter().map(|due| (due.seq, &due.what)).collect();
        flights.sort_by_key(|flight| flight.0);
        flights
    }

    /// Lets the message with this number arrive now.
    pub(crate) fn pick(&mut self, seq: u64) {
        let Some(flight) = self.net.flights.iter().find(|due| due.seq == seq).map(|due| due.what.clone()) else {
            return;
        };
        self.net.flights.retain(|due| due.seq != seq);
        self.deliver(flight);
    }
}

/// The members of a run as its topology needs them.
pub(crate) fn view<M: Mutex>(ids: Vec<algorithms::Uid>) -> View {
    View::of(M::Link::TOPOLOGY, ids, &[])
}
