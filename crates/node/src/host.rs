//! Drives one member: bytes and peer changes in, effects out, in order.
//!
//! The event loop sees members only through [`Instance`], so it holds any algorithm of the catalog without naming it.

use std::collections::VecDeque;
use std::time::Duration;

use algorithms::catalog::Row;
use algorithms::drive::{Counts, Dice, Driver, Effect};
use algorithms::{Ctx, Election, Input, NodeId, Protocol, Uid, View};
use anyhow::bail;
use bytes::BytesMut;
use member::{
    Authority, Command, Context, Envelope, Event, Incarnation, Member, MemberVisitor, NodeSet, Record, Safety,
    Settings, Standing,
};
use transport::codec;

use crate::records::{self, Kept};

/// What the loop does for an instance.
pub(crate) trait World {
    fn send(&mut self, to: NodeId, payload: &[u8]);
    /// Writes the record; `barrier` is true if the instance waits for it. Writes are done in order.
    fn write(&mut self, record: Kept, barrier: bool);
    /// `until`: the moment since boot at which what the event says is over, if it says so.
    fn announce(&mut self, event: Event, until: Option<Duration>);
}

/// One member, of whatever algorithm and authority.
pub(crate) trait Instance {
    /// The record that this process begins with, to be on the disk before anything else happens; then `written(true)`.
    fn first_record(&mut self) -> anyhow::Result<Kept>;
    /// False: the bytes were no message of this algorithm.
    fn frame(&mut self, from: NodeId, payload: &[u8]) -> bool;
    fn peer(&mut self, peer: NodeId, up: bool);
    fn command(&mut self, command: Command);
    /// Fires every timer that is due, in the order of their moments.
    fn tick(&mut self, now: Duration);
    /// When the next timer is due, since boot.
    fn deadline(&self) -> Option<Duration>;
    /// The oldest write of its kind is on the disk: the barrier is open, or the background record is safe.
    fn written(&mut self, barrier: bool);
    /// Carries out the effects that are not behind a barrier. False: some are, and wait for the disk.
    fn carry_out(&mut self, now: Duration, world: &mut dyn World) -> bool;
    /// What it knows itself to be: its last word about it may still wait for the disk.
    fn standing(&self) -> Standing;
    fn incarnation(&self) -> Incarnation;
    /// Is there a member to take over, should this one step down?
    fn has_successor(&self) -> bool;
    /// Does it know what was granted before its disk began?
    fn knows_the_past(&self) -> bool;
    fn links(&self) -> NodeSet;
    /// Messages of the algorithm that were sent so far; heartbeats are not counted.
    fn algorithm_messages(&self) -> u64;
}

/// Everything that stays the same while an instance runs.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) me: Uid,
    pub(crate) view: View,
    pub(crate) settings: Settings,
    pub(crate) stored: Option<Kept>,
    pub(crate) seed: u64,
}

pub(crate) fn start(row: &'static Row, safety: Safety, setup: Setup) -> anyhow::Result<Box<dyn Instance>> {
    member::dispatch(row, safety, setup)
}

impl MemberVisitor for Setup {
    type Output = anyhow::Result<Box<dyn Instance>>;

    fn visit<E: Election, A: Authority>(self, _: &'static Row) -> Self::Output {
        Ok(Box::new(Host::<E, A>::start(self)?))
    }
}

type MemberRecord<E, A> = Record<<A as Protocol>::Durable, <E as Protocol>::Durable>;

struct Host<E: Election, A: Authority> {
    setup: Setup,
    driver: Driver<Member<E, A>, Duration>,
    /// Records on their way to the disk that no effect waits for.
    stores: VecDeque<MemberRecord<E, A>>,
    sent: Counts,
    dice: Dice,
    buffer: BytesMut,
}

fn context(setup: &Setup, dice: u64) -> Context<'_> {
    Ctx { me: setup.me, view: &setup.view, settings: &setup.settings, dice }
}

impl<E: Election, A: Authority> Host<E, A> {
    fn start(mut setup: Setup) -> anyhow::Result<Self> {
        let mut dice = Dice(setup.seed);
        let stored = setup.stored.take().map(|kept| Self::decode(&kept)).transpose()?;
        let driver = Driver::start(&context(&setup, dice.roll()), stored);
        let (stores, sent, buffer) = (VecDeque::new(), Counts::default(), BytesMut::new());
        Ok(Host { setup, driver, stores, sent, dice, buffer })
    }

