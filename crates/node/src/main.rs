//! `node`: one member of a Conclave cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use algorithms::NodeId;
use clap::Parser;
use node::config::{Config, Problems};
use node::recovery::Forced;
use node::startup_check::{Mismatch, Start};
use node::{daemon, log};
use types::{ClusterId, Token};

/// One member of a Conclave cluster.
///
/// Exit codes: 0 left in order or removed from the cluster, 1 failed (damaged state, failing disk, port in use, duplicate id),
/// 2 bad config or secret, or a volume that belongs elsewhere or to a member that was removed.
#[derive(Parser, Debug)]
#[command(version, about)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
struct Args {
    /// The cluster's config, the same file for all members
    #[arg(long, env = "CONCLAVE_CONFIG", value_name = "FILE")]
    config: PathBuf,
    /// The id of this process in the config's [[peers]]
    #[arg(long, env = "CONCLAVE_ID", value_name = "N")]
    id: Option<u32>,
    /// The data directory [default: data/nN below the working directory, N being the id]
    #[arg(long, env = "CONCLAVE_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The format of log lines on stderr; CONCLAVE_LOG=debug shows more of them
    #[arg(long, value_enum, default_value = "text")]
    log: log::Format,
    /// Report every problem of the config and exit
    #[arg(long)]
    check: bool,
    /// Begin a new cluster without an answer of all its voters: nothing was ever granted
    #[arg(long)]
    bootstrap: bool,
    /// Continue with another lease or max_drift than that of the votes on disk; all members must have been stopped
    #[arg(long)]
    accept_members: bool,
    /// The data directory was moved here from another machine or directory, and no copy of it is left behind
    #[arg(long)]
    moved: bool,
    /// A majority of the voters is lost for ever: begin a new cluster of this member alone, N being its own id
    #[arg(long, value_name = "N", value_delimiter = ',', requires = "lost", conflicts_with = "bootstrap")]
    force_voters: Vec<u32>,
    /// With --force-voters: the voters that are off and stay off
    #[arg(long, value_name = "N,N", value_delimiter = ',', requires = "force_voters")]
    lost: Vec<u32>,
    /// With --force-voters: the largest token that any resource has seen; all new tokens are larger
    #[arg(long, value_name = "TOKEN", requires = "force_voters")]
    token_above: Option<u64>,
    /// With --force-voters: no resource can tell which tokens it has seen
    #[arg(long, requires = "force_voters", conflicts_with = "token_above")]
    token_unknown: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let config = match Config::load(&args.config) {
        Ok(config) => config,
        Err(problems) => return complain(&problems, 2),
    };
    let start_as = args.id.map(|id| config.start_as(NodeId(id)).map(|()| NodeId(id)));
    if args.check {
        // Port 0 is valid in a check: only an id that is not in the list is a problem there.
        let unknown = args.id.is_some_and(|id| config.join.is_empty() && config.peer(NodeId(id)).is_none());
        if let (true, Some(Err(problems))) = (unknown, &start_as) {
            return complain(problems, 2);
        }
        if let Err(problems) = config.check_keyring(args.id.map(NodeId)) {
            return complain(&problems, 2);
        }
        let members = match config.join.len() {
            0 => format!("{} peers", config.peers.len()),
            addresses => format!("joins by {addresses} addresses"),
        };
        println!("{}: ok, {members}, {}", args.config.display(), config.row.name);
        return ExitCode::SUCCESS;
    }
    let id = match start_as {
        Some(Ok(id)) => id,
        Some(Err(problems)) => return complain(&problems, 2),
        None => return complain(&"which peer is this? Start it with --id N or CONCLAVE_ID", 2),
    };
    run(&args, config, id)
}

/// Handshakes, the listener and other tasks that run between two turns of the event loop: strangers must not delay a
/// heartbeat, and a step of a handshake may take a fraction of a millisecond.
const TASKS_PER_TURN: u32 = 8;

fn run(args: &Args, config: Config, id: NodeId) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().event_interval(TASKS_PER_TURN).build();
    match runtime {
        Ok(runtime) => runtime.block_on(serve(args, config, id)),
        Err(error) => complain(&format!("cannot start: {error}"), 1),
    }
}

async fn serve(args: &Args, config: Config, id: NodeId) -> ExitCode {
    if std::env::var_os("CONCLAVE_DIE_WITH_PARENT").is_some() {
        // Set by `ctl up`: no member survives the command that started it.
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    }
    if let Err(error) = log::init(args.log) {
        return complain(&error, 1);
    }
    match types::bent_for_a_test() {
        Ok(None) => {}
        Ok(Some(how)) => tracing::warn!("CONCLAVE_TEST_CLOCK bends the clocks of this process for a test: {how}"),
        Err(error) => return complain(&error, 1),
    }
    for notice in &config.notices {
        tracing::warn!("{notice}");
    }
    let data_dir = args.data_dir.clone().unwrap_or_else(|| PathBuf::from(format!("data/n{id}")));
    let force = match forced(args) {
        Ok(force) => force,
        Err(problem) => return complain(&problem, 2),
    };
    let start = Start { bootstrap: args.bootstrap, accept_members: args.accept_members, moved: args.moved, force };
    let result = Box::pin(daemon::run(config, id, data_dir, start)).await;
    log::drain();
    match result {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(list)) => complain(&format!("removed in {list}: this member takes no part in the cluster any more"), 0),
        Err(error) => {
            complain(&format!("{error:#}"), if error.is::<Mismatch>() || error.is::<Problems>() { 2 } else { 1 })
        }
    }
}

/// What the operator says about voters that are lost for ever.
fn forced(args: &Args) -> Result<Option<Forced>, String> {
    if args.force_voters.is_empty() {
        return Ok(None);
    }
    if args.token_above.is_none() && !args.token_unknown {
        return Err("--force-voters needs the largest token that any resource has seen (--token-above T), or \
                    --token-unknown"
            .into());
    }
    let mut word = [0; 16];
    getrandom::fill(&mut word).map_err(|error| format!("the kernel gives no randomness: {error}"))?;
    let ids = |ids: &[u32]| ids.iter().copied().map(NodeId).collect();
    Ok(Some(Forced {
        voters: ids(&args.force_voters),
        lost: ids(&args.lost),
        token_above: args.token_above.map(Token),
        cluster: ClusterId(u128::from_le_bytes(word)),
    }))
}

fn complain(problem: &dyn std::fmt::Display, code: u8) -> ExitCode {
    eprintln!("node: {problem}");
    ExitCode::from(code)
}
