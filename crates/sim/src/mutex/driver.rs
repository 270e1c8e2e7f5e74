//! The workload: members ask, stay inside for a while and leave.

use std::collections::BinaryHeap;

use algorithms::{Access, Message, Mutex, MutexSettings, Stage};

use super::audit::Audit;
use super::report::MutexReport;
use super::watch::MutexObserver;
use super::world::{Links, World, has_token, view};
use super::{Contention, MutexExperiment};
use crate::bare::queue::Due;
use crate::experiment::Schedule;
use crate::observe::ROUND;
use crate::rng::Rng;

#[derive(Clone, Copy, Debug)]
enum Act {
    Ask(u32),
    Exit(u32),
    Crash(u32),
}

/// A run in progress.
struct Driver<'a, M: Mutex, O: MutexObserver> {
    plan: &'a MutexExperiment,
    world: World<'a, M, O>,
    audit: Audit,
    agenda: BinaryHeap<Due<Act>>,
    /// Positions that make requests.
    requesters: Vec<usize>,
    rng: Rng,
    seq: u64,
    asked: u64,
    /// Requests by position that were served, for the cost by theory.
    served: Vec<u64>,
    told: u64,
    /// The step of the last entry, exit or request.
    progress: u64,
}

pub(crate) fn run<M: Mutex, O: MutexObserver>(plan: &MutexExperiment, observer: O) -> Result<(MutexReport, O), String> {
    plan.check()?;
    if plan.fault.is_some() && !has_token::<M>() {
        return Err(format!("{} has no token that could be lost or duplicated", plan.row.name));
    }
    let view = view::<M>(plan.ids.clone());
    let settings = (0..plan.ids.len()).map(|at| settings(plan, at)).collect();
    let links = Links { schedule: plan.schedule, fifo: plan.fifo };
    let members = plan.ids.len();
    let client_delay = (0..members).map(|at| (plan.row.cost)(members, at).client_delay.max).max();
    let mut driver: Driver<'_, M, O> = Driver {
        plan,
        world: World::new(&view, settings, links, plan.seed, observer),
        audit: Audit::new(members, client_delay.unwrap_or(0)),
        agenda: BinaryHeap::new(),
        requesters: plan.requesters.clone().unwrap_or_else(|| (0..members).collect()),
        rng: Rng::new(plan.seed ^ 0x776f_726b_6c6f_6164),
        seq: 0,
        asked: 0,
        served: vec![0; members],
        told: 0,
        progress: 0,
    };
    driver.begin();
    let stuck_after = 10_000 + 100 * (members as u64).pow(2);
    while driver.next() && driver.world.steps - driver.progress < stuck_after {}
    let report = MutexReport::new(plan, M::Message::KINDS, &driver.outcome());
    Ok((report, driver.world.net.observer))
}

/// What a run leaves behind.
pub(crate) struct Outcome<'a> {
    pub audit: &'a Audit,
    pub counts: algorithms::drive::Counts,
    pub asked: u64,
    pub served: &'a [u64],
    pub told: u64,
    /// Members that died.
    pub dead: Vec<usize>,
}

pub(crate) fn settings(plan: &MutexExperiment, at: usize) -> MutexSettings {
    let clock = plan.clocks.iter().find(|clock| clock.0 == at).map_or(0, |clock| clock.1);
    MutexSettings { clock, ..MutexSettings::default() }
}

