//! The simulator: the machines of the catalog alone, counted exactly, and whole members under seeded faults.
//!
//! - [`Experiment`] runs a bare algorithm on 1..10^7 nodes and compares its cost with theory.
//!   [`step_through`] lets a caller choose each delivery; [`Recording`] records, [`draw`], [`animate`], [`shiviz`] and [`chrome`]
//!   show.
//! - [`sweep`] runs many of them over sizes, for tables and plots; [`bench_sim`] measures the simulator itself.
//! - [`MutexExperiment`] runs a mutual exclusion under a workload.
//! - [`run_faults`] runs whole members under faults, and checks the invariants.

mod animate;
mod bare;
mod bench;
mod check_run;
mod clock;
mod diagram;
mod draw;
mod experiment;
mod export;
mod faults;
mod graph;
mod mutex;
mod observe;
mod order;
mod plot;
mod rng;
mod step;
mod svg;
mod sweep;

pub use animate::animate;
pub use bare::{Initiators, Verdict};
pub use bench::{BenchReport, bench_row, bench_sim};
pub use draw::{MAX_DRAWN_MESSAGES, MAX_DRAWN_NODES, draw};
pub use experiment::{Experiment, Ignores, KindCount, Messages, Report, Schedule};
pub use export::{chrome, shiviz};
pub use faults::{
    Announced, FaultKind, FaultOptions, FaultReport, INVARIANTS, InvariantInfo, ManyReport, Stats, Subject, Trouble,
    Violation, run_faults, run_many, run_subject, run_trouble,
};
pub use graph::Graph;
pub use member::Safety;
pub use mutex::{
    Comparison, Contention, Dinner, MUTEX_MEMBERS_MAX, MutexChoice, MutexEvent, MutexExperiment, MutexObserver,
    MutexRecording, MutexReport, MutexSteps, MutexTheory, MutexWhat, Observed, Table, Times, TokenFault, Wait,
    chrome_mutex, compare, dine, draw_mutex, shiviz_mutex, step_mutex,
};
pub use observe::{Blind, Mark, Observer, Passage, ROUND, Recording, RoundSummary, What};
pub use order::Order;
pub use plot::{Series, plot};
pub use rng::Rng;
pub use step::{Choice, Steps, step_through};
pub use sweep::{SweepOptions, SweepReport, SweepRow, sweep};
