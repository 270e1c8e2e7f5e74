//! The command line. Global options may come before or after the subcommand.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use client::Programs;
use node::arguments::named;

use crate::commands::{
    algorithms, audit, bench, bootstrap, chaos, completions, config, demo, elect, explain, fence_check, history, init,
    lead, leader, lock, locks, man, member, pause, priority, reload, resume, secret, sim, status, step_down, top,
    transfer, unlock, up, watch,
};
use crate::failure::{Exit, Failure};
use crate::guard::process as guard;
use crate::output::{ColorChoice, Format};

#[derive(Parser, Debug)]
#[command(
    name = "ctl",
    version,
    about = "Asks, watches and tests a Conclave cluster",
    after_help = "Examples:
  ctl up                     start five members on this machine
  ctl leader                 who leads? the id, alone on a line
  ctl status --watch         a row per member, live
  ctl top                    members, locks, the last election and events, on the whole terminal
  ctl lead --id 3 -- CMD     run a command only while member 3 leads
  ctl lock backup -- CMD     run a command while it holds the lock `backup`
  ctl member list            which members count, and who has the list on disk
  ctl bench failover         how long does a cluster go without a leader?

Exit codes: 0 ok, 1 failed or \"no\", 2 usage or bad config, 3 no member reachable, 4 no leader or members
disagree, 5 lock busy or wait timed out, 6 leadership or lock lost while a command ran, 7 invariant violated, 8 refused (no or wrong secret,
a secret that does not allow it, another protocol version, chaos off)."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Ends the process where the command line is wrong or asks for help.
    pub(crate) fn from_command_line() -> Self {
        let matches = Self::called(Programs::called()).try_get_matches().unwrap_or_else(|error| {
            if error.use_stderr() && asks_for_json() {
                let text = error.to_string();
                let what = text.trim_start_matches("error: ").trim_end();
                let _ = Failure::usage(what).report(Format::Json);
                std::process::exit(i32::from(Exit::Usage as u8));
            }
            error.exit()
        });
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// The command line under the name by which the program is called.
    pub(crate) fn called(programs: &Programs) -> clap::Command {
        named(without_cluster_options(Self::command()), programs, &programs.ctl)
    }
}

/// The options that say which cluster is asked, and how.
const OF_A_CLUSTER: &[&str] =
    &["config", "endpoints", "cluster", "secret_file", "certificate", "name", "instance", "timeout", "member_timeout"];
/// Commands that ask no cluster, or start one of their own.
const WITHOUT_A_CLUSTER: &[&str] =
    &["up", "init", "config", "algorithms", "bench", "sim", "fence-check", "completions", "man"];

/// The help of commands that ask no cluster does not show these options. They are accepted all the same: they may stand before the
/// command, in an alias.
fn without_cluster_options(command: clap::Command) -> clap::Command {
    let of_a_cluster = |arg: &&clap::Arg| OF_A_CLUSTER.contains(&arg.get_id().as_str());
    let hidden: Vec<clap::Arg> =
        command.get_arguments().filter(of_a_cluster).map(|arg| arg.clone().hide(true)).collect();
    command.mut_subcommands(|sub| {
        if !WITHOUT_A_CLUSTER.contains(&sub.get_name()) {
            return sub;
        }
        // `init` has an option of its own with such a name.
        let is_own = |arg: &clap::Arg| sub.get_arguments().any(|own| own.get_id() == arg.get_id());
        let not_own: Vec<clap::Arg> = hidden.iter().filter(|arg| !is_own(arg)).cloned().collect();
        sub.args(not_own)
    })
}

