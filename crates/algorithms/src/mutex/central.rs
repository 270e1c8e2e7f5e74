//! Centralised: one member, the clerk, keeps the queue (the textbooks' first algorithm).
//!
//! Model: a full mesh, reliable links in any order, no failure. The clerk is the first member of the view; a driver
//! that has an elected leader lists it first.
//!
//! A member that wants to enter sends REQUEST to the clerk. The clerk answers with GRANT if no member is inside, else
//! it queues the request; RELEASE of the holder lets it grant to the first of the queue. The clerk's own requests go
//! through the same queue without messages.
//!
//! Messages: exactly 3 per entry: 2 to enter, 1 to exit; 0 where the clerk itself enters. A member enters one round
//! trip after it asked where no other is inside, and 2 messages (RELEASE, GRANT) after the present holder leaves.
//!
//! Pitfalls. The order of entries is the order of arrival at the clerk: a request that happened before another one may
//! arrive after it. A member may ask again before its RELEASE has arrived: the clerk must keep a request of the present
//! holder, not drop it as a repetition. The clerk is a single point of failure and of load.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Mutex, MutexSettings, Section, Stage, Want, learn, next};
use crate::protocol::{Ctx, Input, Outbox, Protocol};
use types::{NodeId, Token};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Central {
    stage: Stage,
    /// The largest token that it knows of.
    known: Token,
    /// Only at the clerk.
    desk: Option<Desk>,
}

/// What the clerk keeps.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Desk {
    holder: Option<NodeId>,
    queue: VecDeque<NodeId>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    Request,
    Grant(Token),
    Release(Token),
}

kinds!(Msg { Request: mutex("request"), Grant: mutex("grant"), Release: mutex("release") });

fn clerk(ctx: &Ctx<'_, MutexSettings>) -> Option<NodeId> {
    ctx.view.members().first().map(|member| member.id)
}

impl Protocol for Central {
    type Link = NodeId;
    type Message = Msg;
    type Timer = ();
    type Command = Want;
    type Event = Section;
    type Durable = ();
    type Settings = MutexSettings;

    fn start(ctx: &Ctx<'_, MutexSettings>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        let desk = Desk { holder: ctx.settings.holder, queue: VecDeque::new() };
        Central {
            stage: Stage::at_start(ctx.me.id, ctx.settings),
            known: ctx.settings.floor,
            desk: (clerk(ctx) == Some(ctx.me.id)).then_some(desk),
        }
    }

    fn step(&mut self, ctx: &Ctx<'_, MutexSettings>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Want::Request(_)) if self.stage == Stage::Released => {
                self.stage = Stage::Wanted;
                self.tell_clerk(ctx, Msg::Request, out);
            }
            Input::Command(Want::Exit) if self.stage == Stage::Held => {
                self.stage = Stage::Released;
                self.tell_clerk(ctx, Msg::Release(self.known), out);
            }
            Input::Message { from, message } if ctx.view.contains(from) => match message {
                Msg::Grant(token) if clerk(ctx) == Some(from) => self.granted(token, out),
                Msg::Grant(_) => {}
                Msg::Request | Msg::Release(_) => self.at_the_desk(ctx, from, message, out),
            },
            _ => {}
        }
    }
}

impl Mutex for Central {
    fn stage(&self) -> Stage {
        self.stage
    }
}

impl Central {
    fn tell_clerk(&mut self, ctx: &Ctx<'_, MutexSettings>, message: Msg, out: &mut impl Outbox<Self>) {
        match clerk(ctx) {
            Some(clerk) if clerk != ctx.me.id => out.send(clerk, message),
            _ => self.at_the_desk(ctx, ctx.me.id, message, out),
        }
    }

    fn at_the_desk(&mut self, ctx: &Ctx<'_, MutexSettings>, from: NodeId, message: Msg, out: &mut impl Outbox<Self>) {
        let Some(desk) = &mut self.desk else { return };
        match message {
            Msg::Request if !desk.queue.contains(&from) => desk.queue.push_back(from),
            Msg::Release(token) if desk.holder == Some(from) => {
                learn(&mut self.known, token);
                desk.holder = None;
            }
            _ => {}
        }
        if desk.holder.is_some() {
            return;
        }
        desk.holder = desk.queue.pop_front();
        match desk.holder {
            Some(first) if first == ctx.me.id => self.granted(self.known, out),
            Some(first) => out.send(first, Msg::Grant(self.known)),
            None => {}
        }
    }

    fn granted(&mut self, token: Token, out: &mut impl Outbox<Self>) {
        if self.stage == Stage::Wanted {
            learn(&mut self.known, token);
            self.stage = Stage::Held;
            out.announce(Section::Enter(next(&mut self.known)));
        }
    }
}
