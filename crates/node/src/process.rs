//! The process of a member: its command line, its log and its exit code.

use std::path::PathBuf;
use std::process::ExitCode;

use algorithms::NodeId;
use client::Programs;
use tokio::signal::unix::{SignalKind, signal};
use types::{ClusterId, Token};

use crate::arguments::Args;
use crate::config::{Config, Problems};
use crate::recovery::Forced;
use crate::startup_check::{Mismatch, Start};
use crate::{daemon, error_text, log, preflight};

pub fn main() -> ExitCode {
    let args = Args::from_command_line();
    let config = match Config::load(&args.config) {
        Ok(config) => config,
        Err(problems) => return complain(&problems, 2),
    };
    let start_as = args.id.map(|id| config.start_as(NodeId(id)).map(|()| NodeId(id)));
    if args.check {
        return check(&args, &config);
    }
    let id = match start_as {
        Some(Ok(id)) => id,
        Some(Err(problems)) => return complain(&problems, 2),
        None => return complain(&"which peer is this? Start it with --id N or CONCLAVE_ID", 2),
    };
    run(&args, config, id)
}

/// Everything that `run` would refuse is an error; what may be different on another machine or later is a warning.
fn check(args: &Args, config: &Config) -> ExitCode {
    let found = preflight::check(config, args.id.map(NodeId));
    for warning in &found.warnings {
        eprintln!("warning: {}", Programs::called().in_words(&warning.to_string()));
    }
    if let Some(problems) = found.problems {
        return complain(&problems, 2);
    }
    let members = match config.join.len() {
        0 => format!("{} peers", config.peers.len()),
        addresses => format!("joins by {addresses} addresses"),
    };
    println!("{}: ok, {members}, {}", args.config.display(), config.row.name);
    ExitCode::SUCCESS
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
    // Neither ends a member, from its first moment on; the event loop answers the first one with a log line.
    for kind in [SignalKind::user_defined1(), SignalKind::user_defined2()] {
        if let Err(error) = signal(kind) {
            return complain(&error, 1);
        }
    }
    if let Err(error) = log::init(args.log, &config.log_level) {
        return complain(&error, 1);
    }
    match types::bent_for_a_test() {
        Ok(None) => {}
        Ok(Some(how)) => tracing::warn!("CONCLAVE_TEST_CLOCK bends the clocks of this process for a test: {how}"),
        Err(error) => return complain(&error, 1),
    }
    if transport::is_next_for_a_test() {
        tracing::warn!("CONCLAVE_TEST_NEXT_VERSION: this process plays the next protocol version for a test");
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
        Err(error) => complain(
            &error_text::with_causes(&error),
            if error.is::<Mismatch>() || error.is::<Problems>() { 2 } else { 1 },
        ),
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
    let programs = Programs::called();
    let own = programs.node.rsplit('/').next().unwrap_or_default();
    eprintln!("{own}: {}", programs.in_words(&problem.to_string()));
    ExitCode::from(code)
}
