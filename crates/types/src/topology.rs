//! How the members of an election are linked.

use serde::{Deserialize, Serialize};

use crate::name::parsed_names;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    Ring,
    Mesh,
    Graph,
}

parsed_names!(Topology { Ring: "ring", Mesh: "mesh", Graph: "graph" });
