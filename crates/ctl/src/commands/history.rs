//! `ctl history`: who led from when to when, out of all members' ledgers.

use client::format_instant;
use client::history::{Held, Reign, WhoLed, reigns, who_led_at};
use serde::Serialize;

use super::ledgers::Gathered;
use crate::args::Globals;
use crate::failure::{Exit, Failure};
use crate::output::{Ink, Output, Table};
use crate::target::Target;

/// Show who led from when to when, or at one instant
///
/// Merges the ledgers of all members in reach. They are on disk, so this works over restarts of members and of the
/// whole cluster. Members that are missing are named: a reign may be known to them alone.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl history
  ctl history --at -5m
  ctl history --at 2026-05-04T13:30:00Z
  ctl history -o json

An instant is RFC 3339, a time ago such as -5m, or milliseconds since the Unix epoch.
Exit codes: 0 shown (--at: somebody led), 1 --at: unknown, 3 nobody reachable, 4 --at: nobody led, or several,
8 refused.")]
pub(crate) struct Args {
    /// Who led at this instant?
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<String>,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    reigns: Vec<Row<'a>>,
    missing: Vec<String>,
    flaws: Vec<String>,
}

#[derive(Serialize)]
struct AtDocument<'a> {
    schema: &'static str,
    at_ms: u64,
    held: &'static str,
    /// Only where it is certain.
    leader: Option<u32>,
    epoch: Option<u64>,
    uncertainty_ms: u64,
    reigns: Vec<Row<'a>>,
    why: &'a [String],
}

#[derive(Serialize)]
struct Row<'a> {
    leader: u32,
    epoch: u64,
    from_ms: u64,
    to_earliest_ms: Option<u64>,
    to_latest_ms: Option<u64>,
    cause: &'a str,
    end: Option<&'a str>,
    claimed: bool,
    told_by: &'a [u32],
}

pub(crate) async fn run(args: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    let target = Target::resolve(globals)?;
    // A wrong instant is said before anybody is asked; "ago" counts from the answers on.
    let parse = |now| client::parse_instant(args.at.as_deref().unwrap_or("0"), now);
    parse(0).map_err(|error| Failure::usage(error.to_string()).hint("ctl history --at -5m"))?;
    let gathered = Gathered::from(&target).await?;
    if args.at.is_some() {
        let at_ms = parse(gathered.now_ms).unwrap_or(gathered.now_ms);
        let answer = who_led_at(&gathered.ledgers, at_ms, gathered.now_ms);
        return show_instant(at_ms, &answer, output);
    }
    let reigns = reigns(&gathered.ledgers);
    if output.is_json() {
        let flaws = gathered.ledgers.flaws();
        let rows = reigns.iter().map(row).collect();
        let document = Document { schema: "conclave.history/1", reigns: rows, missing: gathered.missing(), flaws };
        return Ok(Output::json(&document)?);
    }
    Output::line(table(&reigns, output))?;
    gathered.say_flaws();
    Ok(())
}

fn row(reign: &Reign) -> Row<'_> {
    Row {
        leader: reign.leader,
        epoch: reign.epoch,
        from_ms: reign.from_ms,
        to_earliest_ms: reign.to.map(|to| to.earliest_ms),
        to_latest_ms: reign.to.map(|to| to.latest_ms),
        cause: &reign.cause,
        end: reign.end.as_deref(),
        claimed: reign.claimed,
        told_by: &reign.told_by,
    }
}

fn table(reigns: &[Reign], output: Output) -> String {
    let mut table = Table::new(&[">LEADER", ">EPOCH", "FROM", "TO", "BEGAN", "ENDED", "TOLD BY"]);
    for reign in reigns {
        let told: Vec<String> = reign.told_by.iter().map(u32::to_string).collect();
        let ink = reign.to.is_none().then_some(Ink::Green);
        table.row([
            (reign.leader.to_string(), ink),
            (reign.epoch.to_string(), None),
            (format_instant(reign.from_ms), None),
            (end_in_words(reign), None),
            (reign.cause.clone(), None),
            (reign.end.clone().unwrap_or_else(|| "-".to_owned()), None),
            (told.join(","), None),
        ]);
    }
    table.render(output)
}

/// The latest end; `~` where only a span is known.
fn end_in_words(reign: &Reign) -> String {
    match reign.to {
        None => "now".to_owned(),
        Some(to) if to.earliest_ms == to.latest_ms => format_instant(to.latest_ms),
        Some(to) => format!("~{}", format_instant(to.latest_ms)),
    }
}

fn show_instant(at_ms: u64, answer: &WhoLed, output: Output) -> Result<(), Failure> {
    let certain = answer.reigns.first().filter(|_| answer.held == Held::One);
    if output.is_json() {
        Output::json(&AtDocument {
            schema: "conclave.history.at/1",
            at_ms,
            held: answer.held.name(),
            leader: certain.map(|reign| reign.leader),
            epoch: certain.map(|reign| reign.epoch),
            uncertainty_ms: answer.uncertainty_ms,
            reigns: answer.reigns.iter().map(row).collect(),
            why: &answer.why,
        })?;
    } else {
        Output::line(in_words(at_ms, answer))?;
    }
    match answer.held {
        Held::One | Held::Perhaps => Ok(()),
        Held::Nobody | Held::Several => Err(Failure::silent(Exit::NoLeader)),
        Held::Unknown => Err(Failure::silent(Exit::Failed)),
    }
}

fn in_words(at_ms: u64, answer: &WhoLed) -> String {
    let at = format_instant(at_ms);
    let led = |reign: &Reign| {
        let from = format_instant(reign.from_ms);
        format!("{} in epoch {} (from {from} to {})", reign.leader, reign.epoch, end_in_words(reign))
    };
    let all: Vec<String> = answer.reigns.iter().map(led).collect();
    let first = match answer.held {
        Held::One => format!("{at}: {} led", all.join(", ")),
        Held::Several => format!("{at}: several led at once: {}", all.join(", ")),
        Held::Perhaps => format!("{at}: perhaps {}", all.join(", or ")),
        Held::Nobody => format!("{at}: nobody led"),
        Held::Unknown => format!("{at}: unknown"),
    };
    let spread = match answer.uncertainty_ms {
        0 => "the members share a clock, or the ledgers show no distance between their clocks".to_owned(),
        ms => format!("the members' clocks differ by about {ms} ms"),
    };
    let why = answer.why.iter().map(|why| format!("\n  why: {why}"));
    format!("{first}\n  uncertainty: {spread}{}", why.collect::<String>())
}
