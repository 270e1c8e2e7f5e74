//! A guarded command: it runs below a small second process, the *guard*, which is its parent and kills the command and
//! all its descendants when it is told to, when `ctl` dies, or when a deadline passes that `ctl` has not moved.
//!
//! `ctl` keeps the same deadline and kills the same processes itself. So they end in time as long as one of the two is
//! scheduled. [`process`] is the guard, [`GuardHandle`] is `ctl`'s end of it, [`tree`] finds and kills for both.

mod charge;
pub(crate) mod grace;
mod guard_handle;
mod message;
pub(crate) mod process;
mod progress;
mod schedule;
mod signals;
mod tree;

pub(crate) use charge::{Charge, End, Terms, Turn};
use guard_handle::GuardHandle;
pub(crate) use message::Deadlines;
use message::Report;
pub(crate) use progress::Progress;
pub(crate) use signals::Signals;
