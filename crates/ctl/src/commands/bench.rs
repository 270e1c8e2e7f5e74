//! `ctl bench`: measurements against a cluster of its own.

mod clerk_failover;
mod failover;
mod idle;
mod locks;
mod progress;
mod settle;
#[cfg(feature = "simulator")]
mod simulator;
mod statistics;

use crate::args::Globals;
use crate::failure::Failure;
use crate::output::Output;

/// Measure: failover of real clusters, cost of idle members, speed of locks and of the simulator
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    Failover(failover::Args),
    Idle(idle::Args),
    Locks(locks::Args),
    #[cfg(feature = "simulator")]
    Sim(simulator::Args),
}

pub(crate) async fn run(args: Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    match args.what {
        What::Failover(args) => failover::run(&args, globals, output).await,
        What::Idle(args) => idle::run(&args, output).await,
        What::Locks(args) => locks::run(&args, output).await,
        #[cfg(feature = "simulator")]
        What::Sim(args) => simulator::run(&args, output),
    }
}
