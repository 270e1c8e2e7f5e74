//! The options that describe a bare run.

mod mutex;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;

use algorithms::catalog::Row;
use algorithms::{NodeId, Topology, Uid, catalog};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use sim::{Experiment, Graph, Ignores, Initiators, Order, Schedule};

use super::super::shared_args::{self, LinkArg, WinsArg};
use crate::failure::Failure;

pub(super) use mutex::places;

#[derive(clap::Args, Debug)]
pub(super) struct RingArgs {
    /// The election or mutual exclusion algorithm; `ctl algorithms` describes them
    #[arg(
        long,
        value_name = "NAME",
        value_parser = shared_args::simulated_names(),
        hide_possible_values = true,
        default_value = catalog::DEFAULT
    )]
    pub(super) algorithm: String,
    /// The ids 1 to N
    #[arg(
        short = 'n',
        long,
        value_name = "N",
        value_parser = shared_args::simulated_nodes(),
        required_unless_present_any = ["ids", "links", "graph"]
    )]
    nodes: Option<u32>,
    /// The order of the ids, clockwise
    #[arg(long, value_parser = orders(), default_value = "random", conflicts_with = "ids")]
    order: Order,
    /// These ids, clockwise, instead of 1 to N; a priority in front counts before the id
    #[arg(long, value_name = "[PRIORITY:]ID,...", value_delimiter = ',', conflicts_with = "nodes")]
    ids: Option<Vec<UidArg>>,
    /// The links of a graph, by id; without --ids and --nodes these are all nodes
    #[arg(long, value_name = "ID-ID,...", value_delimiter = ',', conflicts_with = "graph")]
    links: Vec<LinkArg>,
    /// The kind of graph: square, tree, grid:WxH, torus:WxH, hypercube:D, or random:P with the probability of each link
    #[arg(long, value_name = "KIND")]
    graph: Option<Graph>,
    /// The nodes that start: all, one (the first), or these ids
    #[arg(long, value_name = "all|one|ID,...", default_value = "all")]
    pub(super) initiators: Starters,
    /// When messages arrive: all after one round, or at random within one
    #[arg(long, value_parser = schedules(), default_value = "sync")]
    schedule: Schedule,
    /// Determines everything that is random; the same seed gives the same run
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(super) seed: u64,
    #[command(flatten)]
    wins: WinsArg,
    /// The nodes that crash, and before which round; round 0 is before the start
    #[arg(long, value_name = "ID[@ROUND],...", value_delimiter = ',')]
    crash: Vec<AtRound>,
    /// On a ring: nodes that crash before the start are left out, and their predecessors send to their first living successors
    #[arg(long, requires = "crash")]
    repair: bool,
}

impl RingArgs {
    /// The run with the n-th seed from the given one on.
    pub(super) fn experiment(&self, nth: u64) -> Result<Experiment, Failure> {
        let row = catalog::row(&self.algorithm).ok_or_else(|| Failure::usage("unknown algorithm"))?;
        self.refuse_ignored(row)?;
        let seed = self.seed.wrapping_add(nth);
        let mut experiment = Experiment::new(row, self.nodes_of_ring(row, seed)?);
        if let Some(graph) = self.graph {
            let wanted =
                (row.topology != Topology::Graph).then(|| format!("{} runs on a {}", row.name, row.topology.name()));
            let links =
                wanted.map_or_else(|| graph.links(experiment.ids.len(), seed), |other| Err(other + ", not on a graph"));
            experiment.links = links.map_err(|why| Failure::usage(format!("--graph {graph}: {why}")))?;
        } else if !self.links.is_empty() {
            let ends = |of: fn(&LinkArg) -> u32| positions(&experiment.ids, self.links.iter().map(of), "--links");
            experiment.links = ends(|link| link.0)?.into_iter().zip(ends(|link| link.1)?).collect();
        }
        experiment.initiators = self.initiators(&experiment.ids)?;
        experiment.crashes = if self.repair { Vec::new() } else { self.crashes(&experiment.ids)? };
        experiment.schedule = self.schedule;
        experiment.seed = seed;
        experiment.wins = self.wins.wins.unwrap_or(row.wins);
        experiment.check().map_err(|error| Failure::usage(error).hint("ctl sim run --help"))?;
        Ok(experiment)
    }

    /// The nodes, clockwise; without the dead ones if the ring is repaired.
    fn nodes_of_ring(&self, row: &Row, seed: u64) -> Result<Vec<Uid>, Failure> {
        let mut uids = self.uids(seed)?;
        if !self.repair {
            return Ok(uids);
        }
        if row.topology != Topology::Ring {
            let why = format!("{} runs on a {}: --repair is for rings", row.name, row.topology.name());
            return Err(Failure::usage(why));
        }
        if let Some(late) = self.crash.iter().find(|crash| crash.round > 0) {
            let why =
                format!("{} crashes during the election, which is outside the model: --repair comes before", late.id);
            return Err(Failure::usage(why).hint(format!("--crash {}", late.id)));
        }
        self.crashes(&uids)?;
        uids.retain(|uid| self.crash.iter().all(|crash| crash.id != uid.id.0));
        Ok(uids)
    }

    /// What a repair has done to a ring with so many living nodes.
    pub(super) fn repaired(&self, living: usize) -> Option<String> {
        let dead: Vec<String> = self.crash.iter().map(|crash| crash.id.to_string()).collect();
        let what = || format!("the ring was repaired without {}: {living} nodes are left", dead.join(", "));
        self.repair.then(what)
    }

