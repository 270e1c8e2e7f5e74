//! Mutual exclusion by election: a round of an election chooses the next member that enters.
//!
//! Model: that of the election, here the textbook form of Bully: a full mesh, no failure, an answer takes at most T.
//! For simulations only: where an answer takes longer, an election of Bully has two winners, and two members enter.
//!
//! A member that wants to enter sends WANT with its Lamport time to all others. The member that was inside last, at the
//! beginning the first member of the view, opens the next round: it sends ROUND to every candidate, that is to every
//! member with a request that was not served. The candidates elect one of them, and the winner enters. At its exit it
//! opens the round after that, among those that still wait and those that came new.
//!
//! Candidates do not stand with their ids: the largest id would win every round, and members with small ids would wait
//! for ever. The uid of a candidate is the pair (-time of its request, id), so the earliest request wins.
//!
//! Messages per entry with c candidates: N-1 WANT, at most N-1 ROUND, and an election of c members that all start. With
//! Bully this is at most c(c-1) ELECTION and ANSWER and c-1 COORDINATOR.
//!
//! Pitfalls. ROUND carries which request of each member was served last, else a late WANT would be served again. A
//! message of a round may arrive before its ROUND and is kept until then. A round can be over, and the next one open,
//! before a candidate has heard of it: ROUND with a larger number replaces it.

use std::collections::{BTreeMap, VecDeque};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::clock::{Clock, Stamp};
use super::{Mutex, MutexSettings, Section, Stage, Want, kinds_with, learn, next};
use crate::protocol::{Campaign, Ctx, Election, Input, Kind, Message, Outbox, Outcome, Protocol, Span};
use crate::settings::Settings;
use crate::view::View;
use types::{NodeId, Token, Uid};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ByElection<E: Protocol> {
    stage: Stage,
    clock: Clock,
    /// The timestamp of the own request.
    asked: Stamp,
    /// The time of the latest request of each member, its own too, and of the latest that was served.
    wants: BTreeMap<NodeId, u64>,
    served: BTreeMap<NodeId, u64>,
    /// It was inside last, and opens the next round.
    opens: bool,
    round: u64,
    contest: Option<Contest<E>>,
    /// Messages of rounds that it has not heard of yet.
    early: VecDeque<(NodeId, u64, E::Message)>,
    /// The largest token that it knows of.
    known: Token,
}

/// One election among the candidates of a round.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Contest<E> {
    view: View,
    me: Uid,
    machine: E,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg<M> {
    Want { time: u64 },
    Round { round: u64, candidates: BTreeMap<NodeId, u64>, served: BTreeMap<NodeId, u64>, token: Token },
    Election { round: u64, message: M },
}

impl<M: Message> Msg<M> {
    const ALL: &'static [Kind; 16] = &kinds_with(&[Kind::mutex("want"), Kind::mutex("round")], M::KINDS);
}

impl<M: Message> Message for Msg<M> {
    const KINDS: &'static [Kind] = Self::ALL.split_at(M::KINDS.len() + 2).0;

    fn kind(&self) -> usize {
        match self {
            Msg::Want { .. } => 0,
            Msg::Round { .. } => 1,
            Msg::Election { message, .. } => 2 + message.kind(),
        }
    }
}

/// Passes on what the election does, and keeps whether it is won.
struct Through<'a, O> {
    out: &'a mut O,
    round: u64,
    won: bool,
}

impl<E, O> Outbox<E> for Through<'_, O>
where
    E: Election + Protocol<Link = NodeId, Durable = ()>,
    O: Outbox<ByElection<E>>,
{
    fn send(&mut self, to: NodeId, message: E::Message) {
        self.out.send(to, Msg::Election { round: self.round, message });
    }
    fn forward(&mut self, to: NodeId, message: E::Message) {
        self.send(to, message);
    }
    fn set_timer(&mut self, timer: E::Timer, after: Span) {
        self.out.set_timer((self.round, timer), after);
    }
    fn cancel_timer(&mut self, timer: E::Timer) {
        self.out.cancel_timer((self.round, timer));
    }
    fn persist(&mut self, (): ()) {}
    fn store(&mut self, (): ()) {}
    fn announce(&mut self, outcome: Outcome) {
        self.won |= outcome == Outcome::Won;
    }
}

impl<E: Election + Protocol<Link = NodeId, Durable = ()>> Protocol for ByElection<E> {
    type Link = NodeId;
    type Message = Msg<E::Message>;
    /// With the number of the round.
    type Timer = (u64, E::Timer);
    type Command = Want;
    type Event = Section;
    type Durable = ();
    type Settings = MutexSettings;

    fn start(ctx: &Ctx<'_, MutexSettings>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        let first = ctx.view.members().first().map(|member| member.id);
        ByElection {
            stage: Stage::at_start(ctx.me.id, ctx.settings),
            clock: Clock::new(ctx.settings.clock),
            asked: Stamp { time: 0, id: ctx.me.id },
            wants: BTreeMap::new(),
            served: BTreeMap::new(),
            opens: ctx.settings.holder.or(first) == Some(ctx.me.id),
            round: 0,
            contest: None,
            early: VecDeque::new(),
            known: ctx.settings.floor,
        }
    }

