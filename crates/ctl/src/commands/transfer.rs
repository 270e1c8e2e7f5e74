//! `ctl transfer`: the leader hands over to a member of the operator's choice.

use client::json::Change;
use client::within;

use super::leadership_change::{Scene, show};
use crate::args::Globals;
use crate::connection_options::{Target, request_failed};
use crate::failure::Failure;
use crate::output::Output;

/// Ask the leader to hand over to a member, and wait until that member leads
///
/// The successor has the assent of a majority before the leader gives up leadership, so the cluster is without a leader
/// for a few milliseconds only. Needs safety = "quorum", or an algorithm that can hand over under classic safety too.
/// With preempt = true (the default) the best member takes leadership back after preempt_after. With --hold it does not: no
/// better member takes over from the successor until it dies, steps down, hands over or loses its lease, or `ctl elect` is run.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl transfer 3
  ctl transfer 3 --hold
  ctl transfer 3 && ctl leader")]
pub(crate) struct Args {
    /// The successor
    #[arg(value_name = "ID")]
    to: u32,

    /// No better member takes over from the successor. With the id of the leader itself: from the leader
    #[arg(long)]
    hold: bool,
}

pub(crate) async fn run(args: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    show(&change(args.to, args.hold, globals).await?, output)
}

pub(super) async fn change(to: u32, hold: bool, globals: &Globals) -> Result<Change, Failure> {
    let target = Target::resolve_listed(globals).await?;
    let scene = Scene::open(&target).await?;
    let member = scene.leader("hand over")?;
    let leader = scene.connect(&target, member).await?;
    within(target.member_timeout, leader.transfer(to, hold))
        .await
        .map_err(|error| request_failed(&format!("member {member} does not hand over"), &error))?;
    let (leader, epoch) = scene.settle(&target, |leader, _| leader == to).await?;
    Ok(Change { schema: Change::SCHEMA, action: "transfer", member, was: Some(member), leader, epoch })
}
