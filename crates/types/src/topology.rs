//! How the members of an election are linked.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::{UnknownName, by_name};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    Ring,
    Mesh,
    Graph,
}

impl Topology {
    pub const ALL: [Topology; 3] = [Topology::Ring, Topology::Mesh, Topology::Graph];

    pub fn name(self) -> &'static str {
        match self {
            Topology::Ring => "ring",
            Topology::Mesh => "mesh",
            Topology::Graph => "graph",
        }
    }
}

impl FromStr for Topology {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<Self, UnknownName> {
        by_name(&Topology::ALL, Topology::name, word)
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
