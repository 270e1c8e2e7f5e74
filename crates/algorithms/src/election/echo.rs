//! Echo with extinction on an arbitrary graph (Chang 1982, Segall 1983).
//!
//! Model: asynchronous, connected undirected graph, unique ids, reliable links; a node knows its neighbours and nothing
//! else: neither n nor the other ids.
//!
//! State of a node: the best wave that it has met, the neighbour that brought it (its father; none for its own wave), the
//! links over which nothing of this wave has come yet, and its children.
//!
//! - Start: a node that has met no wave begins its own: EXPLORE(own id) to all neighbours.
//! - EXPLORE(v) of a worse wave is dropped: that wave is extinct here. A node that has met no wave and beats v begins its own
//!   first.
//! - EXPLORE(v) of a better wave: the node leaves its wave for this one. The sender is its father; EXPLORE(v) goes to all
//!   other neighbours at once.
//! - EXPLORE(v) of the node's own wave: the link is done. Two nodes that explore each other over one link are both done with
//!   it.
//! - ECHO(v) of the node's own wave: the link is done and the sender is a child. Of another wave: dropped.
//! - All links done: ECHO(v) to the father. The node without a father has won; LEADER goes down the tree.
//!
//! A wave comes back to its root only if every node has joined it, and a node never leaves a better wave for a worse one. So
//! the wave of the best id alone comes back.
//!
//! Messages, with m links: exactly 2m if only the best node starts (EXPLORE 2m - n + 1, ECHO n - 1), between 2m and 2nm for
//! any initiators; LEADER exactly n - 1. Time, with diameter D and messages of one round: the best node is awake after D
//! rounds, knows after 2D + 1 more, and all know after D more: at most 4D + 1 rounds. So on a graph with many links it is much
//! faster than a depth-first search, for the same number of messages.
//!
//! Where the sources differ: they use one message for EXPLORE and ECHO and announce the result over all links (2m messages
//! more); with two kinds a node knows its children, and n - 1 suffice. They let only initiators begin waves, so that the best
//! initiator wins; here a node that is woken by a worse id begins its own wave, so that the best node wins whichever node
//! starts.

use serde::{Deserialize, Serialize};

use crate::protocol::{Ctx, Election, MessageDriven, Outbox, Outcome};
use crate::view::Edge;
use types::{NodeId, Uid};

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Echo {
    /// The id whose wave this node is in; `None`: asleep.
    wave: Option<Uid>,
    /// `None`: the wave is this node's own.
    father: Option<NodeId>,
    /// Links over which nothing of this wave has come.
    missing: Vec<NodeId>,
    children: Vec<NodeId>,
    decided: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    Explore(Uid),
    Echo(Uid),
    Leader(Uid),
}

kinds!(Msg { Explore: election("explore"), Echo: election("echo"), Leader: announcement("leader") });

impl MessageDriven for Echo {
    type Link = Edge;
    type Message = Msg;

    fn begin(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.wave.is_none() {
            self.join(ctx, ctx.me, None, out);
        }
    }

    fn message(&mut self, ctx: &Ctx<'_>, Edge(from): Edge, message: Msg, out: &mut impl Outbox<Self>) {
        match message {
            Msg::Explore(wave) => self.explored(ctx, from, wave, out),
            Msg::Echo(wave) => {
                if self.wave == Some(wave) && self.missing.contains(&from) {
                    self.children.push(from);
                    self.link_done(ctx, from, out);
                }
            }
            Msg::Leader(wave) => {
                if self.wave == Some(wave) && !self.decided {
                    self.decided = true;
                    out.announce(Outcome::Follow(Some(wave)));
                    self.tell_children(wave, out);
                }
            }
        }
    }
}

impl Election for Echo {}

impl Echo {
    /// Leaves the wave that this node was in, if any.
    fn join(&mut self, ctx: &Ctx<'_>, wave: Uid, father: Option<NodeId>, out: &mut impl Outbox<Self>) {
        self.wave = Some(wave);
        self.father = father;
        self.children.clear();
        self.missing = ctx.view.neighbour_ids(ctx.me.id).filter(|&id| Some(id) != father).collect();
        for &neighbour in &self.missing {
            out.send(Edge(neighbour), Msg::Explore(wave));
        }
        self.end_if_done(ctx, out);
    }

    fn explored(&mut self, ctx: &Ctx<'_>, from: NodeId, wave: Uid, out: &mut impl Outbox<Self>) {
        if ctx.beats(ctx.me, wave) {
            self.begin(ctx, out);
        }
        match self.wave {
            Some(mine) if mine == wave => self.link_done(ctx, from, out),
            Some(mine) if ctx.beats(mine, wave) => {}
            _ => self.join(ctx, wave, Some(from), out),
        }
    }

    fn link_done(&mut self, ctx: &Ctx<'_>, from: NodeId, out: &mut impl Outbox<Self>) {
        let before = self.missing.len();
        self.missing.retain(|&id| id != from);
        if self.missing.len() < before {
            self.end_if_done(ctx, out);
        }
    }

    fn end_if_done(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let Some(wave) = self.wave.filter(|_| self.missing.is_empty()) else { return };
        if let Some(father) = self.father {
            out.send(Edge(father), Msg::Echo(wave));
        } else if wave == ctx.me && !self.decided {
            self.decided = true;
            out.announce(Outcome::Won);
            self.tell_children(wave, out);
        }
    }

    fn tell_children(&self, wave: Uid, out: &mut impl Outbox<Self>) {
        for &child in &self.children {
            out.send(Edge(child), Msg::Leader(wave));
        }
    }
}
