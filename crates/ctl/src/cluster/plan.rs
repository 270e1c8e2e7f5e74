//! The kind of cluster to run.

use algorithms::catalog::{self, Elects, Row};
use algorithms::{Topology, Uid, View, Wins};
use types::Safety;

#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // switches of the config that have nothing to do with each other
pub struct Plan {
    pub name: String,
    pub nodes: u32,
    pub row: &'static Row,
    pub safety: Safety,
    /// `None`: the catalog's default.
    pub wins: Option<Wins>,
    pub preempt: bool,
    /// May `ctl chaos` inject faults?
    pub chaos: bool,
    /// What voters do when a leader's connection closes; `None`: the config's default.
    pub on_close: Option<String>,
    /// Certificates instead of a secret?
    pub tls: bool,
    /// Neither: connections in clear, for measurements.
    pub clear: bool,
    /// The ports of the HTTP faces on loopback, one for each member; empty: no faces.
    pub http_ports: Vec<u16>,
    /// Of a graph. Empty: every member is linked to the next one, and the last to the first.
    pub links: Vec<(u32, u32)>,
}

/// A cluster is at most this large: the config's own limit.
pub(crate) const NODES_MAX: u32 = 256;

impl Plan {
    pub fn new(nodes: u32, row: &'static Row) -> Self {
        let (name, safety) = ("local".to_owned(), Safety::Classic);
        let (wins, on_close, links) = (None, None, Vec::new());
        let (tls, clear, http_ports) = (false, false, Vec::new());
        Plan { name, nodes, row, safety, wins, preempt: true, chaos: false, on_close, tls, clear, http_ports, links }
    }

    /// The links of a graph, by id.
    pub fn graph_links(&self) -> Vec<(u32, u32)> {
        if !self.links.is_empty() {
            return self.links.clone();
        }
        let circle = (1..=self.nodes).map(|id| (id, id % self.nodes + 1));
        circle.filter(|(a, b)| a != b).collect()
    }

    /// Are these links possible?
    pub fn check_links(&self) -> Result<(), String> {
        if self.row.topology != Topology::Graph {
            let other = format!("{} runs on a {}: links are for graphs", self.row.name, self.row.topology.name());
            return if self.links.is_empty() { Ok(()) } else { Err(other) };
        }
        let known = 1..=self.nodes;
        for (a, b) in &self.links {
            if let Some(unknown) = [a, b].into_iter().find(|id| !known.contains(id)) {
                return Err(format!(
                    "the link {a}-{b} names the unknown id {unknown}: the ids are 1 to {}",
                    self.nodes
                ));
            }
            if a == b {
                return Err(format!("the link {a}-{b} joins a member to itself"));
            }
        }
        match self.view().distances(0, |_| true).iter().position(Option::is_none) {
            Some(alone) => Err(format!("no path of links leads from 1 to {}: a graph must be connected", alone + 1)),
            None => Ok(()),
        }
    }

    /// The members as their algorithm sees them.
    pub fn view(&self) -> View {
        let uids: Vec<Uid> = (1..=self.nodes).map(Uid::plain).collect();
        let links = self.graph_links().into_iter().map(|(a, b)| (a as usize - 1, b as usize - 1));
        View::of(self.row.topology, uids, &links.collect::<Vec<_>>())
    }

    /// The id that must win while all members are up (all have the same priority), where the algorithm elects the best.
    pub fn best(&self) -> Option<u32> {
        let best = match self.wins.unwrap_or(self.row.wins) {
            Wins::Highest => self.nodes,
            Wins::Lowest => 1,
        };
        Some(best).filter(|_| self.row.elects == Elects::Best)
    }

    /// Finds the row for the user's options: an algorithm, a topology, both or neither.
    pub fn choose(algorithm: Option<&str>, topology: Option<Topology>) -> Result<&'static Row, String> {
        let fits = |row: &&'static Row| topology.is_none_or(|wanted| row.topology == wanted);
        let fitting = || catalog::ROWS.iter().filter(fits).map(|row| row.name).collect::<Vec<_>>().join(", ");
        let wanted = topology.map_or("any topology", Topology::name);
        if let Some(name) = algorithm {
            let row = catalog::row(name).ok_or_else(|| {
                format!("no algorithm `{name}`; there are {}", catalog::names().collect::<Vec<_>>().join(", "))
            })?;
            return Some(row).filter(fits).ok_or_else(|| {
                format!("{name} runs on a {}, not on a {wanted}; on that run: {}", row.topology.name(), fitting())
            });
        }
        let default = catalog::row(catalog::DEFAULT).filter(fits);
        default
            .or_else(|| catalog::ROWS.iter().find(fits))
            .ok_or_else(|| format!("no algorithm for a {wanted} in this version"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_taken_unless_the_topology_speaks_against_it() {
        assert_eq!(Plan::choose(None, None).unwrap().name, catalog::DEFAULT);
        for row in catalog::ROWS {
            assert_eq!(Plan::choose(None, Some(row.topology)).unwrap().topology, row.topology);
            assert_eq!(Plan::choose(Some(row.name), Some(row.topology)).unwrap().name, row.name);
        }
    }

    #[test]
    fn a_misfit_names_what_fits() {
        let (ring, mesh) = (Plan::choose(None, Some(Topology::Ring)).unwrap(), Topology::Mesh);
        let error = Plan::choose(Some(ring.name), Some(mesh)).unwrap_err();
        assert!(error.contains(Plan::choose(None, Some(mesh)).unwrap().name), "{error}");
        assert!(Plan::choose(Some("no-such"), None).unwrap_err().contains(catalog::DEFAULT));
    }
}
