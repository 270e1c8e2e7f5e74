//! The command line. Global options may come before or after the subcommand.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    algorithms, audit, bench, bootstrap, chaos, completions, config, demo, elect, explain, fence_check, history, init,
    lead, leader, lock, locks, man, member, priority, secret, sim, status, step_down, transfer, unlock, up, watch,
};
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
    Watch(watch::Args),
    History(history::Args),
    Audit(audit::Args),
    Explain(explain::Args),
    Elect(elect::Args),
    StepDown(step_down::Args),
    Transfer(transfer::Args),
    Priority(priority::Args),
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
