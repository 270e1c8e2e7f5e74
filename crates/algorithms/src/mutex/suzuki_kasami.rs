//! Suzuki and Kasami 1985: a distributed mutual exclusion algorithm.
//!
//! Model: a full mesh, reliable links in any order, no failure, all members known.
//!
//! One token is the right to enter, and it stays where it was used last. A member that has it enters without a message.
//! Any other member numbers its request and sends REQUEST to all others; the token comes when its holder has no use for
//! it. The token carries, for each member, the number of the request that was served last, and a queue of members that
//! wait. At an exit the holder appends every member whose latest request is not served, and sends the token to the
//! first of the queue.
//!
//! Messages: 0 or N per entry: N-1 REQUEST and 1 TOKEN, or none where the token is already here. A member enters one
//! round trip after it asked, or at once, where no other wants to; and one message after the present holder leaves.
//!
//! Pitfalls. A REQUEST may arrive after the token has served it: the numbers tell old requests from open ones. Members
//! are appended from the holder's right-hand neighbour on, not from the first member, else members late in the list
//! wait for ever. Members enter in the order of the token's queue, not in the order of their requests.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::{Mutex, MutexSettings, Section, Stage, Want, learn, next};
use crate::protocol::{Ctx, Input, Outbox, Protocol};
use types::{NodeId, Token};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SuzukiKasami {
    stage: Stage,
    /// The number of the latest request of each member, as far as it is known here. Members that never asked are absent.
    asked: BTreeMap<NodeId, u64>,
    /// What the token carries, where the token is here.
    token: Option<Load>,
    /// The largest fencing token that it knows of.
    known: Token,
}

/// What the token carries.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Load {
    /// The number of the request of each member that was served last.
    served: BTreeMap<NodeId, u64>,
    queue: VecDeque<NodeId>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    Request { number: u64 },
    Token { load: Load, token: Token },
}

kinds!(Msg { Request: mutex("request"), Token: mutex("token") });

impl Protocol for SuzukiKasami {
    type Link = NodeId;
    type Message = Msg;
    type Timer = ();
    type Command = Want;
    type Event = Section;
    type Durable = ();
    type Settings = MutexSettings;

    /// The token begins at the holder, or at the first member of the view.
    fn start(ctx: &Ctx<'_, MutexSettings>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        let first = ctx.view.members().first().map(|member| member.id);
        SuzukiKasami {
            stage: Stage::at_start(ctx.me.id, ctx.settings),
            asked: BTreeMap::new(),
            token: (ctx.settings.holder.or(first) == Some(ctx.me.id)).then(Load::default),
            known: ctx.settings.floor,
        }
    }

    fn step(&mut self, ctx: &Ctx<'_, MutexSettings>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Want::Request(_)) if self.stage == Stage::Released => self.ask(ctx, out),
            Input::Command(Want::Exit) if self.stage == Stage::Held => {
                self.stage = Stage::Released;
                self.pass(ctx, out);
            }
            Input::Message { from, message } if ctx.view.contains(from) => match message {
                Msg::Request { number } => {
                    let known = self.asked.entry(from).or_default();
                    *known = number.max(*known);
                    self.pass(ctx, out);
                }
                Msg::Token { load, token } if self.token.is_none() => {
                    learn(&mut self.known, token);
                    self.token = Some(load);
                    self.arrived(ctx, out);
                }
                Msg::Token { .. } => {}
            },
            _ => {}
        }
    }
}

impl Mutex for SuzukiKasami {
    fn stage(&self) -> Stage {
        self.stage
    }
}

impl SuzukiKasami {
    fn ask(&mut self, ctx: &Ctx<'_, MutexSettings>, out: &mut impl Outbox<Self>) {
        self.stage = Stage::Wanted;
        if self.token.is_some() {
            return self.enter(out);
        }
        let number = self.asked.entry(ctx.me.id).or_default();
        *number = number.saturating_add(1);
        for peer in ctx.view.others(ctx.me.id) {
            out.send(peer.id, Msg::Request { number: *number });
        }
    }

    /// The token serves the own request, if there is one.
    fn arrived(&mut self, ctx: &Ctx<'_, MutexSettings>, out: &mut impl Outbox<Self>) {
        let (me, number) = (ctx.me.id, self.asked.get(&ctx.me.id).copied().unwrap_or_default());
        if let Some(load) = &mut self.token {
            load.served.insert(me, number);
            load.queue.retain(|&id| id != me);
        }
        if self.stage == Stage::Wanted { self.enter(out) } else { self.pass(ctx, out) }
    }

    fn enter(&mut self, out: &mut impl Outbox<Self>) {
        self.stage = Stage::Held;
        out.announce(Section::Enter(next(&mut self.known)));
    }

    /// Sends the token to the member that has waited longest, if it is here, not in use, and a member waits.
    fn pass(&mut self, ctx: &Ctx<'_, MutexSettings>, out: &mut impl Outbox<Self>) {
        if self.stage != Stage::Released {
            return;
        }
        let Some(mut load) = self.token.take() else { return };
        let members = ctx.view.members();
        let here = ctx.view.position(ctx.me.id).map_or(0, |at| at + 1);
        for peer in members.iter().cycle().skip(here).take(members.len()).map(|member| member.id) {
            let open = self.asked.get(&peer) > load.served.get(&peer).or(Some(&0));
            if open && peer != ctx.me.id && !load.queue.contains(&peer) {
                load.queue.push_back(peer);
            }
        }
        load.queue.retain(|&id| ctx.view.contains(id));
        match load.queue.pop_front() {
            Some(first) => out.send(first, Msg::Token { load, token: self.known }),
            None => self.token = Some(load),
        }
    }
}
