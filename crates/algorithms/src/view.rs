//! The participants of an election and their links: ring, mesh or graph.
//!
//! Machines never address nodes of a ring by id: they name one of their own links ([`Side`]) and the view knows which
//! node is at the other end. The same view serves one member of a live cluster and ten million simulated nodes.

use std::fmt::Debug;
use std::hash::Hash;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use types::{NodeId, Topology, Uid, Wins};

/// The participants of one election. Positions (`usize`) index [`View::members`]; on a ring they go clockwise,
/// which is the sending direction of unidirectional algorithms.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct View {
    topology: Topology,
    members: Vec<Uid>,
    /// Positions sorted by id; empty on a ring, where no node is looked up by id on a hot path.
    by_id: Vec<u32>,
    /// For graphs: the neighbours of each position, ascending.
    neighbours: Vec<Vec<u32>>,
}

impl View {
    pub fn ring(members: Vec<Uid>) -> Self {
        View { topology: Topology::Ring, members, by_id: Vec::new(), neighbours: Vec::new() }
    }

    pub fn mesh(members: Vec<Uid>) -> Self {
        let by_id = positions_by_id(&members);
        View { topology: Topology::Mesh, members, by_id, neighbours: Vec::new() }
    }

    /// A connected undirected graph; `links` are pairs of positions.
    pub fn graph(members: Vec<Uid>, links: &[(usize, usize)]) -> Self {
        let mut neighbours = vec![Vec::new(); members.len()];
        for &(a, b) in links {
            neighbours[a].push(b as u32);
            neighbours[b].push(a as u32);
        }
        for list in &mut neighbours {
            list.sort_unstable();
            list.dedup();
        }
        let by_id = positions_by_id(&members);
        View { topology: Topology::Graph, members, by_id, neighbours }
    }

    /// `links`: of a graph. The others have all that their topology has.
    pub fn of(topology: Topology, members: Vec<Uid>, links: &[(usize, usize)]) -> Self {
        match topology {
            Topology::Ring => View::ring(members),
            Topology::Mesh => View::mesh(members),
            Topology::Graph => View::graph(members, links),
        }
    }

    /// The same topology over the members at `positions` only: a ring closes over dead members this way.
    #[must_use]
    pub fn subset(&self, keep: impl Fn(usize) -> bool) -> Self {
        let kept: Vec<usize> = (0..self.len()).filter(|&at| keep(at)).collect();
        let members = kept.iter().map(|&at| self.members[at]).collect();
        let renumber = |old: u32| kept.binary_search(&(old as usize)).ok();
        let links = kept.iter().enumerate().flat_map(|(new, &old)| {
            self.neighbours(old).iter().filter_map(move |&other| Some((new, renumber(other)?)))
        });
        View::of(self.topology, members, &links.collect::<Vec<_>>())
    }

    /// The same members and links with other priorities.
    #[must_use]
    pub fn ranked(&self, uid: impl Fn(Uid) -> Uid) -> Self {
        View { members: self.members.iter().map(|&member| uid(member)).collect(), ..self.clone() }
    }

    pub fn topology(&self) -> Topology {
        self.topology
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    #[inline]
    pub fn members(&self) -> &[Uid] {
        &self.members
    }

    pub fn position(&self, id: NodeId) -> Option<usize> {
        if self.by_id.is_empty() {
            return self.members.iter().position(|m| m.id == id);
        }
        let found = self.by_id.binary_search_by_key(&id, |&at| self.members[at as usize].id).ok()?;
        Some(self.by_id[found] as usize)
    }

    pub fn uid(&self, id: NodeId) -> Option<Uid> {
        self.position(id).map(|at| self.members[at])
    }

    pub fn contains(&self, id: NodeId) -> bool {
        self.position(id).is_some()
    }

    /// All members but `me`, in the order of the list.
    pub fn others(&self, me: NodeId) -> impl Iterator<Item = Uid> + '_ {
        self.members.iter().copied().filter(move |m| m.id != me)
    }

    /// The members that would beat `me` in an election.
    pub fn better(&self, me: Uid, wins: Wins) -> impl Iterator<Item = Uid> + '_ {
        self.members.iter().copied().filter(move |&m| wins.beats(m, me))
    }

    /// The members that `me` would beat.
    pub fn worse(&self, me: Uid, wins: Wins) -> impl Iterator<Item = Uid> + '_ {
        self.members.iter().copied().filter(move |&m| wins.beats(me, m))
    }

    #[inline]
    pub fn clockwise(&self, at: usize) -> usize {
        if at + 1 == self.members.len() { 0 } else { at + 1 }
    }

    #[inline]
    pub fn counterclockwise(&self, at: usize) -> usize {
        if at == 0 { self.members.len() - 1 } else { at - 1 }
    }

    /// The nodes to which a graph node has an edge.
    pub fn neighbours(&self, at: usize) -> &[u32] {
        self.neighbours.get(at).map_or(&[], Vec::as_slice)
    }

    /// The same by id.
    pub fn neighbour_ids(&self, me: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let at = self.position(me).unwrap_or(usize::MAX);
        self.neighbours(at).iter().map(|&at| self.members[at as usize].id)
    }

    /// The number of links of a graph.
    pub fn links(&self) -> usize {
        self.neighbours.iter().map(Vec::len).sum::<usize>() / 2
    }

    /// Of a graph.
    pub fn shape(&self) -> Option<Shape> {
        if self.topology != Topology::Graph {
            return None;
        }
        let links = self.links();
        let small = self.len().saturating_mul(links) <= MAX_DIAMETER_WORK;
        let farthest = |from: usize| self.distances(from, |_| true).into_iter().collect::<Option<Vec<_>>>();
        let diameter = || (0..self.len()).map(|from| farthest(from)?.into_iter().max()).max().flatten();
        Some(Shape { links, diameter: small.then(diameter).flatten() })
    }

    /// In a graph: how many links the shortest path from `from` to each position has, over positions that `through`
    /// admits only; `None` where there is no path.
    pub fn distances(&self, from: usize, through: impl Fn(usize) -> bool) -> Vec<Option<usize>> {
        let mut distances = vec![None; self.len()];
        let mut reached = vec![from];
        distances[from] = Some(0);
        let mut next = 0;
        while let Some(&at) = reached.get(next) {
            let farther = distances[at].map(|hops: usize| hops + 1);
            for &there in self.neighbours(at) {
                let there = there as usize;
                if distances[there].is_none() && through(there) {
                    distances[there] = farther;
                    reached.push(there);
                }
            }
            next += 1;
        }
        distances
    }
}