impl<M: Mutex, O: MutexObserver> Driver<'_, M, O> {
    fn begin(&mut self) {
        for &(at, round) in &self.plan.crashes {
            self.plan_act(round * ROUND, Act::Crash(at as u32));
        }
        match &self.plan.contention {
            Contention::Script(script) => {
                for &(at, round) in script {
                    self.plan_act(round * ROUND, Act::Ask(at as u32));
                }
            }
            Contention::Single => self.ask_next(0),
            Contention::Saturated => {
                for nth in 0..self.requesters.len() {
                    let first = self.draw(0, 1);
                    self.plan_act(first, Act::Ask(self.requesters[nth] as u32));
                }
            }
            Contention::Random => {
                for nth in 0..self.requesters.len() {
                    let first = self.pause();
                    self.plan_act(first, Act::Ask(self.requesters[nth] as u32));
                }
            }
        }
    }

    fn plan_act(&mut self, at: u64, act: Act) {
        self.seq += 1;
        self.agenda.push(Due { at, seq: self.seq, what: act });
    }

    /// A time between two numbers of rounds: whole rounds under the synchronous schedule.
    fn draw(&mut self, min: u64, max: u64) -> u64 {
        match self.plan.schedule {
            Schedule::Sync if max == 1 => min * ROUND,
            Schedule::Sync => self.rng.between(min, max) * ROUND,
            Schedule::Random => self.rng.between(min * ROUND, max * ROUND),
        }
    }

    /// The time between two requests of a member, where contention is random.
    fn pause(&mut self) -> u64 {
        self.draw(0, 4 * self.plan.ids.len() as u64)
    }

    /// How long a section lasts: one message time, or a random part of it that is not too short.
    fn stay(&mut self) -> u64 {
        match self.plan.schedule {
            Schedule::Sync => ROUND,
            Schedule::Random => self.rng.between(ROUND / 4, ROUND),
        }
    }

    /// One request at a time: the next one, when the messages of the last one have arrived.
    fn ask_next(&mut self, now: u64) {
        let nth = self.rng.index(self.requesters.len());
        let pause = self.draw(8, 8 + self.plan.ids.len() as u64);
        self.plan_act(now + pause, Act::Ask(self.requesters[nth] as u32));
    }

    /// Carries out the next event; false at the end of the run.
    fn next(&mut self) -> bool {
        let act = self.agenda.peek().map(|due| due.at);
        let event = self.world.next_at();
        match (event, act) {
            (None, None) => return false,
            // A token that circulates for ever: the run ends with the last section.
            (Some(_), None) if self.audit.nobody_inside() && self.audit.waiting() == 0 && self.plan.row.endless => {
                return false;
            }
            (Some(event), act) if act.is_none_or(|act| event <= act) => {
                if let Some(at) = self.world.advance() {
                    self.heard(at);
                }
            }
            _ => self.act(),
        }
        self.take_entries();
        true
    }

    fn act(&mut self) {
        let Some(due) = self.agenda.pop() else { return };
        self.world.net.now = due.at;
        match due.what {
            Act::Ask(at) => self.ask(at as usize),
            Act::Exit(at) => self.exit(at as usize),
            Act::Crash(at) => self.world.crash(at as usize),
        }
    }

    fn scripted(&self) -> bool {
        matches!(self.plan.contention, Contention::Script(_))
    }

    fn ask(&mut self, at: usize) {
        let enough = !self.scripted() && self.asked >= self.plan.requests;
        if enough || self.world.is_dead(at) || self.audit.stage(at) != Stage::Released {
            return;
        }
        let reads = self.plan.readers > 0 && self.rng.chance(u64::from(self.plan.readers));
        let access = if reads { Access::Shared } else { Access::Exclusive };
        self.asked += 1;
        self.progress = self.world.steps;
        self.audit.asked(self.world.net.now, at, access);
        self.world.request(at, access);
        if self.plan.tells > 0 && self.plan.ids.len() > 1 && self.rng.chance(u64::from(self.plan.tells)) {
            let other = (at + 1 + self.rng.index(self.plan.ids.len() - 1)) % self.plan.ids.len();
            self.told += 1;
            self.world.tell(at, other);
        }
    }

    /// A member that hears of another one's request asks too, if it makes requests.
    fn heard(&mut self, at: usize) {
        if self.requesters.contains(&at) {
            self.ask(at);
        }
    }

    fn exit(&mut self, at: usize) {
        if self.world.is_dead(at) {
            return;
        }
        let now = self.world.net.now;
        self.progress = self.world.steps;
        self.audit.left(now, at);
        self.world.exit(at);
        match self.plan.contention {
            Contention::Script(_) => {}
            Contention::Single => self.ask_next(now),
            Contention::Saturated => self.plan_act(now, Act::Ask(at as u32)),
            Contention::Random => {
                let pause = self.pause();
                self.plan_act(now + pause, Act::Ask(at as u32));
            }
        }
    }

    fn take_entries(&mut self) {
        while let Some((at, token)) = self.world.net.entered.pop() {
            let now = self.world.net.now;
            let wanted = self.audit.stage(at) == Stage::Wanted;
            let stamp = self.world.machine(at).stamp();
            self.audit.entered(now, at, token, stamp, &self.world.net.knowledge);
            if !wanted {
                continue;
            }
            self.progress = self.world.steps;
            self.served[at] += 1;
            if self.audit.seen.entries == self.plan.requests.div_ceil(2) {
                self.world.net.fault = self.plan.fault;
            }
            let stay = self.stay();
            self.plan_act(now + stay, Act::Exit(at as u32));
        }
    }

    fn outcome(&self) -> Outcome<'_> {
        Outcome {
            audit: &self.audit,
            counts: self.world.net.counts,
            asked: self.asked,
            served: &self.served,
            told: self.told,
            dead: (0..self.plan.ids.len()).filter(|&at| self.world.is_dead(at)).collect(),
        }
    }
}
