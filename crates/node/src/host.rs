//! Drives one member: bytes and peer changes in, effects out, in order.
//!
//! The event loop sees members only through [`Instance`], so it holds any algorithm of the catalog without naming it.

use std::collections::VecDeque;
use std::time::Duration;

use algorithms::catalog::Row;
use algorithms::{Ctx, Election, Input, NodeId, Outbox, Protocol, Settings, Span, Uid, View};
use bytes::BytesMut;
use member::reign::Clock;
use member::{Command, Envelope, Event, Member, MemberVisitor, NodeSet, Record, Standing, Timer};
use transport::codec;

/// What the loop does for an instance.
pub(crate) trait World {
    fn send(&mut self, to: NodeId, payload: &[u8]);
    /// Writes the record; `barrier` is true if the instance waits for it.
    fn write(&mut self, record: Record, barrier: bool);
    fn announce(&mut self, event: Event);
    /// This member may claim to lead until then, measured since boot.
    /// `bare`: a majority thinks that nothing but this process acts on it.
    fn leased(&mut self, until: Option<Duration>, bare: bool);
}

/// One member, of whatever algorithm.
pub(crate) trait Instance {
    /// False: the bytes were no message of this algorithm.
    fn frame(&mut self, from: NodeId, payload: &[u8]) -> bool;
    fn peer(&mut self, peer: NodeId, up: bool);
    fn command(&mut self, command: Command);
    /// Fires every timer that is due.
    fn tick(&mut self, now: Duration);
    /// When the next timer is due, since boot.
    fn deadline(&self) -> Option<Duration>;
    /// A write is on the disk: the barrier is open, or the background record is safe.
    fn written(&mut self, record: Record, barrier: bool);
    /// Carries out the effects that are not behind a barrier. False: some are, and wait for the disk.
    fn carry_out(&mut self, now: Duration, world: &mut dyn World) -> bool;
    /// What it knows itself to be: its last word about it may still wait for the disk.
    fn standing(&self) -> Standing;
    fn incarnation(&self) -> algorithms::Incarnation;
    /// Is there anybody to take over, should it step down under quorum?
    fn has_heir(&self) -> bool;
    /// Does it know what was granted before its disk began?
    fn knows_the_past(&self) -> bool;
    fn links(&self) -> NodeSet;
    fn algorithm_messages(&self) -> u64;
}

/// Everything that stays the same while an instance runs.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) me: Uid,
    pub(crate) view: View,
    pub(crate) settings: Settings,
    pub(crate) stored: Option<Record>,
    pub(crate) seed: u64,
}

pub(crate) fn start(row: &'static Row, setup: Setup) -> Box<dyn Instance> {
    member::dispatch(row, setup)
}

impl MemberVisitor for Setup {
    type Output = Box<dyn Instance>;

    fn visit<E: Election>(self, _: &'static Row) -> Self::Output {
        Box::new(Host::<E>::start(self))
    }
}

struct Host<E: Election> {
    setup: Setup,
    member: Member<E>,
    effects: VecDeque<Effect<Member<E>>>,
    timers: Timers<Timer<E::Timer>>,
    /// Waits for a record to be on the disk.
    blocked: bool,
    dice: Dice,
    buffer: BytesMut,
}

enum Effect<P: Protocol> {
    Send(P::Link, P::Message),
    SetTimer(P::Timer, Span),
    CancelTimer(P::Timer),
    Persist(P::Durable),
    Store(P::Durable),
    Announce(P::Event),
}

/// (timer, when): a member has few timers, so a scan beats a heap.
type Timers<T> = Vec<(T, Duration)>;

/// Takes the effects of a step. A timer that is set anew or cancelled does not fire for its old setting, even while
/// the new one waits behind a barrier.
struct Effects<'a, P: Protocol> {
    queue: &'a mut VecDeque<Effect<P>>,
    timers: &'a mut Timers<P::Timer>,
}

