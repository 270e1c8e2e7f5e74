//! A small driver: reliable links, timers only when nothing else is left to happen, vector clocks that no machine sees.

use std::collections::VecDeque;
use std::time::Duration;

use algorithms::catalog::mutex::Links;
use algorithms::drive::{Dice, Driver, Effect};
use algorithms::{Access, Ctx, Input, Link, Message, Mutex, MutexSettings, Protocol, Section, Stage, View, Want};

use crate::run::{Entry, Log, Plan, Run, Schedule};

const MAX_STEPS: usize = 100_000;

pub(crate) fn run<M: Mutex>(plan: &Plan<'_>, dice: u64, log: Log<'_>) -> Run {
    let mut world = World::<M>::new(plan, dice, log);
    for _ in 0..MAX_STEPS {
        let Some(event) = world.next() else { break };
        world.happen(event);
    }
    let waits = |at: &usize| world.members[*at].inside.is_some() || world.members[*at].left() > 0;
    world.run.starved = (0..world.members.len()).filter(waits).collect();
    world.run
}

struct Flight<M: Protocol> {
    to: usize,
    parcel: Parcel<M>,
    /// The vector clock of its sender.
    after: Vec<u32>,
}

enum Parcel<M: Protocol> {
    Message(M::Link, M::Message),
    /// Of the application, with the sender's Lamport clock.
    Gossip(u64),
    /// The work of a section is done.
    Exit,
}

struct Member<M: Mutex> {
    settings: MutexSettings,
    driver: Driver<M, Duration>,
    /// Requests that were not made yet.
    todo: VecDeque<Access>,
    /// The request that was made and not served yet.
    open: Option<(Access, Vec<u32>)>,
    inside: Option<Access>,
    clock: Vec<u32>,
}

impl<M: Mutex> Member<M> {
    fn left(&self) -> usize {
        self.todo.len() + usize::from(self.open.is_some())
    }

    fn may_ask(&self) -> bool {
        self.inside.is_none() && self.open.is_none() && !self.todo.is_empty()
    }
}

#[derive(Clone, Copy)]
enum Event<T> {
    Ask(usize),
    Deliver(usize),
    Gossip,
    Timer(usize, T),
}

struct World<'a, M: Mutex> {
    plan: &'a Plan<'a>,
    log: Log<'a>,
    dice: Dice,
    members: Vec<Member<M>>,
    /// What is under way, in the order of sending.
    flights: VecDeque<Flight<M>>,
    gossip_left: usize,
    now: Duration,
    run: Run,
}

impl<'a, M: Mutex> World<'a, M> {
    /// `dice`: the random word of every start.
    fn new(plan: &'a Plan<'a>, dice: u64, log: Log<'a>) -> Self {
        let n = plan.view.len();
        let mut world = World {
            plan,
            log,
            dice: Dice(plan.seed),
            members: Vec::new(),
            flights: VecDeque::new(),
            gossip_left: plan.gossip,
            now: Duration::ZERO,
            run: Run {
                entries: Vec::new(),
                counts: M::Message::KINDS.iter().map(|&kind| (kind, 0)).collect(),
                overlap: false,
                starved: Vec::new(),
                together: 0,
            },
        };
        for at in 0..n {
            let settings = plan.settings(at);
            let driver = Driver::start(&Ctx { dice, ..ctx(plan.view, at, &settings) }, None);
            world.members.push(Member {
                settings,
                driver,
                todo: plan.requests[at].iter().copied().collect(),
                open: None,
                inside: (plan.holder == Some(at)).then_some(Access::Exclusive),
                clock: vec![0; n],
            });
            world.carry_out(at);
        }
        if let Some(holder) = plan.holder {
            world.flights.push_back(Flight { to: holder, parcel: Parcel::Exit, after: vec![0; n] });
        }
        world
    }

    fn next(&mut self) -> Option<Event<M::Timer>> {
        if self.all_served() && self.plan.restless {
            return None;
        }
        let asks: Vec<usize> = (0..self.members.len()).filter(|&at| self.members[at].may_ask()).collect();
        if self.plan.schedule == Schedule::Synchronous {
            // A member asks the moment it may; a message and a section take as long as all that was under way before.
            let deliver = (!self.flights.is_empty()).then_some(Event::Deliver(0));
            return asks.first().map(|&at| Event::Ask(at)).or(deliver).or_else(|| self.timer());
        }
        let choices = asks.len() + self.flights.len() + usize::from(self.gossip_left > 0);
        if choices == 0 {
            return self.timer();
        }
        let pick = self.dice.below(choices);
        Some(match asks.get(pick) {
            Some(&at) => Event::Ask(at),
            None if pick - asks.len() < self.flights.len() => Event::Deliver(self.choose(pick - asks.len())),
            None => Event::Gossip,
        })
    }

    fn all_served(&self) -> bool {
        self.members.iter().all(|member| member.left() == 0 && member.inside.is_none())
    }

    /// Which message of the same link arrives, if not this one.
    fn choose(&self, pick: usize) -> usize {
        let same = |other: &Flight<M>| match (&self.flights[pick].parcel, &other.parcel) {
            (Parcel::Message(a, _), Parcel::Message(b, _)) => a == b && self.flights[pick].to == other.to,
            _ => false,
        };
        match self.plan.links {
            Links::AnyOrder => pick,
            Links::Fifo => self.flights.iter().position(same).unwrap_or(pick),
        }
    }

