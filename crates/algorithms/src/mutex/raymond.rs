//! Raymond 1989: a tree-based algorithm for distributed mutual exclusion.
//!
//! Model: a tree of reliable links in any order, no failure. The tree is binary and by position: the children of the
//! member at position i are at 2i+1 and 2i+2. A member needs to know its neighbours in the tree only.
//!
//! One token is the right to enter. Every member knows in which direction it is: itself, its parent or a child. It
//! keeps a queue of the neighbours that asked it for the token, and of itself; while the queue is not empty it asks the
//! neighbour in the direction of the token, once for the whole queue. A member that has the token and is not in its
//! section takes the first of its queue: itself, and it enters; or a neighbour, and it sends the token there, and asks
//! for it again at once if other members wait.
//!
//! Messages: 0 to 2D per entry, D the diameter of the tree, which is at most 2·log2(N): D REQUEST and D TOKEN. Where
//! many members wait, about 4. A member enters after 0 to 2D messages where no other wants to, and 1 to D messages
//! after the present holder leaves.
//!
//! Pitfalls. A member asks at most once until the token comes: a second REQUEST would be served twice. The direction is
//! turned when the token is *sent*. Members enter in the order of the queues along the way, not in the order of their
//! requests, and members next to the holder can be served before members that asked earlier farther away.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Mutex, MutexSettings, Section, Stage, Want, learn, next};
use crate::protocol::{Ctx, Input, Outbox, Protocol};
use types::{NodeId, Token};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Raymond {
    stage: Stage,
    /// The neighbour on the way to the token; itself where the token is here.
    toward: NodeId,
    /// The neighbours that want the token, and itself.
    queue: VecDeque<NodeId>,
    /// It has asked the neighbour on the way to the token.
    asked: bool,
    /// The largest fencing token that it knows of.
    known: Token,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    Request,
    Token(Token),
}

kinds!(Msg { Request: mutex("request"), Token: mutex("token") });

/// The position of the parent; that of the root is its own.
fn parent(at: usize) -> usize {
    at.saturating_sub(1) / 2
}

/// The neighbour of `here` on the way to `there`.
fn way(here: usize, there: usize) -> usize {
    let mut at = there;
    while at > here {
        if parent(at) == here {
            return at;
        }
        at = parent(at);
    }
    if at == here { here } else { parent(here) }
}

impl Protocol for Raymond {
    type Link = NodeId;
    type Message = Msg;
    type Timer = ();
    type Command = Want;
    type Event = Section;
    type Durable = ();
    type Settings = MutexSettings;

    /// The token begins at the holder, or at the root.
    fn start(ctx: &Ctx<'_, MutexSettings>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        let position = |id| ctx.view.position(id).unwrap_or(0);
        let there = ctx.settings.holder.map_or(0, position);
        let next = way(position(ctx.me.id), there);
        Raymond {
            stage: Stage::at_start(ctx.me.id, ctx.settings),
            toward: ctx.view.members().get(next).map_or(ctx.me.id, |member| member.id),
            queue: VecDeque::new(),
            asked: false,
            known: ctx.settings.floor,
        }
    }

    fn step(&mut self, ctx: &Ctx<'_, MutexSettings>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Want::Request(_)) if self.stage == Stage::Released => {
                self.stage = Stage::Wanted;
                self.queue.push_back(ctx.me.id);
            }
            Input::Command(Want::Exit) if self.stage == Stage::Held => self.stage = Stage::Released,
            Input::Message { from, message: Msg::Request } if is_neighbour(ctx, from) => {
                if !self.queue.contains(&from) {
                    self.queue.push_back(from);
                }
            }
            Input::Message { from, message: Msg::Token(token) } if from == self.toward && from != ctx.me.id => {
                learn(&mut self.known, token);
                self.toward = ctx.me.id;
                self.asked = false;
            }
            _ => return,
        }
        self.give(ctx, out);
        self.ask(ctx, out);
    }
}

fn is_neighbour(ctx: &Ctx<'_, MutexSettings>, id: NodeId) -> bool {
    let (Some(me), Some(peer)) = (ctx.view.position(ctx.me.id), ctx.view.position(id)) else { return false };
    me != peer && (parent(me) == peer || parent(peer) == me)
}

impl Mutex for Raymond {
    fn stage(&self) -> Stage {
        self.stage
    }
}

impl Raymond {
    /// The token is here and not in use: the first of the queue gets it.
    fn give(&mut self, ctx: &Ctx<'_, MutexSettings>, out: &mut impl Outbox<Self>) {
        if self.toward != ctx.me.id || self.stage == Stage::Held {
            return;
        }
        let Some(first) = self.queue.pop_front() else { return };
        if first == ctx.me.id {
            self.stage = Stage::Held;
            out.announce(Section::Enter(next(&mut self.known)));
        } else {
            self.toward = first;
            out.send(first, Msg::Token(self.known));
        }
    }

    fn ask(&mut self, ctx: &Ctx<'_, MutexSettings>, out: &mut impl Outbox<Self>) {
        if self.toward != ctx.me.id && !self.queue.is_empty() && !self.asked {
            self.asked = true;
            out.send(self.toward, Msg::Request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_through_the_tree_ends_where_it_should() {
        for n in 1..20 {
            for (from, to) in (0..n).flat_map(|from| (0..n).map(move |to| (from, to))) {
                let mut at = from;
                let mut steps = 0;
                while at != to {
                    let on = way(at, to);
                    assert!(parent(on) == at || parent(at) == on);
                    (at, steps) = (on, steps + 1);
                    assert!(steps < n);
                }
                assert_eq!(way(to, to), to);
            }
        }
    }
}
