//! `ctl man`: manual pages, from the command tree.

use std::path::PathBuf;

use anyhow::Context;
use clap::CommandFactory;

use crate::args::Cli;
use crate::failure::Failure;

/// Write manual pages into a directory, one per command
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl man ~/.local/share/man/man1")]
pub(crate) struct Args {
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let directory = &args.directory;
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    clap_mangen::generate_to(Cli::command(), directory)
        .with_context(|| format!("cannot write to {}", directory.display()))?;
    Ok(())
}
