//! Mistakes with Lamport's queue.

use std::collections::BTreeMap;

use algorithms::mutex::clock::{Clock, Stamp};
use algorithms::mutex::lamport::Msg;
use algorithms::{Access, Input, Mutex, MutexSettings, NodeId, Outbox, Protocol, Section, Stage, Token, Want};

use super::{Context, chosen};

/// A release removes the first request of the queue, whichever member made it.
pub(crate) const HEAD: u8 = 1;
/// Times alone order the queue.
pub(crate) const TIMES_ALONE: u8 = 2;
/// Enters when it is first, without a later message of every other member.
pub(crate) const NO_WAIT: u8 = 3;
/// Any message counts, also an earlier one.
pub(crate) const ANY_MESSAGE: u8 = 4;
/// The holder with which a view begins is not in the queue.
pub(crate) const NO_HOLDER: u8 = 5;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Queue {
    bug: u8,
    clock: Clock,
    stage: Stage,
    asked: Stamp,
    open: BTreeMap<NodeId, u64>,
    heard: BTreeMap<NodeId, u64>,
    known: Token,
}

impl Protocol for Queue {
    type Link = NodeId;
    type Message = Msg;
    type Timer = ();
    type Command = Want;
    type Event = Section;
    type Durable = ();
    type Settings = MutexSettings;

    fn start(ctx: &Context<'_>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        Queue::new(ctx)
    }

    fn step(&mut self, ctx: &Context<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Want::Request(access)) => self.ask(ctx, access, out),
            Input::Command(Want::Exit) => self.exit(ctx, out),
            Input::Message { from, message } => self.message(ctx, from, message, out),
            Input::Timer(()) | Input::PeerUp(_) | Input::PeerDown(_) | Input::Stored(()) => {}
        }
    }
}

impl Mutex for Queue {
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

impl Queue {
    fn new(ctx: &Context<'_>) -> Self {
        let bug = chosen(ctx);
        let holder = ctx.settings.holder.filter(|_| bug != NO_HOLDER);
        Queue {
            bug,
            clock: Clock::new(ctx.settings.clock),
            stage: Stage::at_start(ctx.me.id, ctx.settings),
            asked: Stamp { time: 0, id: ctx.me.id },
            open: holder.map(|holder| (holder, 0)).into_iter().collect(),
            heard: BTreeMap::new(),
            known: ctx.settings.floor,
        }
    }

    fn ask(&mut self, ctx: &Context<'_>, _: Access, out: &mut impl Outbox<Self>) {
        self.stage = Stage::Wanted;
        self.asked.time = self.clock.tick();
        self.open.insert(ctx.me.id, self.asked.time);
        for peer in ctx.view.others(ctx.me.id) {
            out.send(peer.id, Msg::Request { time: self.asked.time });
        }
        self.check(ctx, out);
    }

    fn message(&mut self, ctx: &Context<'_>, from: NodeId, message: Msg, out: &mut impl Outbox<Self>) {
        let (Msg::Request { time } | Msg::Reply { time, .. } | Msg::Release { time, .. }) = message;
        self.clock.receive(time);
        let heard = self.heard.entry(from).or_default();
        *heard = time.max(*heard);
        match message {
            Msg::Request { time } => {
                self.open.insert(from, time);
                out.send(from, Msg::Reply { time: self.clock.tick(), token: self.known });
            }
            Msg::Reply { token, .. } => self.known = self.known.max(token),
            Msg::Release { of, token, .. } => {
                self.known = self.known.max(token);
                let first = self.open.iter().map(|(&id, &time)| Stamp { time, id }).min();
                if self.bug == HEAD {
                    self.open.retain(|&id, _| Some(id) != first.map(|first| first.id));
                } else if self.open.get(&from) == Some(&of) {
                    self.open.remove(&from);
                }
            }
        }
        self.check(ctx, out);
    }

    fn check(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        let mine = self.asked;
        let first = |(&id, &time): (&NodeId, &u64)| match self.bug {
            TIMES_ALONE => mine.time <= time,
            _ => mine <= Stamp { time, id },
        };
        let later = |id| match self.bug {
            NO_WAIT => true,
            ANY_MESSAGE => self.heard.contains_key(&id),
            _ => self.heard.get(&id).is_some_and(|&time| mine < Stamp { time, id }),
        };
        let all_later = ctx.view.others(ctx.me.id).all(|peer| later(peer.id));
        if self.stage == Stage::Wanted && all_later && self.open.iter().all(first) {
            self.stage = Stage::Held;
            self.known = Token(self.known.0 + 1);
            out.announce(Section::Enter(self.known));
        }
    }

    fn exit(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        self.stage = Stage::Released;
        self.open.remove(&ctx.me.id);
        let release = Msg::Release { time: self.clock.tick(), of: self.asked.time, token: self.known };
        for peer in ctx.view.others(ctx.me.id) {
            out.send(peer.id, release);
        }
    }
}
