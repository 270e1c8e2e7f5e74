//! `ctl completions`: shell completions from the command tree.

use std::io::Write as _;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::Failure;

/// Print a completion script for a shell
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl completions bash > ~/.local/share/bash-completion/completions/ctl
  ctl completions zsh > ~/.zfunc/_ctl
  ctl completions fish > ~/.config/fish/completions/ctl.fish")]
pub(crate) struct Args {
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    // Into memory first: the generator panics if a pipe breaks.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ctl", &mut script);
    Ok(std::io::stdout().lock().write_all(&script)?)
}
