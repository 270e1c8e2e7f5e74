//! `ctl resume`: ends a pause.

use super::pause::order;
use crate::args::Globals;
use crate::failure::Failure;
use crate::output::Output;

/// End the pause of the cluster
///
/// At once: if nobody leads, an election begins as soon as the members have told each other. With preempt = true a better member
/// takes over after preempt_after.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl resume
  ctl resume && ctl leader --wait 5s")]
pub(crate) struct Args {}

pub(crate) async fn run(_: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    order(false, globals, output).await
}
