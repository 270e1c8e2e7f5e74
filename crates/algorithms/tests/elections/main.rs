//! Every row of the catalog under the same harness: no algorithm is named here except where a published figure is.

mod audit;
mod counts;
mod driver;
mod golden;
mod graph_mutants;
mod graphs;
mod layered_mutants;
mod lockstep;
mod mutants;
mod properties;
mod raft;
mod subject;
mod timed;
