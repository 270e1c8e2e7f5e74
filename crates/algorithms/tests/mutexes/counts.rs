//! Exact costs, as published.

use algorithms::catalog::mutex::{self, ROWS};
use algorithms::theory::mutex::tree_diameter;

use crate::audit::{audit, mixed};
use crate::run::{Plan, Run, Schedule, plain, shuffled, subject, writers};

/// All members want to enter, `times` times each, all the time.
fn contention(name: &str, n: usize, times: usize) -> Run {
    let row = mutex::row(name).expect("a row");
    let (view, requests) = (shuffled(row.topology, n), writers(&vec![times; n]));
    let run = subject(row).run(&plain(&view, &requests), None);
    assert_eq!((run.entries.len(), run.starved.len()), (n * times, 0), "{name} {n}");
    run
}

#[test]
fn every_row_costs_what_theory_says_under_contention() {
    for row in ROWS {
        for n in 1..=8 {
            let view = shuffled(row.topology, n);
            let requests = mixed(row, &vec![4; n]);
            let plan = plain(&view, &requests);
            let run = subject(row).run(&plan, None);
            assert_eq!(audit(row, &plan, &run), [], "{} n={n}", row.name);
            println!("{:24} n={n} {:3} entries {:5} messages", row.name, run.entries.len(), run.messages());
        }
    }
}

#[test]
fn three_messages_per_entry_at_a_clerk_and_none_for_the_clerk_itself() {
    for n in 1..=8 {
        assert_eq!(contention("central", n, 5).messages(), 3 * 5 * (n as u64 - 1));
    }
}

#[test]
fn three_messages_per_entry_and_other_member_with_lamports_queue_and_two_with_ricart_and_agrawala() {
    for n in 1..=8 {
        let (entries, others) = (5 * n as u64, n as u64 - 1);
        assert_eq!(contention("lamport", n, 5).messages(), 3 * others * entries);
        assert_eq!(contention("ricart-agrawala", n, 5).messages(), 2 * others * entries);
        assert_eq!(contention("ricart-agrawala-readers", n, 5).messages(), 2 * others * entries);
    }
}

#[test]
fn a_saturated_ring_passes_the_token_once_per_entry_and_a_single_member_makes_it_go_around() {
    for n in 2..=8 {
        assert_eq!(contention("token-ring", n, 5).messages(), 5 * n as u64);
        let row = mutex::row("token-ring").expect("a row");
        for at in 0..n {
            let mut counts = vec![0; n];
            counts[at] = 6;
            let (view, requests) = (shuffled(row.topology, n), writers(&counts));
            let run = subject(row).run(&plain(&view, &requests), None);
            // The token begins at the first member; the last exit passes it on once.
            assert_eq!(run.messages(), (at + 5 * n + 1) as u64, "n={n}, {at} alone");
        }
    }
}

#[test]
fn the_token_of_the_paper_never_rests_and_serves_all() {
    let row = mutex::row("token-ring").expect("a row");
    for n in 2..=8 {
        let (view, requests) = (shuffled(row.topology, n), writers(&vec![3; n]));
        for (seed, schedule) in [(0, Schedule::Synchronous), (1, Schedule::Random), (2, Schedule::Random)] {
            let run = subject(row).run(&Plan { schedule, seed, restless: true, ..plain(&view, &requests) }, None);
            assert!(run.starved.is_empty() && !run.overlap && run.entries.len() == 3 * n);
        }
    }
}

#[test]
fn suzuki_and_kasami_send_nothing_or_n_messages() {
    for n in 1..=8 {
        let row = mutex::row("suzuki-kasami").expect("a row");
        for seed in 0..200 {
            let (view, requests) = (shuffled(row.topology, n), writers(&vec![3; n]));
            let plan = Plan { schedule: Schedule::Random, seed, ..plain(&view, &requests) };
            let run = subject(row).run(&plan, None);
            assert_eq!(run.count("request"), run.count("token") * (n as u64 - 1));
        }
        // The member where the token is enters without a message, as often as it likes.
        let (view, mut counts) = (shuffled(row.topology, n), vec![0; n]);
        counts[0] = 9;
        assert_eq!(subject(row).run(&plain(&view, &writers(&counts)), None).messages(), 0);
        if n > 1 {
            (counts[0], counts[n - 1]) = (0, 9);
            assert_eq!(subject(row).run(&plain(&view, &writers(&counts)), None).messages(), n as u64);
        }
    }
}

#[test]
fn raymonds_token_is_fetched_along_the_tree() {
    let row = mutex::row("raymond").expect("a row");
    for n in 1..=8usize {
        for at in 0..n {
            let depth = u64::from((at + 1).ilog2());
            let mut counts = vec![0; n];
            counts[at] = 3;
            let (view, requests) = (shuffled(row.topology, n), writers(&counts));
            assert_eq!(subject(row).run(&plain(&view, &requests), None).messages(), 2 * depth);
        }
        let saturated = contention("raymond", n, 5);
        assert_eq!(saturated.count("request"), saturated.count("token"));
        // Each entry takes about two edges of the tree there and two back, far from 2D.
        let per_entry = saturated.messages() as f64 / saturated.entries.len() as f64;
        println!("raymond n={n}: {per_entry:.2} per entry, at most {}", 2 * tree_diameter(n));
        assert!(per_entry <= 4.0);
    }
}

#[test]
fn maekawa_sends_three_messages_to_each_other_member_of_its_quorum_where_no_other_member_wants_to_enter() {
    let row = mutex::row("maekawa").expect("a row");
    for n in 1..=8 {
        for at in 0..n {
            let mut counts = vec![0; n];
            counts[at] = 4;
            let (view, requests) = (shuffled(row.topology, n), writers(&counts));
            let run = subject(row).run(&plain(&view, &requests), None);
            assert_eq!(run.messages(), 4 * (row.cost)(n, at).messages.min, "n={n}, {at} alone");
            assert_eq!(run.count("failed") + run.count("inquire") + run.count("relinquish"), 0);
        }
    }
}

/// One member is the service only; the others all want to enter.
#[test]
fn an_exit_wakes_one_member_or_the_whole_herd() {
    for n in 2..=7u64 {
        let mut counts = vec![1; n as usize + 1];
        counts[0] = 0;
        for (name, notifications) in [("zookeeper", n - 1), ("zookeeper-herd", n * (n - 1) / 2)] {
            let row = mutex::row(name).expect("a row");
            let (view, requests) = (shuffled(row.topology, n as usize + 1), writers(&counts));
            let run = subject(row).run(&plain(&view, &requests), None);
            println!("{name} n={n}: {} messages, {} notifications", run.messages(), run.count("deleted"));
            assert_eq!(run.count("deleted"), notifications, "{name} n={n}");
        }
    }
}

/// The earliest request wins a round: a member with a small id does not wait for those with larger ones.
#[test]
fn elections_choose_the_earliest_request() {
    let row = mutex::row("by-election").expect("a row");
    for n in 2..=8 {
        let run = contention("by-election", n, 4);
        let mut served = vec![0; n];
        for entry in &run.entries {
            served[entry.at] += 1;
            let (least, most) = (served.iter().min(), served.iter().max());
            assert!(least.zip(most).is_some_and(|(least, most)| most - least <= 2), "{} n={n}: {served:?}", row.name);
        }
    }
}
