//! The failure detector: who is connected, who is silent, who stands.
//!
//! A closed connection is believed at once; silence is believed after `suspect_after`. A suspicion that turns out
//! wrong (the same life of the peer is heard again) makes the detector more patient with that peer.

use std::time::Duration;

use algorithms::{Ctx, Span, Topology, View};

use crate::types::NodeSet;

/// How patient the detector becomes with a peer it wrongly suspected: +25 % each time, at most doubled.
const MAX_RAISES: u8 = 4;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Contacts {
    me: usize,
    /// Is everybody dialled and watched for, whatever links the algorithm uses?
    everybody: bool,
    peers: Vec<Peer>,
    /// Peers whose silence would be noticed.
    pub(crate) watched: NodeSet,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Peer {
    pub(crate) contact: Contact,
    pub(crate) stands: bool,
    /// Has it told whom it follows since the connection is up?
    heard: bool,
    suspected: bool,
    raises: u8,
    life: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Contact {
    /// Never connected and not yet given up.
    Unknown,
    Up,
    Down,
}

impl Contacts {
    pub(crate) fn new(me: usize, members: usize, everybody: bool) -> Self {
        let fresh =
            Peer { contact: Contact::Unknown, stands: true, heard: false, suspected: false, raises: 0, life: 0 };
        let mut peers = vec![fresh; members];
        peers[me].contact = Contact::Up;
        peers[me].heard = true;
        Contacts { me, everybody, peers, watched: NodeSet::default() }
    }

    pub(crate) fn links_everybody(&self) -> bool {
        self.everybody
    }

    pub(crate) fn get(&self, at: usize) -> &Peer {
        &self.peers[at]
    }

    pub(crate) fn is_up(&self, at: usize) -> bool {
        self.peers[at].contact == Contact::Up
    }

    pub(crate) fn is_down(&self, at: usize) -> bool {
        self.peers[at].contact == Contact::Down
    }

    pub(crate) fn up(&mut self, at: usize) {
        self.peers[at].contact = Contact::Up;
        self.peers[at].stands = true;
        self.peers[at].heard = false;
    }

    /// Nothing is known of it any more.
    pub(crate) fn forget(&mut self, at: usize) {
        self.peers[at].contact = Contact::Unknown;
    }

    pub(crate) fn down(&mut self, at: usize) {
        self.peers[at].contact = Contact::Down;
        // What it said of itself is out of date.
        self.peers[at].stands = true;
    }

    pub(crate) fn suspect(&mut self, at: usize) {
        self.down(at);
        self.peers[at].suspected = true;
    }

    /// A heartbeat tells which life its sender is in. The same life after a suspicion: it was wrong.
    pub(crate) fn heard(&mut self, at: usize, life: u64, stands: bool) {
        let peer = &mut self.peers[at];
        if peer.life != life {
            peer.raises = 0;
        } else if peer.suspected {
            peer.raises = (peer.raises + 1).min(MAX_RAISES);
        }
        peer.suspected = false;
        peer.heard = true;
        peer.life = life;
        peer.stands = stands;
    }

    /// How long this peer may be silent.
    pub(crate) fn patience(&self, at: usize, suspect_after: Duration) -> Span {
        Span::exactly(suspect_after + suspect_after * u32::from(self.peers[at].raises) / 4)
    }

    /// Everybody else that is connected.
    pub(crate) fn connected(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.peers.len()).filter(|&at| at != self.me && self.is_up(at))
    }

    /// Have all these told whom they follow?
    pub(crate) fn all_heard(&self, mut of: impl Iterator<Item = usize>) -> bool {
        of.all(|at| self.is_up(at) && self.peers[at].heard)
    }

    /// Down, and this member would notice if it came back. A ring member does not dial distant peers: what it once
    /// found out about them is worth less than what others say.
    pub(crate) fn surely_down(&self, at: usize, view: &View) -> bool {
        self.is_down(at) && self.links(view).contains(at)
    }

    /// The nearest connected members on both sides of a ring, the same one twice in a ring of two.
    pub(crate) fn neighbours(&self) -> (Option<usize>, Option<usize>) {
        let n = self.peers.len();
        let right = (1..n).map(|hops| (self.me + hops) % n).find(|&at| self.is_up(at));
        let left = (1..n).map(|hops| (self.me + n - hops) % n).find(|&at| self.is_up(at));
        (left, right)
    }

    /// Whom a member keeps a connection to, or keeps dialling. In a mesh everybody; on a ring the next two that are
    /// not known dead (the second is the warm link for when the first dies) and the dead ones before them.
    pub(crate) fn links(&self, view: &View) -> NodeSet {
        let n = self.peers.len();
        if self.everybody {
            return (0..n).filter(|&at| at != self.me).collect();
        }
        match view.topology() {
            Topology::Mesh => NodeSet::default(),
            Topology::Graph => view.neighbours(self.me).iter().map(|&at| at as usize).collect(),
            Topology::Ring => {
                let mut alive = 0;
                let mut links = NodeSet::default();
                for at in (1..n).map(|hops| (self.me + hops) % n) {
                    links.insert(at);
                    alive += usize::from(!self.is_down(at));
                    if alive == 2 {
                        break;
                    }
                }
                links
            }
        }
    }

    /// Whose silence matters now: where everybody is linked the leader's, for the leader everybody's; elsewhere the
    /// neighbours', and those a ring is still trying to reach. `source`: the leader, or who tells of it.
    pub(crate) fn to_watch(&self, ctx: &Ctx<'_>, source: Option<usize>, grace: bool, stuck: Option<usize>) -> NodeSet {
        if !self.everybody {
            return self.to_watch_beside(ctx, grace, stuck);
        }
        match source {
            Some(at) if at == self.me => self.connected().collect(),
            Some(at) => Some(at).into_iter().filter(|&at| self.is_up(at)).collect(),
            // An election under way goes from neighbour to neighbour.
            None => self.to_watch_beside(ctx, grace, stuck),
        }
    }

    fn to_watch_beside(&self, ctx: &Ctx<'_>, grace: bool, stuck: Option<usize>) -> NodeSet {
        match ctx.view.topology() {
            Topology::Mesh => NodeSet::default(),
            Topology::Ring => {
                let (left, right) = self.neighbours();
                let links = if self.everybody { NodeSet::default() } else { self.links(ctx.view) };
                let unknown =
                    links.iter().chain(stuck).filter(|&at| !grace && self.peers[at].contact == Contact::Unknown);
                left.into_iter().chain(right).chain(unknown).collect()
            }
            Topology::Graph => {
                ctx.view.neighbours(self.me).iter().map(|&at| at as usize).filter(|&at| self.is_up(at)).collect()
            }
        }
    }
}
