//! `ctl sim`: the same machines, simulated.

mod faults;
mod mutex;
mod picture;
mod ring;
mod run;
mod step;
mod sweep;

use crate::failure::Failure;
use crate::output::Output;

/// Simulate: elections and mutual exclusions with exact counts, whole members under faults
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    Run(run::Args),
    Faults(faults::Args),
    Sweep(sweep::Args),
    Draw(picture::DrawArgs),
    Step(step::Args),
    Export(picture::ExportArgs),
    Compare(mutex::CompareArgs),
    Deadlock(mutex::DeadlockArgs),
}

pub(crate) fn run(args: Args, output: Output) -> Result<(), Failure> {
    match args.what {
        What::Run(args) => run::run(&args, output),
        What::Faults(args) => faults::run(&args, output),
        What::Sweep(args) => sweep::run(&args, output),
        What::Draw(args) => picture::draw(&args),
        What::Step(args) => step::run(&args),
        What::Export(args) => picture::export(&args),
        What::Compare(args) => mutex::compare(&args, output),
        What::Deadlock(args) => mutex::deadlock(&args, output),
    }
}
