//! Conclave's machine, behind the driver core that the daemon uses too. A `FORGETFUL` node loses its vote at a restart.

use std::time::Duration;

use algorithms::drive::{Dice, Driver, Effect};
use algorithms::election::raft::{Ballot, Msg, Raft};
use algorithms::{Ctx, Input, NodeId, Settings, Span, Uid, View};

use crate::world::{Node, TIMEOUT};

const TICK: Duration = Duration::from_millis(1);

pub struct Ours<const FORGETFUL: bool> {
    me: Uid,
    view: View,
    settings: Settings,
    dice: Dice,
    now: Duration,
    driver: Driver<Raft, Duration>,
    disk: Ballot,
    sent: Vec<(u64, Msg)>,
}

impl<const FORGETFUL: bool> Ours<FORGETFUL> {
    fn step(&mut self, input: Input<Raft>) {
        let dice = self.dice.roll();
        self.driver.step(&Ctx { me: self.me, view: &self.view, settings: &self.settings, dice }, input);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        let (now, dice) = (self.now, &mut self.dice);
        while let Some(effect) = self.driver.next_effect(|_, span| now + whole_ticks(span, dice)) {
            match effect {
                Effect::Send { to, message, .. } => self.sent.push((u64::from(to.0), message)),
                Effect::Persist(ballot) => {
                    self.disk = ballot;
                    self.driver.written();
                }
                _ => {}
            }
        }
    }
}

/// As the other implementation draws it: the end is left out.
fn whole_ticks(span: Span, dice: &mut Dice) -> Duration {
    let width = (span.max - span.min).as_millis() as usize;
    if width == 0 { span.min } else { span.min + TICK * dice.below(width) as u32 }
}

impl<const FORGETFUL: bool> Node for Ours<FORGETFUL> {
    type Message = Msg;
    type Disk = Ballot;

    fn blank(_: u64, _: u64) -> Ballot {
        Ballot::default()
    }

    fn start(id: u64, nodes: u64, disk: Ballot, seed: u64) -> Self {
        let me = Uid::plain(id as u32);
        let view = View::mesh((1..=nodes as u32).map(Uid::plain).collect());
        let settings =
            Settings { answer_timeout: TICK, coordinator_timeout: TICK * TIMEOUT as u32, ..Settings::default() };
        let disk = if FORGETFUL { Ballot { voted_for: None, ..disk } } else { disk };
        let mut dice = Dice(seed);
        let ctx = Ctx { me, view: &view, settings: &settings, dice: dice.roll() };
        let driver = Driver::start(&ctx, Some(disk));
        let mut node = Ours { me, view, settings, dice, now: Duration::ZERO, driver, disk, sent: Vec::new() };
        node.carry_out();
        node
    }

    fn tick(&mut self) {
        self.now += TICK;
        while let Some(timer) = self.driver.pop_due(self.now) {
            self.step(Input::Timer(timer));
        }
    }

    fn receive(&mut self, from: u64, message: Msg) {
        self.step(Input::Message { from: NodeId(from as u32), message });
    }

    fn sent(&mut self) -> Vec<(u64, Msg)> {
        std::mem::take(&mut self.sent)
    }

    fn leads(&self) -> Option<u64> {
        let raft = self.driver.machine();
        raft.leads().then_some(raft.ballot().term)
    }

    fn disk(&self) -> Ballot {
        self.disk
    }
}
