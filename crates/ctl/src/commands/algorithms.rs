//! `ctl algorithms`: both catalogs.

use algorithms::Wins;
use algorithms::catalog::{DEFAULT, Elects, ROWS, Row, mutex};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{Output, Table};

/// List the algorithms: elections with their winner, mutual exclusions with their order, assumptions, source
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl algorithms
  ctl algorithms -o json | jq -r .name
  ctl algorithms -o json | jq -r 'select(.schema == \"conclave.mutex/1\").name'")]
pub(crate) struct Args {}

#[derive(Serialize)]
struct Line {
    schema: &'static str,
    name: &'static str,
    default: bool,
    paper: &'static str,
    topology: &'static str,
    wins: &'static str,
    elects: &'static str,
    assumes: &'static str,
    can_wait: bool,
    max_nodes: usize,
}

/// A mutual exclusion.
#[derive(Serialize)]
struct MutexLine {
    schema: &'static str,
    name: &'static str,
    paper: &'static str,
    topology: &'static str,
    links: &'static str,
    fair: bool,
    readers: bool,
    /// Else it runs in simulations and models only.
    live: bool,
    assumes: &'static str,
}

pub(crate) fn run(_: &Args, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        ROWS.iter().try_for_each(|row| Output::json(&line(row)))?;
        mutex::ROWS.iter().try_for_each(|row| Output::json(&mutex_line(row)))?;
        return Ok(());
    }
    let mut table = Table::new(&["NAME", "TOPOLOGY", "WINS", "ASSUMES", "SOURCE"]);
    for row in ROWS {
        let Line { name, topology, wins, assumes, paper, .. } = line(row);
        let wins = if matches!(row.elects, Elects::Anyone | Elects::Majority) { "chance" } else { wins };
        table.plain([name, topology, wins, assumes, paper].map(String::from));
    }
    Output::line(table.render(output))?;
    Output::line(format!("\nDefault: {DEFAULT}.\n\nMutual exclusion:\n"))?;
    let mut table = Table::new(&["NAME", "TOPOLOGY", "ORDER", "READERS", "ASSUMES", "SOURCE"]);
    for row in mutex::ROWS {
        let MutexLine { name, paper, topology, fair, readers, assumes, .. } = mutex_line(row);
        let order = if fair { "fair" } else { "-" };
        table.plain([name, topology, order, if readers { "yes" } else { "-" }, assumes, paper].map(String::from));
    }
    Output::line(table.render(output))?;
    Ok(Output::line("\nfair: a request that happened before another one enters first.")?)
}

fn mutex_line(row: &'static mutex::Row) -> MutexLine {
    MutexLine {
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

fn line(row: &'static Row) -> Line {
    Line {
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
