//! `ctl sim` where the simulator was left out: in container images, whose members need no simulator and should be small.

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Not in this program: it was built without the simulator
#[derive(clap::Args, Debug)]
#[command(hide = true, disable_help_flag = true)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _any: Vec<String>,
}

pub(crate) fn run(_: Args, _: Output) -> Result<(), Failure> {
    let reason = "this ctl was built without the simulator, as in container images";
    Err(Failure::new(Exit::Usage, reason)
        .hint("./scripts/ctl sim, in a checkout, or conclavectl sim, where the package is installed"))
}
