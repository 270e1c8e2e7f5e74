//! The command line of Conclave. One file per subcommand in [`mod@commands`]; [`cluster`] runs clusters of real
//! processes for `up`, `bench` and the live tests.

mod args;
pub mod cluster;
mod commands;
mod connection_options;
mod failure;
mod guard;
mod output;

use std::process::ExitCode;

use crate::args::{Cli, Command};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Parses the command line, runs the command, and turns its end into an exit code.
pub fn main() -> ExitCode {
    let cli = Cli::from_command_line();
    let format = cli.globals.output;
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::new(Exit::Failed, format!("cannot start: {error}")).report(format),
    };
    match runtime.block_on(run(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(format),
    }
}

async fn run(cli: Cli) -> Result<(), Failure> {
    use commands as c;
    let globals = &cli.globals;
    let output = Output::new(globals.output, globals.color);
    match cli.command {
        Command::Leader(args) => c::leader::run(&args, globals, output).await,
        Command::Status(args) => c::status::run(&args, globals, output).await,
        Command::Top(args) => c::top::run(&args, globals, output).await,
        Command::Watch(args) => c::watch::run(&args, globals, output).await,
        Command::History(args) => c::history::run(&args, globals, output).await,
        Command::Audit(args) => c::audit::run(&args, globals, output).await,
        Command::Explain(args) => c::explain::run(&args, globals, output).await,
        Command::Elect(args) => c::elect::run(&args, globals, output).await,
        Command::Transfer(args) => c::transfer::run(&args, globals, output).await,
        Command::Pause(args) => c::pause::run(&args, globals, output).await,
        Command::Resume(args) => c::resume::run(&args, globals, output).await,
        Command::Priority(args) => c::priority::run(&args, globals, output).await,
        Command::Reload(args) => c::reload::run(&args, globals, output).await,
        Command::Member(args) => c::member::run(&args, globals, output).await,
        Command::Bootstrap(args) => c::bootstrap::run(&args, globals, output).await,
        Command::StepDown(args) => c::step_down::run(&args, globals, output).await,
        Command::Chaos(args) => c::chaos::run(&args, globals, output).await,
        Command::Lead(args) => c::lead::run(&args, globals).await,
        Command::Lock(args) => c::lock::run(&args, globals).await,
        Command::Locks(args) => c::locks::run(&args, globals, output).await,
        Command::Unlock(args) => c::unlock::run(&args, globals, output).await,
        Command::Demo(args) => c::demo::run(&args, globals, output).await,
        Command::FenceCheck(args) => c::fence_check::run(&args, output),
        Command::Up(args) => c::up::run(&args, globals, output).await,
        Command::Init(args) => c::init::run(&args, output),
        Command::Secret(args) => c::secret::run(&args, globals, output).await,
        Command::Config(args) => c::config::run(&args),
        Command::Algorithms(args) => c::algorithms::run(&args, output),
        Command::Bench(args) => c::bench::run(args, globals, output).await,
        Command::Sim(args) => c::sim::run(args, output),
        Command::Completions(args) => c::completions::run(&args),
        Command::Man(args) => c::man::run(&args),
        Command::Guard(args) => guard::process::run(&args).await,
    }
}
