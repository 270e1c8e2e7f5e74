//! `ctl explain`: why this member leads, or why nobody does.

use client::explain;
use serde::Serialize;

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

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    verdict: &'static str,
    leader: Option<u32>,
    epoch: Option<u64>,
    since_ms: Option<u64>,
    cause: Option<&'a str>,
    granted_by: &'a [u32],
    unreachable: Vec<Unreachable<'a>>,
    broken_links: Vec<Link>,
    sentences: &'a [String],
}

#[derive(Serialize)]
struct Unreachable<'a> {
    id: Option<u32>,
    address: &'a str,
    why: &'a str,
}

#[derive(Serialize)]
struct Link {
    from: u32,
    to: u32,
}

pub(crate) async fn run(_: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    let gathered = Gathered::from(&Target::resolve(globals)?).await?;
    let explanation = explain(&gathered.evidence());
    if !output.is_json() {
        return Ok(Output::line(explanation.sentences.join("\n"))?);
    }
    let leader = explanation.verdict.leader();
    let missing = gathered.ledgers.missing.iter();
    let reign = explanation.reign.as_ref();
    Ok(Output::json(&Document {
        schema: "conclave.explain/1",
        verdict: explanation.verdict.name(),
        leader: leader.map(|(leader, _)| leader),
        epoch: leader.map(|(_, epoch)| epoch),
        since_ms: reign.map(|reign| reign.from_ms),
        cause: reign.map(|reign| reign.cause.as_str()),
        granted_by: &explanation.granted_by,
        unreachable: missing.map(|m| Unreachable { id: m.id, address: &m.address, why: &m.why }).collect(),
        broken_links: explanation.broken_links.iter().map(|&(from, to)| Link { from, to }).collect(),
        sentences: &explanation.sentences,
    })?)
}
