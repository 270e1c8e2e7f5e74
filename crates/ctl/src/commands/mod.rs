//! One file per subcommand.

pub(crate) mod algorithms;
pub(crate) mod audit;
pub(crate) mod bench;
pub(crate) mod bootstrap;
pub(crate) mod chaos;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod elect;
pub(crate) mod explain;
pub(crate) mod fence_check;
pub(crate) mod history;
pub(crate) mod init;
pub(crate) mod lead;
pub(crate) mod leader;
mod leadership_change;
mod ledgers;
pub(crate) mod lock;
pub(crate) mod locks;
pub(crate) mod man;
pub(crate) mod member;
pub(crate) mod pause;
pub(crate) mod priority;
pub(crate) mod reload;
pub(crate) mod resume;
pub(crate) mod secret;
mod shared_args;
#[cfg(feature = "simulator")]
pub(crate) mod sim;
#[cfg(not(feature = "simulator"))]
#[path = "no_sim.rs"]
pub(crate) mod sim;
pub(crate) mod status;
pub(crate) mod step_down;
mod theory;
pub(crate) mod top;
pub(crate) mod transfer;
pub(crate) mod unlock;
pub(crate) mod up;
pub(crate) mod watch;