    /// The earliest timer, while a member waits for its section.
    fn timer(&mut self) -> Option<Event<M::Timer>> {
        if self.all_served() {
            return None;
        }
        let due = |at: usize| self.members[at].driver.timers().iter().map(move |(timer, due)| (due, at, timer));
        let (due, at, timer) = (0..self.members.len()).flat_map(due).min()?;
        self.now = due;
        Some(Event::Timer(at, timer))
    }

    fn happen(&mut self, event: Event<M::Timer>) {
        match event {
            Event::Ask(at) => {
                let Some(access) = self.members[at].todo.pop_front() else { return };
                self.tick(at);
                self.members[at].open = Some((access, self.members[at].clock.clone()));
                self.step(at, Input::Command(Want::Request(access)));
            }
            Event::Timer(at, timer) => {
                self.members[at].driver.timers_mut().cancel(timer);
                self.tick(at);
                self.step(at, Input::Timer(timer));
            }
            Event::Gossip => {
                self.gossip_left -= 1;
                let (from, to) = (self.dice.below(self.members.len()), self.dice.below(self.members.len()));
                self.tick(from);
                let time = self.members[from].driver.machine().clock().unwrap_or_default();
                let after = self.members[from].clock.clone();
                self.flights.push_back(Flight { to, parcel: Parcel::Gossip(time), after });
            }
            Event::Deliver(flight) => {
                let Some(Flight { to, parcel, after }) = self.flights.remove(flight) else { return };
                self.tick(to);
                for (mine, theirs) in self.members[to].clock.iter_mut().zip(after) {
                    *mine = theirs.max(*mine);
                }
                match parcel {
                    Parcel::Message(from, message) => self.step(to, Input::Message { from, message }),
                    Parcel::Gossip(time) => self.members[to].driver.machine_mut().heard(time),
                    Parcel::Exit => {
                        self.members[to].inside = None;
                        self.step(to, Input::Command(Want::Exit));
                    }
                }
            }
        }
    }

    fn tick(&mut self, at: usize) {
        self.members[at].clock[at] += 1;
    }

    fn step(&mut self, at: usize, input: Input<M>) {
        if let Some(log) = &mut self.log {
            let me = self.plan.view.members()[at];
            log.push(match &input {
                Input::Message { from, message } => {
                    format!("{me} gets {} from {}", readable(self.plan.view, message), readable(self.plan.view, from))
                }
                Input::Timer(timer) => format!("{me}: timer {timer:?} is due"),
                Input::Command(command) => format!("{me}: {command:?}"),
                other => format!("{me}: {}", readable(self.plan.view, other)),
            });
        }
        let member = &mut self.members[at];
        let before = member.driver.machine().stage();
        member.driver.step(&ctx(self.plan.view, at, &member.settings), input);
        let entered = before != Stage::Held && member.driver.machine().stage() == Stage::Held;
        self.carry_out(at);
        assert!(!entered || self.members[at].inside.is_some(), "a section that was not announced");
    }

    fn carry_out(&mut self, at: usize) {
        let now = self.now;
        while let Some(effect) = self.members[at].driver.next_effect(|_, span| now + span.min) {
            if let Some(log) = &mut self.log {
                log.push(format!("    {}", describe(self.plan.view, &effect)));
            }
            match effect {
                Effect::Send { to: link, message, .. } => {
                    self.run.counts[message.kind()].1 += 1;
                    let after = self.members[at].clock.clone();
                    if let Some((to, link)) = link.far_end(at, self.plan.view) {
                        self.flights.push_back(Flight { to, parcel: Parcel::Message(link, message), after });
                    }
                }
                Effect::Announce(Section::Enter(token)) => self.enter(at, token),
                Effect::SetTimer(..) | Effect::CancelTimer(_) => {}
                Effect::Persist(()) | Effect::Store(()) => panic!("nothing of a mutual exclusion is durable"),
            }
        }
    }

    fn enter(&mut self, at: usize, token: algorithms::Token) {
        let (access, asked) = self.members[at].open.take().expect("only a member that asked enters");
        let overlaps = |other: &Member<M>| other.inside.is_some_and(|inside| !M::SHARED || inside.excludes(access));
        self.run.overlap |= self.members.iter().any(overlaps);
        self.members[at].inside = Some(access);
        self.run.together = self.run.together.max(self.members.iter().filter(|m| m.inside.is_some()).count());
        let stamp = self.members[at].driver.machine().stamp();
        self.run.entries.push(Entry { at, access, token, stamp, asked });
        let after = self.members[at].clock.clone();
        self.flights.push_back(Flight { to: at, parcel: Parcel::Exit, after });
    }
}

fn describe<M: Mutex>(view: &View, effect: &Effect<M>) -> String {
    match effect {
        Effect::Send { to, message, .. } => format!("send {} to {}", readable(view, message), readable(view, to)),
        Effect::SetTimer(timer, span) => format!("set timer {timer:?} to {:?}", span.min),
        Effect::CancelTimer(timer) => format!("cancel timer {timer:?}"),
        Effect::Announce(event) => format!("announce {}", readable(view, event)),
        other => format!("{other:?}"),
    }
}

fn ctx<'a>(view: &'a View, at: usize, settings: &'a MutexSettings) -> Ctx<'a, MutexSettings> {
    Ctx { me: view.members()[at], view, settings, dice: 0 }
}

/// Debug output with ids as plain numbers.
fn readable(view: &View, value: &dyn std::fmt::Debug) -> String {
    let mut text = format!("{value:?}");
    for member in view.members() {
        text = text.replace(&format!("{:?}", member.id), &member.id.to_string());
    }
    text
}
