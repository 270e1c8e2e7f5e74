//! Exhaustive models over the machines that run in production, and the planted bugs that check the checkers.

mod bare;
mod list_starts;
mod lists;
mod members;
mod planted;
mod priorities;
mod quorum;
mod raft;
mod reign;
mod wrapper;
