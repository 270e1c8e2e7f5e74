//! Textbook machines: every election of the catalog as a pure state machine. Mutual exclusions have a catalog of their
//! own, [`catalog::mutex`], and are machines of the same kind.
//!
//! # The contract
//!
//! A machine implements [`Protocol`]. It has no clock, no randomness and no I/O of its own: a driver lends it a
//! [`Ctx`], feeds it one [`Input`] at a time and carries out what it puts into the [`Outbox`]. A driver is a loop:
//!
//! ```text
//! machine = Protocol::start(ctx, stored record, outbox)
//! loop {
//!     input = the next message, due timer, command, peer change or finished background write
//!     machine.step(ctx with a fresh dice word, input, outbox)
//!     carry out the effects in call order:
//!         send, forward   hand the message to the link; links are reliable and FIFO, or they break as a whole
//!         set_timer       replaces a timer of the same name; cancel_timer removes it; a fired timer is gone
//!         persist         nothing after it happens before the record is on the disk
//!         store           as persist, but nothing waits; Input::Stored reports completion
//!         announce        publish the event
//! }
//! ```
//!
//! The part of this loop that is the same everywhere (order, barrier, timers) is [`drive::Driver`].
//!
//! What a driver owes: due timers before any other input; messages of one link in order; self-sends (a ring of one)
//! come back as messages; nothing after a crash. What a machine owes: same state, context and input give the same
//! effects; a durable record that changed is persisted before anything of the same step is sent or announced.
//!
//! Machines never see epochs, rounds or heartbeats: those belong to the `member` crate.

#[macro_use]
mod protocol;

pub mod catalog;
pub mod drive;
pub mod election;
pub mod mutex;
mod settings;
mod synchroniser;
pub mod theory;
mod view;

pub use mutex::{Access, Mutex, MutexSettings, Section, Stage, Want};
pub use protocol::{
    Campaign, Ctx, Data, Election, Features, Group, Input, Kind, Message, Next, Outbox, Outcome, Protocol, Rounds,
    Span, StateVector, Status,
};
pub use settings::{Ranks, Settings};
pub use synchroniser::{Frame, Synchronised};
pub use types::{Epoch, NodeId, Token, Topology, Uid, Wins};
pub use view::{Edge, Link, Shape, Side, TypedLink, View};
