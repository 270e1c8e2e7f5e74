//! Every mutual exclusion of the catalog, in every interleaving of three members, and the planted mistakes.

#[path = "../../../algorithms/tests/mutexes/planted/mod.rs"]
mod planted;

mod mistakes;

use algorithms::Access::{self, Exclusive, Shared};
use algorithms::Mutex;
use algorithms::catalog::mutex::{self, Links, ROWS, Row, Visitor};
use model::check::{Limits, Report, examine};
use model::mutex::{EXCLUSION, Sections};

#[derive(Clone, Copy)]
struct Case<'a> {
    requests: &'a [Vec<Access>],
    under_holder: bool,
    links: Links,
    limits: Limits,
}

impl Visitor for Case<'_> {
    type Output = Report;

    fn mutex<M: Mutex>(self, row: &'static Row) -> Report {
        let mut model = Sections::<M>::new(row, self.requests);
        if self.under_holder {
            model = model.under_every_holder();
        }
        model.links = self.links;
        let holder = if self.under_holder { ", under every holder" } else { "" };
        let times: Vec<usize> = self.requests.iter().map(Vec::len).collect();
        examine(format!("{} requests {times:?}, {:?}{holder}", row.name, self.links), &model, self.limits)
    }
}

/// Writers; where there are readers, every second one is.
fn requests(row: &Row, times: &[usize]) -> Vec<Vec<Access>> {
    let access = |at: usize, nth: usize| if row.shared && (at + nth).is_multiple_of(2) { Shared } else { Exclusive };
    times.iter().enumerate().map(|(at, &times)| (0..times).map(|nth| access(at, nth)).collect()).collect()
}

fn check(row: &'static Row, times: &[usize], under_holder: bool, links: Links) -> Report {
    // All states of two members; of three, as many as the default run has time for.
    let (states, walks) = if times.len() < 3 { (200_000, 50_000) } else { (50_000, 15_000) };
    let (requests, limits) = (requests(row, times), Limits::new(states, walks));
    mutex::dispatch(row, Case { requests: &requests, under_holder, links, limits })
}

/// Too many states to see all of them where machines have clocks: `CONCLAVE_MODEL_FACTOR=80` does.
#[test]
fn three_members_ask_twice_each() {
    for row in ROWS {
        check(row, &[2, 2, 2], false, row.links).holds();
    }
}

#[test]
fn two_members_ask_twice_each_and_two_of_three_members_once() {
    for row in ROWS {
        check(row, &[2, 2], false, row.links).holds().is_complete();
        check(row, &[1, 0, 1], false, row.links).holds().is_complete();
    }
}

#[test]
fn a_view_begins_under_each_of_its_members() {
    for row in ROWS {
        check(row, &[1, 1, 1], true, row.links).holds();
        check(row, &[2, 2], true, row.links).holds().is_complete();
    }
}

#[test]
fn rows_that_need_fifo_links_keep_the_exclusion_only_with_them() {
    let fifo: Vec<&Row> = ROWS.iter().filter(|row| row.links == Links::Fifo).collect();
    assert!(!fifo.is_empty());
    let broken = fifo.into_iter().filter(|row| {
        let row = mutex::row(row.name).expect("a row");
        check(row, &[2, 2], false, Links::AnyOrder).broken.contains_key(EXCLUSION)
    });
    assert!(broken.count() > 0, "no row needs what it assumes");
}
