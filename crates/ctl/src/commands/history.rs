//! `ctl history`: which member led from when to when, from all members' ledgers.

use client::history::{
    Held, ListEntry, ListNews, OrderEntry, Reign, ReignEnd, WhoLed, lists_in_force, orders, reigns, who_led_at,
};
use client::{Cause, format_instant, json};

use super::ledgers::{DirectoriesArg, say_flaws};
use crate::args::Globals;
use crate::failure::{Exit, Failure};
use crate::output::{Ink, Output, Table};

/// Show which member led from when to when, or at one instant
///
/// Also lists the member lists that were in force, and what operators asked for: elections, step-downs, transfers, changes of the
/// list and faults, with the address, the access and the
/// name that the client claimed. Merges the ledgers of all reachable members. They are on disk, so this works over restarts of members and of the
/// whole cluster. Missing members are named: a reign may be recorded in their ledgers alone.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl history
  ctl history --at -5m
  ctl history --at 2026-05-04T13:30:00Z
  ctl history -o json
  ctl history --data-dir /backup/n1 /backup/n2 /backup/n3     of a cluster that is down

An instant is RFC 3339, a time ago such as -5m, or milliseconds since the Unix epoch.
Exit codes: 0 shown (--at: a member led), 1 --at: unknown, 3 no member reachable, 4 --at: nobody led, or several,
8 refused.")]
pub(crate) struct Args {
    /// Show which member led at this instant
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<String>,
    #[command(flatten)]
    directories: DirectoriesArg,
}

const BUMPED: &str =
    "bumped: the leader stayed and moved its epoch past those that a restarted member had reserved on its disk.";

pub(crate) async fn run(args: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    // A wrong instant is reported before any member is asked; "ago" counts from the answers.
    let parse = |now| client::parse_instant(args.at.as_deref().unwrap_or("0"), now);
    parse(0).map_err(|error| Failure::usage(error.to_string()).hint("ctl history --at -5m"))?;
    let gathered = args.directories.gather(globals).await?;
    if args.at.is_some() {
        let at_ms = parse(gathered.now_ms).unwrap_or(gathered.now_ms);
        let answer = who_led_at(&gathered.ledgers, at_ms, gathered.now_ms);
        return show_instant(at_ms, &answer, output);
    }
    let reigns = reigns(&gathered.ledgers);
    if output.is_json() {
        return Ok(Output::json(&json::History::new(&reigns, &gathered.ledgers))?);
    }
    Output::line(table(&reigns, output))?;
    if reigns.iter().any(|reign| reign.cause == Cause::Bumped) {
        Output::line(BUMPED)?;
    }
    let lists = lists_in_force(&gathered.ledgers);
    if !lists.is_empty() {
        Output::line(format!("\n{}", lists_table(&lists, output)))?;
    }
    let orders = orders(&gathered.ledgers);
    if !orders.is_empty() {
        Output::line(format!("\n{}", orders_table(&orders, output)))?;
    }
    say_flaws(&gathered.ledgers);
    Ok(())
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
            (reign.cause.to_string(), None),
            (reign.end.map_or("-", ReignEnd::name).to_owned(), None),
            (told.join(","), None),
        ]);
    }
    table.render(output)
}

fn lists_table(lists: &[ListEntry], output: Output) -> String {
    let mut table = Table::new(&["LIST", "IN FORCE SINCE", ">BY", "VOTERS"]);
    for list in lists {
        let voters: Vec<String> = list.voters.iter().map(u32::to_string).collect();
        let forced = if list.news == ListNews::Forced { " (by an operator's word)" } else { "" };
        let (at, by) = (format_instant(list.at_ms), list.member.to_string());
        table.plain([list.stamp.to_string(), at, by, format!("{}{forced}", voters.join(", "))]);
    }
    table.render(output)
}

fn orders_table(orders: &[OrderEntry<'_>], output: Output) -> String {
    let mut table = Table::new(&["ORDERED AT", ">MEMBER", "ORDER", "ACCESS", "FROM", "CLAIMED NAME"]);
    for OrderEntry { member, at_ms, ordered } in orders {
        let instance =
            if ordered.instance.0 == 0 { String::new() } else { format!(" (instance {})", ordered.instance) };
        table.row([
            (format_instant(*at_ms), None),
            (member.to_string(), None),
            (format!("{}{instance}", ordered.order), None),
            (ordered.access.to_string(), None),
            (ordered.address.to_string(), None),
            (ordered.name.get().unwrap_or("-").to_owned(), None),
        ]);
    }
    table.render(output)
}

/// The latest end; `~` if only a span is known.
fn end_in_words(reign: &Reign) -> String {
    match reign.to {
        None => "now".to_owned(),
        Some(to) if to.earliest_ms == to.latest_ms => format_instant(to.latest_ms),
        Some(to) => format!("~{}", format_instant(to.latest_ms)),
    }
}

fn show_instant(at_ms: u64, answer: &WhoLed, output: Output) -> Result<(), Failure> {
    output.show(&json::WhoLed::new(at_ms, answer), || in_words(at_ms, answer))?;
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
