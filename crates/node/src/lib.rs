//! The daemon: one process per machine.
//!
//! - [`config`]: what it is told. [`storage`]: what it remembers. [`records`]: the member's part of that.
//! - [`daemon`]: the event loop, the only task; it owns all machines and all sockets.
//! - [`host`]: drives one member as bytes and timers. [`disk`]: the thread that waits for fsync.
//! - [`descriptors`]: why such threads have open files of their own.
//! - [`chaos`]: faults on purpose, if the config allows them.
//! - [`face`]: what it shows, compared with the [`clock`]. [`votes`]: may it go on with its disk?
//! - [`ledger`]: what happened, for `ctl history` and `ctl audit`.
//! - [`hooks`]: the thread that runs the operator's command at every change.
//! - [`log`] and [`notify`]: telling people and the service manager.

mod chaos;
mod clock;
pub mod config;
pub mod daemon;
mod descriptors;
mod disk;
mod face;
mod hooks;
mod host;
pub mod ledger;
pub mod log;
mod notify;
pub mod records;
pub mod storage;
pub mod votes;
