//! The simulator: the machines of the catalog alone, counted exactly, and whole members under seeded faults.
//!
//! - [`Experiment`] runs a bare algorithm on 1..10^7 nodes and compares its cost with theory.

mod bare;
mod bench;
mod experiment;
mod judge;
mod observe;
mod order;
mod rng;

pub use bare::{Initiators, Verdict};
pub use bench::{BenchReport, bench_row, bench_sim};
pub use experiment::{Experiment, KindCount, Messages, Report, Schedule};
pub use observe::{Blind, Mark, Observer, Passage, ROUND, Recording, RoundSummary, What};
pub use order::Order;
pub use rng::Rng;
