//! The daemon: one process per machine.
//!
//! - [`process`]: the whole of it, from the command line to the exit code. [`arguments`]: the command line.
//! - [`config`]: the operator's file. [`preflight`]: `node --check`. [`storage`]: the state file. [`records`]: the records of each instance in it.
//!   [`startup_check`]: may this process start with the state on its disk? [`binding`]: does the disk belong here?
//! - [`daemon`]: the event loop, the only task; it owns all machines and all sockets.
//! - [`instance`]: one machine as bytes and timers. [`as_bytes`]: its messages and records. [`election_meter`]: what its elections cost.
//! - [`disk`]: the thread that waits for fsync. [`descriptors`]: why such threads have open files of their own.
//! - [`publisher`]: the one stream of what happens, and its subscribers: watchers, [`ledger`], [`log`], [`notify`] (the
//!   service manager) and [`hooks`] (the operator's command).
//! - [`priority_command`]: the operator's command that prints this member's priority. [`shell`]: commands of operators.
//! - [`offline`]: the data directory of a member that does not run, for `ctl`.
//! - [`http`]: the thread of the HTTP face.
//! - [`error_text`]: errors with their causes.
//! - [`visible_state`]: what other tasks may read at any time, compared with the clock.
//! - [`roster`]: the members that this process knows, which may change while it runs.
//! - [`chaos`]: faults on purpose, if the config allows them.

pub mod arguments;
pub mod as_bytes;
pub mod binding;
mod bounded;
mod chaos;
pub mod config;
pub mod daemon;
mod descriptors;
mod disk;
mod election_meter;
pub mod error_text;
mod hooks;
mod http;
mod instance;
pub mod ledger;
mod lock_machine;
pub mod log;
mod notify;
pub mod offline;
mod peer_clocks;
pub mod preflight;
mod priority_command;
pub mod process;
mod publisher;
pub mod records;
pub mod recovery;
mod roster;
mod shell;
pub mod startup_check;
pub mod storage;
mod traffic;
mod visible_state;

/// The release of this process, as `ctl status` shows it.
pub(crate) fn version() -> String {
    let next = if transport::is_next_for_a_test() { "+next" } else { "" };
    env!("CARGO_PKG_VERSION").to_owned() + next
}
