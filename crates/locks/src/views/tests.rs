//! Views of a few members over connections that are reliable or break, under a clock of milliseconds.

mod cluster;
mod failures;
mod golden;
mod service;

use algorithms::Mutex;
use algorithms::catalog::mutex as catalog;

/// Runs a test for every algorithm of the catalog.
pub(crate) trait ForEach {
    fn run<M: Mutex>(&self, name: &str);
}

pub(crate) fn every_algorithm(test: &impl ForEach) {
    struct Visit<'a, T>(&'a T);
    impl<T: ForEach> catalog::Visitor for Visit<'_, T> {
        type Output = ();
        fn mutex<M: Mutex>(self, row: &'static catalog::Row) {
            self.0.run::<M>(row.name);
        }
    }
    for row in catalog::ROWS {
        catalog::dispatch(row, Visit(test));
    }
}
