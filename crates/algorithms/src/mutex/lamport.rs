//! Lamport 1978: time, clocks, and the ordering of events in a distributed system.
//!
//! Model: a full mesh of reliable FIFO links (the order is essential), no failure, all members known.
//!
//! Every member keeps the queue of all open requests, ordered by timestamp. A member that wants to enter sends REQUEST
//! with its timestamp to all others and puts it into its own queue; every other member does the same and answers with
//! REPLY. It enters when its request is the first of its own queue and it has received a message with a later timestamp
//! from every other member: then no earlier request can still be under way. At its exit it sends RELEASE to all, and
//! every member removes that request.
//!
//! Messages: exactly 3(N-1) per entry: N-1 REQUEST, N-1 REPLY, N-1 RELEASE. A member enters one round trip after it
//! asked where no other wants to, and one message after the present holder leaves. Members enter in the order of their
//! timestamps, so a request that happened before another one is served first.
//!
//! Pitfalls. *Any* later message counts, REQUEST and RELEASE too, and what is compared are pairs of time and id.
//! RELEASE removes the request of its sender, which need not be the first of the receiver's queue. Where messages
//! overtake each other a REPLY can arrive before an earlier REQUEST of the same sender, and two members enter. A REPLY
//! could be omitted where a later message was already sent to that member; this machine always sends it, so that the
//! count is exact.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::clock::{Clock, Stamp};
use super::{Mutex, MutexSettings, Section, Stage, Want, learn, next};
use crate::protocol::{Ctx, Input, Outbox, Protocol};
use types::{NodeId, Token};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Lamport {
    clock: Clock,
    stage: Stage,
    /// The own request, fixed from the request to the exit.
    asked: Stamp,
    /// The time of every open request, by the member that made it: its own too.
    queue: BTreeMap<NodeId, u64>,
    /// The largest time that was received from each other member.
    heard: BTreeMap<NodeId, u64>,
    /// The largest token that it knows of.
    known: Token,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    Request {
        time: u64,
    },
    Reply {
        time: u64,
        token: Token,
    },
    Release {
        time: u64,
        /// The time of the request that is served.
        of: u64,
        token: Token,
    },
}

impl Msg {
    fn time(self) -> u64 {
        match self {
            Msg::Request { time } | Msg::Reply { time, .. } | Msg::Release { time, .. } => time,
        }
    }
}

kinds!(Msg { Request: mutex("request"), Reply: mutex("reply"), Release: mutex("release") });

impl Protocol for Lamport {
    type Link = NodeId;
    type Message = Msg;
    type Timer = ();
    type Command = Want;
    type Event = Section;
    type Durable = ();
    type Settings = MutexSettings;

    /// A holder has the first request of all queues, at time 0.
    fn start(ctx: &Ctx<'_, MutexSettings>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        Lamport {
            clock: Clock::new(ctx.settings.clock),
            stage: Stage::at_start(ctx.me.id, ctx.settings),
            asked: Stamp { time: 0, id: ctx.me.id },
            queue: ctx.settings.holder.map(|holder| (holder, 0)).into_iter().collect(),
            heard: BTreeMap::new(),
            known: ctx.settings.floor,
        }
    }

    fn step(&mut self, ctx: &Ctx<'_, MutexSettings>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Want::Request(_)) if self.stage == Stage::Released => self.ask(ctx, out),
            Input::Command(Want::Exit) if self.stage == Stage::Held => self.exit(ctx, out),
            Input::Message { from, message } if ctx.view.contains(from) => self.message(ctx, from, message, out),
            _ => {}
        }
    }
}

impl Mutex for Lamport {
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

impl Lamport {
    fn ask(&mut self, ctx: &Ctx<'_, MutexSettings>, out: &mut impl Outbox<Self>) {
        self.stage = Stage::Wanted;
        let time = self.clock.tick();
        self.asked.time = time;
        self.queue.insert(ctx.me.id, time);
        for peer in ctx.view.others(ctx.me.id) {
            out.send(peer.id, Msg::Request { time });
        }
        self.enter_if_first(ctx, out);
    }

    fn message(&mut self, ctx: &Ctx<'_, MutexSettings>, from: NodeId, message: Msg, out: &mut impl Outbox<Self>) {
        self.clock.receive(message.time());
        let heard = self.heard.entry(from).or_default();
        *heard = message.time().max(*heard);
        match message {
            Msg::Request { time } => {
                self.queue.insert(from, time);
                out.send(from, Msg::Reply { time: self.clock.tick(), token: self.known });
            }
            Msg::Reply { token, .. } => learn(&mut self.known, token),
            Msg::Release { of, token, .. } => {
                learn(&mut self.known, token);
                if self.queue.get(&from) == Some(&of) {
                    self.queue.remove(&from);
                }
            }
        }
        self.enter_if_first(ctx, out);
    }

    fn enter_if_first(&mut self, ctx: &Ctx<'_, MutexSettings>, out: &mut impl Outbox<Self>) {
        let mine = self.asked;
        let first = self.queue.iter().all(|(&id, &time)| mine <= Stamp { time, id });
        let later = |id| self.heard.get(&id).is_some_and(|&time| mine < Stamp { time, id });
        if self.stage == Stage::Wanted && first && ctx.view.others(ctx.me.id).all(|peer| later(peer.id)) {
            self.stage = Stage::Held;
            out.announce(Section::Enter(next(&mut self.known)));
        }
    }

    fn exit(&mut self, ctx: &Ctx<'_, MutexSettings>, out: &mut impl Outbox<Self>) {
        self.stage = Stage::Released;
        self.queue.remove(&ctx.me.id);
        let release = Msg::Release { time: self.clock.tick(), of: self.asked.time, token: self.known };
        for peer in ctx.view.others(ctx.me.id) {
            out.send(peer.id, release);
        }
    }
}
