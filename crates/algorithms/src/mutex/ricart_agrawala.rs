//! Ricart and Agrawala 1981: an optimal algorithm for mutual exclusion in computer networks.
//!
//! Model: a full mesh, reliable links in any order (FIFO is not needed), no failure, all members known.
//!
//! A member that wants to enter sends REQUEST with its timestamp to all others and enters when all have replied. A
//! member that gets a REQUEST replies at once, unless it is in its section or wants to enter with an earlier timestamp:
//! then it replies when it leaves. Timestamps are pairs of Lamport time and id, so of two members that want to enter
//! exactly one waits for the other.
//!
//! Messages: exactly 2(N-1) per entry: N-1 REQUEST and N-1 REPLY. A member enters one round trip after it asked where
//! no other wants to, and one message after the present holder leaves. Members enter in the order of their timestamps,
//! so a request that happened before another one is served first.
//!
//! Pitfalls. The comparison is with the timestamp of the own *request*, not with the present clock, which has moved on:
//! two members that compare their clocks both defer or both reply. A REPLY names the request that it answers, and one
//! for an earlier request is not counted. A member is out of its section before it replies. The paper moves the clock
//! only at REQUEST; here REPLY carries the clock too: otherwise a member can learn of a request by way of a REPLY, ask
//! with a smaller timestamp than that request and enter before it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::clock::{Clock, Stamp};
use super::{Access, Mutex, MutexSettings, Section, Stage, Want, learn, next};
use crate::protocol::{Ctx, Input, Outbox, Protocol};
use types::{NodeId, Token};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Permissions<const READERS: bool> {
    clock: Clock,
    stage: Stage,
    /// Of the own request: always exclusive where there are no readers.
    access: Access,
    /// The timestamp of the own request: fixed from the request to the exit.
    asked: Stamp,
    /// The members that replied to it.
    replies: BTreeSet<NodeId>,
    /// Who gets a reply at the exit, and to a request of which time.
    deferred: BTreeMap<NodeId, u64>,
    /// The largest token that it knows of.
    known: Token,
}

pub type RicartAgrawala = Permissions<false>;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    Request {
        time: u64,
        access: Access,
    },
    Reply {
        /// The time of the request that it answers.
        to: u64,
        time: u64,
        token: Token,
    },
}

kinds!(Msg { Request: mutex("request"), Reply: mutex("reply") });

impl<const READERS: bool> Protocol for Permissions<READERS> {
    type Link = NodeId;
    type Message = Msg;
    type Timer = ();
    type Command = Want;
    type Event = Section;
    type Durable = ();
    type Settings = MutexSettings;

    fn start(ctx: &Ctx<'_, MutexSettings>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        Permissions {
            clock: Clock::new(ctx.settings.clock),
            stage: Stage::at_start(ctx.me.id, ctx.settings),
            access: Access::Exclusive,
            asked: Stamp { time: 0, id: ctx.me.id },
            replies: BTreeSet::new(),
            deferred: BTreeMap::new(),
            known: ctx.settings.floor,
        }
    }

    fn step(&mut self, ctx: &Ctx<'_, MutexSettings>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Want::Request(access)) => self.ask(ctx, access, out),
            Input::Command(Want::Exit) => self.exit(out),
            Input::Message { from, message } if ctx.view.contains(from) => match message {
                Msg::Request { time, access } => self.request(Stamp { time, id: from }, access, out),
                Msg::Reply { to, time, token } => {
                    self.clock.receive(time);
                    self.reply(ctx, from, to, token, out);
                }
            },
            _ => {}
        }
    }
}

impl<const READERS: bool> Mutex for Permissions<READERS> {
    const SHARED: bool = READERS;

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

impl<const READERS: bool> Permissions<READERS> {
    fn ask(&mut self, ctx: &Ctx<'_, MutexSettings>, access: Access, out: &mut impl Outbox<Self>) {
        if self.stage != Stage::Released {
            return;
        }
        self.stage = Stage::Wanted;
        self.access = if READERS { access } else { Access::Exclusive };
        self.asked.time = self.clock.tick();
        for peer in ctx.view.others(ctx.me.id) {
            out.send(peer.id, Msg::Request { time: self.asked.time, access: self.access });
        }
        self.enter_if_all_replied(ctx, out);
    }

    fn request(&mut self, theirs: Stamp, access: Access, out: &mut impl Outbox<Self>) {
        self.clock.receive(theirs.time);
        let first = match self.stage {
            Stage::Held => true,
            Stage::Wanted => self.asked < theirs,
            Stage::Released => false,
        };
        if first && self.access.excludes(access) {
            self.deferred.insert(theirs.id, theirs.time);
        } else {
            self.reply_to(theirs.id, theirs.time, out);
        }
    }

    fn reply_to(&self, peer: NodeId, to: u64, out: &mut impl Outbox<Self>) {
        out.send(peer, Msg::Reply { to, time: self.clock.time(), token: self.known });
    }

    fn reply(
        &mut self,
        ctx: &Ctx<'_, MutexSettings>,
        from: NodeId,
        to: u64,
        token: Token,
        out: &mut impl Outbox<Self>,
    ) {
        learn(&mut self.known, token);
        if self.stage == Stage::Wanted && to == self.asked.time {
            self.replies.insert(from);
            self.enter_if_all_replied(ctx, out);
        }
    }

    fn enter_if_all_replied(&mut self, ctx: &Ctx<'_, MutexSettings>, out: &mut impl Outbox<Self>) {
        if ctx.view.others(ctx.me.id).all(|peer| self.replies.contains(&peer.id)) {
            self.replies.clear();
            self.stage = Stage::Held;
            out.announce(Section::Enter(self.token()));
        }
    }

    /// Readers have the token between those of the writers before and after them: they know of no other reader, and
    /// only writers count tokens up.
    fn token(&mut self) -> Token {
        match self.access {
            Access::Exclusive if READERS => {
                next(&mut self.known);
                next(&mut self.known)
            }
            Access::Exclusive => next(&mut self.known),
            Access::Shared => next(&mut self.known.clone()),
        }
    }

    fn exit(&mut self, out: &mut impl Outbox<Self>) {
        if self.stage != Stage::Held {
            return;
        }
        self.stage = Stage::Released;
        self.clock.tick();
        for (peer, to) in std::mem::take(&mut self.deferred) {
            self.reply_to(peer, to, out);
        }
    }
}
