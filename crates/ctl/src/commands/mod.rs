//! One file per subcommand.

pub(crate) mod algorithms;
pub(crate) mod bench;
mod change;
mod choices;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod elect;
pub(crate) mod fence_check;
pub(crate) mod init;
pub(crate) mod lead;
pub(crate) mod leader;
pub(crate) mod man;
pub(crate) mod sim;
pub(crate) mod status;
pub(crate) mod step_down;
pub(crate) mod up;
pub(crate) mod watch;