    fn decode(kept: &Kept) -> anyhow::Result<MemberRecord<E, A>> {
        let algorithm = kept.algorithm.as_deref().map(codec::decode).transpose();
        match (codec::decode(&kept.authority), algorithm) {
            (Ok(authority), Ok(algorithm)) => Ok(Record { authority, algorithm }),
            _ => bail!("the state file holds a record that this version cannot read: start the version that wrote it"),
        }
    }

    fn encode(Record { authority, algorithm }: &MemberRecord<E, A>) -> Kept {
        Kept {
            authority: records::encode(codec::to_vec(authority)),
            algorithm: algorithm.as_ref().map(|record| records::encode(codec::to_vec(record))),
        }
    }

    fn step(&mut self, input: Input<Member<E, A>>) {
        self.driver.step(&context(&self.setup, self.dice.roll()), input);
    }

    fn send(&mut self, to: NodeId, message: Envelope<E::Link, E::Message, A::Message>, world: &mut dyn World) {
        if let Some(message) = message.algorithm_message() {
            self.sent.add(message);
        }
        if to == self.setup.me.id {
            // A ring of one: the message comes back at once.
            return self.step(Input::Message { from: to, message });
        }
        self.buffer.clear();
        match codec::encode(&message, &mut self.buffer) {
            Ok(()) => world.send(to, &self.buffer),
            Err(error) => tracing::error!(%error, "a message of ours cannot be encoded"),
        }
    }
}

impl<E: Election, A: Authority> Instance for Host<E, A> {
    fn first_record(&mut self) -> anyhow::Result<Kept> {
        match self.driver.next_effect(|_, after| after.max) {
            Some(Effect::Persist(record)) => Ok(Self::encode(&record)),
            _ => bail!("a member begins with its record"),
        }
    }

    fn frame(&mut self, from: NodeId, payload: &[u8]) -> bool {
        match codec::decode(payload) {
            Ok(message) => self.step(Input::Message { from, message }),
            Err(_) => return false,
        }
        true
    }

    fn peer(&mut self, peer: NodeId, up: bool) {
        self.step(if up { Input::PeerUp(peer) } else { Input::PeerDown(peer) });
    }

    fn command(&mut self, command: Command) {
        self.step(Input::Command(command));
    }

    fn tick(&mut self, now: Duration) {
        while let Some(timer) = self.driver.pop_due(now) {
            self.step(Input::Timer(timer));
        }
    }

    fn deadline(&self) -> Option<Duration> {
        self.driver.next_due()
    }

    fn written(&mut self, barrier: bool) {
        if barrier {
            self.driver.written();
        } else if let Some(record) = self.stores.pop_front() {
            self.step(Input::Stored(record));
        }
    }

    fn carry_out(&mut self, now: Duration, world: &mut dyn World) -> bool {
        loop {
            let dice = &mut self.dice;
            let Some(effect) = self.driver.next_effect(|_, span| now + span.draw(dice.roll())) else {
                return !self.driver.owes_effects();
            };
            match effect {
                Effect::Send { to, message, .. } => self.send(to, message, world),
                Effect::Persist(record) => world.write(Self::encode(&record), true),
                Effect::Store(record) => {
                    world.write(Self::encode(&record), false);
                    self.stores.push_back(record);
                }
                Effect::Announce(event) => world.announce(event, self.driver.deadline_of(&event)),
                Effect::SetTimer(..) | Effect::CancelTimer(_) => {}
            }
        }
    }

    fn standing(&self) -> Standing {
        self.driver.machine().standing()
    }

    fn incarnation(&self) -> Incarnation {
        self.driver.machine().incarnation()
    }

    fn has_successor(&self) -> bool {
        self.driver.machine().best_successor(&context(&self.setup, 0)).is_some()
    }

    fn knows_the_past(&self) -> bool {
        self.driver.machine().authority().knows_the_past()
    }

    fn links(&self) -> NodeSet {
        self.driver.machine().links(&self.setup.view)
    }

    fn algorithm_messages(&self) -> u64 {
        self.sent.total()
    }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
