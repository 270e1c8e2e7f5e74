//! One machine of this process: bytes and peer changes in, effects out, in order.
//!
//! The event loop sees machines only through [`Instance`], so it runs any algorithm of the catalog without naming it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use algorithms::catalog::{AnyElection, Row};
use algorithms::drive::{Dice, Driver, Effect};
use algorithms::{Ctx, Election, Input, NodeId, Uid, View};
use anyhow::bail;
use bytes::BytesMut;
use client::ElectionCost;
use face::MessageCount;
use member::reign::ListEvent;
use member::{
    Authority, Classic, Command, Context, Envelope, Event, Incarnation, Member, NodeSet, Quorum, Safety, Settings,
    Standing,
};
use transport::{codec, is_next_for_a_test};
use types::{ClusterId, InstanceId, MemberList, Membership};

use crate::as_bytes::{self, MemberRecord, Sent};
use crate::election_meter::ElectionMeter;
use crate::records::Kept;
use crate::roster::Roster;
use crate::traffic::Traffic;

/// What a test's next version sends: a kind of message, and a field at the end of every heartbeat.
const NEXT_KIND: &[u8] = &[99, 1, 2, 3];
const NEXT_FIELD: &[u8] = &[4, 5, 6, 7];

/// What the event loop provides to an instance.
pub(crate) trait EffectSink {
    fn send(&mut self, to: NodeId, payload: &[u8]);
    /// Writes the record; `barrier` is true if the instance waits for it. Writes are done in order.
    fn write(&mut self, record: Kept, barrier: bool);
    /// `until`: the moment since boot at which the announced leadership ends, if the event has one.
    fn announce(&mut self, event: Event, until: Option<Duration>);
}

/// One member, of any authority.
pub(crate) trait Instance: Send {
    /// The record that this process begins with. It must be on the disk before anything else happens; then
    /// `written(true)`.
    fn first_record(&mut self) -> anyhow::Result<Kept>;
    /// False if the bytes were no message of this algorithm. `newer`: the sender speaks a later version, which may have added
    /// fields at the end.
    fn frame(&mut self, from: NodeId, payload: &[u8], newer: bool) -> bool;
    fn peer(&mut self, peer: NodeId, up: bool);
    fn command(&mut self, command: Command);
    /// Takes over what may change while a member runs. The next step acts by it; timers that run keep their end.
    fn adopt(&mut self, settings: &Settings);
    /// How long the last write took, of any instance: all of them write the same file.
    fn set_write_time(&mut self, write_time: Duration);
    /// The longest grace of the children that are attached.
    fn set_child_grace(&mut self, grace: Duration);
    /// Fires every timer that is due, in the order of their moments.
    fn tick(&mut self, now: Duration);
    /// When the next timer is due, since boot.
    fn deadline(&self) -> Option<Duration>;
    /// The oldest write of its kind is on the disk: the barrier is open, or the background record is safe.
    fn written(&mut self, barrier: bool);
    /// Has nothing happened since its effects were carried out, and does none wait for the disk?
    fn rests(&self) -> bool;
    /// Carries out the effects that are not behind a barrier. False if some effects wait for the disk.
    fn carry_out(&mut self, now: Duration, sink: &mut dyn EffectSink) -> bool;
    /// The standing of the machine itself: its last announcement may still wait for the disk.
    fn standing(&self) -> Standing;
    /// Does an announcement that this member leads wait for the disk?
    fn is_to_announce_leadership(&self) -> bool;
    fn incarnation(&self) -> Incarnation;
    /// Is there a possible successor if this member steps down?
    fn has_successor(&self) -> bool;
    /// Is the cluster paused, as far as it knows?
    fn is_paused(&self) -> bool;
    /// Does it lead, held by an order?
    fn is_held(&self) -> bool;
    /// Can its leader hand over to a chosen member?
    fn hands_over(&self) -> bool;
    /// Does it know what was granted before its disk began?
    fn knows_the_past(&self) -> bool;
    /// The id that the voters of this cluster have agreed on.
    fn cluster_id(&self) -> Option<ClusterId>;
    fn links(&self) -> NodeSet;
    /// What it knows of the member lists; `None` where the list is that of the config for ever.
    fn membership(&self) -> Option<Membership>;
    /// The list of active members that the algorithm keeps, if it keeps one.
    fn active_list(&self) -> Option<Vec<u32>>;
    /// Messages of the algorithm that were sent so far; heartbeats are not counted.
    fn algorithm_messages(&self) -> u64;
    /// The messages that were sent and received so far, by kind.
    fn message_counts(&self) -> Vec<MessageCount>;
    /// The last election that this member took part in, or the one under way; `None` if it has not changed since the
    /// last call.
    fn take_election(&mut self) -> Option<ElectionCost>;
}

