//! The daemon: one process per machine.
//!
//! - [`config`]: what it is told. [`storage`]: what it remembers.
//! - [`daemon`]: the event loop, the only task; it owns all machines and all sockets.
//! - [`host`]: drives one member as bytes and timers. [`disk`]: the thread that waits for fsync.
//! - [`hooks`]: the thread that runs the operator's command at every change.
//! - [`log`] and [`notify`]: telling people and the service manager.

pub mod config;
pub mod daemon;
mod disk;
mod hooks;
mod host;
pub mod log;
mod notify;
pub mod storage;
