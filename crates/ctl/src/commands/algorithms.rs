//! `ctl algorithms`: the catalog.

use algorithms::Wins;
use algorithms::catalog::{DEFAULT, Elects, ROWS, Row};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{Output, Table};

/// List the algorithms: topology, winner, assumptions, source
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl algorithms
  ctl algorithms -o json | jq -r .name")]
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

pub(crate) fn run(_: &Args, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        ROWS.iter().try_for_each(|row| Output::json(&line(row)))?;
        return Ok(());
    }
    let mut table = Table::new(&["NAME", "TOPOLOGY", "WINS", "ASSUMES", "SOURCE"]);
    for row in ROWS {
        let Line { name, topology, wins, assumes, paper, .. } = line(row);
        table.plain([name, topology, wins, assumes, paper].map(String::from));
    }
    Output::line(table.render(output))?;
    Ok(Output::line(format!("\nDefault: {DEFAULT}."))?)
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
            Elects::Anyone => "anyone",
        },
        assumes: row.assumes,
        can_wait: row.can_wait,
        max_nodes: row.max_nodes,
    }
}
