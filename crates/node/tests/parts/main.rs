//! Parts of the daemon, each alone: config, state file, ledger, the binary with bad input, the shape of the source, and the
//! settings of the tests.

mod architecture;
mod cli;
mod config;
mod ledger;
mod storage;
mod testing;
