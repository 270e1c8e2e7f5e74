//! Options that several commands share. Names come from the catalog, so that completions and errors list all of them.

use std::str::FromStr;

use algorithms::{Topology, Wins, catalog};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use types::Safety;

use crate::cluster::NODES_MAX;

#[derive(clap::Args, Debug)]
pub(crate) struct AlgorithmArg {
    /// The election algorithm; `ctl algorithms` describes them [default: one that fits the topology]
    #[arg(long, value_name = "NAME", value_parser = algorithm_names(), hide_possible_values = true)]
    pub(crate) algorithm: Option<String>,
}

impl AlgorithmArg {
    pub(crate) fn name(&self) -> Option<&str> {
        self.algorithm.as_deref()
    }
}

#[derive(clap::Args, Debug)]
pub(crate) struct TopologyArg {
    /// The links between members [default: what the algorithm needs]
    #[arg(long, value_name = "TOPOLOGY", value_parser = topologies())]
    pub(crate) topology: Option<Topology>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct WinsArg {
    /// The id that wins [default: as the algorithm was published]
    #[arg(long, value_name = "WHICH", value_parser = wins())]
    pub(crate) wins: Option<Wins>,
}

pub(crate) fn algorithm_names() -> PossibleValuesParser {
    PossibleValuesParser::new(catalog::names())
}

/// Of elections and of mutual exclusions.
#[cfg(feature = "simulator")]
pub(crate) fn simulated_names() -> PossibleValuesParser {
    PossibleValuesParser::new(catalog::names().chain(catalog::mutex::names()))
}

#[cfg(feature = "simulator")]
pub(crate) fn mutex_names() -> PossibleValuesParser {
    PossibleValuesParser::new(catalog::mutex::names())
}

pub(crate) fn nodes() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(NODES_MAX))
}

fn topologies() -> impl TypedValueParser<Value = Topology> {
    PossibleValuesParser::new(Topology::ALL.map(Topology::name)).try_map(|name| name.parse())
}

pub(crate) fn safeties() -> impl TypedValueParser<Value = Safety> {
    PossibleValuesParser::new(Safety::ALL.map(Safety::name)).try_map(|name| name.parse())
}

fn wins() -> impl TypedValueParser<Value = Wins> {
    PossibleValuesParser::new(["highest", "lowest"])
        .map(|name| if name == "highest" { Wins::Highest } else { Wins::Lowest })
}

/// Ids are 32 bits wide; memory is the tighter limit.
#[cfg(feature = "simulator")]
pub(crate) fn simulated_nodes() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=100_000_000)
}

/// A link of a graph: two ids, as in 1-2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LinkArg(pub(crate) u32, pub(crate) u32);

impl FromStr for LinkArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ids = text.split_once('-').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        ids.map(|(a, b)| LinkArg(a, b)).ok_or_else(|| "write two ids as in 1-2".to_owned())
    }
}
