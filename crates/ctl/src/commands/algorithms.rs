//! `ctl algorithms`: both catalogs.

use algorithms::catalog::DEFAULT;
use client::json::{CatalogRow, ElectionRow, MutexRow, catalog};

use crate::failure::Failure;
use crate::output::{Output, Table};

/// List the algorithms: elections with their winner, mutual exclusions with their order, assumptions, source
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl algorithms
  ctl algorithms -o json | jq -r .name
  ctl algorithms -o json | jq -r 'select(.schema == \"conclave.mutex/1\").name'")]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        return Ok(catalog().iter().try_for_each(Output::json)?);
    }
    let mut table = Table::new(&["NAME", "TOPOLOGY", "WINS", "ASSUMES", "SOURCE"]);
    for row in catalog() {
        let CatalogRow::Election(ElectionRow { name, topology, wins, elects, assumes, paper, .. }) = row else {
            continue;
        };
        let wins = if matches!(elects, "anyone" | "majority") { "chance" } else { wins };
        table.plain([name, topology, wins, assumes, paper].map(String::from));
    }
    Output::line(table.render(output))?;
    Output::line(format!("\nDefault: {DEFAULT}.\n\nMutual exclusion:\n"))?;
    let mut table = Table::new(&["NAME", "TOPOLOGY", "ORDER", "READERS", "ASSUMES", "SOURCE"]);
    for row in catalog() {
        let CatalogRow::Mutex(MutexRow { name, paper, topology, fair, readers, assumes, .. }) = row else { continue };
        let order = if fair { "fair" } else { "-" };
        table.plain([name, topology, order, if readers { "yes" } else { "-" }, assumes, paper].map(String::from));
    }
    Output::line(table.render(output))?;
    Ok(Output::line("\nfair: a request that happened before another one enters first.")?)
}
