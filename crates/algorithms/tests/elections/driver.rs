//! A small driver for message machines: reliable FIFO links, timers only when nothing else is left to happen.

use std::collections::VecDeque;
use std::time::Duration;

use algorithms::drive::{Dice, Driver, Effect};
use algorithms::{Campaign, Ctx, Election, Input, Link, Outcome, Protocol, Settings, Uid};

use crate::subject::{Log, Plan, Run, Schedule, readable};

const MAX_STEPS: usize = 200_000;

pub(crate) fn run<E: Election>(plan: &Plan<'_>, log: Log<'_>) -> Run {
    let mut world = World::<E>::new(plan, log);
    world.settle();
    world.run
}

/// The second of two elections: in the first one all lived and all started. A continuous machine goes on, any other
/// begins anew with the record that it stored. Counts only the second.
pub(crate) fn run_second<E: Election>(plan: &Plan<'_>) -> Run {
    let all: Vec<usize> = (0..plan.view.len()).collect();
    let first = Plan { initiators: &all, dead: &[], ..*plan };
    if E::FEATURES.continuous {
        let mut before = World::<E>::new(&first, None);
        before.settle();
        before.dead = plan.dead.to_vec();
        before.starts = plan.initiators.iter().copied().collect();
        before.round = 0;
        let known = std::mem::take(&mut before.run.outcomes);
        before.run = Run { outcomes: known, ..Run::new::<E::Message>(plan.view.len(), E::FEATURES.continuous) };
        before.settle();
        return before.run;
    }
    run_after::<E>(&first, plan)
}

/// An election with the records that another one left; the members of the second may be fewer, from the first on.
pub(crate) fn run_after<E: Election>(first: &Plan<'_>, plan: &Plan<'_>) -> Run {
    let mut before = World::<E>::new(first, None);
    before.settle();
    let mut world = World::<E>::with_disks(plan, None, before.on_disk);
    world.settle();
    world.run
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
    nodes: Vec<Driver<E, Duration>>,
    /// In the order of sending.
    flights: VecDeque<Flight<E>>,
    starts: VecDeque<usize>,
    stored: VecDeque<(usize, E::Durable)>,
    on_disk: Vec<Option<E::Durable>>,
    now: Duration,
    /// The round of the input in hand.
    round: u64,
    run: Run,
}

impl<'a, E: Election> World<'a, E> {
    fn new(plan: &'a Plan<'a>, log: Log<'a>) -> Self {
        World::with_disks(plan, log, vec![None; plan.view.len()])
    }

    fn with_disks(plan: &'a Plan<'a>, log: Log<'a>, on_disk: Vec<Option<E::Durable>>) -> Self {
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
            on_disk,
            now: Duration::ZERO,
            round: 0,
            run: Run::new::<E::Message>(n, E::FEATURES.continuous),
        };
        for node in 0..n {
            let dice = world.dice.roll();
            let driver = Driver::start(&world.ctx(node, dice), world.on_disk[node].clone());
            world.nodes.push(driver);
            world.carry_out(node);
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
        let lives = |leader: Uid| self.plan.view.position(leader.id).is_some_and(|at| !self.dead.contains(&at));
        let content = |outcomes: &Vec<Outcome>| match outcomes.last() {
            Some(Outcome::Follow(leader)) => leader.is_none_or(lives),
            last => last == Some(&Outcome::Won),
        };
        if (0..self.nodes.len()).all(|node| self.dead.contains(&node) || content(&self.run.outcomes[node])) {
            return None;
        }
        let due = |node: usize| self.nodes[node].timers().iter().map(move |(timer, due)| (due, node, timer));
        let (due, node, timer) = (0..self.nodes.len()).flat_map(due).min()?;
        self.now = due;
        self.nodes[node].timers_mut().cancel(timer);
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
        let ctx = Ctx { me: self.plan.view.members()[node], view: self.plan.view, settings: &self.settings, dice };
        self.nodes[node].step(&ctx, input);
        self.carry_out(node);
    }

    fn carry_out(&mut self, node: usize) {
        let mut told = false;
        let (now, dice) = (self.now, &mut self.dice);
        while let Some(effect) = self.nodes[node].next_effect(|_, span| now + span.draw(dice.roll())) {
            if let Some(log) = &mut self.log {
                log.push(format!("    {}", describe(self.plan, &effect)));
            }
            match effect {
                Effect::Send { to: link, message, .. } => {
                    told = true;
                    self.run.count(&message);
                    if let Some((to, link)) = link.far_end(node, self.plan.view) {
                        self.flights.push_back(Flight { round: self.round + 1, to, link, message });
                    }
                }
                Effect::Persist(record) => {
                    let changed = self.on_disk[node].as_ref() != Some(&record);
                    self.run.persisted_late |= changed && told;
                    self.on_disk[node] = Some(record);
                    self.nodes[node].written();
                }
                Effect::Store(record) => {
                    self.on_disk[node] = Some(record.clone());
                    self.stored.push_back((node, record));
                }
                Effect::Announce(outcome) => {
                    told = true;
                    self.run.announced = self.run.announced.max(self.round);
                    self.run.outcomes[node].push(outcome);
                }
                Effect::SetTimer(..) | Effect::CancelTimer(_) => {}
            }
        }
    }
}

fn describe<P: Protocol>(plan: &Plan<'_>, effect: &Effect<P>) -> String {
    let show = |value: &dyn std::fmt::Debug| readable(plan.view, value);
    match effect {
        Effect::Send { to, message, hops: 0 } => format!("send {} to {}", show(message), show(to)),
        Effect::Send { to, message, .. } => format!("forward {} to {}", show(message), show(to)),
        Effect::SetTimer(timer, span) if span.min == span.max => format!("set timer {timer:?} to {:?}", span.min),
        Effect::SetTimer(timer, span) => format!("set timer {timer:?} to {:?}..{:?}", span.min, span.max),
        Effect::CancelTimer(timer) => format!("cancel timer {timer:?}"),
        Effect::Persist(record) => format!("persist {}", show(record)),
        Effect::Store(record) => format!("store {}", show(record)),
        Effect::Announce(event) => format!("announce {}", show(event)),
    }
}
