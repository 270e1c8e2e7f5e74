//! Every mutual exclusion of the catalog under the same harness: no algorithm is named here except where a published
//! figure or a known mistake is.

mod audit;
mod counts;
mod golden;
mod mutants;
mod planted;
mod properties;
mod run;
mod world;
