//! A small driver for message machines: reliable FIFO links, timers only when nothing else is left to happen.

use std::collections::VecDeque;
use std::time::Duration;

use algorithms::{Campaign, Ctx, Election, Input, Link, Outbox, Outcome, Protocol, Settings, Span};

use crate::subject::{Dice, Log, Plan, Run, Schedule, readable};

const MAX_STEPS: usize = 200_000;

pub(crate) fn run<E: Election>(plan: &Plan<'_>, log: Log<'_>) -> Run {
    let mut world = World::<E>::new(plan, log);
    world.settle();
    world.run
}

/// The second of two elections: after the first the node at `dies` dies, and `starts` misses it. Counts only this one.
pub(crate) fn failover<E: Election>(plan: &Plan<'_>, dies: usize, starts: usize) -> Run {
    let mut world = World::<E>::new(plan, None);
    world.settle();
    world.dead.push(dies);
    world.starts.push_back(starts);
    world.run = Run::new::<E::Message>(plan.view.len(), E::LIFE);
    world.settle();
    world.run
}

#[derive(Debug)]
enum Effect<P: Protocol> {
    Send(P::Link, P::Message),
    Forward(P::Link, P::Message),
    SetTimer(P::Timer, Span),
    CancelTimer(P::Timer),
    Persist(P::Durable),
    Store(P::Durable),
    Announce(P::Event),
}

struct Effects<P: Protocol>(Vec<Effect<P>>);

impl<P: Protocol> Outbox<P> for Effects<P> {
    fn send(&mut self, to: P::Link, message: P::Message) {
        self.0.push(Effect::Send(to, message));
    }
    fn forward(&mut self, to: P::Link, message: P::Message) {
        self.0.push(Effect::Forward(to, message));
    }
    fn set_timer(&mut self, timer: P::Timer, after: Span) {
        self.0.push(Effect::SetTimer(timer, after));
    }
    fn cancel_timer(&mut self, timer: P::Timer) {
        self.0.push(Effect::CancelTimer(timer));
    }
    fn persist(&mut self, record: P::Durable) {
        self.0.push(Effect::Persist(record));
    }
    fn store(&mut self, record: P::Durable) {
        self.0.push(Effect::Store(record));
    }
    fn announce(&mut self, event: P::Event) {
        self.0.push(Effect::Announce(event));
    }
}

struct Flight<P: Protocol> {
    round: u64,
    to: usize,
    link: P::Link,
    message: P::Message,
}

struct World<'a, E: Election> {
    plan: &'a Plan<'a>,
    settings: Settings,
    log: Log<'a>,
    dice: Dice,
    dead: Vec<usize>,
    nodes: Vec<E>,
    /// In the order of sending.
    flights: VecDeque<Flight<E>>,
    starts: VecDeque<usize>,
    stored: VecDeque<(usize, E::Durable)>,
    on_disk: Vec<Option<E::Durable>>,
    timers: Vec<(Duration, usize, E::Timer)>,
    now: Duration,
    /// The round of the input in hand.
    round: u64,
    run: Run,
}

impl<'a, E: Election> World<'a, E> {
    fn new(plan: &'a Plan<'a>, log: Log<'a>) -> Self {
        let n = plan.view.len();
        let mut world = World {
            plan,
            settings: plan.settings(),
            log,
            dice: Dice(plan.seed),
            dead: plan.dead.to_vec(),
            nodes: Vec::new(),
            flights: VecDeque::new(),
            starts: plan.initiators.iter().copied().collect(),
            stored: VecDeque::new(),
            on_disk: vec![None; n],
            timers: Vec::new(),
            now: Duration::ZERO,
            round: 0,
            run: Run::new::<E::Message>(n, E::LIFE),
        };
        for node in 0..n {
            let mut out = Effects(Vec::new());
            let machine = {
                let dice = world.dice.roll();
                E::start(&world.ctx(node, dice), None, &mut out)
            };
            world.nodes.push(machine);
            world.carry_out(node, out);
        }
        world
    }

    /// Goes on until nothing is left to happen that matters.
    fn settle(&mut self) {
        for _ in 0..MAX_STEPS {
            let Some((node, input)) = self.next() else { return };
            self.step(node, input);
        }
        self.run.endless = true;
    }

