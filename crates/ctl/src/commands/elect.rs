//! `ctl elect`: starts an election now.

use client::json::Change;
use client::within;

use super::leadership_change::{Scene, show};
use crate::args::Globals;
use crate::connection_options::{Target, request_failed};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Start an election now, and wait for its outcome
///
/// Under safety = "quorum" an election does not depose a leader: the leader hands over to a better member, or continues
/// in a new epoch. While a member leads by quorum, only the leader itself can be asked.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl elect
  ctl elect --member 2        (safety = \"classic\", or nobody leads)")]
pub(crate) struct Args {
    /// The member that starts it [default: the leader, else the first member that answers]
    #[arg(long, value_name = "ID")]
    member: Option<u32>,
}

pub(crate) async fn run(args: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    show(&change(args.member, globals).await?, output)
}

pub(super) async fn change(by: Option<u32>, globals: &Globals) -> Result<Change, Failure> {
    let target = Target::resolve_listed(globals).await?;
    let scene = Scene::open(&target).await?;
    let views = scene.observer.views();
    let was = scene.found();
    let Some(member) = by.or(was).or_else(|| views.first().map(|view| view.id)) else {
        return Err(Failure::new(Exit::Unreachable, "no member is reachable").hint("ctl status"));
    };
    let newest = views.iter().map(|view| view.epoch).max().unwrap_or(0);
    let starter = scene.connect(&target, member).await?;
    within(target.member_timeout, starter.elect())
        .await
        .map_err(|error| request_failed(&format!("member {member} starts no election"), &error))?;
    let (leader, epoch) = scene.settle(&target, |_, epoch| epoch > newest).await?;
    Ok(Change { schema: Change::SCHEMA, action: "elect", member, was, leader, epoch })
}
