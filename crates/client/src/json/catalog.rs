//! `conclave.algorithm/1` and `conclave.mutex/1`: the rows of both catalogs.

use algorithms::Wins;
use algorithms::catalog::{DEFAULT, Elects, ROWS, Row, mutex};
use serde::Serialize;

/// Every row of both catalogs.
pub fn catalog() -> Vec<CatalogRow> {
    let elections = ROWS.iter().map(|row| CatalogRow::Election(election(row)));
    elections.chain(mutex::ROWS.iter().map(|row| CatalogRow::Mutex(mutual_exclusion(row)))).collect()
}

/// One row; its `schema` says of which catalog.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum CatalogRow {
    Election(ElectionRow),
    Mutex(MutexRow),
}

#[derive(Debug, Serialize)]
pub struct ElectionRow {
    schema: &'static str,
    pub name: &'static str,
    pub default: bool,
    pub paper: &'static str,
    pub topology: &'static str,
    pub wins: &'static str,
    pub elects: &'static str,
    pub assumes: &'static str,
    pub can_wait: bool,
    pub max_nodes: usize,
}

/// A mutual exclusion.
#[derive(Debug, Serialize)]
pub struct MutexRow {
    schema: &'static str,
    pub name: &'static str,
    pub paper: &'static str,
    pub topology: &'static str,
    pub links: &'static str,
    pub fair: bool,
    pub readers: bool,
    /// Else it runs in simulations and models only.
    pub live: bool,
    pub assumes: &'static str,
}

fn mutual_exclusion(row: &'static mutex::Row) -> MutexRow {
    MutexRow {
        schema: "conclave.mutex/1",
        name: row.name,
        paper: row.paper,
        topology: row.topology.name(),
        links: match row.links {
            mutex::Links::Fifo => "fifo",
            mutex::Links::AnyOrder => "any-order",
        },
        fair: row.fair,
        readers: row.shared,
        live: row.purpose == mutex::Purpose::Live,
        assumes: row.assumes,
    }
}

fn election(row: &'static Row) -> ElectionRow {
    ElectionRow {
        schema: "conclave.algorithm/1",
        name: row.name,
        default: row.name == DEFAULT,
        paper: row.paper,
        topology: row.topology.name(),
        wins: match row.wins {
            Wins::Highest => "highest",
            Wins::Lowest => "lowest",
        },
        elects: match row.elects {
            Elects::Best => "best",
            Elects::BestCandidate => "best-candidate",
            Elects::FirstCandidate => "first-candidate",
            Elects::Majority => "majority",
            Elects::Anyone => "anyone",
        },
        assumes: row.assumes,
        can_wait: row.can_wait,
        max_nodes: row.max_nodes,
    }
}
