//! Depth-first search on an arbitrary graph (Lynch 1996, in the form with deferred accept).
//!
//! Model: asynchronous, connected undirected graph, unique ids, reliable FIFO links; a node knows its neighbours and
//! nothing else: neither n nor the other ids.
//!
//! An initiator starts a traversal under its own id: EXPLORE goes over one unexplored link at a time. A node that meets
//! a better id than any before joins that traversal: the sender becomes its parent, and it explores its own other links
//! before it answers ACCEPT. A node that is in the same traversal already answers REJECT. A worse traversal gets no answer
//! and stalls. The traversal of the best id alone comes back to its root: that node has won, and LEADER goes down the tree.
//!
//! Messages, with m links: exactly 2m if only the best node starts (EXPLORE m, ACCEPT n - 1, REJECT m - n + 1), between 2m
//! and 2nm for any initiators; LEADER exactly n - 1. A graph of one node needs none. Time: 2m steps if only the best
//! starts, one message after the other.
//!
//! Where the sources differ: read literally ("when a node first receives a message it sends accept"), ACCEPT is sent at
//! once. On the path 5-9-1, where the lowest wins, node 5 then has the accept of its only neighbour 9 and wins, and so does
//! node 1 later. Here ACCEPT means that the whole subtree is explored. The announcement is not in the sources. A
//! node that is woken by a worse id starts its own traversal; one that is woken by a better id joins at once and starts none.

use serde::{Deserialize, Serialize};

use crate::protocol::{Ctx, Election, MessageDriven, Outbox, Outcome};
use crate::view::Edge;
use types::{NodeId, Uid};

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Dfs {
    /// The root of the traversal that this node is in; `None`: asleep.
    best: Option<Uid>,
    /// `None`: this node is the root.
    parent: Option<NodeId>,
    /// The next one is the last.
    unexplored: Vec<NodeId>,
    children: Vec<NodeId>,
    decided: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    Explore(Uid),
    Accept(Uid),
    Reject(Uid),
    Leader(Uid),
}

kinds!(Msg {
    Explore: election("explore"),
    Accept: election("accept"),
    Reject: election("reject"),
    Leader: announcement("leader"),
});

impl MessageDriven for Dfs {
    type Link = Edge;
    type Message = Msg;

    fn begin(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.best.is_none() {
            self.join(ctx, ctx.me, None, out);
        }
    }

    fn message(&mut self, ctx: &Ctx<'_>, Edge(from): Edge, message: Msg, out: &mut impl Outbox<Self>) {
        match message {
            Msg::Explore(root) => self.explored(ctx, from, root, out),
            Msg::Accept(root) | Msg::Reject(root) => {
                // An answer to a traversal that this node has left is out of date.
                if self.best == Some(root) {
                    if matches!(message, Msg::Accept(_)) {
                        self.children.push(from);
                    }
                    self.explore(ctx, out);
                }
            }
            Msg::Leader(root) => {
                if self.best == Some(root) && !self.decided {
                    self.decided = true;
                    out.announce(Outcome::Follow(Some(root)));
                    self.tell_children(root, out);
                }
            }
        }
    }
}

impl Election for Dfs {}

impl Dfs {
    /// Leaves the traversal that this node was in, if any.
    fn join(&mut self, ctx: &Ctx<'_>, root: Uid, parent: Option<NodeId>, out: &mut impl Outbox<Self>) {
        self.best = Some(root);
        self.parent = parent;
        self.unexplored = ctx.view.neighbour_ids(ctx.me.id).filter(|&id| Some(id) != parent).collect();
        self.unexplored.reverse();
        self.children.clear();
        self.explore(ctx, out);
    }

    /// Goes on over the next link; after the last one the subtree of this node is explored.
    fn explore(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let Some(root) = self.best.filter(|_| !self.decided) else { return };
        match (self.unexplored.pop(), self.parent) {
            (Some(next), _) => out.send(Edge(next), Msg::Explore(root)),
            (None, Some(parent)) => out.send(Edge(parent), Msg::Accept(root)),
            (None, None) if root == ctx.me => {
                self.decided = true;
                out.announce(Outcome::Won);
                self.tell_children(root, out);
            }
            (None, None) => {}
        }
    }

    fn explored(&mut self, ctx: &Ctx<'_>, from: NodeId, root: Uid, out: &mut impl Outbox<Self>) {
        if ctx.beats(ctx.me, root) {
            self.begin(ctx, out);
        }
        match self.best {
            Some(best) if best == root => {
                self.unexplored.retain(|&id| id != from);
                out.send(Edge(from), Msg::Reject(root));
            }
            Some(best) if ctx.beats(best, root) => {}
            _ => self.join(ctx, root, Some(from), out),
        }
    }

    fn tell_children(&self, root: Uid, out: &mut impl Outbox<Self>) {
        for &child in &self.children {
            out.send(Edge(child), Msg::Leader(root));
        }
    }
}