    fn ctx(&self, node: usize, dice: u64) -> Ctx<'_> {
        Ctx { me: self.plan.view.members()[node], view: self.plan.view, settings: &self.settings, dice }
    }

    fn next(&mut self) -> Option<(usize, Input<E>)> {
        if let Some((node, record)) = self.stored.pop_front() {
            return Some((node, Input::Stored(record)));
        }
        if self.plan.schedule == Schedule::Synchronous {
            if let Some(node) = self.starts.pop_front() {
                return Some((node, Input::Command(Campaign)));
            }
        } else if self.starts.len() + self.flights.len() > 0 {
            let pick = self.dice.below(self.starts.len() + self.flights.len());
            if pick < self.starts.len() {
                return self.starts.remove(pick).map(|node| (node, Input::Command(Campaign)));
            }
            let (to, link) = (self.flights[pick - self.starts.len()].to, self.flights[pick - self.starts.len()].link);
            let first = self.flights.iter().position(|f| f.to == to && f.link == link)?;
            return self.flights.remove(first).map(|flight| self.arrive(flight));
        }
        match self.flights.pop_front() {
            Some(flight) => Some(self.arrive(flight)),
            None => self.timer(),
        }
    }

    fn arrive(&mut self, flight: Flight<E>) -> (usize, Input<E>) {
        self.round = flight.round;
        self.run.rounds = self.run.rounds.max(flight.round);
        (flight.to, Input::Message { from: flight.link, message: flight.message })
    }

    /// The earliest timer, unless everybody who lives is content.
    fn timer(&mut self) -> Option<(usize, Input<E>)> {
        let content = |outcomes: &Vec<Outcome>| matches!(outcomes.last(), Some(Outcome::Won | Outcome::Follow(_)));
        if (0..self.nodes.len()).all(|node| self.dead.contains(&node) || content(&self.run.outcomes[node])) {
            return None;
        }
        let next = (0..self.timers.len()).min_by_key(|&i| self.timers[i])?;
        let (due, node, timer) = self.timers.swap_remove(next);
        self.now = due;
        Some((node, Input::Timer(timer)))
    }

    fn step(&mut self, node: usize, input: Input<E>) {
        if self.dead.contains(&node) {
            return;
        }
        if let Some(log) = &mut self.log {
            let me = self.plan.view.members()[node];
            log.push(match &input {
                Input::Message { from, message } => {
                    let (from, message) = (readable(self.plan.view, from), readable(self.plan.view, message));
                    format!("{me} gets {message} from {from}")
                }
                Input::Timer(timer) => format!("{me}: timer {timer:?} is due"),
                Input::Command(command) => format!("{me}: {command:?}"),
                other => format!("{me}: {}", readable(self.plan.view, other)),
            });
        }
        let dice = self.dice.roll();
        let mut out = Effects(Vec::new());
        let mut machine = self.nodes[node].clone();
        machine.step(&self.ctx(node, dice), input, &mut out);
        self.nodes[node] = machine;
        self.carry_out(node, out);
    }

    fn carry_out(&mut self, node: usize, effects: Effects<E>) {
        let mut told = false;
        for effect in effects.0 {
            if let Some(log) = &mut self.log {
                log.push(format!("    {}", describe(self.plan, &effect)));
            }
            match effect {
                Effect::Send(link, message) | Effect::Forward(link, message) => {
                    told = true;
                    self.run.count(&message);
                    if let Some((to, link)) = link.far_end(node, self.plan.view) {
                        self.flights.push_back(Flight { round: self.round + 1, to, link, message });
                    }
                }
                Effect::SetTimer(timer, span) => {
                    self.timers.retain(|&(_, at, name)| (at, name) != (node, timer));
                    let after = span.draw(self.dice.roll());
                    self.timers.push((self.now + after, node, timer));
                }
                Effect::CancelTimer(timer) => self.timers.retain(|&(_, at, name)| (at, name) != (node, timer)),
                Effect::Persist(record) => {
                    let changed = self.on_disk[node].as_ref() != Some(&record);
                    self.run.persisted_late |= changed && told;
                    self.on_disk[node] = Some(record);
                }
                Effect::Store(record) => self.stored.push_back((node, record)),
                Effect::Announce(outcome) => {
                    told = true;
                    self.run.outcomes[node].push(outcome);
                }
            }
        }
    }
}

fn describe<P: Protocol>(plan: &Plan<'_>, effect: &Effect<P>) -> String {
    let show = |value: &dyn std::fmt::Debug| readable(plan.view, value);
    match effect {
        Effect::Send(link, message) => format!("send {} to {}", show(message), show(link)),
        Effect::Forward(link, message) => format!("forward {} to {}", show(message), show(link)),
        Effect::SetTimer(timer, span) if span.min == span.max => format!("set timer {timer:?} to {:?}", span.min),
        Effect::SetTimer(timer, span) => format!("set timer {timer:?} to {:?}..{:?}", span.min, span.max),
        Effect::CancelTimer(timer) => format!("cancel timer {timer:?}"),
        Effect::Persist(record) => format!("persist {}", show(record)),
        Effect::Store(record) => format!("store {}", show(record)),
        Effect::Announce(event) => format!("announce {}", show(event)),
    }
}
