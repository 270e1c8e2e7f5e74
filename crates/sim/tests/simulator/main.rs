//! Bare runs, fault runs, pictures, and the page of invariants.

mod authorities;
mod bare;
mod faults;
mod invariants_page;
mod mutexes;
mod pictures;
mod promises;
mod succession;