/// What an instance runs with. The members in it follow the newest list that the instance has heard of.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) me: Uid,
    pub(crate) view: View,
    pub(crate) settings: Settings,
    /// Of a graph.
    pub(crate) links: Vec<(NodeId, NodeId)>,
    /// The volume is old: this member has no vote, whatever the list says.
    pub(crate) refused: bool,
    pub(crate) stored: Option<Kept>,
    /// The seed of this process start: instances of one start have one incarnation, because they draw its nonce from
    /// one seed.
    pub(crate) seed: u64,
    /// Gives each instance its own random numbers.
    pub(crate) instance: InstanceId,
}

pub(crate) fn start(row: &'static Row, safety: Safety, mut setup: Setup) -> anyhow::Result<Box<dyn Instance>> {
    setup.settings.election.algorithm = Some(row.algorithm);
    Ok(match safety {
        Safety::Classic => Box::new(MemberInstance::<Classic>::start(setup, row)?),
        Safety::Quorum => Box::new(MemberInstance::<Quorum>::start(setup, row)?),
    })
}

impl Setup {
    /// Replaces the members. Returns the view before.
    pub(crate) fn seat(&mut self, roster: &Roster) -> View {
        self.me = roster.me();
        roster.put_into(&mut self.settings);
        if self.refused {
            // To the other members it is still a voter, one that does not answer.
            self.settings.election.learners.push(self.me.id);
        }
        let view = roster.view(self.view.topology(), &self.links);
        std::mem::replace(&mut self.view, view)
    }
}

struct MemberInstance<A: Authority> {
    row: &'static Row,
    setup: Setup,
    driver: Driver<Member<AnyElection, A>, Duration>,
    /// Records on their way to the disk, with no effect that waits for them.
    stores: VecDeque<MemberRecord<A>>,
    meter: ElectionMeter,
    traffic: Traffic,
    dice: Dice,
    buffer: BytesMut,
    /// Something has happened since effects were carried out last.
    stirred: bool,
}

fn context(setup: &Setup, dice: u64) -> Context<'_> {
    Ctx { me: setup.me, view: &setup.view, settings: &setup.settings, dice }
}

impl<A: Authority> MemberInstance<A> {
    fn start(mut setup: Setup, row: &'static Row) -> anyhow::Result<Self> {
        let mut dice = Dice(setup.seed);
        let stored = setup.stored.take().map(|kept| as_bytes::decode::<A>(row.algorithm, &kept)).transpose()?;
        let driver = Driver::start(&context(&setup, dice.roll()), stored);
        dice.0 ^= u64::from(setup.instance.0);
        let (stores, buffer) = (VecDeque::new(), BytesMut::new());
        let kinds = row.algorithm.kinds();
        let (meter, traffic) = (ElectionMeter::new(setup.me.id, kinds), Traffic::new(kinds));
        Ok(MemberInstance { row, setup, driver, stores, meter, traffic, dice, buffer, stirred: true })
    }

    fn step(&mut self, input: Input<Member<AnyElection, A>>) {
        self.stirred = true;
        let joined = match &input {
            Input::Message { message: Envelope::Join { round, .. }, .. } => Some(*round),
            _ => None,
        };
        self.driver.step(&context(&self.setup, self.dice.roll()), input);
        let member = self.driver.machine();
        self.meter.stepped(member.round(), member.round_participants(), joined);
    }

    /// The member list has changed: the members of the view move to other positions. False if the algorithm cannot run with
    /// these members: no leader proposes such a list, and the view stays as it is.
    fn reseat(&mut self, list: &Arc<MemberList>) -> bool {
        let roster = Roster::new(Arc::clone(list), self.setup.me.id);
        let view = roster.view(self.setup.view.topology(), &self.setup.links);
        if view.len() > self.row.max_nodes || (self.row.check)(&view, self.setup.settings.election.wins).is_err() {
            tracing::error!(list = %list.stamp, "heard of a member list with which this algorithm cannot run: ignored");
            return false;
        }
        let before = self.setup.seat(&roster);
        self.driver.machine_mut().reseat(&before, &self.setup.view);
        self.meter.reseat(&before, &self.setup.view);
        true
    }

    fn send(&mut self, to: NodeId, message: Sent<A>, sink: &mut dyn EffectSink) {
        self.meter.sends(&message);
        if to == self.setup.me.id {
            // A ring of one: the message returns at once.
            return self.step(Input::Message { from: to, message });
        }
        self.traffic.sent(&message);
        self.buffer.clear();
        match codec::encode(&message, &mut self.buffer) {
            Ok(()) => {
                if is_next_for_a_test() && matches!(message, Envelope::Beat(_)) {
                    // A kind of message and a field that the version before does not know.
                    sink.send(to, NEXT_KIND);
                    self.buffer.extend_from_slice(NEXT_FIELD);
                }
                sink.send(to, &self.buffer);
            }
            Err(error) => tracing::error!(%error, "a message of ours cannot be encoded"),
        }
    }
}

