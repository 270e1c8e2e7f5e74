//! `ctl step-down`: the leader resigns.

use std::time::Duration;

use client::json::Change;
use client::{REST_MAX, format_duration, within};

use super::leadership_change::{Scene, show};
use crate::args::Globals;
use crate::connection_options::{Target, request_failed};
use crate::failure::Failure;
use crate::output::Output;

/// Ask the leader to resign, and wait for its successor
///
/// The member that resigned does not stand until another member leads, and for ten seconds after that. With --for it does not
/// stand for that time, counted from now, nor take over; only if no other member can lead it stands all the same, and coming to
/// lead ends its rest, as does a restart. If no other member stands, a leader by quorum stays.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl step-down
  ctl step-down --for 10m
  ctl step-down && ctl leader")]
pub(crate) struct Args {
    /// How long the member does not stand, at most 7 days [default: until another member leads, and ten seconds]
    #[arg(long = "for", value_name = "TIME", value_parser = rest)]
    rest: Option<Duration>,
}

fn rest(text: &str) -> Result<Duration, String> {
    let rest = client::parse_duration(text).map_err(|error| error.to_string())?;
    if rest.as_millis() == 0 || rest > REST_MAX {
        return Err(format!("write 1ms to {}", format_duration(REST_MAX)));
    }
    Ok(rest)
}

pub(crate) async fn run(args: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    show(&change(args.rest, globals).await?, output)
}

pub(super) async fn change(rest: Option<Duration>, globals: &Globals) -> Result<Change, Failure> {
    let target = Target::resolve_listed(globals).await?;
    let scene = Scene::open(&target).await?;
    let member = scene.leader("step down")?;
    let leader = scene.connect(&target, member).await?;
    // The member may first have to stop its children, so the member timeout would be too short.
    within(target.timeout, leader.step_down(rest))
        .await
        .map_err(|error| request_failed(&format!("member {member} does not step down"), &error))?;
    let (leader, epoch) = scene.settle(&target, |leader, _| leader != member).await?;
    Ok(Change { schema: Change::SCHEMA, action: "step-down", member, was: Some(member), leader, epoch })
}