/// The diameter takes a search from every node: beyond this many steps it is not computed.
const MAX_DIAMETER_WORK: usize = 20_000_000;

/// What theory knows about a graph besides the number of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    pub links: usize,
    /// The largest distance of two nodes; `None` for a graph that is not connected, or too large to search.
    pub diameter: Option<usize>,
}

fn positions_by_id(members: &[Uid]) -> Vec<u32> {
    let mut by_id: Vec<u32> = (0..members.len() as u32).collect();
    by_id.sort_unstable_by_key(|&at| members[at as usize].id);
    by_id
}

/// One of a node's own links. Machines address links; only the view knows which node is at the far end.
pub trait Link: Copy + Ord + Hash + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Where a message sent on this link by the node at position `me` arrives, and the receiver's name of the link.
    /// `None` if the view has no such link.
    fn far_end(self, me: usize, view: &View) -> Option<(usize, Self)>;
}

/// A link of one topology.
pub trait TypedLink: Link {
    const TOPOLOGY: Topology;

    /// Encoded, a link is this number.
    fn number(self) -> u32;
    fn numbered(number: u32) -> Option<Self>;
}

/// The two links of a ring node. A ring of two has two distinct links to the same peer, a ring of one links to itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Side {
    Left,
    Right,
}

impl Side {
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

impl Link for Side {
    #[inline]
    fn far_end(self, me: usize, view: &View) -> Option<(usize, Self)> {
        Some(match self {
            Side::Right => (view.clockwise(me), Side::Left),
            Side::Left => (view.counterclockwise(me), Side::Right),
        })
    }
}

impl TypedLink for Side {
    const TOPOLOGY: Topology = Topology::Ring;

    fn number(self) -> u32 {
        self as u32
    }

    fn numbered(number: u32) -> Option<Self> {
        [Side::Left, Side::Right].get(number as usize).copied()
    }
}

/// In a mesh every node has a link to every other node, named after the peer.
impl Link for NodeId {
    #[inline]
    fn far_end(self, me: usize, view: &View) -> Option<(usize, Self)> {
        Some((view.position(self)?, view.members[me].id))
    }
}

impl TypedLink for NodeId {
    const TOPOLOGY: Topology = Topology::Mesh;

    fn number(self) -> u32 {
        self.0
    }

    fn numbered(number: u32) -> Option<Self> {
        Some(NodeId(number))
    }
}

/// A graph node's link to one neighbour.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Edge(pub NodeId);

impl Link for Edge {
    fn far_end(self, me: usize, view: &View) -> Option<(usize, Self)> {
        let there = view.position(self.0)?;
        view.neighbours(me).binary_search(&(there as u32)).ok()?;
        Some((there, Edge(view.members[me].id)))
    }
}

impl TypedLink for Edge {
    const TOPOLOGY: Topology = Topology::Graph;

    fn number(self) -> u32 {
        self.0.0
    }

    fn numbered(number: u32) -> Option<Self> {
        Some(Edge(NodeId(number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uids(ids: &[u32]) -> Vec<Uid> {
        ids.iter().map(|&id| Uid::plain(id)).collect()
    }

    #[test]
    fn a_ring_of_two_has_two_links_and_a_ring_of_one_links_to_itself() {
        let two = View::ring(uids(&[7, 3]));
        assert_eq!(Side::Right.far_end(0, &two), Some((1, Side::Left)));
        assert_eq!(Side::Left.far_end(0, &two), Some((1, Side::Right)));
        let one = View::ring(uids(&[7]));
        assert_eq!(Side::Right.far_end(0, &one), Some((0, Side::Left)));
    }

    #[test]
    fn a_subset_keeps_the_ring_order_and_the_graph_edges() {
        let ring = View::ring(uids(&[5, 1, 4, 2])).subset(|at| at != 1);
        assert_eq!(ring.members(), uids(&[5, 4, 2]));
        let graph = View::graph(uids(&[5, 1, 4, 2]), &[(0, 1), (1, 2), (2, 3), (3, 0)]).subset(|at| at != 1);
        assert_eq!(graph.neighbours(2), &[0, 1]);
        assert_eq!(Edge(NodeId(2)).far_end(0, &graph), Some((2, Edge(NodeId(5)))));
        assert_eq!(Edge(NodeId(4)).far_end(0, &graph), None);
    }

    #[test]
    fn a_mesh_finds_members_by_id_whatever_the_order_of_the_list() {
        let mesh = View::mesh(uids(&[9, 2, 5]));
        assert_eq!(mesh.position(NodeId(5)), Some(2));
        assert_eq!(NodeId(9).far_end(1, &mesh), Some((0, NodeId(2))));
        assert_eq!(mesh.better(Uid::plain(5), Wins::Highest).collect::<Vec<_>>(), uids(&[9]));
    }
}