    fn step(&mut self, ctx: &Ctx<'_, MutexSettings>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Want::Request(_)) if self.stage == Stage::Released => self.ask(ctx, out),
            Input::Command(Want::Exit) if self.stage == Stage::Held => {
                self.stage = Stage::Released;
                self.clock.tick();
                self.open(ctx, out);
            }
            Input::Message { from, message } if ctx.view.contains(from) => match message {
                Msg::Want { time } => {
                    self.clock.receive(time);
                    learn_time(&mut self.wants, from, time);
                    self.open(ctx, out);
                }
                Msg::Round { round, candidates, served, token } => {
                    learn(&mut self.known, token);
                    for (id, time) in served.into_iter().filter(|&(id, _)| ctx.view.contains(id)) {
                        learn_time(&mut self.served, id, time);
                    }
                    self.begin(ctx, round, &candidates, out);
                }
                Msg::Election { round, message } => self.election(ctx, from, round, message, out),
            },
            Input::Timer((round, timer)) if round == self.round => self.contest(Input::Timer(timer), ctx.dice, out),
            _ => {}
        }
    }
}

impl<E: Election + Protocol<Link = NodeId, Message: DeserializeOwned, Durable = ()>> Mutex for ByElection<E> {
    fn stage(&self) -> Stage {
        self.stage
    }

    fn clock(&self) -> Option<u64> {
        Some(self.clock.time())
    }

    fn stamp(&self) -> Option<Stamp> {
        (self.stage != Stage::Released).then_some(self.asked)
    }

    fn heard(&mut self, time: u64) {
        self.clock.receive(time);
    }
}

fn learn_time(times: &mut BTreeMap<NodeId, u64>, id: NodeId, time: u64) {
    let known = times.entry(id).or_default();
    *known = time.max(*known);
}

/// What a candidate stands with: the earlier its request, the better.
fn uid(id: NodeId, time: u64) -> Uid {
    Uid { priority: u32::MAX - u32::try_from(time).unwrap_or(u32::MAX), id }
}

impl<E: Election + Protocol<Link = NodeId, Durable = ()>> ByElection<E> {
    fn ask(&mut self, ctx: &Ctx<'_, MutexSettings>, out: &mut impl Outbox<Self>) {
        self.stage = Stage::Wanted;
        self.asked.time = self.clock.tick();
        self.wants.insert(ctx.me.id, self.asked.time);
        for peer in ctx.view.others(ctx.me.id) {
            out.send(peer.id, Msg::Want { time: self.asked.time });
        }
        self.open(ctx, out);
    }

    /// Opens the next round, if that is up to this member, no member is inside and one wants to be.
    fn open(&mut self, ctx: &Ctx<'_, MutexSettings>, out: &mut impl Outbox<Self>) {
        if !self.opens || self.stage == Stage::Held {
            return;
        }
        let is_open = |(id, time): &(&NodeId, &u64)| self.served.get(id).is_none_or(|served| served < *time);
        let candidates: BTreeMap<NodeId, u64> =
            self.wants.iter().filter(is_open).map(|(&id, &time)| (id, time)).collect();
        if candidates.is_empty() {
            return;
        }
        self.opens = false;
        let round = self.round.saturating_add(1);
        for &id in candidates.keys().filter(|&&id| id != ctx.me.id) {
            let (candidates, served) = (candidates.clone(), self.served.clone());
            out.send(id, Msg::Round { round, candidates, served, token: self.known });
        }
        self.begin(ctx, round, &candidates, out);
    }

    /// Takes part in a round, if this member is a candidate of it.
    fn begin(
        &mut self,
        ctx: &Ctx<'_, MutexSettings>,
        round: u64,
        candidates: &BTreeMap<NodeId, u64>,
        out: &mut impl Outbox<Self>,
    ) {
        if round <= self.round {
            return;
        }
        self.round = round;
        self.contest = None;
        let known: Vec<(NodeId, u64)> =
            candidates.iter().map(|(&id, &time)| (id, time)).filter(|&(id, _)| ctx.view.contains(id)).collect();
        for &(id, time) in &known {
            learn_time(&mut self.wants, id, time);
        }
        let Some(&(_, time)) = known.iter().find(|&&(id, time)| id == ctx.me.id && time == self.asked.time) else {
            return;
        };
        let view = View::mesh(known.iter().map(|&(id, time)| uid(id, time)).collect());
        let (me, settings) = (uid(ctx.me.id, time), Settings::default());
        let mut through = Through { out, round, won: false };
        let machine = E::start(&Ctx { me, view: &view, settings: &settings, dice: ctx.dice }, None, &mut through);
        self.contest = Some(Contest { view, me, machine });
        self.contest(Input::Command(Campaign), ctx.dice, out);
        for (from, of, message) in std::mem::take(&mut self.early) {
            self.election(ctx, from, of, message, out);
        }
    }

    fn election(
        &mut self,
        ctx: &Ctx<'_, MutexSettings>,
        from: NodeId,
        round: u64,
        message: E::Message,
        out: &mut impl Outbox<Self>,
    ) {
        if round == self.round {
            self.contest(Input::Message { from, message }, ctx.dice, out);
        } else if round > self.round && self.early.len() < 16 * ctx.view.len() {
            self.early.push_back((from, round, message));
        }
    }

    /// A step of the election in hand.
    fn contest(&mut self, input: Input<E>, dice: u64, out: &mut impl Outbox<Self>) {
        let Some(Contest { view, me, machine }) = &mut self.contest else { return };
        let settings = Settings::default();
        let mut through = Through { out, round: self.round, won: false };
        machine.step(&Ctx { me: *me, view, settings: &settings, dice }, input, &mut through);
        if through.won && self.stage == Stage::Wanted {
            self.stage = Stage::Held;
            self.opens = true;
            self.served.insert(self.asked.id, self.asked.time);
            out.announce(Section::Enter(next(&mut self.known)));
        }
    }
}
