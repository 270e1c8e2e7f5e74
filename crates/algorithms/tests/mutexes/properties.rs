//! What holds for every row, whatever it costs.

use algorithms::catalog::mutex::{self, Links, ROWS};
use algorithms::{Access, Want};

use crate::audit::{audit, is_unfair, mixed, survey};
use crate::run::{Plan, Problem, Schedule, plain, shuffled, subject, writers};

const SEEDS: u64 = 60;

#[test]
fn every_row_keeps_its_promises_in_every_order_that_it_allows() {
    for row in ROWS {
        let survey = survey(row, &*subject(row), row.links, SEEDS, None);
        assert!(survey.first.is_none(), "{survey:?}");
        println!("{:24} {} runs, {} entries", row.name, survey.runs, survey.entries);
        assert!(survey.entries > 1000);
    }
}

#[test]
fn overtaking_messages_break_the_row_that_needs_fifo_links_for_its_exclusion() {
    for (name, breaks) in [("lamport", true), ("ricart-agrawala", false)] {
        let row = mutex::row(name).expect("a row");
        let survey = survey(row, &*subject(row), Links::AnyOrder, SEEDS, None);
        assert_eq!(survey.has(Problem::Overlap), breaks, "{survey:?}");
    }
}

/// The rows that promise nothing do break happened-before: so the check sees what it is for.
#[test]
fn rows_without_fairness_serve_a_later_request_first_where_members_talk_to_each_other() {
    for row in ROWS {
        let mut unfair = 0;
        for seed in 0..3000 {
            let (view, requests) = (shuffled(row.topology, 4), mixed(row, &[2; 4]));
            let links = row.links;
            let plan = Plan { schedule: Schedule::Random, links, gossip: 12, seed, ..plain(&view, &requests) };
            unfair += usize::from(is_unfair(&subject(row).run(&plan, None)));
        }
        println!("{:24} {unfair} of 3000 runs serve a later request first", row.name);
        assert_eq!(unfair == 0, row.fair, "{}", row.name);
    }
}

#[test]
fn a_member_alone_enters_at_once_without_a_message() {
    for row in ROWS {
        for holder in [None, Some(0)] {
            let (view, requests) = (shuffled(row.topology, 1), writers(&[5]));
            for restless in [false, true] {
                let plan = Plan { holder, restless, ..plain(&view, &requests) };
                let run = subject(row).run(&plan, None);
                assert_eq!((run.entries.len(), run.messages()), (5, 0), "{}", row.name);
                assert_eq!(audit(row, &plan, &run), [], "{}", row.name);
            }
        }
    }
}

#[test]
fn a_view_that_begins_under_a_holder_serves_the_others_after_it() {
    for row in ROWS {
        for n in 2..=8 {
            for holder in 0..n {
                let (view, requests) = (shuffled(row.topology, n), mixed(row, &vec![2; n]));
                for seed in 0..10 {
                    let schedule = Schedule::Random;
                    let plan =
                        Plan { holder: Some(holder), schedule, links: row.links, seed, ..plain(&view, &requests) };
                    let run = subject(row).run(&plan, None);
                    assert_eq!(audit(row, &plan, &run), [], "{} n={n} holder={holder}", row.name);
                    assert_eq!(run.entries.len(), 2 * n);
                }
            }
        }
    }
}

#[test]
fn readers_are_inside_together_and_a_row_without_readers_keeps_them_apart() {
    for row in ROWS {
        let (view, requests) = (shuffled(row.topology, 5), vec![vec![Access::Shared; 2]; 5]);
        let plan = plain(&view, &requests);
        let run = subject(row).run(&plan, None);
        assert_eq!(audit(row, &plan, &run), [], "{}", row.name);
        assert_eq!(run.together, if row.shared { 5 } else { 1 }, "{}", row.name);
    }
}

#[test]
fn the_command_of_a_writer_has_a_short_name() {
    assert_eq!(Want::ENTER, Want::Request(Access::Exclusive));
}
