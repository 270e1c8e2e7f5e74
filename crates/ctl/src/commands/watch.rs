//! `ctl watch`: what the members report, as it happens.

use std::time::{SystemTime, UNIX_EPOCH};

use client::{ClientError, Endpoint, MemberEvent, News};
use serde::Serialize;

use crate::args::Globals;
use crate::failure::Failure;
use crate::output::{Ink, Output};
use crate::target::{Target, nobody};

/// Print events as they happen, one per line, until interrupted
///
/// The first line of each member is its present state. A member that cannot be followed is reported as `down` and
/// dialled again.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl watch
  ctl watch -o json | jq -c 'select(.role == \"leader\")'")]
pub(crate) struct Args {}

#[derive(Serialize)]
struct Line<'a> {
    schema: &'static str,
    at_ms: u64,
    id: Option<u32>,
    address: &'a str,
    role: &'a str,
    leader: Option<u32>,
    epoch: Option<u64>,
    cause: &'a str,
}

pub(crate) async fn run(_: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    let target = Target::resolve(globals)?;
    let mut observer = target.observer();
    let mut ids: Vec<Option<u32>> = target.endpoints.iter().map(|endpoint| endpoint.id).collect();
    let mut refused: Vec<Option<ClientError>> = target.endpoints.iter().map(|_| None).collect();
    loop {
        let report = observer.next().await;
        let at = report.at;
        match report.news {
            News::Event(event) => {
                ids[at] = Some(event.id);
                refused[at] = None;
                print(&line(&target.endpoints[at], &event), output)?;
            }
            News::Lost(error) => {
                print(&down(&target.endpoints[at], ids[at], &error.to_string()), output)?;
                refused[at] = error.is_refusal().then_some(error);
                let failures: Vec<_> =
                    target.endpoints.iter().zip(&refused).filter_map(|(e, r)| Some((e, r.as_ref()?))).collect();
                if failures.len() == target.endpoints.len() {
                    return Err(nobody(&failures));
                }
            }
        }
    }
}

fn line<'a>(endpoint: &'a Endpoint, event: &'a MemberEvent) -> Line<'a> {
    Line {
        schema: "conclave.event/1",
        at_ms: event.at_ms,
        id: Some(event.id),
        address: &endpoint.address,
        role: &event.role,
        leader: event.leader,
        epoch: Some(event.epoch),
        cause: &event.cause,
    }
}

fn down<'a>(endpoint: &'a Endpoint, id: Option<u32>, cause: &'a str) -> Line<'a> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at_ms = now.as_millis() as u64;
    Line {
        schema: "conclave.event/1",
        at_ms,
        id,
        address: &endpoint.address,
        role: "down",
        leader: None,
        epoch: None,
        cause,
    }
}

fn print(line: &Line<'_>, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        return Ok(Output::json(line)?);
    }
    let ink = match line.role {
        "leader" => Some(Ink::Green),
        "candidate" => Some(Ink::Yellow),
        "down" => Some(Ink::Red),
        _ => None,
    };
    let role = format!("{:<9}", line.role);
    let role = ink.map_or(role.clone(), |ink| output.paint(ink, &role));
    let who = line.id.map_or_else(|| line.address.to_owned(), |id| id.to_string());
    let whom = match (line.role, line.leader) {
        ("leader" | "down", _) => String::new(),
        (_, Some(leader)) => format!(" of {leader}"),
        (_, None) => " of nobody".to_owned(),
    };
    let epoch = line.epoch.map_or_else(String::new, |epoch| format!(" in epoch {epoch}"));
    Ok(Output::line(format!("{}  {who:>3}  {role}{whom}{epoch}: {}", clock(line.at_ms), line.cause))?)
}

/// Time of day in UTC: enough to compare lines by, and the JSON has the whole instant.
fn clock(at_ms: u64) -> String {
    let (seconds, ms) = (at_ms / 1000 % 86_400, at_ms % 1000);
    format!("{:02}:{:02}:{:02}.{ms:03}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_clock_is_utc() {
        assert_eq!(super::clock(1_700_000_000_123), "22:13:20.123Z");
    }
}