impl<A: Authority> Instance for MemberInstance<A> {
    fn first_record(&mut self) -> anyhow::Result<Kept> {
        match self.driver.next_effect(|_, after| after.max) {
            Some(Effect::Persist(record)) => Ok(as_bytes::encode::<A>(&record)),
            _ => bail!("a member begins with its record"),
        }
    }

    fn frame(&mut self, from: NodeId, payload: &[u8], newer: bool) -> bool {
        match as_bytes::read::<A>(self.row.algorithm, payload, newer) {
            Ok(message) => {
                self.traffic.received(&message);
                self.step(Input::Message { from, message });
            }
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

    fn adopt(&mut self, new: &Settings) {
        self.stirred = true;
        let own = &mut self.setup.settings;
        (own.preempt, own.preempt_after, own.stand) = (new.preempt, new.preempt_after, new.stand);
        (own.timing.heartbeat, own.timing.suspect_after) = (new.timing.heartbeat, new.timing.suspect_after);
        own.election.answer_timeout = new.election.answer_timeout;
        own.election.coordinator_timeout = new.election.coordinator_timeout;
    }

    fn set_write_time(&mut self, write_time: Duration) {
        self.setup.settings.from_driver.write_time = write_time;
    }

    fn set_child_grace(&mut self, grace: Duration) {
        self.setup.settings.from_driver.child_grace = grace;
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

    fn rests(&self) -> bool {
        !self.stirred && !self.driver.owes_effects()
    }

    fn carry_out(&mut self, now: Duration, sink: &mut dyn EffectSink) -> bool {
        self.stirred = false;
        loop {
            let dice = &mut self.dice;
            let Some(effect) = self.driver.next_effect(|_, span| now + span.draw(dice.roll())) else {
                return !self.driver.owes_effects();
            };
            match effect {
                Effect::Send { to, message, .. } => self.send(to, message, sink),
                Effect::Persist(record) => sink.write(as_bytes::encode::<A>(&record), true),
                Effect::Store(record) => {
                    sink.write(as_bytes::encode::<A>(&record), false);
                    self.stores.push_back(record);
                }
                Effect::Announce(event) => {
                    match &event {
                        Event::Became { now, .. } => self.meter.became(*now),
                        Event::List(ListEvent::Known(list)) if !self.reseat(list) => continue,
                        _ => {}
                    }
                    let until = self.driver.deadline_of(&event);
                    sink.announce(event, until);
                }
                Effect::SetTimer(..) | Effect::CancelTimer(_) => {}
            }
        }
    }

    fn standing(&self) -> Standing {
        self.driver.machine().standing()
    }

    fn is_to_announce_leadership(&self) -> bool {
        self.driver.announcements().any(Event::is_of_leader)
    }

    fn incarnation(&self) -> Incarnation {
        self.driver.machine().incarnation()
    }

    fn has_successor(&self) -> bool {
        self.driver.machine().best_successor(&context(&self.setup, 0)).is_some()
    }

    fn is_paused(&self) -> bool {
        self.driver.machine().mode().is_some_and(|mode| mode.paused)
    }

    fn is_held(&self) -> bool {
        self.driver.machine().is_held(&context(&self.setup, 0))
    }

    fn hands_over(&self) -> bool {
        A::ELECTION_PROPOSES || self.row.algorithm.features().hands_over
    }

    fn knows_the_past(&self) -> bool {
        self.driver.machine().authority().knows_the_past()
    }

    fn cluster_id(&self) -> Option<ClusterId> {
        self.driver.machine().authority().cluster_id()
    }

    fn links(&self) -> NodeSet {
        self.driver.machine().links(&self.setup.view)
    }

    fn membership(&self) -> Option<Membership> {
        self.driver.machine().authority().membership(&context(&self.setup, 0))
    }

    fn active_list(&self) -> Option<Vec<u32>> {
        let list = self.driver.machine().machine().active_list()?;
        Some(list.iter().map(|uid| uid.id.0).collect())
    }

    fn algorithm_messages(&self) -> u64 {
        self.meter.total()
    }

    fn message_counts(&self) -> Vec<MessageCount> {
        self.traffic.counts()
    }

    fn take_election(&mut self) -> Option<ElectionCost> {
        self.meter.take_cost(&self.setup.view)
    }
}

#[cfg(test)]
#[path = "instance_tests.rs"]
mod tests;
