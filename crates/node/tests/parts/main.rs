//! Parts of the daemon, each alone: config, state file, ledger, the shape of the source, and the
//! settings of the tests. No test here starts a process: a child would hold the lock of a data directory for a moment.

mod architecture;
mod config;
mod ledger;
mod ledger_chain;
mod storage;
mod testing;
