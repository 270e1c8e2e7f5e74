//! Models for an exhaustive checker, over the very machines that run live: every interleaving of small clusters.
//!
//! - [`bare`]: an election machine of the catalog on reliable FIFO links.
//! - [`synchronous`]: an algorithm of synchronous rounds, woken in every possible round.
//! - [`members`]: whole members with connections, crashes between effects, restarts and false suspicions.
//! - [`reign`]: the quorum's reign alone, with the clock, late and repeated messages, crashes and lost disks.
//! - [`extent`]: how far the effects of a step get before a crash or a slow write.
//! - [`check`]: runs a model, says how much of it was seen, and names what broke.
//!
//! Nodes are `algorithms::drive::Driver`s: effect order, the barrier of a write and timers are the ones that run live.
//!
//! Messages are never duplicated, except in a reign: a TCP connection does not, and what a broken connection had in
//! flight is lost, not resent. Every `always` property stands beside a `sometimes`, so that a model that does nothing
//! passes nothing.

pub mod bare;
pub mod check;
pub mod extent;
pub mod members;
pub mod reign;
pub mod synchronous;
mod time;
