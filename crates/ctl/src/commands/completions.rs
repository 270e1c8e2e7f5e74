//! `ctl completions`: shell completions from the command trees.

use std::io::Write as _;

use clap_complete::Shell;
use client::Programs;
use node::arguments::Args as NodeArgs;

use crate::args::Cli;
use crate::failure::Failure;

/// Print a completion script for a shell
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl completions bash > ~/.local/share/bash-completion/completions/ctl
  ctl completions zsh > ~/.zfunc/_ctl
  ctl completions fish > ~/.config/fish/completions/ctl.fish
  ctl completions bash --of node")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
    /// The program whose command line is completed
    #[arg(long, value_name = "PROGRAM", value_enum, default_value_t)]
    of: Program,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Program {
    #[default]
    Ctl,
    Node,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let programs = Programs::called();
    let mut command = match args.of {
        Program::Ctl => Cli::called(programs),
        Program::Node => NodeArgs::called(programs),
    };
    let name = command.get_name().to_owned();
    // Into memory first: the generator panics if a pipe breaks.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    Ok(std::io::stdout().lock().write_all(&script)?)
}
