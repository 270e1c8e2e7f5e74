//! Locks with fencing tokens, as pure state machines: the table of locks that belongs to a reign, its copies at the
//! voters, and the client's side of a session.
//!
//! - [`wire`]: what a client and the clerk (the leader of a quorum reign) say to each other.
//! - [`central`]: the machine behind them: the clerk, and the copies of its table.
//! - [`views`]: the other algorithms, which need a machine at every member.
//! - [`session`]: the client's side of a session; [`right`]: until when it may act.
//! - [`service`]: what the daemon tells the lock service of one member, and what the service asks of the daemon.

pub mod catalog;
pub mod central;
pub mod name;
pub mod right;
pub mod service;
pub mod session;
pub mod views;
pub mod wire;

pub use name::{LockName, NameError};
