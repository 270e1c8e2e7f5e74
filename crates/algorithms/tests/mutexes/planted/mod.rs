//! Known wrong readings of the papers: copies of machines with one mistake each, and a layer that damages what a machine
//! of the catalog sends. The harness here and the model checker must catch each of them.
//!
//! Which mistake a copy makes, the random word says, from which no mutual exclusion draws: a harness is compiled once for all
//! mistakes of a copy.

pub(crate) mod damaged;
pub(crate) mod queue;
pub(crate) mod replies;
pub(crate) mod ring;

use algorithms::{Ctx, MutexSettings};

type Context<'a> = Ctx<'a, MutexSettings>;

/// A copy without a mistake.
pub(crate) const NONE: u8 = 0;

/// The mistake that the random word names.
fn chosen(ctx: &Context<'_>) -> u8 {
    (ctx.dice & u64::from(u8::MAX)) as u8
}
