//! `ctl step-down`: the leader resigns.

use client::within;

use super::leadership_change::{Change, Scene};
use crate::args::Globals;
use crate::connection_options::{Target, request_failed};
use crate::failure::Failure;
use crate::output::Output;

/// Ask the leader to resign, and wait for its successor
///
/// The member that resigned does not stand until another member leads, and for ten seconds after that. If no other
/// member stands, a leader by quorum stays.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl step-down
  ctl step-down && ctl leader")]
pub(crate) struct Args {}

pub(crate) async fn run(_: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    let target = Target::resolve_listed(globals).await?;
    let scene = Scene::open(&target).await?;
    let member = scene.leader("step down")?;
    let leader = scene.connect(&target, member).await?;
    // The member may first have to stop its children, so the member timeout would be too short.
    within(target.timeout, leader.step_down())
        .await
        .map_err(|error| request_failed(&format!("member {member} does not step down"), &error))?;
    let (leader, epoch) = scene.settle(&target, |leader, _| leader != member).await?;
    Change { schema: "conclave.change/1", action: "step-down", member, was: Some(member), leader, epoch }.show(output)
}
