//! Models for an exhaustive checker, over the very machines that run live: every interleaving of small clusters.
//!
//! - [`bare`]: an election machine of the catalog on reliable FIFO links.
//! - [`synchronous`]: an algorithm of synchronous rounds, woken in every possible round.
//! - [`mutex`]: a mutual exclusion of the catalog on reliable links.
//! - [`members`]: whole members with connections, crashes between effects, restarts and false suspicions.
//! - [`reign`]: the quorum's reign alone, with the clock, late and repeated messages, crashes and lost disks.
//! - [`views`]: locks in views, with the clock, crashes, restarts, broken connections and changes of the leader.
//! - [`locks`]: the lock service of a few voters and the sessions of two clients, under changing leaders.
//! - [`mistake`]: which rule the machines break on purpose; in the models of what ships, none.
//! - [`extent`]: how many effects of a step are carried out before a crash or a slow write.
//! - [`check`]: runs a model, reports how much of it was searched, and names the broken properties.
//!
//! Nodes are `algorithms::drive::Driver`s: effect order, the barrier of a write and timers are those of the daemon.
//!
//! Messages are never duplicated, except in a reign: a TCP connection does not duplicate, and messages in flight on a
//! broken connection are lost, not resent. Every `always` property has a `sometimes` beside it, so that a model in
//! which nothing happens fails.

pub mod bare;
pub mod check;
mod erased;
pub mod extent;
pub mod locks;
pub mod members;
pub mod mistake;
pub mod mutex;
mod properties;
mod queues;
pub mod reign;
pub mod synchronous;
mod time;
pub mod views;
