//! `ctl explain`: why this member leads, or why nobody does.

use client::{explain, json};

use super::ledgers::Gathered;
use crate::args::Globals;
use crate::failure::Failure;
use crate::output::Output;
use crate::target::Target;

/// Say why the leader leads, or why nobody does
///
/// Puts together what all members say of themselves and of each other, and their ledgers: since when and by what cause
/// somebody leads, who is unreachable, which connections are missing in which direction, who does not stand.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl explain
  ctl explain -o json

Exit codes: 0 explained, 3 nobody reachable, 8 refused.")]
pub(crate) struct Args {}

pub(crate) async fn run(_: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    let gathered = Gathered::from(&Target::election_only(globals)?).await?;
    let explanation = explain(&gathered.evidence());
    if !output.is_json() {
        return Ok(Output::line(explanation.sentences.join("\n"))?);
    }
    Ok(Output::json(&json::Explain::new(&explanation, &gathered.ledgers))?)
}
