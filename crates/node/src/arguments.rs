//! The command line of `node`. In the library, so that `ctl man` and `ctl completions` can read it.

use std::path::PathBuf;

use clap::{Command, CommandFactory, FromArgMatches, Parser};
use client::Programs;

use crate::log;

/// One member of a Conclave cluster.
///
/// Exit codes: 0 left in order or removed from the cluster, 1 failed (damaged state, failing disk, port in use, duplicate id),
/// 2 bad config or secret, or a volume that belongs elsewhere or to a member that was removed.
#[derive(Parser, Debug)]
#[command(name = "node", version, about)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Args {
    /// The cluster's config, the same file for all members
    #[arg(long, env = "CONCLAVE_CONFIG", value_name = "FILE")]
    pub config: PathBuf,
    /// The id of this process in the config's [[peers]]
    #[arg(long, env = "CONCLAVE_ID", value_name = "N")]
    pub id: Option<u32>,
    /// The data directory [default: data/nN below the working directory, N being the id]
    #[arg(long, env = "CONCLAVE_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// The format of log lines on stderr; CONCLAVE_LOG=debug shows more of them, as [log] level of the config does
    #[arg(long, value_enum, default_value = "text")]
    pub log: log::Format,
    /// Report every problem of the config and exit
    #[arg(long)]
    pub check: bool,
    /// Begin a new cluster without an answer of all its voters: nothing was ever granted
    #[arg(long)]
    pub bootstrap: bool,
    /// Continue with another lease or max_drift than that of the votes on disk; all members must have been stopped
    #[arg(long)]
    pub accept_members: bool,
    /// The data directory was moved here from another machine or directory, and no copy of it is left behind
    #[arg(long)]
    pub moved: bool,
    /// A majority of the voters is lost for ever: begin a new cluster of this member alone, N being its own id
    #[arg(long, value_name = "N", value_delimiter = ',', requires = "lost", conflicts_with = "bootstrap")]
    pub force_voters: Vec<u32>,
    /// With --force-voters: the voters that are off and stay off
    #[arg(long, value_name = "N,N", value_delimiter = ',', requires = "force_voters")]
    pub lost: Vec<u32>,
    /// With --force-voters: the largest token that any resource has seen; all new tokens are larger
    #[arg(long, value_name = "TOKEN", requires = "force_voters")]
    pub token_above: Option<u64>,
    /// With --force-voters: no resource can tell which tokens it has seen
    #[arg(long, requires = "force_voters", conflicts_with = "token_above")]
    pub token_unknown: bool,
}

impl Args {
    /// Ends the process where the command line is wrong or asks for help.
    pub fn from_command_line() -> Self {
        let matches = Self::called(Programs::called()).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// The command line under the name by which the program is called.
    pub fn called(programs: &Programs) -> Command {
        named(Self::command(), programs, &programs.node)
    }
}

/// A command line whose name, help and examples are those of a program that is called so.
pub fn named(command: Command, programs: &Programs, own: &str) -> Command {
    let own: &'static str = own.rsplit('/').next().unwrap_or_default().to_owned().leak();
    if programs.are_plain() { command } else { in_words(command.name(own), programs) }
}

fn in_words(command: Command, programs: &Programs) -> Command {
    let said = |text: Option<&clap::builder::StyledStr>| text.map(|text| programs.in_words(&text.to_string()));
    let about = said(command.get_about());
    let long_about = said(command.get_long_about());
    let after_help = said(command.get_after_help());
    let mut command = command.mut_subcommands(|sub| in_words(sub, programs));
    if let Some(text) = about {
        command = command.about(text);
    }
    if let Some(text) = long_about {
        command = command.long_about(text);
    }
    if let Some(text) = after_help {
        command = command.after_help(text);
    }
    command.mut_args(|arg| {
        let (help, long_help) = (said(arg.get_help()), said(arg.get_long_help()));
        let arg = if let Some(text) = help { arg.help(text) } else { arg };
        if let Some(text) = long_help { arg.long_help(text) } else { arg }
    })
}
