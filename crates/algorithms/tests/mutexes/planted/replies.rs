//! Mistakes with the replies of Ricart and Agrawala.

use std::collections::{BTreeMap, BTreeSet};

use algorithms::mutex::clock::{Clock, Stamp};
use algorithms::mutex::ricart_agrawala::Msg;
use algorithms::{Access, Input, Mutex, MutexSettings, NodeId, Outbox, Protocol, Section, Stage, Token, Want};

use super::{Context, chosen};

/// Compares with the present clock instead of the timestamp of the request.
pub(crate) const PRESENT_CLOCK: u8 = 1;
/// Ties between equal times: both reply.
pub(crate) const BOTH_REPLY: u8 = 2;
/// Ties between equal times: both defer.
pub(crate) const BOTH_DEFER: u8 = 3;
/// Ids alone decide.
pub(crate) const IDS_ALONE: u8 = 4;
/// A reply to any request counts.
pub(crate) const OLD_REPLY: u8 = 5;
/// Replies do not carry the clock.
pub(crate) const NO_CLOCK: u8 = 6;
/// Replies do not carry the token.
pub(crate) const NO_TOKEN: u8 = 7;
/// Replies from within the section.
pub(crate) const REPLIES_INSIDE: u8 = 8;
/// A reader replies to everybody.
pub(crate) const READER_NEVER_DEFERS: u8 = 9;
/// Writers count tokens up by one: a writer after a reader has the reader's.
pub(crate) const READERS_TOKEN_AGAIN: u8 = 10;
/// The holder with which a view begins is forgotten.
pub(crate) const NO_HOLDER: u8 = 11;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Replies {
    bug: u8,
    clock: Clock,
    stage: Stage,
    access: Access,
    asked: Stamp,
    replied: BTreeSet<NodeId>,
    deferred: BTreeMap<NodeId, u64>,
    known: Token,
}

impl Protocol for Replies {
    type Link = NodeId;
    type Message = Msg;
    type Timer = ();
    type Command = Want;
    type Event = Section;
    type Durable = ();
    type Settings = MutexSettings;

    fn start(ctx: &Context<'_>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        Replies::new(ctx)
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

impl Mutex for Replies {
    const SHARED: bool = true;

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

impl Replies {
    fn new(ctx: &Context<'_>) -> Self {
        let bug = chosen(ctx);
        let stage = if bug == NO_HOLDER { Stage::Released } else { Stage::at_start(ctx.me.id, ctx.settings) };
        Replies {
            bug,
            clock: Clock::new(ctx.settings.clock),
            stage,
            access: Access::Exclusive,
            asked: Stamp { time: 0, id: ctx.me.id },
            replied: BTreeSet::new(),
            deferred: BTreeMap::new(),
            known: ctx.settings.floor,
        }
    }

    fn ask(&mut self, ctx: &Context<'_>, access: Access, out: &mut impl Outbox<Self>) {
        self.stage = Stage::Wanted;
        self.access = access;
        self.asked.time = self.clock.tick();
        for peer in ctx.view.others(ctx.me.id) {
            out.send(peer.id, Msg::Request { time: self.asked.time, access });
        }
        self.check(ctx, out);
    }

    fn comes_first(&self, theirs: Stamp) -> bool {
        match self.bug {
            PRESENT_CLOCK => Stamp { time: self.clock.time(), id: self.asked.id } < theirs,
            BOTH_REPLY => self.asked.time < theirs.time,
            BOTH_DEFER => self.asked.time <= theirs.time,
            IDS_ALONE => self.asked.id < theirs.id,
            _ => self.asked < theirs,
        }
    }

    fn message(&mut self, ctx: &Context<'_>, from: NodeId, message: Msg, out: &mut impl Outbox<Self>) {
        match message {
            Msg::Request { time, access } => {
                self.clock.receive(time);
                let first = match self.stage {
                    Stage::Held => self.bug != REPLIES_INSIDE,
                    Stage::Wanted => self.comes_first(Stamp { time, id: from }),
                    Stage::Released => false,
                };
                let never = self.bug == READER_NEVER_DEFERS && self.access == Access::Shared;
                if first && self.access.excludes(access) && !never {
                    self.deferred.insert(from, time);
                } else {
                    self.reply(from, time, out);
                }
            }
            Msg::Reply { to, time, token } => {
                if self.bug != NO_CLOCK {
                    self.clock.receive(time);
                }
                self.known = self.known.max(token);
                if self.stage == Stage::Wanted && (to == self.asked.time || self.bug == OLD_REPLY) {
                    self.replied.insert(from);
                    self.check(ctx, out);
                }
            }
        }
    }

    fn reply(&self, peer: NodeId, to: u64, out: &mut impl Outbox<Self>) {
        let token = if self.bug == NO_TOKEN { Token(0) } else { self.known };
        out.send(peer, Msg::Reply { to, time: self.clock.time(), token });
    }

    fn check(&mut self, ctx: &Context<'_>, out: &mut impl Outbox<Self>) {
        if !ctx.view.others(ctx.me.id).all(|peer| self.replied.contains(&peer.id)) {
            return;
        }
        self.replied.clear();
        self.stage = Stage::Held;
        let step = if self.access == Access::Shared || self.bug == READERS_TOKEN_AGAIN { 1 } else { 2 };
        let token = Token(self.known.0 + step);
        if self.access == Access::Exclusive {
            self.known = token;
        }
        out.announce(Section::Enter(token));
    }

    fn exit(&mut self, _: &Context<'_>, out: &mut impl Outbox<Self>) {
        self.stage = Stage::Released;
        self.clock.tick();
        for (peer, to) in std::mem::take(&mut self.deferred) {
            self.reply(peer, to, out);
        }
    }
}
