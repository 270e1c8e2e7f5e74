//! A command on a leash: it runs below a small second process, the *guard*, which is its parent and kills everything
//! that came of it when it is told to, when `ctl` dies, or when a deadline passes that nobody has moved.
//!
//! `ctl` keeps the same deadline and kills the same tree itself. So the tree ends in time as long as one of the two is
//! scheduled. [`process`] is the guard, [`Leash`] is `ctl`'s end of it, [`tree`] is how both find and kill.

mod leash;
mod message;
pub(crate) mod process;
mod tree;

pub(crate) use leash::Leash;
pub(crate) use message::{Deadlines, Report};
