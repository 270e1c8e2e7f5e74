//! The simulator: the machines of the catalog alone, counted exactly, and whole members under seeded faults.
//!
//! - [`Experiment`] runs a bare algorithm on 1..10^7 nodes and compares its cost with theory.
//! - [`run_faults`] runs whole members while everything goes wrong, and checks the invariants.

mod bare;
mod bench;
mod experiment;
mod faults;
mod judge;
mod observe;
mod order;
mod rng;

pub use bare::{Initiators, Verdict};
pub use bench::{BenchReport, bench_row, bench_sim};
pub use experiment::{Experiment, KindCount, Messages, Report, Schedule};
pub use faults::{
    Announced, FaultKind, FaultOptions, FaultReport, ManyReport, Stats, Subject, Violation, run_faults, run_many,
    run_subject,
};
pub use observe::{Blind, Mark, Observer, Passage, ROUND, Recording, RoundSummary, What};
pub use order::Order;
pub use rng::Rng;