/// Does a command line that could not be parsed ask for JSON?
fn asks_for_json() -> bool {
    let words: Vec<String> = std::env::args().collect();
    let joined = ["-ojson", "-o=json", "--output=json"];
    words.iter().any(|word| joined.contains(&word.as_str()))
        || words.windows(2).any(|pair| ["-o", "--output"].contains(&pair[0].as_str()) && pair[1] == "json")
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// The cluster's config: its name, members and secret [default: .conclave/cluster.toml, from here upward]
    #[arg(long, global = true, value_name = "FILE", env = "CONCLAVE_CONFIG", hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,

    /// The addresses to ask, instead of the members' addresses in the config
    #[arg(
        long,
        global = true,
        value_name = "HOST:PORT,...",
        env = "CONCLAVE_ENDPOINTS",
        value_delimiter = ',',
        hide_env_values = true
    )]
    pub(crate) endpoints: Vec<String>,

    /// The cluster's name, for use without a config
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) cluster: Option<String>,

    /// The secret of the cluster, its operators or its readers, instead of the file that the config names
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,

    /// The certificate of an operator or a reader, instead of the one that [tls] of the config names; its key is beside it, as
    /// .key
    #[arg(long, global = true, value_name = "FILE.pem", conflicts_with = "secret_file")]
    pub(crate) certificate: Option<PathBuf>,

    /// The name under which members record what this command asks of them; a claim, which nothing proves
    /// [default: USER@HOST]
    #[arg(long = "as", global = true, value_name = "NAME", env = "CONCLAVE_AS", hide_env_values = true)]
    pub(crate) name: Option<String>,

    /// The election: 0 is the cluster's own, 256 and above are those of [[instances]] in the config
    #[arg(long, global = true, value_name = "N", default_value_t = 0)]
    pub(crate) instance: u16,

    /// Tables, or JSON with one object per line
    #[arg(short = 'o', long = "output", global = true, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) output: Format,

    /// How long the whole command may take
    #[arg(long, global = true, value_name = "TIME", value_parser = client::parse_duration, default_value = "5s")]
    pub(crate) timeout: Duration,

    /// The longest time to wait for one member's answer; all members are asked at the same time
    #[arg(long, global = true, value_name = "TIME", value_parser = client::parse_duration, default_value = "300ms")]
    pub(crate) member_timeout: Duration,

    /// Colours; `auto` also heeds NO_COLOR
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    pub(crate) color: ColorChoice,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Leader(leader::Args),
    Status(status::Args),
    Top(top::Args),
    Watch(watch::Args),
    History(history::Args),
    Audit(audit::Args),
    Explain(explain::Args),
    Elect(elect::Args),
    StepDown(step_down::Args),
    Transfer(transfer::Args),
    Pause(pause::Args),
    Resume(resume::Args),
    Priority(priority::Args),
    Reload(reload::Args),
    Member(member::Args),
    Bootstrap(bootstrap::Args),
    Chaos(chaos::Args),
    Lead(lead::Args),
    Lock(lock::Args),
    Locks(locks::Args),
    Unlock(unlock::Args),
    Demo(demo::Args),
    FenceCheck(fence_check::Args),
    Up(up::Args),
    Init(init::Args),
    Secret(secret::Args),
    Config(config::Args),
    Algorithms(algorithms::Args),
    Bench(bench::Args),
    Sim(sim::Args),
    Completions(completions::Args),
    Man(man::Args),
    #[command(hide = true)]
    Guard(guard::Args),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(command: &mut clap::Command, visit: &mut impl FnMut(&mut clap::Command)) {
        visit(command);
        for sub in command.get_subcommands_mut() {
            walk(sub, visit);
        }
    }

    fn built() -> clap::Command {
        let mut command = Cli::called(Programs::called());
        command.build();
        command
    }

    #[test]
    fn every_command_option_and_value_has_a_description() {
        let mut empty = Vec::new();
        walk(&mut built(), &mut |command| {
            if command.is_hide_set() {
                return;
            }
            let name = command.get_name().to_owned();
            let is_empty =
                |text: Option<&clap::builder::StyledStr>| text.is_none_or(|text| text.to_string().trim().is_empty());
            if is_empty(command.get_about()) {
                empty.push(name.clone());
            }
            for arg in command.get_arguments() {
                if is_empty(arg.get_help()) {
                    empty.push(format!("{name} {}", arg.get_id()));
                }
            }
        });
        assert_eq!(empty, Vec::<String>::new());
    }

    #[test]
    fn only_commands_that_ask_a_cluster_show_its_options() {
        let help = |words: &[&str]| {
            let words = [&["ctl"], words, &["--help"]].concat();
            let error = Cli::called(Programs::called()).try_get_matches_from(words).expect_err("help");
            assert_eq!(error.kind(), clap::error::ErrorKind::DisplayHelp, "{error}");
            error.to_string()
        };
        for words in [&["sim", "run"][..], &["up"], &["bench", "failover"], &["algorithms"], &["man"], &["init"]] {
            let text = help(words);
            for option in ["--config", "--endpoints", "--secret-file", "--member-timeout"] {
                assert!(!text.contains(&format!("{option} <")), "{words:?} shows {option}: {text}");
            }
            assert!(text.contains("--output"), "{words:?}: {text}");
        }
        for words in [&["status"][..], &["member", "list"], &["demo", "counter"]] {
            assert!(help(words).contains("--endpoints"), "{words:?}");
        }
        let before = ["ctl", "--config", "c.toml", "sim", "run", "--nodes", "3", "--timeout", "9s"];
        let matches = Cli::called(Programs::called()).try_get_matches_from(before).unwrap();
        let globals = Cli::from_arg_matches(&matches).unwrap().globals;
        assert_eq!((globals.config, globals.timeout), (Some("c.toml".into()), Duration::from_secs(9)));
    }
}