    /// The nodes, clockwise.
    fn uids(&self, seed: u64) -> Result<Vec<Uid>, Failure> {
        if let Some(ids) = &self.ids {
            return Ok(ids.iter().map(|&UidArg(uid)| uid).collect());
        }
        if let Some(nodes) = self.nodes.map(|nodes| nodes as usize).or(self.graph.and_then(Graph::nodes)) {
            return Ok(self.order.ids(nodes, seed));
        }
        if let Some(graph) = self.graph {
            return Err(
                Failure::usage(format!("--graph {graph} does not say how many nodes there are")).hint("--nodes N")
            );
        }
        let linked: BTreeSet<u32> = self.links.iter().flat_map(|link| [link.0, link.1]).collect();
        Ok(linked.into_iter().map(Uid::plain).collect())
    }

    /// An option that the algorithm does not have would be ignored in silence.
    fn refuse_ignored(&self, row: &'static Row) -> Result<(), Failure> {
        let ignores = Ignores::of(row);
        let refuse = |why: &str| Err(Failure::usage(format!("{} {why}", row.name)));
        if ignores.schedule && self.schedule == Schedule::Random {
            return refuse("is synchronous: every message takes one round, there is no --schedule random");
        }
        if ignores.initiators && self.initiators != Starters::All {
            return refuse("begins at all nodes in round 0: --initiators has no meaning");
        }
        if ignores.wins && self.wins.wins.is_some() {
            return refuse("does not use ids, chance decides: --wins has no meaning");
        }
        Ok(())
    }

    fn initiators(&self, ids: &[Uid]) -> Result<Initiators, Failure> {
        Ok(match &self.initiators {
            Starters::All => Initiators::All,
            Starters::One => Initiators::At(vec![0]),
            Starters::These(wanted) => {
                let mut at = positions(ids, wanted.iter().copied(), "initiator")?;
                at.sort_unstable();
                at.dedup();
                Initiators::At(at)
            }
        })
    }

    fn crashes(&self, ids: &[Uid]) -> Result<Vec<(usize, u64)>, Failure> {
        let at = positions(ids, self.crash.iter().map(|crash| crash.id), "--crash")?;
        Ok(at.into_iter().zip(self.crash.iter().map(|crash| crash.round)).collect())
    }
}

fn positions(ids: &[Uid], wanted: impl Iterator<Item = u32>, what: &str) -> Result<Vec<usize>, Failure> {
    let wanted: Vec<u32> = wanted.collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let places: HashMap<u32, usize> = ids.iter().enumerate().map(|(at, uid)| (uid.id.0, at)).collect();
    let place =
        |id: u32| places.get(&id).copied().ok_or_else(|| Failure::usage(format!("{what}: there is no id {id}")));
    wanted.into_iter().map(place).collect()
}

/// The starters, as the user wrote them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Starters {
    All,
    One,
    These(Vec<u32>),
}

impl FromStr for Starters {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Starters::All),
            "one" => Ok(Starters::One),
            list => {
                let ids = list.split(',').map(str::parse).collect::<Result<Vec<u32>, _>>();
                ids.map(Starters::These).map_err(|_| "write all, one, or ids as in 1,4".to_owned())
            }
        }
    }
}

impl fmt::Display for Starters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Starters::All => f.write_str("all"),
            Starters::One => f.write_str("one"),
            Starters::These(ids) => f.write_str(&ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")),
        }
    }
}

/// No run takes that long.
const LAST_ROUND: u64 = 1_000_000_000_000;

/// A node: its id, or priority and id as in 3:7.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct UidArg(Uid);

impl FromStr for UidArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (priority, id) = text.split_once(':').unwrap_or(("0", text));
        match (priority.parse(), id.parse()) {
            (Ok(priority), Ok(id)) => Ok(UidArg(Uid { priority, id: NodeId(id) })),
            _ => Err("write an id, or priority:id as in 3:7, both at most 4294967295".to_owned()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AtRound {
    pub(super) id: u32,
    pub(super) round: u64,
}

impl FromStr for AtRound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (id, round) = text.split_once('@').unwrap_or((text, "0"));
        match (id.parse(), round.parse()) {
            (Ok(id), Ok(round)) if round <= LAST_ROUND => Ok(AtRound { id, round }),
            _ => Err(format!("write an id, or id@round as in 5@3; the last round is {LAST_ROUND}")),
        }
    }
}

pub(super) fn orders() -> impl TypedValueParser<Value = Order> {
    PossibleValuesParser::new(Order::ALL.map(Order::name))
        .map(|name| Order::ALL.into_iter().find(|order| order.name() == name).expect("one of the names"))
}

fn schedules() -> impl TypedValueParser<Value = Schedule> {
    const ALL: [Schedule; 2] = [Schedule::Sync, Schedule::Random];
    PossibleValuesParser::new(ALL.map(Schedule::name))
        .map(|name| ALL.into_iter().find(|schedule| schedule.name() == name).expect("one of the names"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starters_and_crashes_are_read_as_written() {
        for text in ["all", "one", "1,4", "7"] {
            assert_eq!(text.parse::<Starters>().unwrap().to_string(), text);
        }
        assert!("1,x".parse::<Starters>().is_err());
        assert_eq!("5".parse(), Ok(AtRound { id: 5, round: 0 }));
        assert_eq!("5@3".parse(), Ok(AtRound { id: 5, round: 3 }));
        assert!("5@".parse::<AtRound>().is_err() && "5@18446744073709551615".parse::<AtRound>().is_err());
        assert_eq!("3:7".parse(), Ok(UidArg(Uid { priority: 3, id: NodeId(7) })));
        assert_eq!("7".parse(), Ok(UidArg(Uid::plain(7))));
        assert!("3:".parse::<UidArg>().is_err() && ":7".parse::<UidArg>().is_err());
    }
}
