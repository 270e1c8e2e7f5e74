//! The failure detector: which members are connected, which are silent, which stand for election.
//!
//! A closed connection counts as a dead peer at once; silence counts as a dead peer after `suspect_after`. A wrong
//! suspicion (the same incarnation of the peer is heard again) makes the detector more patient with that peer.

use std::time::Duration;

use algorithms::{Span, Topology, View};

use crate::authority::Reach;
use crate::messages::Context;
use crate::positions::{FullPos, NodeSet};
use crate::ring_neighbours;
use crate::settings::Timing;

/// A follower that may be silent for so many heartbeats is asked with every second one.
const PATIENT_HEARTBEATS: u32 = 5;
/// How patient the detector becomes with a peer it wrongly suspected: +25 % each time, at most doubled.
const MAX_RAISES: u8 = 4;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FailureDetector {
    me: FullPos,
    /// Is every member dialled and watched, whatever links the algorithm uses?
    links_all: bool,
    peers: Vec<Peer>,
    /// Peers whose silence would be noticed.
    watched: NodeSet,
    /// The last regular heartbeat asked for an answer.
    asked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Peer {
    contact: Contact,
    stands: bool,
    /// Has it reported which leader it follows since the connection is up?
    heard: bool,
    suspected: bool,
    raises: u8,
    /// The counter of its incarnation.
    incarnation: u64,
}

impl Peer {
    const NEW: Peer =
        Peer { contact: Contact::Unknown, stands: true, heard: false, suspected: false, raises: 0, incarnation: 0 };
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Contact {
    /// Never connected and not yet given up.
    Unknown,
    Up,
    Down,
}

impl FailureDetector {
    pub(crate) fn start(me: FullPos, view: &View, links_all: bool) -> Self {
        let mut peers = vec![Peer::NEW; view.len()];
        peers[me.0].contact = Contact::Up;
        peers[me.0].heard = true;
        let links_all = links_all || view.topology() == Topology::Mesh;
        FailureDetector { me, links_all, peers, watched: NodeSet::default(), asked: false }
    }

    /// The view has changed.
    pub(crate) fn reseat(&mut self, old: &View, new: &View) {
        let of = |at: FullPos| FullPos::of(old, at.id(new)).map_or(Peer::NEW, |at| self.peers[at.0]);
        self.peers = FullPos::all(new).map(of).collect();
        self.watched = self.watched.reseated(old, new);
        self.me = FullPos::of(new, self.me.id(old)).expect("a member is in its own view");
    }

    pub(crate) fn links_all(&self) -> bool {
        self.links_all
    }

    pub(crate) fn stands(&self, at: FullPos) -> bool {
        self.peers[at.0].stands
    }

    pub(crate) fn is_up(&self, at: FullPos) -> bool {
        self.peers[at.0].contact == Contact::Up
    }

    pub(crate) fn is_down(&self, at: FullPos) -> bool {
        self.peers[at.0].contact == Contact::Down
    }

    pub(crate) fn is_unknown(&self, at: FullPos) -> bool {
        self.peers[at.0].contact == Contact::Unknown
    }

    /// A member of a ring or graph does not dial distant peers: its own last observation of them counts for less than
    /// another member's report. In a graph that holds for its neighbours too: if only the link to a neighbour is broken,
    /// other paths may lead there.
    pub(crate) fn reach(&self, at: FullPos, view: &View) -> Reach {
        match self.peers[at.0].contact {
            Contact::Up => Reach::Connected,
            Contact::Unknown => Reach::Unknown,
            Contact::Down if !self.links_all && view.topology() == Topology::Graph => Reach::DownOnce,
            Contact::Down if self.links(view).contains(at) => Reach::Down,
            Contact::Down => Reach::DownOnce,
        }
    }

    pub(crate) fn up(&mut self, at: FullPos) {
        let peer = &mut self.peers[at.0];
        peer.contact = Contact::Up;
        peer.stands = true;
        peer.heard = false;
    }

    /// What was observed of it is out of date.
    pub(crate) fn forget(&mut self, at: FullPos) {
        self.peers[at.0].contact = Contact::Unknown;
    }

    pub(crate) fn down(&mut self, at: FullPos) {
        self.peers[at.0].contact = Contact::Down;
        // Its last report whether it stands is out of date.
        self.peers[at.0].stands = true;
    }

    pub(crate) fn suspect(&mut self, at: FullPos) {
        self.down(at);
        self.peers[at.0].suspected = true;
    }

    /// How often this peer was restarted since it was last heard. A peer that lost its disk counts anew.
    pub(crate) fn restarts(&self, at: FullPos, incarnation: u64) -> u64 {
        let known = self.peers[at.0].incarnation;
        if known == 0 || known == incarnation { 0 } else { incarnation.saturating_sub(known).max(1) }
    }

    /// A heartbeat carries the incarnation of its sender. The same incarnation after a suspicion: the suspicion was
    /// wrong.
    pub(crate) fn heard(&mut self, at: FullPos, incarnation: u64, stands: bool) {
        let peer = &mut self.peers[at.0];
        if peer.incarnation != incarnation {
            peer.raises = 0;
        } else if peer.suspected {
            peer.raises = (peer.raises + 1).min(MAX_RAISES);
        }
        peer.suspected = false;
        peer.heard = true;
        peer.incarnation = incarnation;
        peer.stands = stands;
    }

    /// How long this peer may be silent.
    pub(crate) fn patience(&self, at: FullPos, suspect_after: Duration) -> Span {
        Span::exactly(suspect_after + suspect_after * u32::from(self.peers[at.0].raises) / 4)
    }

    /// Does this regular heartbeat ask for an answer? Not where neighbours exchange heartbeats. Elsewhere every second one of a
    /// leader does, unless a follower may be silent for a few heartbeats only. A follower that hangs is suspected no later for
    /// it: its silence counts from its last answer. A member that asks another one for the leader does so every time.
    pub(crate) fn asks(&mut self, leads: bool, timing: &Timing) -> bool {
        let patient = leads && timing.suspect_after >= timing.heartbeat * PATIENT_HEARTBEATS;
        self.asked = self.links_all && !(patient && self.asked);
        self.asked
    }

    /// All connected members but this one.
    pub(crate) fn connected(&self) -> impl Iterator<Item = FullPos> + '_ {
        (0..self.peers.len()).map(FullPos).filter(|&at| at != self.me && self.is_up(at))
    }

    /// Have all these members reported which leader they follow?
    pub(crate) fn all_heard(&self, mut of: impl Iterator<Item = FullPos>) -> bool {
        of.all(|at| self.is_up(at) && self.peers[at.0].heard)
    }

    /// The members to keep a connection to, or to keep dialling. In a mesh all.
    pub(crate) fn links(&self, view: &View) -> NodeSet {
        if self.links_all {
            return FullPos::all(view).filter(|&at| at != self.me).collect();
        }
        match view.topology() {
            Topology::Mesh => NodeSet::default(),
            Topology::Graph => view.neighbours(self.me.0).iter().map(|&at| FullPos(at as usize)).collect(),
            Topology::Ring => ring_neighbours::to_link(self.peers.len(), self.me, |at| self.is_down(at)),
        }
    }

    pub(crate) fn watched(&self) -> NodeSet {
        self.watched
    }

    pub(crate) fn watches(&self, at: FullPos) -> bool {
        self.watched.contains(at)
    }

    pub(crate) fn watch(&mut self, peers: NodeSet) {
        self.watched = peers;
    }

    /// The members whose silence matters now. Where all members are linked: the leader, and for the leader all other
    /// members. Elsewhere: the neighbours, and the members that a ring still tries to reach. `source`: the leader, or
    /// the member that reports it.
    pub(crate) fn to_watch(
        &self,
        ctx: &Context<'_>,
        source: Option<FullPos>,
        grace: bool,
        stuck: Option<FullPos>,
    ) -> NodeSet {
        if !self.links_all {
            return self.neighbours_to_watch(ctx, grace, stuck);
        }
        match source {
            Some(at) if at == self.me => self.connected().collect(),
            Some(at) => Some(at).into_iter().filter(|&at| self.is_up(at)).collect(),
            // An election under way passes from neighbour to neighbour.
            None => self.neighbours_to_watch(ctx, grace, stuck),
        }
    }

    fn neighbours_to_watch(&self, ctx: &Context<'_>, grace: bool, stuck: Option<FullPos>) -> NodeSet {
        match ctx.view.topology() {
            Topology::Mesh => NodeSet::default(),
            Topology::Ring => {
                let (left, right) = ring_neighbours::nearest(self.peers.len(), self.me, |at| self.is_up(at));
                let links = if self.links_all { NodeSet::default() } else { self.links(ctx.view) };
                let unknown = links.iter().chain(stuck).filter(|&at| !grace && self.is_unknown(at));
                left.into_iter().chain(right).chain(unknown).collect()
            }
            Topology::Graph => {
                let neighbours = ctx.view.neighbours(self.me.0).iter().map(|&at| FullPos(at as usize));
                neighbours.filter(|&at| self.is_up(at)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests;
