//! Known wrong readings of the papers: copies of machines with one mistake each, and a layer that damages what a machine
//! of the catalog sends. The harness here and the model checker must catch each of them.

pub(crate) mod damaged;
pub(crate) mod queue;
pub(crate) mod replies;
pub(crate) mod ring;

use algorithms::{Ctx, MutexSettings};

type Context<'a> = Ctx<'a, MutexSettings>;