impl<P: Protocol> Outbox<P> for Effects<'_, P> {
    fn send(&mut self, to: P::Link, message: P::Message) {
        self.queue.push_back(Effect::Send(to, message));
    }
    fn forward(&mut self, to: P::Link, message: P::Message) {
        self.queue.push_back(Effect::Send(to, message));
    }
    fn set_timer(&mut self, timer: P::Timer, after: Span) {
        self.timers.retain(|(known, _)| *known != timer);
        self.queue.push_back(Effect::SetTimer(timer, after));
    }
    fn cancel_timer(&mut self, timer: P::Timer) {
        self.timers.retain(|(known, _)| *known != timer);
        self.queue.push_back(Effect::CancelTimer(timer));
    }
    fn persist(&mut self, record: P::Durable) {
        self.queue.push_back(Effect::Persist(record));
    }
    fn store(&mut self, record: P::Durable) {
        self.queue.push_back(Effect::Store(record));
    }
    fn announce(&mut self, event: P::Event) {
        self.queue.push_back(Effect::Announce(event));
    }
}

impl<E: Election> Host<E> {
    fn start(setup: Setup) -> Self {
        let (mut effects, mut timers) = (VecDeque::new(), Vec::new());
        let mut dice = Dice(setup.seed);
        let ctx = Ctx { me: setup.me, view: &setup.view, settings: &setup.settings, dice: dice.roll() };
        let outbox = &mut Effects { queue: &mut effects, timers: &mut timers };
        let member = Member::start(&ctx, setup.stored, outbox);
        Host { setup, member, effects, timers, blocked: false, dice, buffer: BytesMut::new() }
    }

    fn step(&mut self, input: Input<Member<E>>) {
        let Setup { me, view, settings, .. } = &self.setup;
        let ctx = Ctx { me: *me, view, settings, dice: self.dice.roll() };
        let outbox = &mut Effects { queue: &mut self.effects, timers: &mut self.timers };
        self.member.step(&ctx, input, outbox);
    }

    fn set_timer(&mut self, timer: Timer<E::Timer>, at: Duration) {
        match self.timers.iter_mut().find(|(known, _)| *known == timer) {
            Some(entry) => entry.1 = at,
            None => self.timers.push((timer, at)),
        }
    }

    fn send(&mut self, to: NodeId, message: Envelope<E::Link, E::Message>, world: &mut dyn World) {
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

impl<E: Election> Instance for Host<E> {
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
        while let Some(at) = self.timers.iter().position(|(_, due)| *due <= now) {
            let (timer, _) = self.timers.swap_remove(at);
            self.step(Input::Timer(timer));
        }
    }

    fn deadline(&self) -> Option<Duration> {
        self.timers.iter().map(|(_, due)| *due).min()
    }

    fn written(&mut self, record: Record, barrier: bool) {
        if barrier {
            self.blocked = false;
        } else {
            self.step(Input::Stored(record));
        }
    }

    fn carry_out(&mut self, now: Duration, world: &mut dyn World) -> bool {
        while !self.blocked {
            let Some(effect) = self.effects.pop_front() else { return true };
            match effect {
                Effect::Send(to, message) => self.send(to, message, world),
                Effect::SetTimer(timer, span) => {
                    let after = span.draw(self.dice.roll());
                    self.set_timer(timer, now + after);
                }
                Effect::CancelTimer(timer) => self.timers.retain(|(known, _)| *known != timer),
                Effect::Persist(record) => {
                    self.blocked = true;
                    world.write(record, true);
                }
                Effect::Store(record) => world.write(record, false),
                Effect::Announce(Event::Lease { until: slot, bare }) => {
                    let lease = Timer::Reign(Clock::Lease(slot));
                    let until = self.timers.iter().find(|(timer, _)| *timer == lease).map(|(_, due)| *due);
                    world.leased(until, bare);
                }
                Effect::Announce(event) => world.announce(event),
            }
        }
        self.effects.is_empty()
    }

    fn standing(&self) -> Standing {
        self.member.standing()
    }

    fn incarnation(&self) -> algorithms::Incarnation {
        self.member.incarnation()
    }

    fn has_heir(&self) -> bool {
        let Setup { me, view, settings, .. } = &self.setup;
        self.member.heir(&Ctx { me: *me, view, settings, dice: 0 }).is_some()
    }

    fn knows_the_past(&self) -> bool {
        self.member.reign().is_none_or(|reign| !reign.is_blank())
    }

    fn links(&self) -> NodeSet {
        self.member.links(&self.setup.view)
    }

    fn algorithm_messages(&self) -> u64 {
        self.member.algorithm_messages()
    }
}

/// splitmix64: fair enough for jitter and incarnation nonces, seeded by the kernel.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
