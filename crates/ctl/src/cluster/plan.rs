//! The kind of cluster to run.

use algorithms::catalog::{self, Elects, Row};
use algorithms::{Topology, Wins};
use types::Safety;

#[derive(Clone, Debug)]
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
}

/// A cluster is at most this large: the config's own limit.
pub(crate) const NODES_MAX: u32 = 256;

impl Plan {
    pub fn new(nodes: u32, row: &'static Row) -> Self {
        let (name, safety) = ("local".to_owned(), Safety::Classic);
        Plan { name, nodes, row, safety, wins: None, preempt: true, chaos: false, on_close: None }
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
