//! `ctl config`: an annotated example.

use crate::failure::Failure;
use crate::output::Output;

pub(super) const EXAMPLE: &str = include_str!("../../../../config/example.toml");

/// Print an annotated example of the config file
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl config --example > cluster.toml")]
pub(crate) struct Args {
    /// Print the example; the only output of this command
    #[arg(long, required = true)]
    example: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    debug_assert!(args.example);
    Ok(Output::words(EXAMPLE.trim_end())?)
}
