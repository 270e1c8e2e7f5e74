//! `ctl explain`: why a member leads, or why nobody leads.

use client::{explain, json};

use super::ledgers::gather;
use crate::args::Globals;
use crate::connection_options::Target;
use crate::failure::Failure;
use crate::output::Output;

/// Explain why the leader leads, or why nobody leads
///
/// Combines what all members report of themselves and of each other, and their ledgers: since when and why a member
/// leads, which members are unreachable, which connections are missing in which direction, which members do not stand.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl explain
  ctl explain -o json

Exit codes: 0 explained, 3 no member reachable, 8 refused.")]
pub(crate) struct Args {}

pub(crate) async fn run(_: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    let gathered = gather(&Target::election_only(globals)?).await?;
    let explanation = explain(&gathered.evidence());
    let document = json::Explain::new(&explanation, &gathered.ledgers);
    Ok(output.show_words(&document, || explanation.sentences.join("\n"))?)
}
